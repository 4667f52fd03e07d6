//! Commits or discards the changes on a copy, for every tool that works on copies.

use std::sync::Arc;

use byleave_copy::{CopyState, Error, OutputReport, OutputRule, WorkspaceCopy};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::effect::Effect;
use byleave_gate::core::file_change::{FileChange, FileChanges};
use byleave_gate::core::id::CallId;
use byleave_gate::core::outcome::Output;
use byleave_gate::core::rehearsal::Rehearsal;
use byleave_gate::tool::RunContext;
use serde_json::{Value, json};

use crate::execution_env::ExecutionEnv;
use crate::gate_lines::push_gate_line;

/// Checks whether the copy of a call still exists as it was listed. The commit detects changes to the original files.
pub fn has_copy(workplace: &Arc<ExecutionEnv>, call: CallId, seen: &Rehearsal) -> BoxFuture<'static, bool> {
    let (workplace, digest) = (Arc::clone(workplace), seen.changes.digest());
    Box::pin(async move {
        let same = move || {
            let Ok(store) = workplace.open_store() else { return false };
            store.state(call.uuid()).is_ok_and(|state| state == CopyState::Open)
                && store.changes(call.uuid()).is_ok_and(|listed| listed.digest() == digest)
        };
        tokio::task::spawn_blocking(same).await.unwrap_or(false)
    })
}

/// Discards the copy of a call, if there is one.
pub fn drop_copy(workplace: &Arc<ExecutionEnv>, call: CallId) -> BoxFuture<'static, ()> {
    let workplace = Arc::clone(workplace);
    Box::pin(async move {
        let dropped = tokio::task::spawn_blocking(move || {
            match workplace.open_store().and_then(|store| store.reopen(call.uuid())) {
                Ok(copy) => discard_copy(copy),
                Err(Error::Missing(_)) => {}
                Err(fault) => tracing::warn!(%fault, "cannot drop a copy"),
            }
        });
        if let Err(error) = dropped.await {
            tracing::error!(%error, "the task that drops a copy failed");
        }
    })
}

/// Commits a rehearsal, or finishes a commit that was begun.
pub(crate) fn finish_commit(
    workplace: &ExecutionEnv,
    seen: Rehearsal,
    only: Option<&[String]>,
    run: &RunContext,
) -> Result<Output, String> {
    let words = |fault: Error| fault.to_string();
    let (store, id) = (workplace.open_store().map_err(words)?, run.call.uuid());
    if store.state(id).map_err(words)? == CopyState::Interrupted {
        store.recover().map_err(words)?;
    }
    let chosen = match only {
        None => seen.changes.clone(),
        Some(paths) => seen.changes.only_paths(paths),
    };
    let mut output = seen.output;
    match store.state(id).map_err(words)? {
        // An earlier attempt did this but did not report it.
        CopyState::Committed | CopyState::Undone { .. } | CopyState::Dropped { .. } => {}
        CopyState::ExternalEdit => return Err("nothing was changed: an agent makes this edit itself".into()),
        CopyState::Open => {
            if store.changes(id).map_err(words)?.digest() != seen.changes.digest() {
                return Err("nothing was changed: the copy was modified after the rehearsal".into());
            }
            let copy = store.reopen(id).map_err(words)?;
            let may_place = |change: &FileChange| may_be_output(workplace, change, run);
            let rule = match only {
                // What was built belongs to all changes, and not to a part of them.
                Some(_) => OutputRule::Drop,
                None if run.spared_by_rehearsal => OutputRule::Session,
                None => OutputRule::Place(&may_place),
            };
            let report = commit_copy(&copy, &chosen, rule)?;
            describe_outputs(&report, &mut output);
        }
        CopyState::Interrupted => {
            return Err("the commit was interrupted, and can be neither finished nor rolled back: `byleave undo` says why".into());
        }
        // There was nothing to commit, and the copy was released.
        CopyState::Missing if chosen.is_empty() => {}
        CopyState::Missing => return Err("nothing was changed: the copy no longer exists".into()),
    }
    if only.is_some() {
        let (kept, all) = (chosen.list.len(), seen.changes.list.len());
        output.text.push_str(&format!(
            "\n[byleave] a person kept {kept} of {all} changes; the others were dropped\n"
        ));
    }
    output.undo = undo_data(run, &chosen);
    Ok(output)
}

/// Returns how to undo a call, if it changed anything.
pub(crate) fn undo_data(run: &RunContext, committed: &FileChanges) -> Option<Value> {
    (!committed.is_empty()).then(|| json!({ "call": run.call, "paths": committed.list.len() }))
}

/// Checks whether what an allowed run wrote into a scratch directory may be on the disk: nobody was shown it, so no rule may restrict it,
/// and it must be ordinary.
fn may_be_output(workplace: &ExecutionEnv, change: &FileChange, run: &RunContext) -> bool {
    let Some(policy) = &run.policy else { return false };
    let read = Effect::Read { path: change.path.clone() };
    change.is_plain(&workplace.workspace.to_string_lossy())
        && policy.strictest_restriction(&change.to_effect()).is_none()
        && !policy.may_deny(&read)
}

/// Adds what is not on the disk to the output.
fn describe_outputs(report: &OutputReport, output: &mut Output) {
    for (path, why) in &report.not_placed {
        let (path, why) = (path.escape_debug(), why.escape_debug());
        push_gate_line(
            &mut output.text,
            &format!("what the command wrote to `{path}` is not on the disk: {why}"),
        );
    }
    if report.left_out_count > 0 {
        let named: Vec<String> =
            report.left_out.iter().map(|path| format!("`{}`", path.escape_debug())).collect();
        let more = report.left_out_count.saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        push_gate_line(
            &mut output.text,
            &format!(
                "a rule or the kind of file keeps these outputs off the disk: {}{more}",
                named.join(", ")
            ),
        );
    }
}

/// Commits the changes, or returns the reason in words.
pub(crate) fn commit_copy(
    copy: &WorkspaceCopy,
    changes: &FileChanges,
    outputs: OutputRule<'_>,
) -> Result<OutputReport, String> {
    if changes.is_empty() {
        return copy.end_unchanged_with(outputs).map_err(|fault| fault.to_string());
    }
    match copy.commit_with(changes, outputs) {
        Ok(committed) => Ok(committed.outputs),
        Err(Error::Conflicts(conflicts)) => {
            let mut why = "nothing was changed, because these files changed after the call began:".to_owned();
            for conflict in &conflicts {
                why.push_str(&format!("\n  `{}`: {}", conflict.path.escape_debug(), conflict.reason));
            }
            Err(why)
        }
        Err(fault) => Err(fault.to_string()),
    }
}

/// Discards a copy. If it cannot be discarded now, it is removed when it expires.
pub(crate) fn discard_copy(copy: WorkspaceCopy) {
    if let Err(fault) = copy.discard() {
        tracing::warn!(%fault, "cannot drop a copy");
    }
}
