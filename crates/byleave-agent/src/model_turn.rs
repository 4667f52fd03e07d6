//! A turn of a model as a call. It reaches another host and costs money, so it goes through the gate like every other action.
//!
//! The turn is evaluated: a rule may deny the host, and a halt stops it. The audit log has the request and the response, and thus the
//! conversation. Ids are derived and not random. The turns of a session and the calls of a turn have the same ids for every process, so
//! nothing is done twice.

use std::borrow::Cow;
use std::sync::Arc;

use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{CallId, SessionId, TenantId};
use byleave_gate::core::manifest::{Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool, ToolContext, ToolError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::{
    ChatMessage, Model, ModelError, ModelResponse, StreamEvent, ToolSpec as Offered, TurnRequest,
};

/// The name of the tool.
pub const MODEL_TURN: &str = "model_turn";
/// The maximum time of a turn.
const TURN_MS_MAX: u64 = 600_000;

/// The arguments of a turn: the new message, and the model. Everything before is already in the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnArguments {
    /// The number of the turn in the session, from 0.
    pub turn: u32,
    /// The message of a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The provider and model.
    pub model: String,
    /// The endpoint of the model, so that a conversation does not silently continue with another one.
    #[serde(default)]
    pub endpoint: String,
    /// The name of the persona.
    pub persona: String,
    /// The digest of the system prompt and the tools of the turn.
    pub prompt: Digest,
    /// Whether the calls of the turn are dry runs. The turn itself is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Returns the id of a turn.
pub fn turn_id(tenant: &TenantId, session: &SessionId, turn: u32) -> CallId {
    let parts: [&[u8]; 3] = [tenant.as_str().as_bytes(), session.as_str().as_bytes(), &turn.to_be_bytes()];
    worked_out("byleave.agent.turn", &parts)
}

/// Returns the id of a call that a model made in a turn.
pub fn call_id(turn: CallId, place: usize) -> CallId {
    worked_out("byleave.agent.call", &[turn.as_bytes(), &(place as u64).to_be_bytes()])
}

fn worked_out(domain: &str, parts: &[&[u8]]) -> CallId {
    let digest = Digest::compute_parts(domain, parts);
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
    CallId::new(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// A listener for the output of a model as it arrives.
pub type StreamListener = Arc<dyn Fn(StreamEvent<'_>) + Send + Sync>;

/// The input of a model for the next turn.
#[derive(Clone, Debug)]
pub(crate) struct TurnInput {
    pub(crate) call: CallId,
    pub(crate) arguments: TurnArguments,
    pub(crate) system: String,
    pub(crate) messages: Vec<ChatMessage>,
    pub(crate) tools: Vec<Offered>,
}

/// A slot through which the loop passes the input of the next turn to the tool.
#[derive(Clone, Default)]
pub(crate) struct TurnSlot(Arc<Mutex<Option<TurnInput>>>);

impl TurnSlot {
    pub(crate) fn put(&self, given: TurnInput) {
        *self.0.lock() = Some(given);
    }

    /// Takes the input if it is for this call. A model that calls this tool itself gets nothing.
    fn take(&self, call: CallId) -> Option<TurnInput> {
        let mut laid = self.0.lock();
        laid.take_if(|given| given.call == call)
    }
}

/// The tool that takes a turn.
pub(crate) struct ModelTurnTool {
    manifest: Manifest,
    model: Arc<dyn Model>,
    /// The host of the model, if reaching it is to be evaluated.
    host: Option<(String, u16)>,
    desk: TurnSlot,
    ear: StreamListener,
}

impl ModelTurnTool {
    pub(crate) fn new(
        model: Arc<dyn Model>,
        host: Option<(String, u16)>,
        desk: TurnSlot,
        ear: StreamListener,
    ) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "turn": { "type": "integer", "minimum": 0 },
                "user": { "type": "string" },
                "model": { "type": "string" },
                "endpoint": { "type": "string" },
                "persona": { "type": "string" },
                "prompt": { "type": "string" },
                "dry_run": { "type": "boolean" },
            },
            "required": ["turn", "model", "persona", "prompt"],
            "additionalProperties": false,
        });
        let manifest = Manifest {
            permission_class: PermissionClass::Generic,
            audit_operation: Some("turn".into()),
            sensitive: Some(false),
            // A turn has no effect but its text.
            idempotent: true,
            timeout_ms: Some(TURN_MS_MAX),
            ..Manifest::new(MODEL_TURN, "A turn of the model. Only the agent loop can call it.", schema)
        };
        Self { manifest, model, host, desk, ear }
    }
}

impl Tool for ModelTurnTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn describe(&self, _site: &ToolContext) -> Cow<'_, str> {
        Cow::Borrowed(&self.manifest.description)
    }

    fn plan<'a>(
        &'a self,
        _arguments: &'a Value,
        _site: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        let effect = match &self.host {
            Some((host, port)) => Effect::Reach { host: host.clone(), port: *port },
            None => Effect::Invoke { tool: MODEL_TURN.into() },
        };
        Some(Box::pin(async move { Ok(Plan { effects: vec![effect], ..Plan::default() }) }))
    }

    fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async move {
            let Some(given) = self.desk.take(run.call) else {
                return Output::failure("only the conversation of this turn can run it");
            };
            if serde_json::from_value::<TurnArguments>(arguments).ok().as_ref() != Some(&given.arguments) {
                return Output::failure(
                    "a reviewer or a person modified the request; the model was not called",
                );
            }
            let mut so_far = String::new();
            let mut hear = |heard: StreamEvent<'_>| {
                match heard {
                    StreamEvent::Restarted => so_far.clear(),
                    StreamEvent::Text(text) => so_far.push_str(text),
                    StreamEvent::Reasoning(_) | StreamEvent::Call(_) => {}
                }
                (self.ear)(heard);
            };
            let turn = TurnRequest { system: &given.system, messages: &given.messages, tools: &given.tools };
            let said = tokio::select! {
                said = self.model.take_turn(turn, &mut hear) => Some(said),
                () = run.cancel.cancelled() => None,
            };
            match said {
                Some(Ok(said)) => output(&said),
                Some(Err(fault)) => unsaid(so_far, &fault.to_string(), Some(&fault)),
                None => unsaid(so_far, "the turn was cancelled", None),
            }
        })
    }
}

fn output(said: &ModelResponse) -> Output {
    match serde_json::to_value(said) {
        Ok(data) => Output::text(said.text.clone()).with_data(data),
        Err(error) => Output::failure(format!("cannot store the response of the model: {error}")),
    }
}

/// Returns a failure with the text received until then. It is kept for people; the model does not get it.
fn unsaid(so_far: String, why: &str, fault: Option<&ModelError>) -> Output {
    let data = fault.and_then(|fault| serde_json::to_value(fault).ok());
    Output { text: so_far, data, ..Output::failure(why) }
}

/// Returns a new name for a session.
pub fn new_session_id(kind: &str) -> Result<SessionId, byleave_gate::core::id::InvalidNameError> {
    // The end of the id is random: 48 bits are enough for one person's conversations.
    let id = byleave_gate::clock::fresh_id().simple().to_string();
    let end = id.get(20..).unwrap_or(&id);
    format!("{kind}-{end}").parse()
}
