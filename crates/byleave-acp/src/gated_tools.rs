//! The two intercepted requests as tools of the gate: a call that an agent asks permission for, and a file write through the editor.
//! Executing such a tool only gives permission. The agent or the editor does the work, outside of Byleave's sandbox.

use byleave_gate::boxed::BoxFuture;
use byleave_gate::catalog::RegisterError;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::gate::Gate;
use byleave_gate::plan::plan_by_class;
use byleave_gate::tool::{RunContext, Tool, ToolContext, ToolError};
use serde_json::{Value, json};

use crate::tool_call_effects::{ToolCallEffects, analyze_tool_call};

/// The tool that represents a call of the agent itself.
pub(crate) const CALL_TOOL: &str = "acp_call";
/// The tool that represents a file write by the editor for the agent.
pub(crate) const WRITE_TOOL: &str = "acp_write";

/// Registers both tools in a gate. A process that answers questions about them needs them too.
pub fn register_tools(gate: &Gate) -> Result<(), RegisterError> {
    for which in [AcpToolKind::Call, AcpToolKind::Write] {
        if !gate.catalog().contains(which.name()) {
            gate.catalog().replace(AcpTool::new(which))?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum AcpToolKind {
    Call,
    Write,
}

impl AcpToolKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Call => CALL_TOOL,
            Self::Write => WRITE_TOOL,
        }
    }
}

struct AcpTool {
    which: AcpToolKind,
    manifest: Manifest,
}

impl AcpTool {
    fn new(which: AcpToolKind) -> Self {
        let (description, operation) = match which {
            AcpToolKind::Call => (
                "A tool call of the agent itself: evaluated and recorded by Byleave, run by the agent, unconfined.",
                "invoke",
            ),
            AcpToolKind::Write => (
                "A file that the editor writes for the agent: evaluated and recorded by Byleave, written by the editor.",
                "write",
            ),
        };
        let schema = match which {
            AcpToolKind::Call => json!({ "type": "object" }),
            AcpToolKind::Write => json!({
                "type": "object",
                "properties": { "path": { "type": "string" }, "content": { "type": "string" } },
                "required": ["path", "content"],
            }),
        };
        let mut manifest = Manifest::new(which.name(), description, schema);
        manifest.audit_operation = Some(format!("{operation}, by the agent: evaluated, not enforced"));
        // Its effects say what it does. A call with unknown effects asks.
        manifest.sensitive = Some(false);
        manifest.permission_class = PermissionClass::File;
        if matches!(which, AcpToolKind::Write) {
            manifest.roles.insert("/path".to_owned(), ArgumentRole::WritePath);
        }
        Self { which, manifest }
    }
}

impl Tool for AcpTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn plan<'a>(
        &'a self,
        arguments: &'a Value,
        site: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        match self.which {
            AcpToolKind::Write => None,
            AcpToolKind::Call => Some(Box::pin(async move { plan(arguments, site) })),
        }
    }

    fn execute(&self, _arguments: Value, _run: RunContext) -> BoxFuture<'_, Output> {
        let said = match self.which {
            AcpToolKind::Call => "the agent may proceed; Byleave does not confine it",
            AcpToolKind::Write => "the editor may write the file",
        };
        Box::pin(async move { Output::text(said) })
    }
}

fn plan(arguments: &Value, site: &ToolContext) -> Result<Plan, ToolError> {
    let ToolCallEffects { targets, unknown } = analyze_tool_call(arguments);
    // It has the class of commands: its effects are those of its roles, and none is added for the call itself.
    let mut manifest = Manifest::for_commands(CALL_TOOL);
    for (pointer, role) in [
        ("/commands", ArgumentRole::Command),
        ("/edits", ArgumentRole::EditPath),
        ("/deletes", ArgumentRole::DeletePath),
        ("/urls", ArgumentRole::Url),
        ("/patches", ArgumentRole::Patch),
    ] {
        manifest.roles.insert(pointer.to_owned(), role);
    }
    let mut plan = plan_by_class(&manifest, &targets, site)?;
    plan.effects.extend(unknown.into_iter().map(|why| Effect::Unknown { reason: why }));
    Ok(plan)
}
