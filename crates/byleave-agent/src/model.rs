//! The trait for a model, and its requests and responses as plain data that no provider's format shapes.
//!
//! The data is stored and read back. This module has no network access and no keys. All output of a model is untrusted.

mod error;

use async_trait::async_trait;
pub use error::ModelError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A model that takes turns in a conversation.
#[async_trait]
pub trait Model: Send + Sync {
    /// Takes one turn. The output goes to `heard` as it arrives and is returned as a whole. The returned text is the text that `heard` got
    /// since the last [`StreamEvent::Restarted`].
    ///
    /// Dropping the future ends the turn.
    async fn take_turn(
        &self,
        turn: TurnRequest<'_>,
        heard: StreamEventSink<'_>,
    ) -> Result<ModelResponse, ModelError>;
}

/// A callback for the output of a model as it arrives.
pub type StreamEventSink<'a> = &'a mut (dyn FnMut(StreamEvent<'_>) + Send);

/// The input of a model for one turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnRequest<'a> {
    /// The system prompt. It may be empty.
    pub system: &'a str,
    /// The conversation so far.
    pub messages: &'a [ChatMessage],
    /// The tools that the model may call.
    pub tools: &'a [ToolSpec],
}

/// A tool, as described to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name by which it is called.
    pub name: String,
    /// The description.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatMessage {
    /// A message of a person, or of a program in their place.
    User(String),
    /// A response of the model. Its invalid calls are reported to it after the results of its calls.
    Response(ModelResponse),
    /// The results of the calls of the message before.
    Results(Vec<ToolResult>),
}

/// The response of a model in one turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelResponse {
    /// The provider and model. Reasoning is sent back to this model only.
    pub model: String,
    /// The text, without calls.
    pub text: String,
    /// The reasoning, if the model shows any.
    pub reasoning: Vec<Reasoning>,
    /// The calls, in the order of the model.
    pub calls: Vec<ToolCall>,
    /// Invalid calls. They are never run and never repaired.
    pub invalid_calls: Vec<InvalidToolCall>,
    /// The number of tokens used.
    pub usage: TokenUsage,
    /// Why the model stopped.
    pub stop_reason: StopReason,
}

/// A piece of reasoning, or its opaque form that only the provider can read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The readable part.
    pub text: String,
    /// The provider's own data, sent back unchanged: a signature, or a whole block.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub provider_data: Value,
}

/// A call that a model makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id, which identifies the result. It is unique within a turn.
    pub id: String,
    /// The name of the tool. It is not empty; the tool may not exist.
    pub name: String,
    /// The arguments.
    pub args: Map<String, Value>,
    /// The reason in the model's words, if the format has a field for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many bytes of the response's text precede the call.
    #[serde(default)]
    pub text_before: usize,
    /// The provider's own data, sent back unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_data: Option<String>,
}

/// The maximum length of a reason that is taken from the text before a call.
const REASON_CHARS_MAX: usize = 2_000;

impl ModelResponse {
    /// Returns the reason for a call in the model's words: the one that the call states, or else the text before the call.
    pub fn reason_for(&self, call: &ToolCall) -> Option<String> {
        if call.reason.is_some() {
            return call.reason.clone();
        }
        let before = self.text.get(..call.text_before).unwrap_or(&self.text).trim();
        let mut reason: String = before.chars().take(REASON_CHARS_MAX).collect();
        if reason.len() < before.len() {
            reason.pop();
            reason.push('…');
        }
        (!reason.is_empty()).then_some(reason)
    }
}

/// Output that was meant as a call but is not a valid one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidToolCall {
    /// The error and what was expected, for the model.
    pub message: String,
}

/// The result of a call. As JSON it has the fields that a model gets (L2), and the id of the call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub call_id: String,
    /// The name of the tool, as the model wrote it.
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

impl ToolResult {
    /// Returns the JSON that the model gets: all fields but the id.
    pub fn to_model_json(&self) -> Value {
        serde_json::json!({
            "tool": self.tool,
            "success": self.success,
            "output": self.output,
            "truncated": self.truncated,
            "execution_time_ms": self.execution_time_ms,
            "error": self.error,
        })
    }
}

/// The number of tokens as counted by the provider; `None` if it does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Tokens read, including those from a cache.
    pub input_tokens: Option<u64>,
    /// Tokens read from a cache.
    pub cached_tokens: Option<u64>,
    /// Tokens written, including reasoning.
    pub output_tokens: Option<u64>,
}

/// The reason why a model stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had finished.
    #[default]
    Done,
    /// It waits for the results of its calls.
    Calls,
    /// It reached the token limit, so its last output may be incomplete.
    Length,
    /// The provider held its output back.
    Filtered,
    /// Another reason, in the provider's word.
    Other(String),
}

/// An event while a model generates output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamEvent<'a> {
    /// The stream was interrupted and starts again. Everything received before is void.
    Restarted,
    /// More text.
    Text(&'a str),
    /// More reasoning.
    Reasoning(&'a str),
    /// A call has begun; its arguments are not known yet.
    Call(&'a str),
}
