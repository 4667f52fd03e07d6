//! Accepting a server or its changes, as a call through the gate. A person is therefore asked and shown everything, and the
//! audit log records it.
//!
//! Byleave makes this call, and it must never be offered to an agent. It accepts exactly what its arguments show, and only if
//! the server still offers that.

use std::sync::Weak;

use byleave_gate::boxed::BoxFuture;
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::escape::is_printable;
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::manifest::{ApprovalRequirement, Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::result::{CallOutcome, CallResult};
use byleave_gate::tool::{RunContext, Tool, ToolContext, ToolError};
use serde_json::{Value, json};

use super::pins::{Drift, LaunchPin, digest};
use super::server_definition::{ServerDefinition, ServerName};

/// The name of the call that accepts a server. It is never offered to agents.
pub const ACCEPT_TOOL: &str = "mcp_accept";

/// Knows the servers and stores the accepted parts.
pub(super) trait ServerAcceptor: Send + Sync {
    /// Accepts the part that the arguments of an accepting call show, if it is still current. Returns a description.
    fn accept_arguments<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Result<String, String>>;
}

/// Accepts a server or its changes.
pub(super) struct AcceptServerTool {
    manifest: Manifest,
    servers: Weak<dyn ServerAcceptor>,
}

impl AcceptServerTool {
    pub(super) fn new(servers: Weak<dyn ServerAcceptor>) -> Self {
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
        let description =
            "Accepts an MCP server as shown: its start command, or the tools that it offers to agents.";
        let mut manifest = Manifest::new(ACCEPT_TOOL, description, schema);
        manifest.permission_class = PermissionClass::Generic;
        manifest.needs_approval = ApprovalRequirement::Always;
        manifest.idempotent = true;
        Self { manifest, servers }
    }
}

/// The context in which a person is asked to accept a server.
#[derive(Clone, Debug)]
pub struct AcceptanceContext {
    /// The tenant of the call.
    pub tenant: TenantId,
    /// The directory of the call.
    pub cwd: String,
    /// Whether the person reviews the server right now. Then no question that another process left open is in the way.
    pub at_terminal: bool,
}

impl AcceptanceContext {
    /// Returns the session of the calls that accept a server. One that a person reviews right now has its own, because a call waits for an
    /// earlier one of its session.
    pub fn session(&self, server: &ServerName) -> Result<SessionId, String> {
        let prefix = if self.at_terminal { "trust-mcp" } else { "mcp" };
        SessionId::new(format!("{prefix}-{server}")).map_err(|no| no.to_string())
    }

    /// Creates the call that accepts a part of a server.
    pub(super) fn new_call(&self, id: CallId, server: &ServerName, arguments: Value) -> Result<Call, String> {
        let session = self.session(server)?;
        let agent = AgentId::new("byleave").map_err(|no| no.to_string())?;
        Ok(Call {
            id,
            tenant: self.tenant.clone(),
            session,
            agent,
            tool: ACCEPT_TOOL.into(),
            arguments,
            reason: None,
            cwd: self.cwd.clone(),
            mode: Mode::ConfirmAll,
            dry_run: false,
        })
    }
}

impl Tool for AcceptServerTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn plan<'a>(
        &'a self,
        arguments: &'a Value,
        _site: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        let server = arguments.get("server").and_then(Value::as_str).unwrap_or_default();
        let effects = vec![Effect::mcp_invoke(server, "(accepted)")];
        // A started program and texts that a model has read cannot be taken back. No standing approval is therefore enough: a
        // person must look.
        Some(Box::pin(async move { Ok(Plan { effects, irreversible: true, ..Plan::default() }) }))
    }

    fn execute(&self, arguments: Value, _run: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async move {
            let Some(servers) = self.servers.upgrade() else {
                return Output::failure("the gateway has stopped");
            };
            match servers.accept_arguments(&arguments).await {
                Ok(said) => Output::text(said),
                Err(why) => Output::failure(why),
            }
        })
    }
}

/// Returns what a person is shown before a server is started for the first time, or in a new way.
pub(super) fn start_arguments(definition: &ServerDefinition, pin: &LaunchPin) -> Value {
    let mut start = json!({
        "started_by": definition.launch,
        "may_touch": definition.profile,
        "programs": pin.programs,
        "trusted_to_say_what_only_reads": definition.trusted,
        "may_use_the_agents_model": definition.sampling,
    });
    if let (true, Some(start)) = (definition.is_unpinned(), start.as_object_mut()) {
        let why = "the version is not pinned, so the same command may run a different program tomorrow: you are asked at every start";
        start.insert("not_pinned".into(), Value::from(why));
    }
    json!({ "server": definition.name, "start": start, "start_digest": start_digest(pin) })
}

/// Returns what a person is shown of the parts of an offer that were never accepted.
pub(super) fn offer_arguments(definition: &ServerDefinition, drift: &[Drift]) -> Value {
    let offers: Vec<Value> = drift.iter().map(shown).collect();
    json!({ "server": definition.name, "offers": offers, "offers_digest": offer_digest(drift) })
}

/// Returns the digest of how a server would be started.
pub(super) fn start_digest(pin: &LaunchPin) -> String {
    digest(&json!(pin)).to_string()
}

/// Returns the digest of the differences that would be accepted.
pub(super) fn offer_digest(drift: &[Drift]) -> String {
    digest(&json!(drift)).to_string()
}

fn shown(drift: &Drift) -> Value {
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    match drift {
        Drift::New { tool, current: now } => json!({ "new_tool": tool, "definition": now }),
        Drift::Changed { tool, accepted: was, current: now } => {
            let (was, now) = (pretty(was), pretty(now));
            json!({ "changed_tool": tool, "diff": diffy::create_patch(&was, &now).to_string() })
        }
        Drift::Instructions { accepted: was, current: now } => {
            json!({ "instructions_to_the_model": now, "before": was })
        }
    }
}

/// Returns the id of a call with these arguments on this day.
pub(super) fn daily_call_id(arguments: &Value) -> CallId {
    const DAY_MS: u64 = 24 * 3_600 * 1_000;
    let day = SystemClock.now() / DAY_MS * DAY_MS;
    let digest = digest(arguments);
    let mut random = [0; 10];
    random.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
    CallId::new(uuid::Builder::from_unix_timestamp_millis(day, &random).into_uuid())
}

/// Checks whether a value contains an invisible character.
pub(super) fn has_hidden_chars(value: &Value) -> bool {
    let hidden = |text: &str| text.chars().any(|c| !is_printable(c) && !matches!(c, '\n' | '\t'));
    match value {
        Value::String(text) => hidden(text),
        Value::Array(items) => items.iter().any(has_hidden_chars),
        Value::Object(fields) => fields.iter().any(|(name, item)| hidden(name) || has_hidden_chars(item)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns the outcome of an accepting call: an error if nothing was accepted.
pub(super) fn check_result(result: &CallResult) -> Result<(), String> {
    match &result.outcome {
        CallOutcome::Completed(_) => Ok(()),
        _ => Err(result.error().unwrap_or_else(|| result.to_text())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_question_is_the_same_call_and_what_cannot_be_seen_is_noticed() {
        let one = json!({ "server": "a", "offers_digest": "1" });
        let other = json!({ "server": "a", "offers_digest": "2" });
        assert_ne!(daily_call_id(&one), daily_call_id(&other));
        // Except when midnight falls between the two calls.
        assert!((0..3).any(|_| daily_call_id(&one) == daily_call_id(&one)));
        assert!(!has_hidden_chars(&json!({ "description": "adds\n\tnumbers: é 数" })));
        for hidden in ["\u{1b}[8m", "\u{e0072}", "\u{202e}", "\u{200b}"] {
            assert!(
                has_hidden_chars(&json!([{ "description": hidden }]))
                    && has_hidden_chars(&json!({ hidden: 1 })),
                "{hidden:?}"
            );
        }
    }
}
