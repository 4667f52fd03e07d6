//! A turn of a model, as a call: it reaches another's host and costs money, so it goes through the gate like anything that acts.
//!
//! It is judged (a rule may deny the host, a halt stops it), it is in the book with what was asked and what was said, and whoever reads
//! the book has the conversation. Ids are worked out, not drawn: the turns of a session and the calls of a turn have the same ones
//! whoever comes to them, so nothing is made twice.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use byleave::boxed::BoxFuture;
use byleave::core::digest::Digest;
use byleave::core::effect::{Effect, Plan};
use byleave::core::id::{CallId, SessionId, TenantId};
use byleave::core::manifest::{Manifest, PermissionClass};
use byleave::core::outcome::Output;
use byleave::tool::{RunContext, Tool, ToolContext, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::{
    ChatMessage, Model, ModelError, ModelResponse, StreamEvent, ToolSpec as Offered, TurnRequest,
};

/// The name of the tool.
pub const MODEL_TURN: &str = "model_turn";
/// The longest that a model may take.
const TURN_MS_MAX: u64 = 600_000;

/// The arguments of a turn: what is new in it, and who is asked. What was before is in the book already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnArguments {
    /// Which of the session, from 0.
    pub turn: u32,
    /// What a person said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Who is asked: provider and model.
    pub model: String,
    /// Where it is asked, so that nobody goes on elsewhere unawares.
    #[serde(default)]
    pub endpoint: String,
    /// As whom.
    pub persona: String,
    /// The digest of the system prompt and the tools that it was given.
    pub prompt: Digest,
}

/// The id of a turn.
pub fn turn_id(tenant: &TenantId, session: &SessionId, turn: u32) -> CallId {
    let parts: [&[u8]; 3] = [tenant.as_str().as_bytes(), session.as_str().as_bytes(), &turn.to_be_bytes()];
    worked_out("byleave.agent.turn", &parts)
}

/// The id of a call that a model asked for in a turn.
pub fn call_id(turn: CallId, place: usize) -> CallId {
    worked_out("byleave.agent.call", &[turn.as_bytes(), &(place as u64).to_be_bytes()])
}

fn worked_out(domain: &str, parts: &[&[u8]]) -> CallId {
    let digest = Digest::of_parts(domain, parts);
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
    CallId::new(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// Hears what happens while a model speaks.
pub type StreamListener = Arc<dyn Fn(StreamEvent<'_>) + Send + Sync>;

/// What a model is given for the turn that comes.
#[derive(Clone, Debug)]
pub(crate) struct TurnInput {
    pub(crate) call: CallId,
    pub(crate) asked: TurnArguments,
    pub(crate) system: String,
    pub(crate) messages: Vec<ChatMessage>,
    pub(crate) tools: Vec<Offered>,
}

/// Where the loop lays down what the next turn needs, and the tool takes it up.
#[derive(Clone, Default)]
pub(crate) struct TurnSlot(Arc<Mutex<Option<TurnInput>>>);

impl TurnSlot {
    pub(crate) fn lay(&self, given: TurnInput) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(given);
    }

    /// For this call and no other: a model that asks for a turn gets none.
    fn take(&self, call: CallId) -> Option<TurnInput> {
        let mut laid = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        laid.take_if(|given| given.call == call)
    }
}

/// The tool that takes a turn.
pub(crate) struct ModelTurnTool {
    manifest: Manifest,
    model: Arc<dyn Model>,
    /// Where the model is, where reaching it is to be judged.
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
            },
            "required": ["turn", "model", "persona", "prompt"],
            "additionalProperties": false,
        });
        let manifest = Manifest {
            permission_class: PermissionClass::Generic,
            audit_operation: Some("turn".into()),
            sensitive: Some(false),
            // Nothing comes of a turn but words.
            repeatable: true,
            timeout_ms: Some(TURN_MS_MAX),
            ..Manifest::new(MODEL_TURN, "A turn of the model. The loop takes it; no model can.", schema)
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
                return Output::failure("only the conversation that it belongs to takes this turn");
            };
            if serde_json::from_value::<TurnArguments>(arguments).ok().as_ref() != Some(&given.asked) {
                return Output::failure("somebody changed what is asked; it was not");
            }
            let mut so_far = String::new();
            let mut hear = |heard: StreamEvent<'_>| {
                match heard {
                    StreamEvent::Anew => so_far.clear(),
                    StreamEvent::Text(text) => so_far.push_str(text),
                    StreamEvent::Thought(_) | StreamEvent::Call(_) => {}
                }
                (self.ear)(heard);
            };
            let turn = TurnRequest { system: &given.system, messages: &given.messages, tools: &given.tools };
            let said = tokio::select! {
                said = self.model.turn(turn, &mut hear) => Some(said),
                () = run.cancel.cancelled() => None,
            };
            match said {
                Some(Ok(said)) => output(&said),
                Some(Err(fault)) => unsaid(so_far, &fault.to_string(), Some(&fault)),
                None => unsaid(so_far, "it was called off", None),
            }
        })
    }
}

fn output(said: &ModelResponse) -> Output {
    match serde_json::to_value(said) {
        Ok(data) => Output::text(said.text.clone()).with_data(data),
        Err(error) => Output::failure(format!("what the model said cannot be kept: {error}")),
    }
}

/// What was heard until then is kept, for people; to the model it was never said.
fn unsaid(so_far: String, why: &str, fault: Option<&ModelError>) -> Output {
    let data = fault.and_then(|fault| serde_json::to_value(fault).ok());
    Output { text: so_far, data, ..Output::failure(why) }
}

/// A fresh name for a session.
pub fn fresh_session(kind: &str) -> Result<SessionId, byleave::core::id::InvalidNameError> {
    // The end of one is drawn by lot: 48 bits are enough for one person's conversations.
    let id = byleave::clock::fresh_id().simple().to_string();
    let end = id.get(20..).unwrap_or(&id);
    format!("{kind}-{end}").parse()
}
