//! What happened in a call, for people: read from its record, its contents and the store of copies.

use std::collections::HashMap;

use anyhow::Result;
use byleave_copy::{CopyState, ExternalEditState};
use byleave_gate::agent_report;
use byleave_gate::audit_log::export::{self, ExportedRecord, IncludeContents};
use byleave_gate::audit_log::{AuditLog as _, CallFilter, PageRequest, StandingApprovalItem};
use byleave_gate::core::digest::ContentRef;
use byleave_gate::core::entry::RecordEvent;
use byleave_gate::core::file_change::FileChanges;
use byleave_gate::core::id::{CallId, SessionId, StandingApprovalId};
use byleave_gate::core::pipeline::{NextStep, next_step};
use byleave_gate::core::record::Record;
use byleave_gate::core::render::{AccountSource, AgentReport, CallAccount, ChangesState, LineRole};
use serde_json::Value;

use super::record;
use crate::app_context::AppContext;
use crate::console::{ChangeColor, Console, Tone, one_line, prose};
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::short;
use crate::time::{now, utc_offset};
use crate::tool_catalog::workplace;

/// Shows what happened in a call.
pub(super) async fn show(
    house: &AppContext,
    call: CallId,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let found = record(house, call, IncludeContents::Included).await?;
    let record = &found.stored.record;
    let (changes, state) = kept_changes(call, options, Diffs::Computed);
    let (report, approvals) = (report(house, record).await?, approvals(house, record, options).await?);
    let account = build_account(&found, changes.as_ref(), report, &approvals);
    let rendering = account.to_rendering(&utc_offset);
    for line in rendering.wrap(screen.columns().unwrap_or(usize::MAX)) {
        match line.role {
            LineRole::Headline => screen.title(&line.text),
            LineRole::Warning => {
                let text = screen.painted(Tone::Careful, &line.text);
                screen.line(&text);
            }
            LineRole::Change => screen.coloured(diff_color(&line.text), "", &line.text),
            _ => screen.line(&line.text),
        }
    }
    print_next(call, record, state.as_ref(), screen);
    if let Some(damage) = record.damage() {
        screen.message_with_tone(Tone::Bad, "damaged:", &one_line(&damage.to_string()));
        return Ok(ExitStatus::Failed);
    }
    Ok(ExitStatus::Completed)
}

/// Returns a call in one line, and what a person last answered about it. Returns `None` if its record cannot be read.
pub(super) async fn short_text(
    house: &AppContext,
    call: CallId,
    options: &ResolvedOptions,
) -> Result<Option<(String, Option<String>)>> {
    let Some(found) = export::export_one(&*house.audit_log, call, IncludeContents::Included).await? else {
        return Ok(None);
    };
    let record = &found.stored.record;
    if record.damage().is_some() || found.stored.forgotten {
        return Ok(None);
    }
    let (changes, _) = kept_changes(call, options, Diffs::Stored);
    let account = build_account(&found, changes.as_ref(), None, &[]);
    let answer = record.entries().iter().rev().find_map(|entry| match &entry.event {
        RecordEvent::Answered(answered) => {
            Some(format!("{} by {}", answered.answer.description(), answered.approver.name))
        }
        _ => None,
    });
    Ok(Some((account.short_text(), answer)))
}

/// Builds the account of a call from its record, its contents and what is kept of its changes.
fn build_account(
    found: &ExportedRecord,
    changes: Option<&(FileChanges, ChangesState)>,
    report: Option<AgentReport>,
    approvals: &[(StandingApprovalId, String)],
) -> CallAccount {
    let contents: HashMap<ContentRef, &[u8]> =
        found.contents.iter().map(|content| (content.content_ref, content.bytes.as_slice())).collect();
    CallAccount::new(&AccountSource {
        record: &found.stored.record,
        content: &|content| contents.get(&content).copied(),
        changes: changes.map(|(changes, state)| (changes, *state)),
        report,
        approvals,
    })
}

/// Whether the differences of texts are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Diffs {
    /// From the before-images.
    Computed,
    /// Only those that are stored, because a list needs no others.
    Stored,
}

/// Returns the changes of a call that the store of copies has, and the state of its copy.
fn kept_changes(
    call: CallId,
    options: &ResolvedOptions,
    diffs: Diffs,
) -> (Option<(FileChanges, ChangesState)>, Option<CopyState>) {
    let Ok(store) = workplace(options, &options.cwd).open_store() else { return (None, None) };
    let Ok(copy) = store.state(call.uuid()) else { return (None, None) };
    let state = match &copy {
        CopyState::Open => ChangesState::OnCopy,
        CopyState::Committed => ChangesState::Made,
        CopyState::Undone { .. } => ChangesState::Undone,
        CopyState::ExternalEdit => match store.compare_external_edit(call.uuid()) {
            Ok(ExternalEditState::NotMade) | Err(_) => ChangesState::OnCopy,
            Ok(_) => ChangesState::Made,
        },
        CopyState::Interrupted | CopyState::Dropped { .. } | CopyState::Missing => return (None, Some(copy)),
    };
    // The record of a rehearsal has its differences, too.
    let is_stored = matches!(copy, CopyState::Committed | CopyState::Undone { .. });
    let changes = match diffs {
        Diffs::Computed => store.changes(call.uuid()),
        Diffs::Stored if is_stored => store.stored_changes(call.uuid()),
        Diffs::Stored => return (None, Some(copy)),
    };
    let changes = changes.ok().filter(|changes| {
        diffs == Diffs::Computed || changes.list.iter().any(|change| change.diff.is_some())
    });
    (changes.map(|changes| (changes, state)), Some(copy))
}

/// Returns the report of the agent that executed the call itself.
async fn report(house: &AppContext, record: &Record) -> Result<Option<AgentReport>> {
    let Some(header) = record.header() else { return Ok(None) };
    let session = agent_report::session_name(header.agent.as_str(), Some(record.call()));
    let Ok(session) = SessionId::new(session) else { return Ok(None) };
    let filter = CallFilter {
        session: Some(session),
        tool: Some(agent_report::TOOL.to_owned()),
        outcome: Some("completed".to_owned()),
        ..CallFilter::default()
    };
    let items = house.audit_log.calls(filter, PageRequest::with_limit(1)).await?;
    let Some(item) = items.first() else { return Ok(None) };
    let found = export::export_one(&*house.audit_log, item.call, IncludeContents::Included).await?;
    let different = found.and_then(|found| {
        let arguments = found.stored.record.header()?.arguments;
        let content = found.contents.iter().find(|content| content.content_ref == arguments)?;
        let told: Value = serde_json::from_slice(&content.bytes).ok()?;
        Some(told.get("different")?.as_str()?.to_owned())
    });
    Ok(Some(AgentReport { at: item.opened_at, different }))
}

/// Returns the standing approvals that the call used, each with the person and the scope.
async fn approvals(
    house: &AppContext,
    record: &Record,
    options: &ResolvedOptions,
) -> Result<Vec<(StandingApprovalId, String)>> {
    let is_used = record.entries().iter().any(|entry| match &entry.event {
        RecordEvent::PolicyEvaluated(Ok(decision)) => decision.standing_approval.is_some(),
        _ => false,
    });
    if !is_used {
        return Ok(Vec::new());
    }
    let tenant = record.header().map_or(&options.tenant, |header| &header.tenant);
    let given = house.audit_log.list_standing_approvals(tenant, now()).await?;
    let told = |item: StandingApprovalItem| {
        let scope = item.standing_approval.describe_scope();
        (item.standing_approval.id, format!("{}: {scope}", item.approver.name))
    };
    Ok(given.into_iter().map(told).collect())
}

/// Says what a person can do now.
fn print_next(call: CallId, record: &Record, copy: Option<&CopyState>, screen: &mut Console) {
    let call = short(&call);
    match copy {
        Some(CopyState::Committed | CopyState::ExternalEdit) => {
            screen.line(&format!("  Can be undone: `byleave undo {call}`."));
        }
        Some(CopyState::Undone { undo_id }) => {
            let undo = short(undo_id);
            screen.line(&format!("  Was undone by call {undo}; `byleave undo {undo}` restores it."));
        }
        Some(CopyState::Dropped { reason }) if record.outcome().is_some() => {
            screen.line(&format!("  Can no longer be undone: {}.", prose(reason)));
        }
        _ => {}
    }
    if let NextStep::Wait(question) = next_step(record) {
        let question = short(&question.id);
        screen.line(&format!("  Waits for a person: `byleave inbox show {question}`."));
    }
    screen.hint(&format!("`byleave log show {call} --full` shows the record entry by entry"));
}

/// Returns the color of a line of a difference, behind its gutter.
fn diff_color(line: &str) -> ChangeColor {
    match line.split_once("┃ ").and_then(|(_, line)| line.chars().next()) {
        Some('+') => ChangeColor::Made,
        Some('-') => ChangeColor::Gone,
        _ => ChangeColor::Plain,
    }
}
