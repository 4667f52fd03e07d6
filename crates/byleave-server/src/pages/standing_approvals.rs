//! The page of standing approvals.

use axum::extract::{FromRequest as _, FromRequestParts as _, Request, State};
use axum::response::{Html, Redirect};
use byleave_gate::audit_log::{StandingApprovalItem, StandingApprovalState};
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::escape::{EscapeLevel, make_visible};
use byleave_gate::core::id::StandingApprovalId;
use maud::{Markup, html};

use super::error_page::ErrorPage;
use super::form::CsrfForm;
use super::layout::{csrf_field, page};
use super::signed_in_user::SignedInUser;
use super::text::{ago, visible_lines};
use crate::extract::PathId;
use crate::principal::AccessScope;
use crate::record_access;
use crate::state::App;

/// Shows all of them, newest first.
pub(super) async fn list(State(_app): State<App>, visitor: SignedInUser) -> Result<Html<String>, ErrorPage> {
    visitor.require_scope(&[AccessScope::Read])?;
    let tenancy = &visitor.caller.tenant;
    let now = SystemClock.now();
    let given = tenancy.audit_log.list_standing_approvals(tenancy.id(), now).await?;
    let (standing, over): (Vec<_>, Vec<_>) =
        given.iter().partition(|item| item.state == StandingApprovalState::Active);
    let body = html! {
        h1 { "Approvals" }
        p { "Calls that match a standing approval run without a question." }
        @if standing.is_empty() { p { "There is no active standing approval." } }
        @for item in &standing { (one(&visitor, item, now)) }
        @if !over.is_empty() {
            details {
                summary { (over.len()) " expired, used up or revoked" }
                @for item in &over { (one(&visitor, item, now)) }
            }
        }
    };
    Ok(page(&visitor, "Approvals", "/approvals", &body))
}

fn one(visitor: &SignedInUser, item: &StandingApprovalItem, now: u64) -> Markup {
    html! {
        section.card aria-label={ "Standing approval for " (make_visible(item.standing_approval.tool_name(), EscapeLevel::Name)) } {
            h2 { (make_visible(item.standing_approval.tool_name(), EscapeLevel::Name)) " " span.kind { (item.state.as_str()) } }
            pre.rule tabindex="0" { (visible_lines(&item.standing_approval.to_rule_toml(now))) }
            p.about {
                "given by " (make_visible(&item.approver.name, EscapeLevel::Name)) " " (ago(item.granted_at, now)) ", used " (item.uses) " times, "
                a href={ "/log/" (item.call) } { "original call" }
            }
            @if item.state == StandingApprovalState::Active && visitor.has(AccessScope::Administer) {
                form method="post" action={ "/approvals/" (item.standing_approval.id) "/revoke" } {
                    (csrf_field(visitor))
                    button.no type="submit" { "Revoke" }
                }
            }
        }
    }
}

/// Revokes a standing approval.
pub(super) async fn revoke(State(app): State<App>, request: Request) -> Result<Redirect, ErrorPage> {
    let (mut parts, body) = request.into_parts();
    let PathId(leave) = PathId::<StandingApprovalId>::from_request_parts(&mut parts, &app).await?;
    let visitor = CsrfForm::from_request(Request::from_parts(parts, body), &app).await?.user;
    record_access::revoke_approval(&visitor.caller, leave).await?;
    Ok(Redirect::to("/approvals"))
}
