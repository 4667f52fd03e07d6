//! The target of an undo, and the call that performs it.

use std::path::Path;

use anyhow::Result;
use byleave_copy::{CopyState, CopyStore, ExternalEditState};
use byleave_gate::approver::Reply;
use byleave_gate::audit_log::{AuditLog as _, CallFilter, CallItem, PageRequest};
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::file_change::FileChanges;
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::core::render::summarize_changes;
use byleave_gate::gate::{Gate, SubmittedAnswer};
use byleave_gate::result::CallStatus;
use serde_json::json;

use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::call_display::{self, relative};
use crate::console::one_line;
use crate::error::CliError;
use crate::resolved_options::ResolvedOptions;
use crate::time::{format_duration, now};
use crate::tool_catalog::workplace;

/// The maximum number of calls of a session that are searched.
const CALLS_MAX: usize = 10_000;
/// The number of calls that are read at once during a search.
const AT_ONCE: usize = 100;

/// The number of calls before the first match that are searched, too. One of them may have waited for an answer and changed files later.
const WAITED_MAX: usize = 1_000;

/// The number of changed files that are named.
const FILES_SHOWN: usize = 3;

/// The scope of the search for changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoScope {
    /// Calls in this directory or in one of its parents.
    Here,
    /// All calls.
    Anywhere,
}

/// The change that an undo without arguments would revert.
#[derive(Debug)]
pub(crate) struct LastChange {
    pub(crate) call: CallId,
    pub(crate) description: String,
}

/// Returns the change that an undo without arguments would revert.
pub(crate) async fn last_change(house: &AppContext, options: &ResolvedOptions) -> Result<Option<LastChange>> {
    let Some(item) = newest_undoable(CallFilter::default(), UndoScope::Here, house, options).await? else {
        return Ok(None);
    };
    let changes = workplace(options, &options.cwd).open_store()?.changes(item.call.uuid())?;
    let ago = format_duration(now().saturating_sub(item.changed_at));
    let files = named(&changes, Path::new(&options.cwd));
    let description =
        format!("{} of {ago} ago ({}: {files})", item.call_summary.tool, summarize_changes(&changes));
    Ok(Some(LastChange { call: item.call, description }))
}

/// Describes the files that a call changed, and its directory if that is not the current one.
pub(crate) async fn files_of(call: CallId, house: &AppContext, options: &ResolvedOptions) -> Option<String> {
    let changes = workplace(options, &options.cwd).open_store().ok()?.changes(call.uuid()).ok()?;
    let workspace = house.workspace_of(call).await.ok()?;
    let files = named(&changes, Path::new(&workspace));
    if workspace == options.cwd {
        return Some(files);
    }
    Some(format!("in `{}`: {files}", one_line(&workspace)))
}

/// Names the first changed files.
fn named(changes: &FileChanges, base: &Path) -> String {
    let mut names: Vec<String> =
        changes.list.iter().take(FILES_SHOWN).map(|change| relative(&change.path, base)).collect();
    if changes.list.len() > FILES_SHOWN {
        names.push(format!("{} more", changes.list.len() - FILES_SHOWN));
    }
    names.join(", ")
}

/// Undoes the newest change and describes the result.
pub(crate) async fn undo_newest(house: &AppContext, options: &ResolvedOptions) -> Result<String> {
    let found = newest_undoable(CallFilter::default(), UndoScope::Here, house, options).await?;
    taken_back(found, house, options).await
}

/// Undoes the newest change of a session and describes the result.
#[cfg(feature = "agent")]
pub(crate) async fn undo_newest_in_session(
    session: &SessionId,
    house: &AppContext,
    options: &ResolvedOptions,
) -> Result<String> {
    let filter = CallFilter { session: Some(session.clone()), ..CallFilter::default() };
    let found = newest_undoable(filter, UndoScope::Anywhere, house, options).await?;
    taken_back(found, house, options).await
}

async fn taken_back(
    found: Option<CallItem>,
    house: &AppContext,
    options: &ResolvedOptions,
) -> Result<String> {
    let Some(item) = found else {
        return Ok("there is nothing to undo here".to_owned());
    };
    let what = files_of(item.call, house, options).await.unwrap_or_default();
    let (gate, undo) = prepare_undo(item.call, false, house, options).await?;
    let mut came = gate.advance(undo).await;
    if let CallStatus::Waiting { question, .. } = &came {
        let (id, digest, by) = (question.id, question.digest(), options.person.clone());
        let given = SubmittedAnswer { question: id, digest, reply: Reply::Yes { note: None }, approver: by };
        let call = gate.answer(given).await.map_err(CliError::from)?;
        came = gate.resume(call).await;
    }
    Ok(format!("undo of {} ({what}): {}", item.call_summary.tool, call_display::format_status(&came)))
}

/// Finds the call that was the last to change something that can be undone. It reads no more than necessary, because a question waits for
/// it.
pub(crate) async fn newest_undoable(
    filter: CallFilter,
    reach: UndoScope,
    house: &AppContext,
    options: &ResolvedOptions,
) -> Result<Option<CallItem>> {
    let store = workplace(options, &options.cwd).open_store()?;
    let (mut page, mut looked) = (PageRequest::with_limit(AT_ONCE), 0);
    let (mut newest, mut last): (Option<CallItem>, usize) = (None, CALLS_MAX);
    while looked < last {
        let calls = house.audit_log.calls(filter.clone(), page).await?;
        page.after = calls.last().map(|item| item.cursor);
        looked += calls.len();
        let is_last = calls.len() < AT_ONCE;
        for item in calls {
            let is_newer = newest.as_ref().is_none_or(|newest| item.changed_at > newest.changed_at);
            if is_newer
                && stands(&store, &item)
                && (reach == UndoScope::Anywhere || is_here(&item, house, options).await?)
            {
                if newest.is_none() {
                    last = looked.saturating_add(WAITED_MAX);
                }
                newest = Some(item);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(newest)
}

/// Returns the calls whose changes can be undone. The call that changed something last is the first.
pub(crate) async fn undoable_calls(
    filter: CallFilter,
    reach: UndoScope,
    house: &AppContext,
    options: &ResolvedOptions,
) -> Result<Vec<CallItem>> {
    let store = workplace(options, &options.cwd).open_store()?;
    let mut all = house.audit_log.calls(filter, PageRequest::with_limit(CALLS_MAX)).await?;
    all.retain(|item| stands(&store, item));
    all.sort_by_key(|item| std::cmp::Reverse(item.changed_at));
    if reach == UndoScope::Anywhere {
        return Ok(all);
    }
    let mut here = Vec::new();
    for item in all {
        if is_here(&item, house, options).await? {
            here.push(item);
        }
    }
    Ok(here)
}

/// Checks whether a call was made in this directory or in one of its parents.
async fn is_here(item: &CallItem, house: &AppContext, options: &ResolvedOptions) -> Result<bool> {
    Ok(Path::new(&options.cwd).starts_with(house.workspace_of(item.call).await?))
}

fn stands(store: &CopyStore, item: &CallItem) -> bool {
    item.call_summary.operation != "undo"
        && match store.state(item.call.uuid()) {
            Ok(CopyState::Committed) => true,
            // An agent may have made the edit without a report.
            Ok(CopyState::ExternalEdit) => store
                .compare_external_edit(item.call.uuid())
                .is_ok_and(|state| state != ExternalEditState::NotMade),
            _ => false,
        }
}

/// Returns the call that undoes another, and the gate for it.
pub(crate) async fn prepare_undo(
    call: CallId,
    force: bool,
    house: &AppContext,
    options: &ResolvedOptions,
) -> Result<(Gate, Call)> {
    let workspace = house.workspace_of(call).await?;
    let gate = house.gate(options, &workspace, AskArg::Inbox, options.settings.gate())?;
    let arguments = if force { json!({ "call": call, "force": true }) } else { json!({ "call": call }) };
    let undo = Call {
        id: CallId::new(fresh_id()),
        tenant: options.tenant.clone(),
        // A session of its own, so that it waits for no question of an agent.
        session: SessionId::new("undo")?,
        agent: AgentId::new("undo")?,
        tool: "undo".into(),
        arguments,
        reason: None,
        cwd: workspace,
        mode: Mode::ConfirmSensitive,
        dry_run: false,
    };
    Ok((gate, undo))
}
