//! What is said to a model and by it, in nobody's dialect, and the one trait that takes a turn.
//!
//! Plain data that is kept and read back; no network, no keys. Everything that a model said is untrusted.

mod error;

use async_trait::async_trait;
pub use error::ModelError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Whoever takes a turn in a conversation.
#[async_trait]
pub trait Model: Send + Sync {
    /// Takes one turn. What is said is handed to `heard` as it comes, and returned as a whole: the text that is returned is
    /// the text that was heard since the last [`StreamEvent::Anew`].
    ///
    /// Dropping the future ends it.
    async fn turn(
        &self,
        turn: TurnRequest<'_>,
        heard: StreamEventSink<'_>,
    ) -> Result<ModelResponse, ModelError>;
}

/// Takes what is heard while a model speaks.
pub type StreamEventSink<'a> = &'a mut (dyn FnMut(StreamEvent<'_>) + Send);

/// All that a model is given for one turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnRequest<'a> {
    /// Who it is and how it works. Empty for nothing.
    pub system: &'a str,
    /// The conversation so far.
    pub messages: &'a [ChatMessage],
    /// What it may ask for.
    pub tools: &'a [ToolSpec],
}

/// A tool, as a model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// By which it is called.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatMessage {
    /// What a person says, or who speaks in their place.
    User(String),
    /// What the model said. Its flaws are told to it, after the results of its calls.
    Said(ModelResponse),
    /// What came of the calls of the message before.
    Results(Vec<ToolResult>),
}

/// What a model said in one turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelResponse {
    /// Who said it: provider and model. Thoughts go back to nobody else.
    pub by: String,
    /// Its text, without calls.
    pub text: String,
    /// Its thoughts, where it shows them.
    pub thoughts: Vec<Reasoning>,
    /// What it asks for, in its order.
    pub calls: Vec<ToolCall>,
    /// What was meant as a call and is none: never run, never mended.
    pub flaws: Vec<InvalidToolCall>,
    /// What it cost.
    pub usage: TokenUsage,
    /// Why it stopped.
    pub stop: StopReason,
}

/// A thought, or the sealed form of one that only its provider can read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// What can be read of it.
    pub text: String,
    /// The provider's own, handed back as it came: a signature, or a whole block.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub seal: Value,
}

/// A call that a model asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id for it, by which its result is known. No two calls of one turn share it.
    pub id: String,
    /// The tool's name. Not empty; whether there is such a tool is not known here.
    pub name: String,
    /// Its arguments.
    pub args: Map<String, Value>,
    /// The model's own words on why, where the form has a place for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The provider's own, handed back as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

/// What was meant as a call and is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidToolCall {
    /// What is wrong and what was expected, for the model.
    pub what: String,
}

/// What came of a call. As JSON it has the fields that a model is told (L2), and the call's id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub call: String,
    /// The tool, by the name that the model used.
    pub tool: String,
    /// It ran, and says that it worked.
    pub success: bool,
    /// What it put out.
    pub output: String,
    /// Something was cut away.
    pub truncated: bool,
    /// How long it took.
    pub execution_time_ms: u64,
    /// What failed, or why it did not run.
    pub error: Option<String>,
}

impl ToolResult {
    /// What the model is told, as JSON: all but the id.
    pub fn told(&self) -> Value {
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

/// Tokens, as the provider counts them; nothing where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Read, those from a cache included.
    pub input_tokens: Option<u64>,
    /// Of these, read from a cache.
    pub cached_tokens: Option<u64>,
    /// Written, thoughts included.
    pub output_tokens: Option<u64>,
}

/// Why a model stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said what it had to say.
    #[default]
    Done,
    /// It waits for the results of its calls.
    Calls,
    /// It was out of tokens: what it said last may be a part.
    Length,
    /// The provider held back what it would have said.
    Filtered,
    /// The provider's own word.
    Named(String),
}

/// What is heard while a model speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamEvent<'a> {
    /// It was interrupted and begins anew: nothing that was heard before counts.
    Anew,
    /// More text.
    Text(&'a str),
    /// More of a thought.
    Thought(&'a str),
    /// A call takes shape; its arguments are not known yet.
    Call(&'a str),
}
