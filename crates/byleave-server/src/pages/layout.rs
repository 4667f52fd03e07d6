//! The layout of every page.

use axum::response::Html;
use maud::{Markup, html};

use super::html_document::document;
use super::signed_in_user::SignedInUser;
use crate::principal::AccessScope;

/// The entries of the navigation.
const PLACES: [(&str, &str); 5] = [
    ("/", "Inbox"),
    ("/log", "Log"),
    ("/approvals", "Approvals"),
    ("/policy", "Policy"),
    ("/stats", "Statistics"),
];

/// Renders a page for a signed-in user.
pub(super) fn page(visitor: &SignedInUser, title: &str, here: &str, body: &Markup) -> Html<String> {
    let notice = visitor.session.take_notice();
    let whole = document(
        title,
        &html! {
            header.top {
                a.skip href="#main" { "Skip to content" }
                strong.brand { "Byleave" }
                nav aria-label="Pages" {
                    @for (to, name) in PLACES {
                        a href=(to) aria-current=[(to == here).then_some("page")] { (name) }
                    }
                }
                (halt(visitor))
                form.who method="post" action="/sign-out" {
                    (csrf_field(visitor))
                    span { (visitor.caller.name()) " in " (visitor.caller.tenant.id()) }
                    button.quiet type="submit" { "Sign out" }
                }
            }
            main #main tabindex="-1" {
                div #notice role="status" {
                    @if let Some(notice) = notice {
                        p.notice {
                            (notice.text)
                            @if let Some(call) = notice.call { " " a href={ "/log/" (call) } { "Show the record" } }
                        }
                    }
                }
                (body)
            }
        },
    );
    Html(whole.into_string())
}

/// Renders the button that halts everything, on every page: one tap opens it, the next one halts.
fn halt(visitor: &SignedInUser) -> Markup {
    if !visitor.has(AccessScope::Administer) {
        return html! {};
    }
    html! {
        details.halt {
            summary { "Halt…" }
            form.card method="post" action="/halt" {
                (csrf_field(visitor))
                p { "Until the halt is lifted, no call begins: each is refused with this reason." }
                label for="halt-reason" { "Reason" }
                input #halt-reason type="text" name="reason" value="stopped from the browser" required maxlength="1000";
                button.no type="submit" { "Halt everything" }
            }
        }
    }
}

/// Renders the CSRF token of this session for a form.
pub(super) fn csrf_field(visitor: &SignedInUser) -> Markup {
    html! { input type="hidden" name="csrf_token" value=(visitor.session.csrf_token); }
}
