//! The agent's report about its tool afterwards. It has a record of its own, which names the call that allowed it.

use byleave_gate::agent_report;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::manifest::{Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool};
use byleave_hook::HookRequest;
use serde_json::{Value, json};

use super::tickets::HookTicket;

/// The tool's name.
pub(super) const NAME: &str = agent_report::TOOL;
/// The maximum size of a tool's response that is kept.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// A tool that records its arguments.
pub(super) struct ReportedRunTool {
    manifest: Manifest,
}

impl ReportedRunTool {
    pub(super) fn new() -> Self {
        let about = "An agent's report about its own tool. Byleave did not see the run.";
        let manifest = Manifest::new(NAME, about, json!({ "type": "object" }));
        Self {
            manifest: Manifest {
                permission_class: PermissionClass::Readonly,
                audit_operation: Some("ran".into()),
                sensitive: Some(false),
                concurrency_safe: true,
                idempotent: true,
                ..manifest
            },
        }
    }
}

impl Tool for ReportedRunTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn is_nonblocking(&self) -> bool {
        true
    }

    fn execute(&self, _: Value, _: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async { Output::text("the agent's report is recorded") })
    }
}

/// Returns the arguments to record.
pub(super) fn reported_run(
    heard: &HookRequest,
    ticket: Option<&HookTicket>,
    different: Option<&str>,
) -> Value {
    let response = heard.response.as_ref().map(ToString::to_string).unwrap_or_default();
    let end = response.floor_char_boundary(RESPONSE_BYTES_MAX);
    let kept = response.get(..end).unwrap_or_default();
    json!({
        "of": ticket.map(|ticket| ticket.call),
        "session": heard.session,
        "tool": heard.tool,
        "use": heard.use_id,
        "event": heard.event,
        "different": different,
        "response": kept,
        "left_out_bytes": response.len().saturating_sub(end),
    })
}
