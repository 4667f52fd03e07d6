//! The two things that are judged, as tools of the gate: a call that an agent asks leave for, and a file that it writes through
//! its editor. Executing one is being allowed to go ahead: who does it is the agent, or the editor, outside of our sandbox.

use byleave::catalog::NotRegistered;
use byleave::core::effect::{Effect, Plan};
use byleave::core::manifest::{Class, Manifest, Role};
use byleave::core::outcome::Output;
use byleave::gate::Gate;
use byleave::pending::Pending;
use byleave::plan::by_class;
use byleave::tool::{Run, Site, Tool, ToolFault};
use serde_json::{Value, json};

use crate::foreign::{Told, told};

/// The tool that stands for a call of the agent's own.
pub(crate) const CALL: &str = "acp_call";
/// The tool that stands for a file that the editor writes for the agent.
pub(crate) const WRITE: &str = "acp_write";

/// Puts both into a gate: who answers questions about them must know them.
pub fn equip(gate: &Gate) -> Result<(), NotRegistered> {
    for which in [Which::Call, Which::Write] {
        if !gate.catalog().has(which.name()) {
            gate.catalog().replace(Judged::new(which))?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Which {
    Call,
    Write,
}

impl Which {
    const fn name(self) -> &'static str {
        match self {
            Self::Call => CALL,
            Self::Write => WRITE,
        }
    }
}

struct Judged {
    which: Which,
    manifest: Manifest,
}

impl Judged {
    fn new(which: Which) -> Self {
        let (description, operation) = match which {
            Which::Call => (
                "A tool call of the agent's own: judged and recorded, and done by the agent, unconfined.",
                "invoke",
            ),
            Which::Write => (
                "A file that the editor writes for the agent: judged and recorded, and done by the editor.",
                "write",
            ),
        };
        let schema = match which {
            Which::Call => json!({ "type": "object" }),
            Which::Write => json!({
                "type": "object",
                "properties": { "path": { "type": "string" }, "content": { "type": "string" } },
                "required": ["path", "content"],
            }),
        };
        let mut manifest = Manifest::new(which.name(), description, schema);
        manifest.audit_operation = Some(format!("{operation}, by the agent: judged, not enforced"));
        // What it does is told by its effects; a call whose effects are not known asks.
        manifest.sensitive = Some(false);
        manifest.permission_class = Class::File;
        if matches!(which, Which::Write) {
            manifest.roles.insert("/path".to_owned(), Role::WritePath);
        }
        Self { which, manifest }
    }
}

impl Tool for Judged {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn plan<'a>(
        &'a self,
        arguments: &'a Value,
        site: &'a Site,
    ) -> Option<Pending<'a, Result<Plan, ToolFault>>> {
        match self.which {
            Which::Write => None,
            Which::Call => Some(Box::pin(async move { plan(arguments, site) })),
        }
    }

    fn execute(&self, _arguments: Value, _run: Run) -> Pending<'_, Output> {
        let said = match self.which {
            Which::Call => "the agent may go ahead; what it does is not confined by us",
            Which::Write => "the editor is told to write it",
        };
        Box::pin(async move { Output::text(said) })
    }
}

fn plan(arguments: &Value, site: &Site) -> Result<Plan, ToolFault> {
    let Told { targets, unknown } = told(arguments);
    // Of the class of commands: effects are what its roles say, and nothing is added for being called.
    let mut manifest = Manifest::of_commands(CALL);
    for (pointer, role) in [
        ("/commands", Role::Command),
        ("/edits", Role::EditPath),
        ("/deletes", Role::DeletePath),
        ("/urls", Role::Url),
        ("/patches", Role::Patch),
    ] {
        manifest.roles.insert(pointer.to_owned(), role);
    }
    let mut plan = by_class(&manifest, &targets, site)?;
    plan.effects.extend(unknown.into_iter().map(|why| Effect::Unknown { why }));
    Ok(plan)
}
