//! `bash`: runs a shell command, confined, on a copy of what it may write.

use std::sync::Arc;

use byleave::core::change::Changes;
use byleave::core::manifest::{Class, Manifest, Role};
use byleave::core::outcome::Output;
use byleave::pending::Pending;
use byleave::tool::{Rehearse, Run, Tool};
use byleave_copy::{Copy, Fault};
use byleave_sandbox::confinement::Confinement;
use byleave_sandbox::launch::Outcome;
use serde_json::{Value, json};

use crate::observed;
use crate::run;
use crate::workplace::{Unready, Way, Workplace};

/// Runs shell commands.
#[derive(Clone, Debug)]
pub struct Bash {
    manifest: Arc<Manifest>,
    pub(crate) workplace: Arc<Workplace>,
}

impl Bash {
    /// The tool for a workplace.
    pub fn new(workplace: Workplace) -> Self {
        let paths = |what: &str| json!({"type": "array", "items": {"type": "string"}, "description": what});
        let schema = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command, as bash reads it"},
                "write": paths("Directories outside the workspace that it writes to"),
                "read": paths("Files outside the workspace that it reads"),
            },
            "required": ["command"],
            "additionalProperties": false
        });
        let mut manifest = Manifest::new("bash", "Runs a shell command in the workspace.", schema);
        manifest.permission_class = Class::Bash;
        manifest.sensitive = Some(false);
        manifest.reversible = true;
        manifest.search_hint = Some("run a shell command or program".into());
        manifest.roles = [
            ("/command".to_owned(), Role::Command),
            ("/write".to_owned(), Role::WritePath),
            ("/read".to_owned(), Role::ReadPath),
        ]
        .into();
        Self { manifest: Arc::new(manifest), workplace: Arc::new(workplace) }
    }
}

/// The command of a call.
pub(crate) fn command(arguments: &Value) -> &str {
    arguments.get("command").and_then(Value::as_str).unwrap_or_default()
}

impl Tool for Bash {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn rehearser(&self) -> Option<&dyn Rehearse> {
        Some(self)
    }

    fn execute(&self, arguments: Value, run: Run) -> Pending<'_, Output> {
        let workplace = Arc::clone(&self.workplace);
        Box::pin(run::apart(move || execute(&workplace, command(&arguments), &run)))
    }
}

/// Runs a command that was granted, and commits what it changed at once.
fn execute(workplace: &Workplace, text: &str, run: &Run) -> Result<Output, String> {
    let mut confinement = workplace.confinement(run, false)?;
    let ready = match workplace.copied(run, &mut confinement, Way::Granted) {
        Ok(ready) => Some(ready),
        Err(Unready::Elsewhere) => return Err("another process runs this call".into()),
        Err(Unready::Not(why)) => {
            tracing::warn!(%why, "a command runs without a copy, and cannot be undone");
            None
        }
    };
    let outcome = run::run(workplace, &confinement, text, Way::Granted, run);
    let Some(ready) = ready else {
        let mut output = run::output(&confinement, &outcome?);
        output.text.push_str("[byleave] it ran without a copy: what it changed cannot be undone\n");
        return Ok(output);
    };
    drop(ready.stacks);
    let done = outcome.and_then(|outcome| kept(&ready.copy, &confinement, &outcome, run));
    if done.is_err() {
        // Nobody comes back for it, and what it holds may be large.
        discard(ready.copy);
    }
    done
}

/// Commits what a command changed, but for what no rule lets anybody change.
fn kept(copy: &Copy, confinement: &Confinement, outcome: &Outcome, run: &Run) -> Result<Output, String> {
    if run.cancel.is_cancelled() {
        return Err("it was stopped; nothing that it changed was kept".into());
    }
    let mut output = run::output(confinement, outcome);
    let changes = copy.changes().map_err(|fault| format!("nothing that it changed was kept: {fault}"))?;
    let forbidden = observed::forbidden(&changes, confinement);
    let chosen = changes.except(&forbidden);
    for path in &forbidden {
        let path = path.escape_debug();
        output.text.push_str(&format!(
            "[byleave] blocked by policy: `{path}` was not kept; ask for `write {path}`\n"
        ));
    }
    committed(copy, &chosen)?;
    output.undo = undo_of(run, &chosen);
    Ok(output)
}

/// How a call is taken back, if it changed anything.
pub(crate) fn undo_of(run: &Run, committed: &Changes) -> Option<Value> {
    (!committed.is_empty()).then(|| json!({ "call": run.call, "paths": committed.list.len() }))
}

/// Commits, and says in words why not.
pub(crate) fn committed(copy: &Copy, changes: &Changes) -> Result<(), String> {
    if changes.is_empty() {
        return copy.release().map_err(|fault| fault.to_string());
    }
    match copy.commit(changes) {
        Ok(_) => Ok(()),
        Err(Fault::Conflicts(conflicts)) => {
            let mut why =
                "nothing was changed, because the files are not as they were when it began:".to_owned();
            for conflict in &conflicts {
                why.push_str(&format!("\n  `{}`: {}", conflict.path.escape_debug(), conflict.why));
            }
            Err(why)
        }
        Err(fault) => Err(fault.to_string()),
    }
}

/// Drops a copy. What cannot be dropped now goes when its time is over.
pub(crate) fn discard(copy: Copy) {
    if let Err(fault) = copy.discard() {
        tracing::warn!(%fault, "a copy could not be dropped");
    }
}
