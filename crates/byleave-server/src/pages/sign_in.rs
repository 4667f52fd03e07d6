//! Sign-in and sign-out.

use axum::Extension;
use axum::extract::State;
use axum::http::header::{REFRESH, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::digest::Digest;
use maud::{Markup, html};
use serde::Deserialize;
use url::form_urlencoded::byte_serialize;

use super::auth::{cookie_name, is_at_pages_host, origin_for_host};
use super::error_page::ErrorPage;
use super::form::{CsrfForm, FormFields};
use super::html_document::render_signed_out;
use super::signed_in_user::SignedInUser;
use crate::auth::caller_for_token;
use crate::browser_sessions::LIFETIME_MS;
use crate::extract::StrictQuery;
use crate::principal::PrincipalKind;
use crate::problem::Problem;
use crate::state::App;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignInQuery {
    pub(super) next: Option<String>,
}

/// Shows the sign-in page.
pub(super) async fn show(
    State(app): State<App>,
    visitor: Option<Extension<SignedInUser>>,
    StrictQuery(wanted): StrictQuery<SignInQuery>,
) -> Response {
    let next = local_path(wanted.next.as_deref());
    match visitor {
        Some(_) => Redirect::to(&next).into_response(),
        None => Html(render_form(&app, &next, None).into_string()).into_response(),
    }
}

/// Signs in with a token.
pub(super) async fn enter(
    State(app): State<App>,
    headers: HeaderMap,
    fields: FormFields,
) -> Result<Response, ErrorPage> {
    let next = local_path(fields.single("next"));
    let shown = fields.require("token")?.trim();
    let now = SystemClock.now();
    let caller = caller_for_token(&app, app.tokens().find(shown, now));
    let refused = |why: &str| {
        let page = render_form(&app, &next, Some(why)).into_string();
        Ok((StatusCode::FORBIDDEN, Html(page)).into_response())
    };
    let Some(caller) = caller else { return refused("The token is not valid.") };
    if caller.principal.kind != PrincipalKind::Person {
        return refused("This token belongs to an agent. Only people can sign in here.");
    }
    Ok(start_session(&app, &headers, Digest::compute(shown.as_bytes()), &next)?)
}

/// Begins a session and redirects to the requested page. Under another host than the pages host, the session begins there.
pub(super) fn start_session(
    app: &App,
    headers: &HeaderMap,
    holds: Digest,
    next: &str,
) -> Result<Response, Problem> {
    if let Some(own) = app.pages_host().filter(|_| !is_at_pages_host(app, headers)) {
        let ticket = app.browser_sessions().issue_ticket(holds, next.to_owned());
        let ticket = ticket
            .map_err(|why| Problem::internal_error("sign-in failed because of an internal error", &why))?;
        let to = format!("{}/sign-in/ticket?ticket={ticket}", origin_for_host(app, own, headers));
        return lead(&to);
    }
    visit(app, holds, next)
}

/// Returns a page that navigates by itself. A redirect would be part of the form submission, which must not leave this
/// origin.
fn lead(to: &str) -> Result<Response, Problem> {
    // The script is faster.
    let header = HeaderValue::try_from(format!("1; url={to}"));
    let header = header.map_err(|why| Problem::internal_error("cannot redirect after sign-in", &why))?;
    let page = render_signed_out(
        "Signed in",
        &html! { p { a href=(to) data-leads { "You are signed in. Continue" } } },
    );
    Ok(([(REFRESH, header)], Html(page.into_string())).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TicketQuery {
    ticket: String,
}

/// Completes the sign-in of a person who signed in under another host.
pub(super) async fn redeem_ticket(
    State(app): State<App>,
    headers: HeaderMap,
    StrictQuery(arriving): StrictQuery<TicketQuery>,
) -> Result<Response, ErrorPage> {
    let ticket =
        app.browser_sessions().take_ticket(&arriving.ticket).filter(|_| is_at_pages_host(&app, &headers));
    match ticket {
        Some(ticket) => Ok(visit(&app, ticket.token, &ticket.next)?),
        None => Ok(Redirect::to("/sign-in").into_response()),
    }
}

fn visit(app: &App, holds: Digest, next: &str) -> Result<Response, Problem> {
    let secret = app.browser_sessions().start(holds, SystemClock.now());
    let secret =
        secret.map_err(|why| Problem::internal_error("sign-in failed because of an internal error", &why))?;
    let cookie = cookie(app, &cookie_name(app), &secret, LIFETIME_MS / 1_000)?;
    Ok((cookie, Redirect::to(next)).into_response())
}

/// Signs out.
pub(super) async fn sign_out(State(app): State<App>, form: CsrfForm) -> Result<Response, ErrorPage> {
    app.browser_sessions().end(&form.user.secret);
    Ok((cookie(&app, &cookie_name(&app), "", 0)?, Redirect::to("/sign-in")).into_response())
}

/// Creates a cookie for this server only, without access by scripts or by requests of other pages.
pub(super) fn cookie(
    app: &App,
    name: &str,
    value: &str,
    seconds: u64,
) -> Result<[(HeaderName, HeaderValue); 1], Problem> {
    let secure = if app.is_encrypted() { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    let value = HeaderValue::try_from(text)
        .map_err(|why| Problem::internal_error("cannot create the session cookie", &why))?;
    Ok([(SET_COOKIE, value)])
}

/// Returns a path on this server. A path that could lead elsewhere is ignored.
pub(super) fn local_path(next: Option<&str>) -> String {
    let plain = |c: char| c.is_ascii_graphic() && c != '\\';
    let good =
        next.filter(|next| next.starts_with('/') && !next.starts_with("//") && next.chars().all(plain));
    good.unwrap_or("/").to_owned()
}

pub(super) fn render_form(app: &App, next: &str, wrong: Option<&str>) -> Markup {
    render_signed_out(
        "Sign in",
        &html! {
            h1 { "Byleave" }
            p { "Review and answer the questions of your agents." }
            form.card method="post" action="/sign-in" {
                input type="hidden" name="next" value=(next);
                label for="token" { "Your token" }
                input #token type="password" name="token" required autocomplete="current-password"
                    aria-describedby="hint" autofocus;
                p #hint.hint {
                    "To create a token, run " code { "byleave serve token add NAME --person" } " on the server."
                }
                @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
                button.yes type="submit" { "Sign in" }
            }
            @if app.oidc().is_some() {
                @let next: String = byte_serialize(next.as_bytes()).collect();
                p { a href={ "/sign-in/oidc?next=" (next) } { "Sign in with your organisation" } }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::local_path;

    #[test]
    fn nobody_is_led_elsewhere_after_signing_in() {
        assert_eq!(local_path(Some("/questions/1?a=b")), "/questions/1?a=b");
        for out in ["//evil", "/\\evil", "https://evil", "evil", "/a\r\nb", "", "/\tx", "/%0d\u{e9}"] {
            assert_eq!(local_path(Some(out)), "/", "{out:?}");
        }
    }
}
