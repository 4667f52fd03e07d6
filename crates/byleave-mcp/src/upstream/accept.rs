//! How a person accepts a server, or what it has changed: as a call through the gate like any other, so that it is asked about,
//! shown whole, and stands in the book.
//!
//! The call is made by us and never offered to an agent. It accepts just what its arguments show, and only if that is still what
//! the server offers.

use std::sync::Weak;

use byleave::core::effect::{Effect, Plan};
use byleave::core::manifest::{Class, Manifest, NeedsApproval};
use byleave::core::outcome::Output;
use byleave::pending::Pending;
use byleave::tool::{Run, Site, Tool, ToolFault};
use serde_json::{Value, json};

use super::definition::Definition;
use super::pins::{Drift, LaunchPin, digest};

/// The name of the call by which a server is accepted. Never offered to agents.
pub const ACCEPT: &str = "mcp_accept";

/// Who knows what servers are, and keeps what was accepted of them.
pub(super) trait Keeper: Send + Sync {
    /// Accepts what the arguments of an accepting call show, if it still is so; says what that means.
    fn accepted<'a>(&'a self, arguments: &'a Value) -> Pending<'a, Result<String, String>>;
}

/// Accepts what a server is, or what it has changed.
pub(super) struct Accept {
    manifest: Manifest,
    servers: Weak<dyn Keeper>,
}

impl Accept {
    pub(super) fn new(servers: Weak<dyn Keeper>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "server": { "type": "string" },
                "start": { "type": "object" },
                "start_digest": { "type": "string" },
                "offers": { "type": "array", "items": { "type": "object" } },
                "offers_digest": { "type": "string" },
            },
            "required": ["server"],
            "additionalProperties": false,
        });
        let description = "Accepts an MCP server as it is shown: that it is started so, or that its tools are offered to agents.";
        let mut manifest = Manifest::new(ACCEPT, description, schema);
        manifest.permission_class = Class::Generic;
        manifest.needs_approval = NeedsApproval::Always;
        manifest.repeatable = true;
        Self { manifest, servers }
    }
}

impl Tool for Accept {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn plan<'a>(
        &'a self,
        arguments: &'a Value,
        _site: &'a Site,
    ) -> Option<Pending<'a, Result<Plan, ToolFault>>> {
        let server = arguments.get("server").and_then(Value::as_str).unwrap_or_default();
        let effects = vec![Effect::at_server(server, "(accepted)")];
        // What runs and what a model has read is not taken back, so no leave does for it: whoever accepts has to have looked.
        Some(Box::pin(async move { Ok(Plan { effects, irreversible: true, ..Plan::default() }) }))
    }

    fn execute(&self, arguments: Value, _run: Run) -> Pending<'_, Output> {
        Box::pin(async move {
            let Some(servers) = self.servers.upgrade() else {
                return Output::failure("nobody is there any more");
            };
            match servers.accepted(&arguments).await {
                Ok(said) => Output::text(said),
                Err(why) => Output::failure(why),
            }
        })
    }
}

/// What a person is shown before a server is started for the first time, or otherwise than before.
pub(super) fn to_start(definition: &Definition, pin: &LaunchPin) -> Value {
    let mut start = json!({
        "started_by": definition.launch,
        "may_touch": definition.profile,
        "programs": pin.programs,
        "trusted_to_say_what_only_reads": definition.trusted,
        "may_use_the_agents_model": definition.sampling,
    });
    if let (true, Some(start)) = (definition.is_unpinned(), start.as_object_mut()) {
        let why = "the version is not fixed, so another program may be run tomorrow under the same words: this is asked at every start";
        start.insert("not_pinned".into(), Value::from(why));
    }
    json!({ "server": definition.name, "start": start, "start_digest": started(pin) })
}

/// What a person is shown of what a server offers and was never accepted.
pub(super) fn to_offer(definition: &Definition, drift: &[Drift]) -> Value {
    let offers: Vec<Value> = drift.iter().map(shown).collect();
    json!({ "server": definition.name, "offers": offers, "offers_digest": offered(drift) })
}

/// The digest of how a server would be started.
pub(super) fn started(pin: &LaunchPin) -> String {
    digest(&json!(pin)).to_string()
}

/// The digest of what would be accepted.
pub(super) fn offered(drift: &[Drift]) -> String {
    digest(&json!(drift)).to_string()
}

fn shown(drift: &Drift) -> Value {
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    match drift {
        Drift::New { tool, now } => json!({ "new_tool": tool, "definition": now }),
        Drift::Changed { tool, was, now } => {
            let (was, now) = (pretty(was), pretty(now));
            json!({ "changed_tool": tool, "diff": diffy::create_patch(&was, &now).to_string() })
        }
        Drift::Instructions { was, now } => json!({ "instructions_to_the_model": now, "before": was }),
    }
}
