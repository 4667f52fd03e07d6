//! Ollama's chat API. A stream consists of lines of JSON and ends with a line that has `done`.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ProviderSettings;
use super::event_stream::parse_json;
use super::messages::{RequestMessage, drop_nulls, to_request_messages};
use super::response_builder::{PartialCall, ResponseBuilder, printable_word};
use super::retry::TransportError;
use super::transport::{EventParser, StreamState};
use crate::model::{ModelResponse, StopReason, TokenUsage, TurnRequest};

/// Returns the request of a turn. Reasoning does not go back: it has no signatures, and the model does not need it.
pub(super) fn build_body(settings: &ProviderSettings, turn: TurnRequest<'_>) -> Value {
    let mut messages = Vec::new();
    if !turn.system.is_empty() {
        messages.push(json!({"role": "system", "content": turn.system}));
    }
    for step in to_request_messages(turn.messages) {
        match step {
            RequestMessage::User(text) => messages.push(json!({"role": "user", "content": text})),
            RequestMessage::Response(said) => messages.push(spoken(said)),
            RequestMessage::Results(results) => messages.extend(results.iter().map(|result| {
                json!({"role": "tool", "tool_name": result.tool, "content": result.to_model_json().to_string()})
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
    drop_nulls(json!({
        "model": settings.model,
        "messages": messages,
        "tools": (!tools.is_empty()).then_some(tools),
        "stream": true,
        "think": settings.effort,
        "options": settings.output_tokens_max.map(|tokens| json!({"num_predict": tokens})),
    }))
}

fn spoken(said: &ModelResponse) -> Value {
    let calls: Vec<Value> = said
        .calls
        .iter()
        .map(|call| json!({"function": {"name": call.name, "arguments": call.args}}))
        .collect();
    drop_nulls(json!({
        "role": "assistant",
        "content": said.text,
        "tool_calls": (!calls.is_empty()).then_some(calls),
    }))
}

#[derive(Deserialize)]
struct OllamaEvent<'a> {
    #[serde(borrow)]
    message: Option<OllamaMessage<'a>>,
    done: Option<bool>,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct OllamaMessage<'a> {
    content: Option<String>,
    thinking: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Vec<OllamaToolCall<'a>>>,
}

#[derive(Deserialize)]
struct OllamaToolCall<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: Option<OllamaFunction<'a>>,
}

#[derive(Default, Deserialize)]
struct OllamaFunction<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// A parser for the stream.
pub(super) struct OllamaParser;

impl EventParser for OllamaParser {
    fn parse_event(
        &mut self,
        event: &str,
        speech: &mut ResponseBuilder<'_>,
    ) -> Result<StreamState, TransportError> {
        let event: OllamaEvent<'_> = parse_json(event)?;
        if let Some(error) = event.error {
            return Err(TransportError::error(&error));
        }
        if let Some(message) = event.message {
            speech.push_reasoning(&message.thinking.unwrap_or_default())?;
            speech.text(&message.content.unwrap_or_default())?;
            for call in message.tool_calls.unwrap_or_default() {
                let function = call.function.unwrap_or_default();
                speech.push_call(PartialCall {
                    id: call.id.unwrap_or_default(),
                    name: function.name.unwrap_or_default(),
                    args: function.arguments.map_or("null", RawValue::get).to_owned(),
                    ..PartialCall::default()
                })?;
            }
        }
        if event.done != Some(true) {
            return Ok(StreamState::Continues);
        }
        speech.stop = Some(stop(event.done_reason.as_deref()));
        speech.usage = TokenUsage {
            input_tokens: event.prompt_eval_count,
            cached_tokens: None,
            output_tokens: event.eval_count,
        };
        Ok(StreamState::Ended)
    }
}

fn stop(reason: Option<&str>) -> StopReason {
    match reason {
        None | Some("" | "stop") => StopReason::Done,
        Some("length") => StopReason::Length,
        Some(other) => StopReason::Other(printable_word(other)),
    }
}
