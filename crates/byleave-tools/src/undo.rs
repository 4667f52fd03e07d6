//! `undo`: takes back what a call changed, as a call of its own that can be taken back as well.

use std::sync::Arc;

use byleave::boxed::BoxFuture;
use byleave::core::effect::{Effect, Plan};
use byleave::core::file_change::FileChanges;
use byleave::core::id::CallId;
use byleave::core::manifest::{Manifest, PermissionClass};
use byleave::core::outcome::Output;
use byleave::core::render::summary;
use byleave::tool::{RunContext, Tool, ToolContext, ToolError};
use byleave_copy::{Conflict, CopyState, Error, OnConflict};
use serde_json::{Value, json};

use crate::blocking::apart;
use crate::copy_commit::undo_of;
use crate::execution_env::ExecutionEnv;
use crate::read_permission::may_be_read;

/// Takes back what calls changed.
#[derive(Clone, Debug)]
pub struct Undo {
    manifest: Arc<Manifest>,
    workplace: ExecutionEnv,
}

impl Undo {
    /// The tool for a workplace.
    pub fn new(workplace: ExecutionEnv) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "call": {"type": "string", "format": "uuid", "description": "The call whose changes are taken back"},
                "force": {
                    "type": "boolean",
                    "description": "Also where a file was changed since: what it is now goes to the store"
                },
            },
            "required": ["call"],
            "additionalProperties": false
        });
        let mut manifest = Manifest::new("undo", "Takes back what a call changed in files.", schema);
        manifest.permission_class = PermissionClass::File;
        manifest.sensitive = Some(false);
        manifest.reversible = true;
        // What was interrupted is finished, and what is finished is only told.
        manifest.repeatable = true;
        manifest.audit_operation = Some("undo".into());
        manifest.search_hint = Some("take back undo revert changes of a call".into());
        Self { manifest: Arc::new(manifest), workplace }
    }
}

fn call(arguments: &Value) -> Result<CallId, ToolError> {
    let text = arguments.get("call").and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|_| ToolError(format!("`{}` is no id of a call", text.escape_debug())))
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
            let store = self.workplace.store().map_err(|fault| ToolError(fault.to_string()))?;
            let changes = store.changes(call.uuid()).map_err(|fault| ToolError(fault.to_string()))?;
            Ok(Plan { effects: inverse(&changes), ..Plan::default() })
        }))
    }

    fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output> {
        let undo = self.clone();
        Box::pin(apart(move || undo.undone(&arguments, &run)))
    }
}

/// What taking changes back does: what was made is removed, everything else written.
fn inverse(changes: &FileChanges) -> Vec<Effect> {
    let back = changes.list.iter().map(|change| {
        let path = change.path.clone();
        if change.before.is_none() { Effect::Delete { path } } else { Effect::Write { path } }
    });
    back.collect()
}

impl Undo {
    fn undone(&self, arguments: &Value, run: &RunContext) -> Result<Output, String> {
        let call = call(arguments).map_err(|fault| fault.to_string())?;
        let force = arguments.get("force").and_then(Value::as_bool).unwrap_or(false);
        let words = |fault: Error| told(&fault, |path| may_be_read(path, &self.manifest, run));
        let store = self.workplace.store().map_err(words)?;
        // An undo that was interrupted is a commit that was interrupted.
        if store.state(run.call.uuid()).map_err(words)? == CopyState::Interrupted {
            store.recover().map_err(words)?;
        }
        if store.state(run.call.uuid()).map_err(words)? == CopyState::Committed {
            return Ok(Output::text("it was taken back"));
        }
        let since = if force { OnConflict::Overwrite } else { OnConflict::Refuse };
        let committed = store.undo(call.uuid(), run.call.uuid(), since).map_err(words)?;
        let mut output = Output::text(format!("took back {call}: {}", summary(&committed.changes)));
        output.undo = undo_of(run, &committed.changes);
        Ok(output)
    }
}

/// Why nothing was taken back; conflicts with the texts of both sides, where they may be read.
fn told(fault: &Error, may_be_read: impl Fn(&str) -> bool) -> String {
    let Error::Conflicts(conflicts) = fault else { return fault.to_string() };
    let mut why = "nothing was taken back, because some of it was changed since:".to_owned();
    for conflict in conflicts {
        why.push_str(&format!("\n  `{}`: {}", conflict.path.escape_debug(), conflict.why));
        // Who may put a file back may not read for that what somebody else has written into it since.
        if let Some(text) = Conflict::three_way(conflict).filter(|_| may_be_read(&conflict.path)) {
            text.lines().for_each(|line| why.push_str(&format!("\n    │ {}", line.escape_debug())));
        }
    }
    why.push_str("\nto take it back all the same, use `force`: what is there now goes to the store");
    why
}
