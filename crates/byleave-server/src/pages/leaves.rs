//! The leaves that were given.

use axum::extract::{FromRequest as _, FromRequestParts as _, Request, State};
use axum::response::{Html, Redirect};
use byleave::book::{LeaveItem, LeaveState};
use byleave::clock::{Clock as _, SystemClock};
use byleave::core::escape::{Care, visible};
use byleave::core::id::LeaveId;
use maud::{Markup, html};

use super::form::Marked;
use super::frame::{mark, page};
use super::text::{ago, visible_lines};
use super::visitor::Visitor;
use super::wrong::Wrong;
use crate::app::App;
use crate::body::Id;
use crate::principal::Scope;
use crate::shelf;

/// All of them, the newest first.
pub(super) async fn list(State(_app): State<App>, visitor: Visitor) -> Result<Html<String>, Wrong> {
    visitor.may(&[Scope::Read])?;
    let tenancy = &visitor.caller.tenancy;
    let now = SystemClock.now();
    let given = tenancy.book.leaves_given(tenancy.id(), now).await?;
    let (standing, over): (Vec<_>, Vec<_>) =
        given.iter().partition(|item| item.state == LeaveState::Standing);
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

fn one(visitor: &Visitor, item: &LeaveItem, now: u64) -> Markup {
    html! {
        section.card aria-label={ "Leave for " (visible(&item.leave.tool, Care::Name)) } {
            h2 { (visible(&item.leave.tool, Care::Name)) " " span.kind { (item.state.word()) } }
            pre.rule tabindex="0" { (visible_lines(&item.leave.rule(now))) }
            p.about {
                "given by " (visible(&item.by.name, Care::Name)) " " (ago(item.given_at, now)) ", used " (item.uses) " times, "
                a href={ "/book/" (item.call) } { "for this call" }
            }
            @if item.state == LeaveState::Standing && visitor.has(Scope::Administer) {
                form method="post" action={ "/leaves/" (item.leave.id) "/revoke" } {
                    (mark(visitor))
                    button.no type="submit" { "Revoke it" }
                }
            }
        }
    }
}

/// Revokes a leave.
pub(super) async fn revoke(State(app): State<App>, request: Request) -> Result<Redirect, Wrong> {
    let (mut parts, body) = request.into_parts();
    let Id(leave) = Id::<LeaveId>::from_request_parts(&mut parts, &app).await?;
    let visitor = Marked::from_request(Request::from_parts(parts, body), &app).await?.visitor;
    shelf::revoke(&visitor.caller, leave).await?;
    Ok(Redirect::to("/leaves"))
}
