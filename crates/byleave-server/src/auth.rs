//! Authentication of API requests: checks the host, the origin, the token and the rate of every request.
//!
//! It covers everything except the pages, including unknown paths, so that a client without a token learns nothing. It
//! accepts tokens only from the `Authorization` header, never from a cookie or an address. No web page can therefore make a
//! browser use one. The pages have their own authentication (`pages::auth`).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use byleave_gate::clock::{Clock as _, SystemClock};
use metrics::counter;

use crate::caller::Caller;
use crate::principal::Principal;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;
use crate::tokens::TokenError;

/// The headers of every response, for browsers.
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

/// Admits or rejects a request.
pub(crate) async fn authenticate(State(app): State<App>, mut request: Request, next: Next) -> Response {
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
    check_host(app, request)?;
    check_origin(app, headers)?;
    let Some(principal) = known(app, headers) else {
        limit_unauthenticated(app, request)?;
        return Err(Problem::no_token());
    };
    limit_rate(app, &principal)?;
    Ok(principal)
}

/// Takes one request from the rate limit of an unauthenticated address.
pub(crate) fn limit_unauthenticated(app: &App, request: &Request) -> Result<(), Problem> {
    let from = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let from: Option<IpAddr> = from.map(|from| from.0.ip());
    let many = |seconds| Problem::too_many("too many requests without a valid token", seconds);
    app.unauthenticated_limiter().try_acquire(from, Instant::now()).map_err(many)
}

/// Takes one request from the rate limit of an authenticated caller.
pub(crate) fn limit_rate(app: &App, caller: &Caller) -> Result<(), Problem> {
    let who = (caller.principal.tenant.clone(), caller.principal.name.clone());
    let many = |seconds| Problem::too_many("too many requests", seconds);
    app.rate_limiter().try_acquire(who, Instant::now()).map_err(many)
}

/// Checks that the request names this server as its host. This defeats DNS rebinding by web pages.
pub(crate) fn check_host(app: &App, request: &Request) -> Result<(), Problem> {
    let foreign =
        || Problem::new(ProblemKind::ForeignHost, "the request names a host that is not this server");
    let in_address = request.uri().authority().map(|authority| authority.as_str());
    let in_header = single_header(request.headers(), &header::HOST).ok_or_else(foreign)?;
    for named in [Some(in_header), in_address].into_iter().flatten() {
        let authority: Authority = named.parse().map_err(|_| foreign())?;
        if authority.as_str().contains('@') || !app.is_own_host(authority.host()) {
            return Err(foreign());
        }
    }
    Ok(())
}

/// Checks the origin of a request, which browsers send and programs do not.
pub(crate) fn check_origin(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let foreign =
        || Problem::new(ProblemKind::ForeignOrigin, "requests from pages of other origins are refused");
    if headers.contains_key(header::ORIGIN) {
        let origin = single_header(headers, &header::ORIGIN).ok_or_else(foreign)?;
        if !app.is_own_origin(origin) {
            return Err(foreign());
        }
    }
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(foreign()),
    }
}

/// Checks whether an authorization header is still valid for the same caller.
pub(crate) fn is_still_authenticated(app: &App, shown: Option<&HeaderValue>, caller: &Caller) -> bool {
    let holder = shown.and_then(|shown| shown_by(app, shown.to_str().ok()?));
    holder.is_some_and(|holder| holder.principal == caller.principal)
}

/// Returns the caller with a valid token, in a tenant that is served.
fn known(app: &App, headers: &HeaderMap) -> Option<Caller> {
    shown_by(app, single_header(headers, &header::AUTHORIZATION)?)
}

fn shown_by(app: &App, header: &str) -> Option<Caller> {
    let (scheme, shown) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    caller_for_token(app, app.tokens().find(shown.trim(), SystemClock.now()))
}

/// Returns the holder of a token as a caller, in a tenant that is served.
pub(crate) fn caller_for_token(app: &App, found: Result<Option<Principal>, TokenError>) -> Option<Caller> {
    let principal = match found {
        Ok(found) => found?,
        Err(fault) => {
            tracing::error!(%fault, "cannot check tokens; refusing all requests");
            return None;
        }
    };
    let tenancy = app.tenant(&principal.tenant)?;
    Some(Caller { principal: Arc::new(principal), tenant: tenancy })
}

/// Returns a header that occurs once. If there are two, one may have been added on the way, and neither is trusted.
pub(crate) fn single_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(only), None) => only.to_str().ok(),
        _ => None,
    }
}
