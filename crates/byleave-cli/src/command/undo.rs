//! `byleave undo` and `byleave diff`: show and revert what calls changed in files.

use std::path::Path;

use anyhow::Result;
use byleave_copy::CopyState;
use byleave_gate::approver::Reply;
use byleave_gate::audit_log::CallFilter;
use byleave_gate::core::id::{CallId, SessionId};
use byleave_gate::core::refusal::Code;
use byleave_gate::core::render::summarize_changes;
use byleave_gate::result::{CallOutcome, CallStatus};
use clap::Args as Group;
use serde_json::{Value, json};

use crate::app_context::{AppContext, recover_and_gc_copies};
use crate::call_display::{self, relative};
use crate::command::rehearse::differences;
use crate::console::{Console, Tone, one_line, prose};
use crate::drive_call::{DriveResult, answer_and_drive, drive};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::json_output;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::{self, short};
use crate::time::{now, parse_duration};
use crate::tool_catalog::workplace;
use crate::undo_target::{self, UndoScope, prepare_undo};

#[derive(Debug, Group)]
pub(crate) struct UndoArgs {
    /// Call id [default: the newest call that changed files in this directory or a parent]
    #[arg(conflicts_with_all = ["session", "since"])]
    pub(crate) call: Option<String>,
    /// Undo the newest call that changed files, in any directory
    #[arg(long, conflicts_with_all = ["call", "session", "since"])]
    pub(crate) anywhere: bool,
    /// Undo all file changes of this session, newest first
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Undo all file changes since this long ago, newest first: a number and s, m, h, d or w, as in `10m`
    ///
    /// Without `--session`, those in this directory or a parent.
    #[arg(long, value_name = "DURATION")]
    pub(crate) since: Option<String>,
    /// Undo even if a file was changed since; the store keeps its current content
    #[arg(long)]
    pub(crate) force: bool,
}

pub(crate) async fn run(
    typed: UndoArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let house = AppContext::open_to_write(options)?;
    recover_and_gc_copies(options, screen)?;
    let calls = which(&typed, &house, options).await?;
    if calls.is_empty() {
        nothing_here(&typed, &house, options, screen).await?;
        return Ok(ExitStatus::Completed);
    }
    let (mut done, mut values) = (0, Vec::new());
    for call in &calls {
        let what = undo_target::files_of(*call, &house, options).await;
        let driven = take_back(*call, typed.force, &house, options, screen).await?;
        let CallStatus::Settled(result) = &driven.call_status else {
            call_display::print_status(screen, &driven.call_status);
            stopped(done, calls.len(), screen);
            return Ok(driven.status());
        };
        if let CallOutcome::Completed(output) = &result.outcome {
            done += 1;
            if screen.json() {
                values.push(json!({ "undone": call, "call": result.call, "text": output.text }));
            } else {
                let text = prose(&output.text);
                // The tool tells a model which call it undid. A person reads the short id.
                let text = match text.strip_prefix(&format!("undid {call}: ")) {
                    Some(changes) => format!("{}: {changes}", short(call)),
                    None => text,
                };
                let what = what.map(|what| format!(" ({what})")).unwrap_or_default();
                screen.message_with_tone(
                    Tone::Strong,
                    "undone:",
                    &format!("{text}{what}; `byleave undo {}` restores it", short(&result.call)),
                );
            }
            continue;
        }
        // Older changes depend on this one, so it stops here.
        if screen.json() {
            values.push(json_output::status(&driven.call_status));
            screen.value(&Value::from(std::mem::take(&mut values)));
        }
        if let Some(error) = result.error() {
            screen.message_lines(&error);
        }
        stopped(done, calls.len(), screen);
        let hint = match result.code() {
            // No option of this command lifts a halt.
            Some(Code::Halted) => "then run the same command again".to_owned(),
            Some(_) => format!("`byleave log show {}` shows why", short(&result.call)),
            None => {
                format!("`byleave diff {}` shows what it changed; `--force` undoes it anyway", short(call))
            }
        };
        screen.hint(&hint);
        return Ok(driven.status());
    }
    if screen.json() {
        screen.value(&Value::from(values));
    }
    Ok(ExitStatus::Completed)
}

/// Says how many of several calls were undone before it stopped.
fn stopped(done: usize, of: usize, screen: &mut Console) {
    if of > 1 {
        screen.message(&format!("{done} of {of} calls were undone, the newest first; stopped here"));
    }
}

/// Returns the calls to undo, newest first.
async fn which(typed: &UndoArgs, house: &AppContext, options: &ResolvedOptions) -> Result<Vec<CallId>> {
    if let Some(call) = &typed.call {
        return Ok(vec![short_ids::call(house, call).await?]);
    }
    if typed.session.is_none() && typed.since.is_none() {
        let reach = if typed.anywhere { UndoScope::Anywhere } else { UndoScope::Here };
        let newest = undo_target::newest_undoable(CallFilter::default(), reach, house, options).await?;
        return Ok(newest.into_iter().map(|item| item.call).collect());
    }
    let reach = if typed.session.is_some() { UndoScope::Anywhere } else { UndoScope::Here };
    let since = typed.since.as_deref().map(parse_duration).transpose()?;
    let since = since.map(|span| now().saturating_sub(span));
    let filter = CallFilter { session: typed.session.clone(), since, ..CallFilter::default() };
    let standing = undo_target::undoable_calls(filter, reach, house, options).await?;
    Ok(standing.into_iter().map(|item| item.call).collect())
}

/// Reports that there is nothing to undo here, and what could be undone elsewhere.
async fn nothing_here(
    typed: &UndoArgs,
    house: &AppContext,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<()> {
    if screen.json() {
        screen.value(&json!([]));
        return Ok(());
    }
    let newest = typed.call.is_none() && typed.session.is_none() && typed.since.is_none() && !typed.anywhere;
    let elsewhere = match newest {
        true => {
            undo_target::newest_undoable(CallFilter::default(), UndoScope::Anywhere, house, options).await?
        }
        false => None,
    };
    let Some(item) = elsewhere else {
        screen.message("there is nothing to undo");
        return Ok(());
    };
    let workspace = house.workspace_of(item.call).await?;
    screen.message("there is nothing to undo in this directory, so nothing was changed");
    screen.hint(&format!(
        "the last change was made in `{}`: `byleave undo {}` undoes it",
        one_line(&workspace),
        short(&item.call)
    ));
    Ok(())
}

/// Undoes one call by another call. Typing the command answers its question.
async fn take_back(
    call: CallId,
    force: bool,
    house: &AppContext,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<DriveResult> {
    let (gate, undo) = prepare_undo(call, force, house, options).await?;
    let driven = drive(&gate, undo.id, gate.advance(undo), options, screen).await;
    let CallStatus::Waiting { question, .. } = &driven.call_status else { return Ok(driven) };
    answer_and_drive((&gate, house), question, Reply::Yes { note: None }, options, screen).await
}

/// `byleave diff`: shows what a call changed, or would change after a yes.
pub(crate) async fn diff(
    call: Option<&str>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let house = AppContext::open_to_read(options, None)?;
    let call = match call {
        Some(call) => short_ids::call(&house, call).await?,
        None => newest_change(&house, options).await?,
    };
    let store = workplace(options, &options.cwd).open_store()?;
    let state = store.state(call.uuid())?;
    let none = |why: String| CliError::new(why).hint("`byleave log show` shows the record of the call");
    let changes = store.changes(call.uuid()).map_err(|fault| none(prose(&fault.to_string())))?;
    if screen.json() {
        screen.value(&json!({ "call": call, "state": word(&state), "changes": changes }));
        return Ok(ExitStatus::Completed);
    }
    screen.title(&format!("{}: {}", word(&state), summarize_changes(&changes)));
    differences(screen, &changes, Path::new(&options.cwd));
    for change in changes.list.iter().filter(|change| change.diff.is_none()) {
        screen.line(&format!("{} {}", change.kind(), relative(&change.path, Path::new(&options.cwd))));
    }
    Ok(ExitStatus::Completed)
}

/// Returns the newest call that changed files here.
async fn newest_change(house: &AppContext, options: &ResolvedOptions) -> Result<CallId> {
    let none = || {
        CliError::new("no call has changed files in this directory")
            .hint("`byleave log` lists the calls; `byleave diff CALL` shows the changes of one")
    };
    let newest = undo_target::newest_undoable(CallFilter::default(), UndoScope::Here, house, options).await?;
    Ok(newest.ok_or_else(none)?.call)
}

const fn word(state: &CopyState) -> &'static str {
    match state {
        CopyState::Open => "not committed",
        CopyState::Interrupted => "interrupted",
        CopyState::ExternalEdit => "passed on to the agent",
        CopyState::Committed => "committed",
        CopyState::Undone { .. } => "undone",
        CopyState::Dropped { .. } => "discarded",
        CopyState::Missing => "missing",
    }
}
