//! OpenAI's chat completions API, and those of compatible providers. A stream ends with `[DONE]`, after the stop reason.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::ProviderSettings;
use super::event_stream::parse_json;
use super::messages::{RequestMessage, drop_nulls, own_reasoning, to_request_messages};
use super::response_builder::{PartialCall, ResponseBuilder, printable_word};
use super::retry::TransportError;
use super::transport::{EventParser, StreamState};
use crate::model::{ModelResponse, StopReason, TokenUsage, TurnRequest};

/// Name prefixes of models that take the token limit only by its new name. OpenAI itself accepts the new name for all models.
const NEW_LIMIT: [&str; 5] = ["gpt-5", "gpt-6", "o1", "o3", "o4"];

/// Returns the request of a turn.
pub(super) fn build_body(settings: &ProviderSettings, by: &str, turn: TurnRequest<'_>) -> Value {
    let mut messages = Vec::new();
    if !turn.system.is_empty() {
        messages.push(json!({"role": "system", "content": turn.system}));
    }
    for step in to_request_messages(turn.messages) {
        match step {
            RequestMessage::User(text) => messages.push(json!({"role": "user", "content": text})),
            RequestMessage::Response(said) => messages.push(spoken(said, by)),
            RequestMessage::Results(results) => messages.extend(results.iter().map(|result| {
                json!({"role": "tool", "tool_call_id": result.call_id, "content": result.to_model_json().to_string()})
            })),
        }
    }
    let tools: Vec<Value> = turn
        .tools
        .iter()
        .map(|tool| {
            let function = json!({
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                "strict": false,
            });
            json!({"type": "function", "function": function})
        })
        .collect();
    let name = settings.model.rsplit('/').next().unwrap_or_default();
    let is_new = settings.base_url.is_none() || NEW_LIMIT.iter().any(|begin| name.starts_with(begin));
    drop_nulls(json!({
        "model": settings.model,
        "messages": messages,
        "tools": (!tools.is_empty()).then_some(tools),
        "stream": true,
        "stream_options": {"include_usage": true},
        "reasoning_effort": settings.effort,
        "max_completion_tokens": settings.output_tokens_max.filter(|_| is_new),
        "max_tokens": settings.output_tokens_max.filter(|_| !is_new),
    }))
}

fn spoken(said: &ModelResponse, by: &str) -> Value {
    let calls: Vec<Value> = said
        .calls
        .iter()
        .map(|call| {
            let args = Value::Object(call.args.clone()).to_string();
            json!({"type": "function", "id": call.id, "function": {"name": call.name, "arguments": args}})
        })
        .collect();
    // Providers that show reasoning want it back with the calls, and only there.
    let thought: String = own_reasoning(said, by).iter().map(|thought| thought.text.as_str()).collect();
    drop_nulls(json!({
        "role": "assistant",
        "content": (!said.text.is_empty()).then_some(&said.text),
        "reasoning_content": (!thought.is_empty() && !calls.is_empty()).then_some(thought),
        "tool_calls": (!calls.is_empty()).then_some(calls),
    }))
}

#[derive(Deserialize)]
struct OpenAiEvent {
    choices: Option<Vec<OpenAiChoice>>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct OpenAiChoice {
    index: Option<u64>,
    delta: Option<OpenAiDelta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiDelta {
    content: Option<String>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<OpenAiCallDelta>>,
    function_call: Option<IgnoredAny>,
}

/// A piece of a call.
#[derive(Deserialize)]
struct OpenAiCallDelta {
    index: Option<u64>,
    id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    function: Option<OpenAiFunction>,
}

#[derive(Default, Deserialize)]
struct OpenAiFunction {
    name: Option<String>,
    arguments: Option<String>,
}

/// A parser for the stream.
#[derive(Default)]
pub(super) struct OpenAiParser {
    /// The position of each call, by its index.
    places: HashMap<u64, usize>,
}

impl EventParser for OpenAiParser {
    fn parse_event(
        &mut self,
        event: &str,
        speech: &mut ResponseBuilder<'_>,
    ) -> Result<StreamState, TransportError> {
        if event.trim() == "[DONE]" {
            return if speech.stop.is_some() { Ok(StreamState::Ended) } else { Err(TransportError::CutOff) };
        }
        let OpenAiEvent { choices, usage, error } = parse_json(event)?;
        if let Some(error) = error {
            return Err(TransportError::error(&error));
        }
        for choice in choices.unwrap_or_default() {
            self.choice(choice, speech)?;
        }
        if let Some(usage) = usage {
            let count = |place: &str| usage.pointer(place).and_then(Value::as_u64);
            speech.usage = TokenUsage {
                input_tokens: count("/prompt_tokens"),
                cached_tokens: count("/prompt_tokens_details/cached_tokens"),
                output_tokens: count("/completion_tokens"),
            };
        }
        Ok(StreamState::Continues)
    }
}

impl OpenAiParser {
    fn choice(
        &mut self,
        choice: OpenAiChoice,
        speech: &mut ResponseBuilder<'_>,
    ) -> Result<(), TransportError> {
        if choice.index.is_some_and(|index| index != 0) {
            return Err(TransportError::Unreadable("it has several choices"));
        }
        if let Some(delta) = choice.delta {
            // Providers use one of these names, or both.
            let thought = delta.reasoning_content.filter(|thought| !thought.is_empty()).or(delta.reasoning);
            speech.push_reasoning(&thought.unwrap_or_default())?;
            speech.text(&delta.content.unwrap_or_default())?;
            speech.text(&delta.refusal.unwrap_or_default())?;
            for piece in delta.tool_calls.unwrap_or_default() {
                self.piece(piece, speech)?;
            }
            if delta.function_call.is_some() {
                speech.push_unknown("function_call")?;
            }
        }
        match choice.finish_reason.as_deref() {
            None | Some("") => {}
            Some("error") => return Err(TransportError::CutOff),
            Some(reason) => speech.stop = Some(stop(reason)),
        }
        Ok(())
    }

    fn piece(
        &mut self,
        piece: OpenAiCallDelta,
        speech: &mut ResponseBuilder<'_>,
    ) -> Result<(), TransportError> {
        let OpenAiFunction { name, arguments } = piece.function.unwrap_or_default();
        let (id, name, args) =
            (piece.id.unwrap_or_default(), name.unwrap_or_default(), arguments.unwrap_or_default());
        let wrong = match piece.kind.as_deref() {
            None | Some("" | "function") => None,
            Some(kind) => Some(format!("it is of the kind `{}`, expected a function", printable_word(kind))),
        };
        let Some(index) = piece.index else {
            let wrong = Some("it has no index, expected one".to_owned());
            return speech
                .push_call(PartialCall { id, name, args, error: wrong, ..PartialCall::default() })
                .map(drop);
        };
        let Some(&place) = self.places.get(&index) else {
            let place =
                speech.push_call(PartialCall { id, name, args, error: wrong, ..PartialCall::default() })?;
            self.places.insert(index, place);
            return Ok(());
        };
        speech.args(place, &args)?;
        if let Some(call) = speech.partial_call(place) {
            let is_other = |new: &str, known: &str| !new.is_empty() && new != known;
            if is_other(&id, &call.id) || is_other(&name, &call.name) {
                call.error = Some(format!("several calls have the index {index}, expected one"));
            }
            call.error = call.error.take().or(wrong);
        }
        Ok(())
    }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "stop" => StopReason::Done,
        "tool_calls" | "function_call" => StopReason::Calls,
        "length" | "model_length" => StopReason::Length,
        "content_filter" => StopReason::Filtered,
        other => StopReason::Other(printable_word(other)),
    }
}
