//! A conversation as messages for people, with roles, times, calls and results (L6), in Markdown, as one HTML page, and as JSON.
//!
//! It is a projection: all of it is read from the audit log, and none of it is stored.

mod html;
mod markdown;

use byleave_gate::core::call::Millis;
use byleave_gate::core::id::CallId;
use serde::Serialize;
use serde_json::{Map, Value};

pub use html::render_html;
pub use markdown::render_markdown;

use crate::conversation::{Conversation, RecordedCall, RecordedTurn, TurnResult};
use crate::limits::TaskUsage;
use crate::model;

/// A conversation for export.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History {
    /// The session of the conversation.
    pub session: String,
    /// The name of the persona.
    pub persona: String,
    /// Provider and model.
    pub model: String,
    /// When it began.
    pub started_at: Millis,
    /// Whether its calls are dry runs.
    pub dry_run: bool,
    /// The resources that the conversation used.
    pub used: TaskUsage,
    /// The messages, in order.
    pub messages: Vec<HistoryMessage>,
}

/// One message. As JSON, every message has all of these fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryMessage {
    /// The id, unique in the conversation: the id of the turn or call that the message belongs to, and the role.
    pub id: String,
    /// The author.
    pub role: MessageRole,
    /// Its text.
    pub content: String,
    /// The model's thoughts, if it shows any.
    pub thoughts: Vec<String>,
    /// The time of the message.
    pub timestamp: Millis,
    /// The calls of the model.
    pub calls: Vec<HistoryCall>,
    /// The result of a call, in a message of a tool.
    pub result: Option<HistoryResult>,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// A person.
    User,
    /// The model.
    Assistant,
    /// A tool, or the gate before it.
    Tool,
}

/// A call that a model made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryCall {
    /// The id in the audit log.
    pub call: CallId,
    /// The tool, as the model named it.
    pub tool: String,
    /// The arguments, as the model wrote them.
    pub arguments: Map<String, Value>,
    /// The reason that the model states for the call.
    pub reason: Option<String>,
    /// The id of the call at the provider.
    pub provider_id: String,
}

/// The result of a call: the outcome, and what the model got.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryResult {
    /// The id of the call in the audit log.
    pub call: CallId,
    /// The outcome in a word: how the call ended, or that it is open or was not made.
    pub outcome: String,
    /// The tool, as the model named it.
    pub tool: String,
    /// Whether the model has a result: the tool reports success, or a person answered in its place.
    pub success: bool,
    /// The output.
    pub output: String,
    /// Whether the output was truncated.
    pub truncated: bool,
    /// The duration in milliseconds.
    pub execution_time_ms: u64,
    /// The error, or why the call did not run.
    pub error: Option<String>,
}

impl History {
    /// Creates the history of a conversation.
    pub fn from_conversation(session: &str, conversation: &Conversation) -> Self {
        let turns = &conversation.turns;
        let last = conversation.last_known_turn();
        Self {
            session: session.to_owned(),
            persona: last.map_or_else(String::new, |taken| taken.arguments.persona.clone()),
            model: last.map_or_else(String::new, |taken| taken.arguments.model.clone()),
            started_at: turns.first().map_or(0, |taken| taken.at),
            dry_run: conversation.is_dry_run().unwrap_or(false),
            used: TaskUsage::from_turns(turns, None),
            messages: turns.iter().flat_map(messages).collect(),
        }
    }

    /// Returns the first line of the first message of a person.
    pub fn title(&self) -> &str {
        let first = self.messages.iter().find(|message| message.role == MessageRole::User);
        first.and_then(|message| message.content.lines().next()).unwrap_or_default()
    }

    /// Checks whether the history contains a text, ignoring case.
    pub fn contains_text(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let within = |place: &str| place.to_lowercase().contains(&text);
        self.messages.iter().any(|message| {
            within(&message.content)
                || message.calls.iter().any(|call| {
                    within(&call.tool) || within(&Value::Object(call.arguments.clone()).to_string())
                })
        })
    }
}

fn messages(taken: &RecordedTurn) -> Vec<HistoryMessage> {
    let id = |whose: &str| format!("{}-{whose}", taken.call);
    let mut messages = Vec::new();
    if let Some(text) = &taken.arguments.user {
        messages.push(plain(id("user"), MessageRole::User, text.clone(), taken.at));
    }
    match &taken.result {
        None => {}
        Some(TurnResult::NoResponse { reason: why, partial_text: heard }) => {
            let gap = if heard.is_empty() { "" } else { "\n\n" };
            let text = format!("{heard}{gap}[byleave] the model gave no complete response: {why}");
            messages.push(plain(id("assistant"), MessageRole::Assistant, text, taken.at));
        }
        Some(TurnResult::Response(said)) => {
            let mut content = said.text.clone();
            for flaw in &said.invalid_calls {
                content.push_str(&format!("\n\n[byleave] {}", flaw.message));
            }
            let calls = said.calls.iter().zip(&taken.calls).map(|(call, made)| HistoryCall {
                call: made.call,
                tool: call.name.clone(),
                arguments: call.args.clone(),
                reason: call.reason.clone(),
                provider_id: call.id.clone(),
            });
            let thoughts = said.reasoning.iter().map(|thought| thought.text.clone());
            messages.push(HistoryMessage {
                // Thoughts that only the provider can read are empty.
                thoughts: thoughts.filter(|thought| !thought.is_empty()).collect(),
                calls: calls.collect(),
                ..plain(id("assistant"), MessageRole::Assistant, content, taken.at)
            });
            messages
                .extend(said.calls.iter().zip(&taken.calls).map(|(call, made)| result(call, made, taken.at)));
        }
    }
    messages
}

fn plain(id: String, role: MessageRole, content: String, timestamp: Millis) -> HistoryMessage {
    HistoryMessage { id, role, content, thoughts: Vec::new(), timestamp, calls: Vec::new(), result: None }
}

fn result(call: &model::ToolCall, made: &RecordedCall, at: Millis) -> HistoryMessage {
    let told = made.to_tool_result(call);
    let outcome = match &made.result {
        Some(result) => result.outcome.as_str(),
        None if made.at.is_some() => "open",
        None => "not made",
    };
    let content = match (&told.error, told.output.is_empty()) {
        (None, _) => told.output.clone(),
        (Some(error), true) => error.clone(),
        (Some(error), false) => format!("{error}\n{}", told.output),
    };
    let model::ToolResult { call_id: _, tool, success, output, truncated, execution_time_ms, error } = told;
    let (call, outcome) = (made.call, outcome.to_owned());
    let result = HistoryResult { call, outcome, tool, success, output, truncated, execution_time_ms, error };
    let id = format!("{call}-tool");
    HistoryMessage { result: Some(result), ..plain(id, MessageRole::Tool, content, made.at.unwrap_or(at)) }
}
