//! The pages of the audit log: search, records and verification.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;
use byleave_gate::audit_log::export::describe_entry;
use byleave_gate::audit_log::{CallFilter, CallItem, Cursor, PageRequest};
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::escape::{EscapeLevel, make_visible};
use byleave_gate::core::id::{CallId, SessionId};
use byleave_gate::core::time_format::format_utc;
use maud::{Markup, html};
use serde::Deserialize;
use url::form_urlencoded::Serializer;

use super::error_page::ErrorPage;
use super::form::CsrfForm;
use super::layout::{csrf_field, page};
use super::session_timeline;
use super::signed_in_user::SignedInUser;
use super::text::ago;
use crate::api_types::check_length;
use crate::extract::{PathId, StrictQuery};
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::record_access;
use crate::state::App;

const LISTED: usize = 50;

/// A search.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AuditLogSearch {
    text: String,
    tool: String,
    agent: String,
    session: String,
    outcome: String,
    after: Option<i64>,
}

/// Shows the matching calls.
pub(super) async fn list(
    State(_app): State<App>,
    visitor: SignedInUser,
    StrictQuery(search): StrictQuery<AuditLogSearch>,
) -> Result<Html<String>, ErrorPage> {
    visitor.require_scope(&[AccessScope::Read])?;
    for (what, text) in [
        ("text", &search.text),
        ("tool", &search.tool),
        ("agent", &search.agent),
        ("session", &search.session),
        ("outcome", &search.outcome),
    ] {
        check_length(what, text, 0, 200)?;
    }
    let tenancy = &visitor.caller.tenant;
    let some = |text: &String| (!text.trim().is_empty()).then(|| text.trim().to_owned());
    let session = some(&search.session).map(SessionId::new).transpose();
    let filter = CallFilter {
        session: session.map_err(|bad| Problem::new(ProblemKind::Unusable, bad.to_string()))?,
        tenant: Some(tenancy.id().clone()),
        text: some(&search.text),
        tool: some(&search.tool),
        agent: some(&search.agent),
        outcome: some(&search.outcome),
        ..CallFilter::default()
    };
    let items = tenancy
        .audit_log
        .calls(filter, PageRequest { limit: LISTED, after: search.after.map(Cursor) })
        .await?;
    let body = html! {
        h1 { "Log" }
        (standing(&visitor))
        (searching(&search))
        @if items.is_empty() { p { "No call matches." } } @else { (table(&items)) }
        @if let Some(last) = items.last().filter(|_| items.len() == LISTED) {
            p { a href=(older(&search, last.cursor)) { "Older calls" } }
        }
    };
    Ok(page(&visitor, "Log", "/log", &body))
}

fn searching(search: &AuditLogSearch) -> Markup {
    let outcomes = ["", "completed", "failed", "refused", "withheld", "dry-run", "unknown", "answered"];
    html! {
        form.search method="get" action="/log" role="search" {
            label { "Text" input type="search" name="text" value=(search.text) data-key="/"; }
            label { "Tool" input type="text" name="tool" value=(search.tool); }
            label { "Agent" input type="text" name="agent" value=(search.agent); }
            label { "Session" input type="text" name="session" value=(search.session); }
            label { "Outcome" select name="outcome" {
                @for outcome in outcomes {
                    option value=(outcome) selected[search.outcome == outcome] { @if outcome.is_empty() { "any" } @else { (outcome) } }
                }
            } }
            button type="submit" { "Search" }
        }
    }
}

fn table(items: &[CallItem]) -> Markup {
    let now = SystemClock.now();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Calls" {
            table.calls {
                thead { tr { th scope="col" { "When" } th scope="col" { "Agent" } th scope="col" { "Tool" } th scope="col" { "Summary" } th scope="col" { "Outcome" } } }
                tbody {
                    @for item in items {
                        tr {
                            td { time title=(format_utc(item.opened_at)) { (ago(item.opened_at, now)) } }
                            td { (make_visible(&item.call_summary.agent, EscapeLevel::Name)) }
                            td { (make_visible(&item.call_summary.tool, EscapeLevel::Name)) }
                            td { a href={ "/log/" (item.call) } { (make_visible(&item.call_summary.summary, EscapeLevel::Text)) } }
                            td { (item.outcome.as_deref().unwrap_or(item.state.as_str())) @if let Some(code) = &item.code { " (" (code) ")" } }
                        }
                    }
                }
            }
        }
    }
}

fn older(search: &AuditLogSearch, last: Cursor) -> String {
    let mut query = Serializer::new(String::new());
    for (name, text) in [
        ("text", &search.text),
        ("tool", &search.tool),
        ("agent", &search.agent),
        ("session", &search.session),
        ("outcome", &search.outcome),
    ] {
        query.append_pair(name, text);
    }
    format!("/log?{}", query.append_pair("after", &last.0.to_string()).finish())
}

/// Renders the result of the last verification, and a button for another.
fn standing(visitor: &SignedInUser) -> Markup {
    let checked = visitor.caller.tenant.last_verification();
    html! {
        form.verify method="post" action="/log/verify" {
            (csrf_field(visitor))
            @match checked {
                None => span { "The audit log has not been verified since the server started." },
                Some(checked) => span class=(if checked.integrity_error.is_none() { "sound" } else { "broken" }) {
                    @match &checked.integrity_error {
                        None => { "The audit log is intact: " (checked.records) " records, verified " (ago(checked.checked_at, SystemClock.now())) "." },
                        Some(flaw) => { "The audit log is not intact: " (make_visible(flaw, EscapeLevel::Text)) " (verified " (ago(checked.checked_at, SystemClock.now())) ")." },
                    }
                }
            }
            " " button.quiet type="submit" { "Verify now" }
        }
    }
}

/// Verifies the audit log and shows the result.
pub(super) async fn verify(form: CsrfForm) -> Result<axum::response::Redirect, ErrorPage> {
    form.user.require_scope(&[AccessScope::Read])?;
    Arc::clone(&form.user.caller.tenant).verify().await?;
    Ok(axum::response::Redirect::to("/log"))
}

/// Shows the record of a call.
pub(super) async fn record(
    State(_app): State<App>,
    visitor: SignedInUser,
    PathId(call): PathId<CallId>,
) -> Result<Html<String>, ErrorPage> {
    visitor.require_scope(&[AccessScope::Read])?;
    let found = record_access::record(&visitor.caller.tenant, call).await?;
    let record = &found.stored.record;
    let listing = found.stored.call_summary.as_ref();
    let body = html! {
        h1 { "Record of a call" }
        dl.facts {
            @if let Some(listing) = listing {
                dt { "Summary" } dd { (make_visible(&listing.summary, EscapeLevel::Text)) }
                dt { "Tool" } dd { (make_visible(&listing.tool, EscapeLevel::Name)) }
                dt { "Agent" } dd { (make_visible(&listing.agent, EscapeLevel::Name)) }
                dt { "Session" } dd { a href=(session_timeline::address(&listing.session, None)) { (make_visible(listing.session.as_str(), EscapeLevel::Name)) } }
            }
            dt { "Call" } dd { code { (call) } }
        }
        @if found.stored.forgotten { p.hint { "The contents of this record were erased." } }
        @if let Some(damage) = record.damage() { p.wrong role="alert" { "The record is damaged: " (damage) } }
        ol.entries start="0" {
            @for entry in record.entries() {
                li {
                    strong { (entry.event.kind()) } " "
                    (make_visible(&describe_entry(entry), EscapeLevel::Text))
                    span.about { (format_utc(entry.at)) }
                }
            }
        }
        p.hint { "This page leaves out the contents of the record. " code { "byleave undo " (call) } " undoes the changes of the call, if possible. If a worker ran the call, use the tool " code { "undo" } " in the same session." }
    };
    Ok(page(&visitor, "Record", "/log", &body))
}
