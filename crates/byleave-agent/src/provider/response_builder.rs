//! Assembles a model's response from the events of any API. Anything that is not exactly a call is an invalid call.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::retry::TransportError;
use crate::model::{
    InvalidToolCall, ModelResponse, Reasoning, StopReason, StreamEvent, StreamEventSink, TokenUsage, ToolCall,
};
use crate::tool_blocks;

/// The maximum size of a response, including reasoning and arguments.
const SAID_BYTES_MAX: usize = 16 << 20;
/// The maximum size of a call's arguments, the same as for a tool block.
const ARGS_BYTES_MAX: usize = tool_blocks::BLOCK_BYTES_MAX;
/// The overhead that is counted for each call, piece of reasoning or invalid call, so that the number of empty ones is limited too.
const PIECE_BYTES: usize = 256;
/// The number of characters that are shown of a provider's word.
const WORD_CHARS: usize = 40;

/// A response that is being assembled.
pub(super) struct ResponseBuilder<'a> {
    heard: StreamEventSink<'a>,
    text: String,
    thoughts: Vec<Reasoning>,
    calls: Vec<PartialCall>,
    flaws: Vec<InvalidToolCall>,
    bytes: usize,
    pub(super) usage: TokenUsage,
    /// The stop reason, once the provider has sent it.
    pub(super) stop: Option<StopReason>,
}

/// A call that is being assembled.
#[derive(Default)]
pub(super) struct PartialCall {
    /// The id; empty if the provider gives none.
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments, as written.
    pub(super) args: String,
    pub(super) seal: Option<String>,
    /// How much text came before it. The builder sets it.
    pub(super) text_before: usize,
    /// An error that does not depend on the arguments.
    pub(super) error: Option<String>,
}

impl<'a> ResponseBuilder<'a> {
    pub(super) fn new(heard: StreamEventSink<'a>) -> Self {
        Self {
            heard,
            text: String::new(),
            thoughts: Vec::new(),
            calls: Vec::new(),
            flaws: Vec::new(),
            bytes: 0,
            usage: TokenUsage::default(),
            stop: None,
        }
    }

    /// Adds text.
    pub(super) fn text(&mut self, text: &str) -> Result<(), TransportError> {
        if !text.is_empty() {
            self.count_bytes(text.len())?;
            self.text.push_str(text);
            (self.heard)(StreamEvent::Text(text));
        }
        Ok(())
    }

    /// Adds to the reasoning that has no signature yet, or starts a new piece.
    pub(super) fn push_reasoning(&mut self, text: &str) -> Result<(), TransportError> {
        if text.is_empty() {
            return Ok(());
        }
        self.count_bytes(text.len())?;
        match self.thoughts.last_mut() {
            Some(thought) if thought.provider_data.is_null() => thought.text.push_str(text),
            _ => self.push(text.to_owned(), Value::Null)?,
        }
        (self.heard)(StreamEvent::Reasoning(text));
        Ok(())
    }

    /// Adds the signature of the last reasoning, or of one that is not shown.
    pub(super) fn sign_reasoning(&mut self, signature: &str) -> Result<(), TransportError> {
        self.count_bytes(signature.len())?;
        match self.thoughts.last_mut() {
            Some(thought) if thought.provider_data.is_null() => thought.provider_data = signature.into(),
            _ => self.push(String::new(), signature.into())?,
        }
        Ok(())
    }

    /// Adds a block that only the provider can read.
    pub(super) fn push_sealed(&mut self, block: Value) -> Result<(), TransportError> {
        self.count_bytes(block.to_string().len())?;
        self.push(String::new(), block)
    }

    /// Adds a call that may be incomplete. Returns its position, by which more can be added.
    pub(super) fn push_call(&mut self, mut call: PartialCall) -> Result<usize, TransportError> {
        let PartialCall { id, name, args, seal, .. } = &call;
        let seal_bytes = seal.as_ref().map_or(0, String::len);
        self.count_bytes(PIECE_BYTES + id.len() + name.len() + args.len() + seal_bytes)?;
        if !name.is_empty() {
            (self.heard)(StreamEvent::Call(name));
        }
        call.text_before = self.text.len();
        self.calls.push(call);
        Ok(self.calls.len() - 1)
    }

    /// Adds to the arguments of a call.
    pub(super) fn args(&mut self, place: usize, more: &str) -> Result<(), TransportError> {
        self.count_bytes(more.len())?;
        if let Some(call) = self.calls.get_mut(place) {
            call.args.push_str(more);
        }
        Ok(())
    }

    /// Returns a call so far.
    pub(super) fn partial_call(&mut self, place: usize) -> Option<&mut PartialCall> {
        self.calls.get_mut(place)
    }

    /// Adds an invalid call.
    pub(super) fn push_invalid_call(&mut self, what: String) -> Result<(), TransportError> {
        self.count_bytes(PIECE_BYTES + what.len())?;
        self.flaws.push(InvalidToolCall { message: what });
        Ok(())
    }

    /// Adds a part of an unknown kind.
    pub(super) fn push_unknown(&mut self, kind: &str) -> Result<(), TransportError> {
        self.push_invalid_call(format!(
            "a part of the kind `{}` is not supported, and nothing of it was run",
            printable_word(kind)
        ))
    }

    /// Counts the stored bytes. Returns an error if they exceed the limit.
    pub(super) fn count_bytes(&mut self, bytes: usize) -> Result<(), TransportError> {
        self.bytes += bytes;
        if self.bytes > SAID_BYTES_MAX { Err(TransportError::TooLarge) } else { Ok(()) }
    }

    fn push(&mut self, text: String, seal: Value) -> Result<(), TransportError> {
        self.count_bytes(PIECE_BYTES)?;
        self.thoughts.push(Reasoning { text, provider_data: seal });
        Ok(())
    }

    /// Returns the complete response. Calls without an id are numbered, starting after the earlier calls of the conversation.
    pub(super) fn finish(mut self, by: String, before: usize) -> ModelResponse {
        let stop = self.stop.unwrap_or_default();
        if self.calls.is_empty() && self.flaws.is_empty() && stop == StopReason::Calls {
            let what = "no tool was called: a call was announced, but none could be read";
            self.flaws.push(InvalidToolCall { message: what.to_owned() });
        }
        let mut ids = HashMap::<String, usize>::new();
        for call in self.calls.iter().filter(|call| !call.id.is_empty()) {
            *ids.entry(call.id.clone()).or_default() += 1;
        }
        let mut numbers = before + 1..;
        let mut made_up = || {
            let mut free = numbers.by_ref().map(|number| format!("call-{number}"));
            free.find(|id| !ids.contains_key(id)).unwrap_or_default()
        };
        let mut calls = Vec::new();
        for PartialCall { id, name, args, seal, text_before, error: wrong } in self.calls {
            let args = match wrong {
                Some(wrong) => Err(wrong),
                None if name.trim().is_empty() => {
                    Err("it has no name, expected the name of a tool".to_owned())
                }
                None if ids.get(&id).is_some_and(|calls| *calls > 1) => {
                    Err(format!("several calls have the id `{id}`, expected one"))
                }
                None => read(&args, &stop),
            };
            match args {
                Ok(args) => {
                    let id = if id.is_empty() { made_up() } else { id };
                    calls.push(ToolCall { id, name, args, reason: None, text_before, provider_data: seal });
                }
                Err(why) => {
                    self.flaws.push(InvalidToolCall {
                        message: format!("the call of `{name}` was not run: {why}"),
                    });
                }
            }
        }
        let stop = match stop {
            // Gemini and Ollama report a normal end even if they made calls.
            StopReason::Done if !calls.is_empty() => StopReason::Calls,
            stop => stop,
        };
        let Self { text, thoughts, flaws, usage, .. } = self;
        ModelResponse {
            model: by,
            text,
            reasoning: thoughts,
            calls,
            invalid_calls: flaws,
            usage,
            stop_reason: stop,
        }
    }
}

/// Parses the arguments of a call.
fn read(args: &str, stop: &StopReason) -> Result<Map<String, Value>, String> {
    let args = args.trim();
    if args.len() > ARGS_BYTES_MAX {
        return Err(format!("its arguments are too long, expected at most {ARGS_BYTES_MAX} bytes"));
    }
    if args.is_empty() && *stop != StopReason::Length {
        // An empty text means that there are no arguments, unless it was cut off before the first.
        return Ok(Map::new());
    }
    if !args.starts_with('{') {
        return Err("its arguments are not a JSON object".to_owned());
    }
    tool_blocks::parse_args(args).map_err(
        |tool_blocks::ErrorLocation { line, column, message: what, excerpt: near }| {
            let what = what.replace("the block ends", "they end");
            format!("its arguments, line {line}, column {column}: {what}; near: {near}")
        },
    )
}

/// Returns a provider's word in a form that can be shown.
pub(super) fn printable_word(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(WORD_CHARS).collect()
}
