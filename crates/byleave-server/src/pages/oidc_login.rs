//! Sign-in at an OpenID Connect provider: the redirect there and the way back.
//!
//! The state is in the address and in a cookie, which proves that the same browser comes back. The token list maps the
//! identity to a principal.

use axum::extract::State;
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use byleave_gate::clock::{Clock as _, SystemClock};
use serde::Deserialize;
use url::form_urlencoded::byte_serialize;

use super::auth::{cookie, cookie_name, is_at_pages_host, origin_for_host};
use super::error_page::ErrorPage;
use super::sign_in::{self, SignInQuery, local_path};
use crate::auth::single_header;
use crate::extract::StrictQuery;
use crate::oidc::{OidcError, OidcProvider};
use crate::problem::{Problem, ProblemKind};
use crate::state::App;

const AWAY_S: u64 = 600;

/// Redirects a browser to the provider.
pub(super) async fn start_sign_in(
    State(app): State<App>,
    headers: HeaderMap,
    StrictQuery(wanted): StrictQuery<SignInQuery>,
) -> Result<Response, ErrorPage> {
    let provider = provider(&app)?;
    // The provider knows the allowed redirect addresses, and the pages host is not one of them.
    if app.pages_host().is_some() && is_at_pages_host(&app, &headers) {
        let next: String = byte_serialize(local_path(wanted.next.as_deref()).as_bytes()).collect();
        let to = format!("{}/sign-in/oidc?next={next}", origin_for_host(&app, "127.0.0.1", &headers));
        return Ok(Redirect::to(&to).into_response());
    }
    // The authentication layer has checked that this is one of our names.
    let host = single_header(&headers, &HOST).ok_or_else(|| Problem::not_found("host"))?;
    let back = format!("{}/sign-in/callback", app.origin(host));
    let begun = provider.start_sign_in(back, local_path(wanted.next.as_deref())).await.map_err(unusable)?;
    let kept = sign_in::cookie(&app, &away(&app), &begun.state, AWAY_S)?;
    Ok((kept, Redirect::to(&begun.url)).into_response())
}

/// The parameters that the provider sends back.
#[derive(Deserialize)]
pub(super) struct OidcCallbackQuery {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
}

/// Completes the sign-in of a browser that comes back.
pub(super) async fn finish_sign_in(
    State(app): State<App>,
    headers: HeaderMap,
    StrictQuery(back): StrictQuery<OidcCallbackQuery>,
) -> Result<Response, ErrorPage> {
    let provider = provider(&app)?;
    let went = cookie(&headers, &away(&app));
    let state = back.state.filter(|state| went.as_deref() == Some(state.as_str()));
    let state =
        state.ok_or_else(|| refused("this sign-in was not started in this browser; sign in again"))?;
    let code = match (back.code, back.error) {
        (Some(code), None) => code,
        (_, Some(_)) => return Err(refused("the provider refused the sign-in").into()),
        (None, None) => return Err(refused("the provider sent no code").into()),
    };
    let known = provider.finish_sign_in(&state, code).await.map_err(unusable)?;
    let now = SystemClock.now();
    for identity in &known.identities {
        let found = app.tokens().find_by_identity(identity, now);
        let found = found
            .map_err(|why| Problem::internal_error("sign-in failed because of an internal error", &why))?;
        if let Some((holds, principal)) = found
            && app.tenant(&principal.tenant).is_some()
        {
            return Ok(sign_in::start_session(&app, &headers, holds, &known.next)?);
        }
    }
    let why = "The provider knows you, but this server does not. Ask an administrator to run `byleave serve token add NAME --person --at ISSUER --as email:ADDRESS`.";
    let page = sign_in::render_form(&app, &known.next, Some(why));
    Ok((StatusCode::FORBIDDEN, Html(page.into_string())).into_response())
}

/// Returns the name of the cookie during a sign-in.
fn away(app: &App) -> String {
    format!("{}-away", cookie_name(app))
}

fn provider(app: &App) -> Result<&OidcProvider, Problem> {
    app.oidc().ok_or_else(|| Problem::not_found("sign-in method"))
}

fn refused(why: &str) -> Problem {
    Problem::new(ProblemKind::Unauthenticated, why)
}

fn unusable(fault: OidcError) -> Problem {
    match fault {
        OidcError::Issuer(..) => Problem::internal_error("the sign-in provider cannot be used now", &fault),
        OidcError::Refused(why) => refused(&why),
    }
}
