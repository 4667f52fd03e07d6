//! Ollama's own chat. A stream is lines of JSON and ends with one that is done.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Settings;
use super::events::json;
use super::request::{Step, present, steps};
use super::speech::{Asked, Speech, word};
use super::trouble::Broken;
use super::wire::{Now, Reader};
use crate::model::{Said, Stop, Turn, Usage};

/// The request of a turn. Thoughts do not go back: they have no seals, and their model does without.
pub(super) fn body(settings: &Settings, turn: Turn<'_>) -> Value {
    let mut messages = Vec::new();
    if !turn.system.is_empty() {
        messages.push(json!({"role": "system", "content": turn.system}));
    }
    for step in steps(turn.messages) {
        match step {
            Step::Told(text) => messages.push(json!({"role": "user", "content": text})),
            Step::Said(said) => messages.push(spoken(said)),
            Step::Results(results) => messages.extend(results.iter().map(|result| {
                json!({"role": "tool", "tool_name": result.tool, "content": result.told().to_string()})
            })),
        }
    }
    let tools: Vec<Value> = turn
        .tools
        .iter()
        .map(|tool| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.schema});
            json!({"type": "function", "function": function})
        })
        .collect();
    present(json!({
        "model": settings.model,
        "messages": messages,
        "tools": (!tools.is_empty()).then_some(tools),
        "stream": true,
        "think": settings.effort,
        "options": settings.output_tokens_max.map(|tokens| json!({"num_predict": tokens})),
    }))
}

fn spoken(said: &Said) -> Value {
    let calls: Vec<Value> = said
        .calls
        .iter()
        .map(|call| json!({"function": {"name": call.name, "arguments": call.args}}))
        .collect();
    present(json!({
        "role": "assistant",
        "content": said.text,
        "tool_calls": (!calls.is_empty()).then_some(calls),
    }))
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
    done: Option<bool>,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Message<'a> {
    content: Option<String>,
    thinking: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Default, Deserialize)]
struct Function<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// Reads a stream.
pub(super) struct Stream;

impl Reader for Stream {
    fn read(&mut self, event: &str, speech: &mut Speech<'_>) -> Result<Now, Broken> {
        let event: Event<'_> = json(event)?;
        if let Some(error) = event.error {
            return Err(Broken::error(&error));
        }
        if let Some(message) = event.message {
            speech.thought(&message.thinking.unwrap_or_default())?;
            speech.text(&message.content.unwrap_or_default())?;
            for call in message.tool_calls.unwrap_or_default() {
                let function = call.function.unwrap_or_default();
                speech.call(Asked {
                    id: call.id.unwrap_or_default(),
                    name: function.name.unwrap_or_default(),
                    args: function.arguments.map_or("null", RawValue::get).to_owned(),
                    ..Asked::default()
                })?;
            }
        }
        if event.done != Some(true) {
            return Ok(Now::GoesOn);
        }
        speech.stop = Some(stop(event.done_reason.as_deref()));
        speech.usage = Usage {
            input_tokens: event.prompt_eval_count,
            cached_tokens: None,
            output_tokens: event.eval_count,
        };
        Ok(Now::Ended)
    }
}

fn stop(reason: Option<&str>) -> Stop {
    match reason {
        None | Some("" | "stop") => Stop::Done,
        Some("length") => Stop::Length,
        Some(other) => Stop::Named(word(other)),
    }
}
