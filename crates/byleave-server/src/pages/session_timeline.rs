//! The timeline of a session: its calls in order, what a person said about them, and the pauses between.

use axum::extract::State;
use axum::response::Html;
use byleave_gate::audit_log::export::{self, IncludeContents, describe_entry};
use byleave_gate::audit_log::{CallFilter, CallItem, Cursor, PageRequest};
use byleave_gate::core::entry::{Entry, RecordEvent};
use byleave_gate::core::escape::{EscapeLevel, make_visible};
use byleave_gate::core::id::SessionId;
use byleave_gate::core::time_format::{format_duration, format_utc};
use maud::{Markup, html};
use serde::Deserialize;
use url::form_urlencoded::Serializer;

use super::error_page::ErrorPage;
use super::layout::page;
use super::signed_in_user::SignedInUser;
use crate::extract::StrictQuery;
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::record_access;
use crate::state::App;

/// The maximum number of calls on a page.
const LISTED: usize = 100;
/// A pause that is shown, in milliseconds.
const PAUSE_MS: u64 = 5 * 60 * 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimelineQuery {
    name: String,
    after: Option<i64>,
}

/// Returns the address of the timeline of a session.
pub(super) fn address(session: &SessionId, after: Option<Cursor>) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("name", session.as_str());
    if let Some(after) = after {
        query.append_pair("after", &after.0.to_string());
    }
    format!("/session?{}", query.finish())
}

/// A call of the timeline, and the steps that people and failures added.
struct TimelineCall {
    item: CallItem,
    steps: Vec<Entry>,
}

/// Shows the newest calls of a session, the oldest of them first.
pub(super) async fn show(
    State(_app): State<App>,
    visitor: SignedInUser,
    StrictQuery(query): StrictQuery<TimelineQuery>,
) -> Result<Html<String>, ErrorPage> {
    visitor.require_scope(&[AccessScope::Read])?;
    let session =
        SessionId::new(query.name).map_err(|bad| Problem::new(ProblemKind::Unusable, bad.to_string()))?;
    let tenancy = &visitor.caller.tenant;
    let filter = CallFilter {
        tenant: Some(tenancy.id().clone()),
        session: Some(session.clone()),
        ..CallFilter::default()
    };
    let after = query.after.map(Cursor);
    let items = tenancy.audit_log.calls(filter, PageRequest { limit: LISTED, after }).await?;
    let older = items.last().filter(|_| items.len() == LISTED).map(|item| item.cursor);
    let mut calls = Vec::new();
    for item in items.into_iter().rev() {
        let found = export::export_one(&*tenancy.audit_log, item.call, IncludeContents::Omitted).await?;
        let found = found.filter(|found| record_access::belongs_to(tenancy, found));
        let steps = found.map_or_else(Vec::new, |found| {
            found.stored.record.entries().iter().filter(|entry| is_step(entry)).cloned().collect()
        });
        calls.push(TimelineCall { item, steps });
    }
    let body = html! {
        h1 { "Session " code { (make_visible(session.as_str(), EscapeLevel::Name)) } }
        p { a href={ "/log?" (Serializer::new(String::new()).append_pair("session", session.as_str()).finish()) } { "Search in this session" } }
        @if let Some(older) = older { p { a href=(address(&session, Some(older))) { "Earlier calls" } } }
        @if calls.is_empty() { p { "This session has no calls." } } @else { (timeline(&calls)) }
    };
    Ok(page(&visitor, "Session", "/log", &body))
}

/// Checks whether an entry is more than a step of every call.
fn is_step(entry: &Entry) -> bool {
    use RecordEvent::{Answered, ApproverFailed, Cancelled, Expired, Interrupted};
    matches!(
        entry.event,
        Answered(_) | ApproverFailed { .. } | Cancelled { .. } | Expired { .. } | Interrupted { .. }
    )
}

fn timeline(calls: &[TimelineCall]) -> Markup {
    let ends = std::iter::once(None).chain(calls.iter().map(|call| Some(call.item.changed_at)));
    html! {
        ol.timeline {
            @for (call, before) in calls.iter().zip(ends) {
                @let pause = before.map_or(0, |before| call.item.opened_at.saturating_sub(before));
                @if pause >= PAUSE_MS { li.pause { (format_duration(pause)) " later" } }
                (one(call))
            }
        }
    }
}

fn one(call: &TimelineCall) -> Markup {
    let item = &call.item;
    let outcome = item.outcome.as_deref().unwrap_or(item.state.as_str());
    let is_asked = call.steps.iter().any(|step| matches!(step.event, RecordEvent::Answered(_)));
    html! {
        li class={ "call " (outcome) @if is_asked { " answered" } } {
            div.about {
                time { (format_utc(item.opened_at)) } " · " (make_visible(&item.call_summary.agent, EscapeLevel::Name))
                " · " (make_visible(&item.call_summary.tool, EscapeLevel::Name))
            }
            a href={ "/log/" (item.call) } { (make_visible(&item.call_summary.summary, EscapeLevel::Text)) }
            " " span.tag.good[outcome == "completed"].bad[matches!(outcome, "refused" | "failed" | "unknown" | "withheld")] {
                (outcome) @if let Some(code) = &item.code { " (" (code) ")" }
            }
            @for step in &call.steps {
                div.step {
                    strong { (step.event.kind()) } " " (make_visible(&describe_entry(step), EscapeLevel::Text))
                    span.about { " after " (format_duration(step.at.saturating_sub(item.opened_at))) }
                }
            }
        }
    }
}
