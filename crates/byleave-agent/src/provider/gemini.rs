//! Gemini's content API. A stream sends the stop reason and then ends; without it, the stream was cut off.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::event_stream::parse_json;
use super::messages::{RequestMessage, drop_nulls, own_reasoning, to_request_messages};
use super::response_builder::{PartialCall, ResponseBuilder, printable_word};
use super::retry::TransportError;
use super::transport::{EventParser, StreamState};
use super::{ProviderSettings, ReasoningEffort};
use crate::model::{ModelResponse, StopReason, TokenUsage, ToolResult, TurnRequest};

/// The name prefix of models that take a reasoning budget in tokens.
const BY_BUDGET: &str = "gemini-2";
/// The known fields of a part. The last two have no content.
const PARTS: [&str; 6] =
    ["text", "thought", "thoughtSignature", "functionCall", "partMetadata", "videoMetadata"];

/// Returns the request of a turn.
pub(super) fn build_body(settings: &ProviderSettings, by: &str, turn: TurnRequest<'_>) -> Value {
    let contents: Vec<Value> = to_request_messages(turn.messages)
        .into_iter()
        .map(|step| match step {
            RequestMessage::User(text) => json!({"role": "user", "parts": [{"text": text}]}),
            RequestMessage::Response(said) => json!({"role": "model", "parts": spoken(said, by)}),
            RequestMessage::Results(results) => {
                let part = |result: &ToolResult| {
                    let response =
                        json!({"id": result.call_id, "name": result.tool, "response": result.to_model_json()});
                    json!({"functionResponse": response})
                };
                json!({"role": "user", "parts": results.iter().map(part).collect::<Vec<_>>()})
            }
        })
        .collect();
    let functions: Vec<Value> = turn
        .tools
        .iter()
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema})
        })
        .collect();
    let by_budget = settings.model.starts_with(BY_BUDGET);
    let thinking = drop_nulls(json!({
        // Other models reject this option.
        "includeThoughts": settings.model.starts_with("gemini").then_some(true),
        "thinkingBudget": settings.effort.filter(|_| by_budget).map(|effort| effort.tokens()),
        "thinkingLevel": settings.effort.filter(|_| !by_budget).map(level),
    }));
    let some = |object: Value| object.as_object().is_some_and(|fields| !fields.is_empty()).then_some(object);
    let config = drop_nulls(json!({
        "maxOutputTokens": settings.output_tokens_max,
        "thinkingConfig": some(thinking),
    }));
    drop_nulls(json!({
        "systemInstruction": (!turn.system.is_empty()).then(|| json!({"parts": [{"text": turn.system}]})),
        "contents": contents,
        "tools": (!functions.is_empty()).then(|| json!([{"functionDeclarations": functions}])),
        "generationConfig": some(config),
    }))
}

const fn level(effort: ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::Low => "LOW",
        ReasoningEffort::Medium => "MEDIUM",
        ReasoningEffort::High => "HIGH",
    }
}

fn spoken(said: &ModelResponse, by: &str) -> Vec<Value> {
    let (mut parts, mut sealed) = (Vec::new(), Vec::new());
    for thought in own_reasoning(said, by) {
        match &thought.provider_data {
            Value::Null => {}
            Value::String(seal) => {
                parts.push(json!({"text": thought.text, "thought": true, "thoughtSignature": seal}));
            }
            // It arrived with the text, so it follows the text.
            part => sealed.push(part.clone()),
        }
    }
    if !said.text.is_empty() {
        parts.push(json!({"text": said.text}));
    }
    parts.append(&mut sealed);
    parts.extend(said.calls.iter().map(|call| {
        drop_nulls(json!({
            "functionCall": {"id": call.id, "name": call.name, "args": call.args},
            "thoughtSignature": call.provider_data.as_ref().filter(|_| said.model == by),
        }))
    }));
    parts
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiEvent<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    prompt_feedback: Option<Value>,
    usage_metadata: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<GeminiContent<'a>>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct GeminiContent<'a> {
    #[serde(borrow)]
    parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiPart<'a> {
    text: Option<String>,
    thought: Option<bool>,
    thought_signature: Option<String>,
    #[serde(borrow)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionCall<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    partial_args: Option<IgnoredAny>,
    will_continue: Option<bool>,
}

/// A parser for the stream.
pub(super) struct GeminiParser;

impl EventParser for GeminiParser {
    fn parse_event(
        &mut self,
        event: &str,
        speech: &mut ResponseBuilder<'_>,
    ) -> Result<StreamState, TransportError> {
        let event: GeminiEvent<'_> = parse_json(event)?;
        if let Some(error) = event.error {
            return Err(TransportError::error(&error));
        }
        let mut candidates = event.candidates.unwrap_or_default().into_iter();
        if let Some(candidate) = candidates.next() {
            said(candidate, speech)?;
        }
        if candidates.next().is_some() {
            return Err(TransportError::Unreadable("it has several choices"));
        }
        if event.prompt_feedback.is_some_and(|feedback| feedback.get("blockReason").is_some()) {
            speech.stop = Some(StopReason::Filtered);
        }
        if let Some(usage) = event.usage_metadata {
            let count = |field: &str| usage.get(field).and_then(Value::as_u64);
            let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
                (Some(one), Some(other)) => Some(one.saturating_add(other)),
                (one, other) => one.or(other),
            };
            speech.usage = TokenUsage {
                input_tokens: sum(count("promptTokenCount"), count("toolUsePromptTokenCount")),
                cached_tokens: count("cachedContentTokenCount"),
                output_tokens: sum(count("candidatesTokenCount"), count("thoughtsTokenCount")),
            };
        }
        Ok(if speech.stop.is_some() { StreamState::MayEnd } else { StreamState::Continues })
    }
}

fn said(candidate: Candidate<'_>, speech: &mut ResponseBuilder<'_>) -> Result<(), TransportError> {
    for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
        let fields: BTreeMap<String, IgnoredAny> = parse_json(part.get())?;
        for field in fields.keys().filter(|field| !PARTS.contains(&field.as_str())) {
            speech.push_unknown(field)?;
        }
        say(parse_json(part.get())?, speech)?;
    }
    let Some(reason) = candidate.finish_reason else { return Ok(()) };
    if matches!(reason.as_str(), "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS") {
        let message = candidate.finish_message.unwrap_or_default();
        speech.push_invalid_call(format!("a call was not run: {reason}: {message}"))?;
    }
    speech.stop = Some(stop(&reason));
    Ok(())
}

fn say(part: GeminiPart<'_>, speech: &mut ResponseBuilder<'_>) -> Result<(), TransportError> {
    let text = part.text.unwrap_or_default();
    let is_thought = part.thought.unwrap_or(false);
    if is_thought {
        speech.push_reasoning(&text)?;
    } else {
        speech.text(&text)?;
    }
    match (part.function_call, part.thought_signature) {
        (Some(call), seal) => {
            let comes_in_pieces = call.partial_args.is_some() || call.will_continue == Some(true);
            let asked = PartialCall {
                id: call.id.unwrap_or_default(),
                name: call.name.unwrap_or_default(),
                // The field is missing if there are no arguments.
                args: call.args.map_or("{}", RawValue::get).to_owned(),
                seal,
                error: comes_in_pieces.then(|| "it comes in pieces, expected the whole".to_owned()),
                ..PartialCall::default()
            };
            speech.push_call(asked).map(drop)
        }
        (None, Some(seal)) if is_thought => speech.sign_reasoning(&seal),
        (None, Some(seal)) => speech.push_sealed(json!({"text": "", "thoughtSignature": seal})),
        (None, None) => Ok(()),
    }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "STOP" => StopReason::Done,
        "MAX_TOKENS" => StopReason::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::Filtered,
        other => StopReason::Other(printable_word(other)),
    }
}
