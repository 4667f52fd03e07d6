//! `undo`: takes back what a call changed, as a call of its own that can be taken back as well.

use std::sync::Arc;

use byleave::core::change::Changes;
use byleave::core::effect::{Effect, Plan};
use byleave::core::id::CallId;
use byleave::core::manifest::{Class, Manifest};
use byleave::core::outcome::Output;
use byleave::core::render::summary;
use byleave::pending::Pending;
use byleave::tool::{Run, Site, Tool, ToolFault};
use byleave_copy::{Conflict, Fault, Since, State};
use serde_json::{Value, json};

use crate::apart::apart;
use crate::commit::undo_of;
use crate::unasked::may_be_read;
use crate::workplace::Workplace;

/// Takes back what calls changed.
#[derive(Clone, Debug)]
pub struct Undo {
    manifest: Arc<Manifest>,
    workplace: Workplace,
}

impl Undo {
    /// The tool for a workplace.
    pub fn new(workplace: Workplace) -> Self {
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
        manifest.permission_class = Class::File;
        manifest.sensitive = Some(false);
        manifest.reversible = true;
        // What was interrupted is finished, and what is finished is only told.
        manifest.repeatable = true;
        manifest.audit_operation = Some("undo".into());
        manifest.search_hint = Some("take back undo revert changes of a call".into());
        Self { manifest: Arc::new(manifest), workplace }
    }
}

fn call(arguments: &Value) -> Result<CallId, ToolFault> {
    let text = arguments.get("call").and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|_| ToolFault(format!("`{}` is no id of a call", text.escape_debug())))
}

impl Tool for Undo {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn plan<'a>(&'a self, arguments: &'a Value, _: &'a Site) -> Option<Pending<'a, Result<Plan, ToolFault>>> {
        Some(Box::pin(async move {
            let call = call(arguments)?;
            let store = self.workplace.store().map_err(|fault| ToolFault(fault.to_string()))?;
            let changes = store.changes(call.uuid()).map_err(|fault| ToolFault(fault.to_string()))?;
            Ok(Plan { effects: inverse(&changes), ..Plan::default() })
        }))
    }

    fn execute(&self, arguments: Value, run: Run) -> Pending<'_, Output> {
        let undo = self.clone();
        Box::pin(apart(move || undo.undone(&arguments, &run)))
    }
}

/// What taking changes back does: what was made is removed, everything else written.
fn inverse(changes: &Changes) -> Vec<Effect> {
    let back = changes.list.iter().map(|change| {
        let path = change.path.clone();
        if change.before.is_none() { Effect::Delete { path } } else { Effect::Write { path } }
    });
    back.collect()
}

impl Undo {
    fn undone(&self, arguments: &Value, run: &Run) -> Result<Output, String> {
        let call = call(arguments).map_err(|fault| fault.to_string())?;
        let force = arguments.get("force").and_then(Value::as_bool).unwrap_or(false);
        let words = |fault: Fault| told(&fault, |path| may_be_read(path, &self.manifest, run));
        let store = self.workplace.store().map_err(words)?;
        // An undo that was interrupted is a commit that was interrupted.
        if store.state(run.call.uuid()).map_err(words)? == State::Interrupted {
            store.recover().map_err(words)?;
        }
        if store.state(run.call.uuid()).map_err(words)? == State::Committed {
            return Ok(Output::text("it was taken back"));
        }
        let since = if force { Since::Overwrite } else { Since::Refuse };
        let committed = store.undo(call.uuid(), run.call.uuid(), since).map_err(words)?;
        let mut output = Output::text(format!("took back {call}: {}", summary(&committed.changes)));
        output.undo = undo_of(run, &committed.changes);
        Ok(output)
    }
}

/// Why nothing was taken back; conflicts with the texts of both sides, where they may be read.
fn told(fault: &Fault, may_be_read: impl Fn(&str) -> bool) -> String {
    let Fault::Conflicts(conflicts) = fault else { return fault.to_string() };
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
