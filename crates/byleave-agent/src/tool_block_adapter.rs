//! Tool calls for a model that has none, by [tool blocks](crate::tool_blocks). The system prompt describes the tools, calls are read from
//! the model's text, and results go back as JSON in a user message.
//!
//! Only blocks are calls here. A call that the provider reports is an invalid call, except for a persona that the provider hosts (L11): its
//! provider has the prompt, and may let it call tools in either way.

mod prompt;

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::model::{
    InvalidToolCall, Model, ModelError, ModelResponse, StopReason, StreamEvent, StreamEventSink, ToolCall,
    TurnRequest,
};
use crate::provider::{ProviderKind, ProviderSettings, count_calls};
use crate::tool_blocks::{ToolBlockEvent, ToolBlockParser};

/// The way in which a model calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStyle {
    /// By blocks if the model is known to have no tool calls, or if its provider says so; otherwise natively.
    #[default]
    Auto,
    /// Always natively.
    Native,
    /// Always by blocks.
    Blocks,
}

/// Name prefixes of Ollama models without tool calls. For other models the provider reports it.
const WITHOUT_CALLS: [&str; 12] = [
    "codegemma",
    "codellama",
    "deepseek-coder",
    "gemma:",
    "gemma2",
    "gemma3",
    "llama2",
    "llava",
    "phi:",
    "phi3",
    "starcoder",
    "tinyllama",
];

impl ToolCallStyle {
    /// Checks whether this model uses blocks from the start.
    fn begins_by_blocks(self, settings: &ProviderSettings) -> bool {
        match self {
            Self::Blocks => true,
            Self::Native => false,
            Self::Auto => match settings.kind {
                ProviderKind::Ollama => {
                    // Without the owner, and with a tag separator: `someone/gemma` becomes `gemma:`.
                    let name = format!("{}:", settings.model.rsplit('/').next().unwrap_or_default());
                    WITHOUT_CALLS.iter().any(|begin| name.starts_with(begin))
                }
                ProviderKind::Gemini => settings.model.starts_with("gemma"),
                ProviderKind::OpenAi | ProviderKind::Anthropic => false,
            },
        }
    }
}

/// A model that calls tools natively or by blocks.
#[derive(Debug)]
pub struct ToolBlockModel<M> {
    model: M,
    calling: ToolCallStyle,
    /// Whether only blocks are used now. Once set, it stays set.
    is_on: AtomicBool,
    /// Whether the provider has the prompt, so that none is sent.
    is_hosted: bool,
}

/// The meaning of a call that the provider reports beside the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NativeCalls {
    Accepted,
    Rejected,
}

impl<M: Model> ToolBlockModel<M> {
    /// Creates a model with these settings.
    pub fn new(model: M, settings: &ProviderSettings, calling: ToolCallStyle) -> Self {
        let is_on = AtomicBool::new(calling.begins_by_blocks(settings));
        Self { model, calling, is_on, is_hosted: false }
    }

    /// Creates a persona that its provider hosts. No prompt is sent. Calls are read from its text and from the provider's reports, unless
    /// the style chooses one of them.
    pub fn hosted(model: M, calling: ToolCallStyle) -> Self {
        let is_on = AtomicBool::new(calling == ToolCallStyle::Blocks);
        Self { model, calling, is_on, is_hosted: true }
    }

    /// Checks whether only blocks are used now.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Returns the inner model.
    pub fn inner(&self) -> &M {
        &self.model
    }

    async fn by_blocks(
        &self,
        turn: TurnRequest<'_>,
        heard: StreamEventSink<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let system =
            if self.is_hosted { String::new() } else { prompt::add_protocol(turn.system, turn.tools) };
        let messages = prompt::to_text_messages(turn.messages);
        let mut reading = ReplyParser::default();
        let inner = TurnRequest { system: &system, messages: &messages, tools: &[] };
        let said = self.model.take_turn(inner, &mut |piece| reading.hear(piece, heard)).await?;
        reading.finish(said, NativeCalls::Rejected, count_calls(turn.messages), heard)
    }

    /// Takes a turn of a hosted persona that may call tools in either way.
    async fn by_blocks_or_natively(
        &self,
        turn: TurnRequest<'_>,
        heard: StreamEventSink<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let messages = prompt::to_mixed_messages(turn.messages);
        let mut reading = ReplyParser::default();
        let inner = TurnRequest { messages: &messages, ..turn };
        let mut hear = |piece: StreamEvent<'_>| match piece {
            StreamEvent::Call(_) => heard(piece),
            _ => reading.hear(piece, heard),
        };
        let said = self.model.take_turn(inner, &mut hear).await?;
        reading.finish(said, NativeCalls::Accepted, count_calls(turn.messages), heard)
    }
}

#[async_trait]
impl<M: Model> Model for ToolBlockModel<M> {
    async fn take_turn(
        &self,
        turn: TurnRequest<'_>,
        heard: StreamEventSink<'_>,
    ) -> Result<ModelResponse, ModelError> {
        if self.is_on() {
            return self.by_blocks(turn, heard).await;
        }
        let taken = match (self.is_hosted, self.calling) {
            (true, ToolCallStyle::Auto) => {
                self.by_blocks_or_natively(TurnRequest { system: "", ..turn }, &mut *heard).await
            }
            (true, _) => self.model.take_turn(TurnRequest { system: "", ..turn }, &mut *heard).await,
            (false, _) => self.model.take_turn(turn, &mut *heard).await,
        };
        match taken {
            Err(ModelError::NoTools) if self.calling == ToolCallStyle::Auto => {
                self.is_on.store(true, Ordering::Relaxed);
                heard(StreamEvent::Restarted);
                self.by_blocks(turn, heard).await
            }
            said => said,
        }
    }
}

/// The state of parsing one reply.
#[derive(Default)]
struct ReplyParser {
    blocks: ToolBlockParser,
    heard_bytes: usize,
    text: String,
    /// The calls, each with the length of the text before it.
    calls: Vec<(usize, crate::tool_blocks::BlockCall)>,
    flaws: Vec<InvalidToolCall>,
}

impl ReplyParser {
    fn hear(&mut self, piece: StreamEvent<'_>, heard: StreamEventSink<'_>) {
        match piece {
            StreamEvent::Text(text) => {
                self.heard_bytes += text.len();
                let mut blocks = std::mem::take(&mut self.blocks);
                blocks.push(text, &mut |piece| self.take(piece, heard));
                self.blocks = blocks;
            }
            StreamEvent::Restarted => {
                *self = Self::default();
                heard(StreamEvent::Restarted);
            }
            StreamEvent::Reasoning(_) => heard(piece),
            // Native calls are not used.
            StreamEvent::Call(_) => {}
        }
    }

    fn take(&mut self, piece: ToolBlockEvent<'_>, heard: StreamEventSink<'_>) {
        match piece {
            ToolBlockEvent::Text(text) => {
                heard(StreamEvent::Text(text));
                self.text.push_str(text);
            }
            ToolBlockEvent::Call(call) => {
                heard(StreamEvent::Call(&call.name));
                self.calls.push((self.text.len(), call));
            }
            ToolBlockEvent::Error(flaw) => self.flaws.push(InvalidToolCall { message: flaw.to_string() }),
        }
    }

    fn finish(
        mut self,
        mut said: ModelResponse,
        native: NativeCalls,
        before: usize,
        heard: StreamEventSink<'_>,
    ) -> Result<ModelResponse, ModelError> {
        if self.heard_bytes != said.text.len() {
            return Err(ModelError::Unreadable {
                reason: "the streamed text differs from the final response".to_owned(),
            });
        }
        std::mem::take(&mut self.blocks).finish(&mut |piece| self.take(piece, heard));
        let reported = std::mem::take(&mut said.calls);
        // An id that looks like one of a block would send the result to the wrong call.
        let (mut native, strays): (Vec<ToolCall>, Vec<ToolCall>) = reported
            .into_iter()
            .partition(|call| native == NativeCalls::Accepted && !prompt::is_block_id(&call.id));
        self.flaws.extend(strays.iter().map(|call| InvalidToolCall {
            message: format!("the call of `{}` was not run: expected a code block tagged `tool`", call.name),
        }));
        self.flaws.extend(said.invalid_calls);
        if !self.calls.is_empty() {
            // The text has become shorter by the blocks.
            native.iter_mut().for_each(|call| call.text_before = self.text.len());
        }
        let calls: Vec<ToolCall> = (before + 1..)
            .zip(self.calls)
            .map(|(number, (text_before, call))| ToolCall {
                id: prompt::block_id(number),
                name: call.name,
                args: call.args,
                reason: call.reason,
                text_before,
                provider_data: None,
            })
            .chain(native)
            .collect();
        let stop = match said.stop_reason {
            StopReason::Done if !calls.is_empty() => StopReason::Calls,
            StopReason::Calls if calls.is_empty() => StopReason::Done,
            stop => stop,
        };
        Ok(ModelResponse { text: self.text, calls, invalid_calls: self.flaws, stop_reason: stop, ..said })
    }
}
