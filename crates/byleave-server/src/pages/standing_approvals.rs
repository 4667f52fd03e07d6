//! The page of standing approvals.

use axum::extract::{FromRequest as _, FromRequestParts as _, Request, State};
use axum::response::{Html, Redirect};
use byleave::audit_log::{StandingApprovalItem, StandingApprovalState};
use byleave::clock::{Clock as _, SystemClock};
use byleave::core::escape::{EscapeLevel, visible};
use byleave::core::id::StandingApprovalId;
use maud::{Markup, html};

use super::error_page::ErrorPage;
use super::form::CsrfForm;
use super::layout::{mark, page};
use super::signed_in_user::SignedInUser;
use super::text::{ago, visible_lines};
use crate::extract::PathId;
use crate::principal::AccessScope;
use crate::record_access;
use crate::state::App;

/// Shows all of them, newest first.
pub(super) async fn list(State(_app): State<App>, visitor: SignedInUser) -> Result<Html<String>, ErrorPage> {
    visitor.may(&[AccessScope::Read])?;
    let tenancy = &visitor.caller.tenancy;
    let now = SystemClock.now();
    let given = tenancy.book.leaves_given(tenancy.id(), now).await?;
    let (standing, over): (Vec<_>, Vec<_>) =
        given.iter().partition(|item| item.state == StandingApprovalState::Standing);
    let body = html! {
        h1 { "Leaves" }
        p { "What passes without asking, because somebody said so once." }
        @if standing.is_empty() { p { "No leave counts now." } }
        @for item in &standing { (one(&visitor, item, now)) }
        @if !over.is_empty() {
            details {
                summary { (over.len()) " that no longer count" }
                @for item in &over { (one(&visitor, item, now)) }
            }
        }
    };
    Ok(page(&visitor, "Leaves", "/leaves", &body))
}

fn one(visitor: &SignedInUser, item: &StandingApprovalItem, now: u64) -> Markup {
    html! {
        section.card aria-label={ "Leave for " (visible(&item.leave.tool, EscapeLevel::Name)) } {
            h2 { (visible(&item.leave.tool, EscapeLevel::Name)) " " span.kind { (item.state.word()) } }
            pre.rule tabindex="0" { (visible_lines(&item.leave.rule(now))) }
            p.about {
                "given by " (visible(&item.by.name, EscapeLevel::Name)) " " (ago(item.given_at, now)) ", used " (item.uses) " times, "
                a href={ "/book/" (item.call) } { "for this call" }
            }
            @if item.state == StandingApprovalState::Standing && visitor.has(AccessScope::Administer) {
                form method="post" action={ "/leaves/" (item.leave.id) "/revoke" } {
                    (mark(visitor))
                    button.no type="submit" { "Revoke it" }
                }
            }
        }
    }
}

/// Revokes a standing approval.
pub(super) async fn revoke(State(app): State<App>, request: Request) -> Result<Redirect, ErrorPage> {
    let (mut parts, body) = request.into_parts();
    let PathId(leave) = PathId::<StandingApprovalId>::from_request_parts(&mut parts, &app).await?;
    let visitor = CsrfForm::from_request(Request::from_parts(parts, body), &app).await?.visitor;
    record_access::revoke(&visitor.caller, leave).await?;
    Ok(Redirect::to("/leaves"))
}
