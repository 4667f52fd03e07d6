//! Authentication of the pages: checks the host, the origin and the session of every request.
//!
//! A link may come from any page, because it only shows something. A request that changes something must come from a page of
//! this server, name its origin, and have the CSRF token of its session.

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use byleave_gate::clock::{Clock as _, SystemClock};
use metrics::counter;
use url::form_urlencoded::byte_serialize;

use super::error_page::ErrorPage;
use super::signed_in_user::SignedInUser;
use crate::auth::{
    caller_for_token, check_host, check_origin, limit_rate, limit_unauthenticated, single_header,
};
use crate::principal::PrincipalKind;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;

/// The headers of every page, for browsers.
const HEADERS: [(HeaderName, &str); 8] = [
    (header::CACHE_CONTROL, "no-store"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // Not `no-referrer`, because then our own forms would not send their origin.
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];

/// Admits or rejects a request.
pub(super) async fn authenticate(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let mut response = match admit(&app, &request) {
        Ok(visitor) => {
            if let Some(visitor) = visitor {
                request.extensions_mut().insert(visitor);
            }
            next.run(request).await
        }
        Err(refused) => *refused,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    counter!("byleave_http_responses_total", "status" => response.status().as_u16().to_string()).increment(1);
    response
}

/// Returns the signed-in user; `None` for requests that need no sign-in.
fn admit(app: &App, request: &Request) -> Result<Option<SignedInUser>, Box<Response>> {
    let refused = |problem: Problem| Box::new(ErrorPage(problem).into_response());
    let path = request.uri().path();
    check_host(app, request).map_err(refused)?;
    if !is_link(request) {
        check_origin(app, request.headers()).map_err(refused)?;
    }
    let changes = request.method() != Method::GET && request.method() != Method::HEAD;
    if changes && single_header(request.headers(), &header::ORIGIN).is_none() {
        let what = "a request that changes something must have exactly one `Origin` header";
        return Err(refused(Problem::new(ProblemKind::ForeignOrigin, what)));
    }
    if path.starts_with("/assets/") {
        return Ok(None);
    }
    if let Some(visitor) = signed_in(app, request.headers()) {
        limit_rate(app, &visitor.caller).map_err(refused)?;
        return Ok(Some(visitor));
    }
    limit_unauthenticated(app, request).map_err(refused)?;
    if path == "/sign-in" || path.starts_with("/sign-in/") {
        return Ok(None);
    }
    if changes {
        return Err(refused(Problem::new(
            ProblemKind::Unauthenticated,
            "you are not signed in, or your session has ended",
        )));
    }
    let wanted = request.uri().path_and_query().map_or("/", |wanted| wanted.as_str());
    let wanted: String = byte_serialize(wanted.as_bytes()).collect();
    Err(Box::new(Redirect::to(&format!("/sign-in?next={wanted}")).into_response()))
}

/// Checks whether a person followed a link. Such a request may come from anywhere, because it changes nothing.
fn is_link(request: &Request) -> bool {
    let says =
        |name: &str, value: &[u8]| request.headers().get(name).is_some_and(|given| given.as_bytes() == value);
    request.method() == Method::GET
        && says("sec-fetch-mode", b"navigate")
        && says("sec-fetch-dest", b"document")
}

/// Returns the signed-in user: a person with an unexpired session and a valid token.
fn signed_in(app: &App, headers: &HeaderMap) -> Option<SignedInUser> {
    if !is_at_pages_host(app, headers) {
        return None;
    }
    let now = SystemClock.now();
    let secret = cookie(headers, &cookie_name(app))?;
    let visit = app.browser_sessions().find(&secret, now)?;
    let caller = caller_for_token(app, app.tokens().find_by_digest(&visit.token, now))?;
    (caller.principal.kind == PrincipalKind::Person).then_some(SignedInUser {
        caller,
        session: visit,
        secret,
    })
}

/// Checks whether a request uses the host for signed-in people.
pub(super) fn is_at_pages_host(app: &App, headers: &HeaderMap) -> bool {
    let Some(own) = app.pages_host() else { return true };
    let host = single_header(headers, &header::HOST).and_then(|host| host.parse::<Authority>().ok());
    host.is_some_and(|host| host.host().eq_ignore_ascii_case(own))
}

/// Returns the address of this server under another name. It keeps the browser's port, which may be forwarded.
pub(super) fn origin_for_host(app: &App, name: &str, headers: &HeaderMap) -> String {
    let host = single_header(headers, &header::HOST).and_then(|host| host.parse::<Authority>().ok());
    let port = host.and_then(|host| host.port_u16()).unwrap_or(app.port);
    format!("{}://{name}:{port}", app.scheme)
}

/// Returns the name of the cookie. With TLS, the name guarantees that no other host and no unprotected page has set it.
/// Without TLS, the name contains the port, because cookies are not separated by port.
pub(super) fn cookie_name(app: &App) -> String {
    if app.is_encrypted() { "__Host-byleave".to_owned() } else { format!("byleave-{}", app.port) }
}

/// Returns a cookie that occurs once.
pub(super) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    match (found.next(), found.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}
