//! A stream of a provider, heard to its end. What is cut off is no answer, and what is not exactly a call is none.

use std::collections::{HashMap, HashSet};

use futures::StreamExt;
use genai::chat::{ChatStream, ChatStreamEvent, ContentPart, StopReason, StreamEnd, ToolCall};
use serde_json::{Map, Value};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use super::Kind;
use crate::blocks;
use crate::model::{Call, Flaw, Heard, Listener, Said, Stop, Thought, Usage};

/// A model says at most so many bytes in a turn, thoughts and arguments included.
const SAID_BYTES_MAX: usize = 16 << 20;

/// Why a stream came to no answer.
pub(super) enum Broken {
    /// It ended before its end.
    Off,
    /// It does not end.
    Endless,
    /// Something was in the way.
    By(Box<genai::Error>),
}

/// What is kept of a stream until it ends.
#[derive(Default)]
struct Kept {
    text: String,
    thought: String,
    /// The arguments of each call so far, as they were written, by the call's id.
    written: HashMap<String, String>,
    shaping: HashSet<String>,
}

/// Hears a stream to its end.
pub(super) async fn hear(kind: Kind, mut stream: ChatStream, heard: Listener<'_>) -> Result<Said, Broken> {
    let mut kept = Kept::default();
    // `genai` logs what a provider says, and a provider may say the key.
    while let Some(event) = stream.next().with_subscriber(Dispatch::none()).await {
        match event.map_err(|error| Broken::By(Box::new(error)))? {
            ChatStreamEvent::Chunk(chunk) => {
                heard(Heard::Text(&chunk.content));
                kept.text.push_str(&chunk.content);
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                heard(Heard::Thought(&chunk.content));
                kept.thought.push_str(&chunk.content);
            }
            ChatStreamEvent::ToolCallChunk(chunk) => kept.shape(chunk.tool_call, heard),
            ChatStreamEvent::End(end) if is_whole(kind, &end) => return Ok(kept.said(kind, end)),
            ChatStreamEvent::End(_) => return Err(Broken::Off),
            ChatStreamEvent::Start
            | ChatStreamEvent::ThoughtSignatureChunk(_)
            | ChatStreamEvent::Heartbeat => {}
        }
        if kept.bytes() > SAID_BYTES_MAX {
            return Err(Broken::Endless);
        }
    }
    Err(Broken::Off)
}

/// Whether the provider ended it. For these two, `genai` makes up an end where the connection was merely closed.
fn is_whole(kind: Kind, end: &StreamEnd) -> bool {
    match kind {
        Kind::OpenAi | Kind::Anthropic => true,
        Kind::Gemini => end.captured_stop_reason.is_some(),
        Kind::Ollama => end.captured_stop_reason.is_some() || end.captured_usage.is_some(),
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        self.text.len() + self.thought.len() + self.written.values().map(String::len).sum::<usize>()
    }

    fn shape(&mut self, call: ToolCall, heard: Listener<'_>) {
        // What comes whole comes once.
        let is_whole = !call.fn_arguments.is_string();
        if !call.fn_name.is_empty() && (is_whole || self.shaping.insert(call.call_id.clone())) {
            heard(Heard::Call(&call.fn_name));
        }
        if let Value::String(written) = call.fn_arguments {
            self.written.insert(call.call_id, written);
        }
    }

    fn said(mut self, kind: Kind, end: StreamEnd) -> Said {
        let stop = match end.captured_stop_reason {
            Some(StopReason::MaxTokens(_)) => Stop::Length,
            Some(StopReason::ToolCall(_)) => Stop::Calls,
            Some(StopReason::ContentFilter(_)) => Stop::Filtered,
            Some(StopReason::Other(word)) => Stop::Named(word),
            Some(StopReason::Completed(_) | StopReason::StopSequence(_)) | None => Stop::Done,
        };
        let (thoughts, asked) =
            parts(end.captured_content.map(|content| content.into_parts()).unwrap_or_default());
        let thoughts = if thoughts.iter().any(|thought| !thought.text.is_empty()) || self.thought.is_empty() {
            thoughts
        } else {
            let whole = Thought { text: std::mem::take(&mut self.thought), seal: Value::Null };
            std::iter::once(whole).chain(thoughts).collect()
        };
        let (calls, flaws) = self.calls(kind, asked, &stop);
        Said {
            by: String::new(),
            text: self.text,
            thoughts,
            stop: if calls.is_empty() { stop } else { called(stop) },
            calls,
            flaws,
            usage: end.captured_usage.map(usage).unwrap_or_default(),
        }
    }

    /// The calls that are calls, and what is wrong with the others.
    fn calls(&self, kind: Kind, mut asked: Vec<ToolCall>, stop: &Stop) -> (Vec<Call>, Vec<Flaw>) {
        if kind == Kind::Gemini {
            number(&mut asked);
        }
        let (mut calls, mut flaws) = (Vec::new(), Vec::new());
        if asked.is_empty() && *stop == Stop::Calls {
            let what = "no tool was called: a call was announced, but none could be read";
            flaws.push(Flaw { what: what.to_owned() });
        }
        let mut ids = HashMap::<String, usize>::new();
        for call in &asked {
            *ids.entry(call.call_id.clone()).or_default() += 1;
        }
        for call in asked {
            let ToolCall { call_id: id, fn_name: name, fn_arguments, thought_signatures } = call;
            let args = if name.trim().is_empty() {
                Err("it has no name, expected the name of a tool".to_owned())
            } else if ids.get(&id) != Some(&1) {
                Err(format!("the id `{id}` stands for several calls, expected one"))
            } else {
                self.args(kind, &id, fn_arguments, stop)
            };
            match args {
                Ok(args) => {
                    let seal = thought_signatures.and_then(|seals| seals.into_iter().next());
                    let seal = seal.filter(|_| kind == Kind::Gemini);
                    calls.push(Call { id, name, args, reason: None, seal });
                }
                Err(why) => flaws.push(Flaw { what: format!("the call of `{name}` was not run: {why}") }),
            }
        }
        (calls, flaws)
    }

    /// The arguments of a call, as they were written.
    fn args(&self, kind: Kind, id: &str, parsed: Value, stop: &Stop) -> Result<Map<String, Value>, String> {
        match kind {
            // Read again from what was written: of a key that stands twice, `genai` takes one.
            Kind::OpenAi | Kind::Anthropic => match self.written.get(id).map(|written| written.trim()) {
                None => Err("its arguments were lost, expected a JSON object".to_owned()),
                // How these say that there are none; or it was cut off before the first.
                Some("") if *stop != Stop::Length => Ok(Map::new()),
                Some(written) => blocks::read_args(written).map_err(|place| {
                    let blocks::Place { line, column, what, near } = place;
                    let what = what.replace("the block ends", "they end");
                    format!("its arguments, line {line}, column {column}: {what}; near: {near}")
                }),
            },
            Kind::Gemini | Kind::Ollama => match parsed {
                Value::Object(args) => Ok(args),
                // Left out where there are none.
                Value::Null if kind == Kind::Gemini => Ok(Map::new()),
                _ => Err("its arguments are no JSON object".to_owned()),
            },
        }
    }
}

/// Thoughts with their seals, and calls, out of what was captured. The text is what was heard.
fn parts(parts: Vec<ContentPart>) -> (Vec<Thought>, Vec<ToolCall>) {
    let (mut thoughts, mut calls) = (Vec::<Thought>::new(), Vec::new());
    for part in parts {
        match part {
            ContentPart::ThoughtSignature(seal) => {
                thoughts.push(Thought { text: String::new(), seal: Value::String(seal) });
            }
            // Its signature comes before it.
            ContentPart::ReasoningContent(text) => match thoughts.last_mut() {
                Some(thought) if thought.text.is_empty() && thought.seal.is_string() => thought.text = text,
                _ => thoughts.push(Thought { text, seal: Value::Null }),
            },
            ContentPart::Custom(block) => thoughts.push(Thought { text: String::new(), seal: block.data }),
            ContentPart::ToolCall(call) => calls.push(call),
            ContentPart::Text(_) | ContentPart::Binary(_) | ContentPart::ToolResponse(_) => {}
        }
    }
    (thoughts, calls)
}

/// Gemini gives calls no ids. Those that `genai` makes up begin again with every chunk.
fn number(calls: &mut [ToolCall]) {
    for (i, call) in calls.iter_mut().enumerate() {
        let made_up = format!("call#{}#", call.fn_name);
        if call.call_id.starts_with(&made_up) {
            call.call_id = format!("{made_up}{i}");
        }
    }
}

/// Gemini and Ollama say that they are done where they called something.
fn called(stop: Stop) -> Stop {
    match stop {
        Stop::Done => Stop::Calls,
        stop => stop,
    }
}

fn usage(usage: genai::chat::Usage) -> Usage {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    Usage {
        input_tokens: count(usage.prompt_tokens),
        cached_tokens: count(usage.prompt_tokens_details.and_then(|details| details.cached_tokens)),
        output_tokens: count(usage.completion_tokens),
    }
}
