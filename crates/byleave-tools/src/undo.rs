//! The tool `undo`: reverts the changes of a call. It is itself a call that can be undone.

use std::path::PathBuf;
use std::sync::Arc;

use byleave_copy::{Conflict, CopyState, CopyStore, Error, OnConflict};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::file_change::{FileChange, FileChanges};
use byleave_gate::core::git_settings::GitSettingsChange;
use byleave_gate::core::id::CallId;
use byleave_gate::core::manifest::{Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::core::rehearsal::NewWorktree;
use byleave_gate::core::render::summarize_changes;
use byleave_gate::tool::{RunContext, Tool, ToolContext, ToolError};
use serde_json::{Value, json};

use crate::blocking::run_blocking;
use crate::copy_commit::undo_data;
use crate::execution_env::ExecutionEnv;
use crate::git_settings::restored_settings;
use crate::git_worktrees::new_worktrees;
use crate::read_permission::may_read_without_asking;

/// The tool that reverts changes of calls.
#[derive(Clone, Debug)]
pub struct Undo {
    manifest: Arc<Manifest>,
    workplace: ExecutionEnv,
}

impl Undo {
    /// Creates the tool for an execution environment.
    pub fn new(workplace: ExecutionEnv) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "call": {"type": "string", "format": "uuid", "description": "The call whose changes are undone"},
                "force": {
                    "type": "boolean",
                    "description": "Also undo files that were changed since; the store keeps their current content"
                },
            },
            "required": ["call"],
            "additionalProperties": false
        });
        let mut manifest = Manifest::new("undo", "Undoes the file changes of a call.", schema);
        manifest.permission_class = PermissionClass::File;
        manifest.sensitive = Some(false);
        manifest.reversible = true;
        // An interrupted undo is finished, and a finished one is only reported.
        manifest.idempotent = true;
        manifest.audit_operation = Some("undo".into());
        manifest.search_hint = Some("undo revert take back changes of a call".into());
        Self { manifest: Arc::new(manifest), workplace }
    }
}

fn call(arguments: &Value) -> Result<CallId, ToolError> {
    let text = arguments.get("call").and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|_| ToolError(format!("`{}` is not a call id", text.escape_debug())))
}

impl Tool for Undo {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn plan<'a>(
        &'a self,
        arguments: &'a Value,
        _: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        Some(Box::pin(async move {
            let call = call(arguments)?;
            let store = self.workplace.open_store().map_err(|fault| ToolError(fault.to_string()))?;
            let changes = store.changes(call.uuid()).map_err(|fault| ToolError(fault.to_string()))?;
            let settings = restored_settings(&store, call, &changes);
            let settings = settings.map_err(|fault| ToolError(fault.to_string()))?;
            let worktrees = restored_worktrees(&store, call, &changes);
            let worktrees = worktrees.map_err(|fault| ToolError(fault.to_string()))?;
            let mut effects = inverse(&changes, &settings, &worktrees);
            let outputs = store.output_dirs(call.uuid()).map_err(|fault| ToolError(fault.to_string()))?;
            let to_text = |path: PathBuf| path.to_str().map(str::to_owned);
            effects.extend(outputs.into_iter().filter_map(to_text).map(|path| Effect::Write { path }));
            Ok(Plan { effects, ..Plan::default() })
        }))
    }

    fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output> {
        let undo = self.clone();
        Box::pin(run_blocking(move || undo.undone(&arguments, &run)))
    }
}

/// Returns the effects of an undo: created files are deleted, and all others are written. Of a repository that the call made, only `HEAD`
/// counts, as when it was made: its settings protected nothing before. Of settings that run nothing, each one counts.
fn inverse(changes: &FileChanges, settings: &[GitSettingsChange], worktrees: &[NewWorktree]) -> Vec<Effect> {
    let is_new_repository =
        |change: &&FileChange| change.path.ends_with("/.git") && change.is_new_directory();
    let made: Vec<&str> =
        changes.list.iter().filter(is_new_repository).map(|change| change.path.as_str()).collect();
    let is_part = |path: &str| {
        let beneath = made.iter().filter_map(|made| path.strip_prefix(made));
        beneath.into_iter().any(|rest| rest.is_empty() || rest.starts_with('/') && rest != "/HEAD")
    };
    let is_link = |path: &String| worktrees.iter().any(|made| made.files.contains(path));
    let counted = changes.list.iter().filter(|change| !is_part(&change.path) && !is_link(&change.path));
    let mut back: Vec<Effect> =
        worktrees.iter().map(|made| Effect::Write { path: made.stand_in() }).collect();
    back.extend(counted.flat_map(|change| {
        if let Some(changed) = settings.iter().find(|changed| changed.path == change.path) {
            return changed.setting_paths().into_iter().map(|path| Effect::Write { path }).collect();
        }
        let path = change.path.clone();
        vec![if change.before.is_none() { Effect::Delete { path } } else { Effect::Write { path } }]
    }));
    back
}

/// Returns the working trees that an undo restores.
fn restored_worktrees(
    store: &CopyStore,
    call: CallId,
    changes: &FileChanges,
) -> Result<Vec<NewWorktree>, Error> {
    let swap = |change: &FileChange| FileChange {
        before: change.after.clone(),
        after: change.before.clone(),
        ..change.clone()
    };
    let inverse = FileChanges { list: changes.list.iter().map(swap).collect(), ..FileChanges::default() };
    new_worktrees(&inverse, |change| store.restored_text(call.uuid(), &change.path))
}

impl Undo {
    fn undone(&self, arguments: &Value, run: &RunContext) -> Result<Output, String> {
        let call = call(arguments).map_err(|fault| fault.to_string())?;
        let force = arguments.get("force").and_then(Value::as_bool).unwrap_or(false);
        let words = |fault: Error| told(&fault, |path| may_read_without_asking(path, &self.manifest, run));
        let store = self.workplace.open_store().map_err(words)?;
        // An interrupted undo is an interrupted commit.
        if store.state(run.call.uuid()).map_err(words)? == CopyState::Interrupted {
            store.recover().map_err(words)?;
        }
        if store.state(run.call.uuid()).map_err(words)? == CopyState::Committed {
            return Ok(Output::text("the changes were undone"));
        }
        let since = if force { OnConflict::Overwrite } else { OnConflict::Refuse };
        let committed = store.undo(call.uuid(), run.call.uuid(), since).map_err(words)?;
        let mut output = Output::text(format!("undid {call}: {}", summarize_changes(&committed.changes)));
        for path in &committed.outputs.placed {
            output.text.push_str(&format!("\n`{}` is as it was before", path.escape_debug()));
        }
        for (path, why) in &committed.outputs.not_placed {
            let (path, why) = (path.escape_debug(), why.escape_debug());
            output.text.push_str(&format!("\n`{path}` is left as it is: {why}"));
        }
        output.undo = undo_data(run, &committed.changes);
        Ok(output)
    }
}

/// Returns why nothing was reverted. Conflicts include the texts of both sides, if they may be read.
fn told(fault: &Error, may_be_read: impl Fn(&str) -> bool) -> String {
    let Error::Conflicts(conflicts) = fault else { return fault.to_string() };
    let mut why = "nothing was undone, because these files were changed since:".to_owned();
    for conflict in conflicts {
        why.push_str(&format!("\n  `{}`: {}", conflict.path.escape_debug(), conflict.reason));
        // The right to restore a file does not include the right to read what others have written into it since.
        if let Some(text) = Conflict::merge_text(conflict).filter(|_| may_be_read(&conflict.path)) {
            text.lines().for_each(|line| why.push_str(&format!("\n    │ {}", line.escape_debug())));
        }
    }
    why.push_str("\nto undo anyway, use `force`: the store keeps the current content");
    why
}
