//! The door: every request passes it first. Which host it names, which page it comes from, who makes it, and how often.
//!
//! It is in front of everything but the pages, also of paths that there are not: who has no token learns nothing. It takes tokens
//! from the `Authorization` header alone, never from a cookie or an address, so no page can make a browser use one. The pages have
//! a door of their own (`pages::door`).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use byleave::clock::{Clock as _, SystemClock};
use metrics::counter;

use crate::caller::Caller;
use crate::principal::Principal;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;
use crate::tokens::TokenError;

/// What every response says to browsers, whatever it is.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CACHE_CONTROL, "no-store"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Lets a request in, or not.
pub(crate) async fn door(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let mut response = match admit(&app, &request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    counter!("byleave_http_responses_total", "status" => response.status().as_u16().to_string()).increment(1);
    response
}

fn admit(app: &App, request: &Request) -> Result<Caller, Problem> {
    let headers = request.headers();
    named(app, request)?;
    from_no_other_page(app, headers)?;
    let Some(principal) = known(app, headers) else {
        stranger(app, request)?;
        return Err(Problem::no_token());
    };
    paced(app, &principal)?;
    Ok(principal)
}

/// Somebody unknown takes a turn; only so many a second from one address.
pub(crate) fn stranger(app: &App, request: &Request) -> Result<(), Problem> {
    let from = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let from: Option<IpAddr> = from.map(|from| from.0.ip());
    let many = |seconds| Problem::too_many("too many requests without a good token", seconds);
    app.strangers().take(from, Instant::now()).map_err(many)
}

/// Somebody known takes a turn.
pub(crate) fn paced(app: &App, caller: &Caller) -> Result<(), Problem> {
    let who = (caller.principal.tenant.clone(), caller.principal.name.clone());
    let many = |seconds| Problem::too_many("more requests than are allowed", seconds);
    app.pace().take(who, Instant::now()).map_err(many)
}

/// The request names this server: a page whose name was made to lead here does not.
pub(crate) fn named(app: &App, request: &Request) -> Result<(), Problem> {
    let foreign =
        || Problem::new(ProblemKind::ForeignHost, "the request names a host that is not this server");
    let in_address = request.uri().authority().map(|authority| authority.as_str());
    let in_header = only(request.headers(), &header::HOST).ok_or_else(foreign)?;
    for named in [Some(in_header), in_address].into_iter().flatten() {
        let authority: Authority = named.parse().map_err(|_| foreign())?;
        if authority.as_str().contains('@') || !app.is_host(authority.host()) {
            return Err(foreign());
        }
    }
    Ok(())
}

/// A browser says which page a request comes from; programs say nothing.
pub(crate) fn from_no_other_page(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let foreign =
        || Problem::new(ProblemKind::ForeignOrigin, "requests from pages of other origins are refused");
    if headers.contains_key(header::ORIGIN) {
        let origin = only(headers, &header::ORIGIN).ok_or_else(foreign)?;
        if !app.is_origin(origin) {
            return Err(foreign());
        }
    }
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(foreign()),
    }
}

/// Whether who came in with a header would still come in with it as the same.
pub(crate) fn is_still_known(app: &App, shown: Option<&HeaderValue>, caller: &Caller) -> bool {
    let holder = shown.and_then(|shown| shown_by(app, shown.to_str().ok()?));
    holder.is_some_and(|holder| holder.principal == caller.principal)
}

/// Who shows a token that counts, in a tenancy that there is.
fn known(app: &App, headers: &HeaderMap) -> Option<Caller> {
    shown_by(app, only(headers, &header::AUTHORIZATION)?)
}

fn shown_by(app: &App, header: &str) -> Option<Caller> {
    let (scheme, shown) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    holder(app, app.tokens().find(shown.trim(), SystemClock.now()))
}

/// Who holds a token, as a caller in a tenancy that there is.
pub(crate) fn holder(app: &App, found: Result<Option<Principal>, TokenError>) -> Option<Caller> {
    let principal = match found {
        Ok(found) => found?,
        Err(fault) => {
            tracing::error!(%fault, "tokens cannot be checked, so nobody is let in");
            return None;
        }
    };
    let tenancy = app.tenancy(&principal.tenant)?;
    Some(Caller { principal: Arc::new(principal), tenancy })
}

/// A header that is there once. Two of them: somebody on the way put one there, and neither is believed.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(only), None) => only.to_str().ok(),
        _ => None,
    }
}
