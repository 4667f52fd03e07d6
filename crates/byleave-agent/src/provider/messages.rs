//! The messages of a turn, common to all APIs: their order, and which parts go to which model.

use std::borrow::Cow;

use serde_json::Value;

use crate::model::{ChatMessage, InvalidToolCall, ModelResponse, Reasoning, ToolResult};

/// A message of a request.
pub(super) enum RequestMessage<'a> {
    /// A text for the model.
    User(Cow<'a, str>),
    /// A response of the model. It is never empty, because providers reject an empty one.
    Response(&'a ModelResponse),
    /// The results of its calls; at least one.
    Results(&'a [ToolResult]),
}

/// Returns the messages of a request. Invalid calls are reported after the results, because no provider accepts anything between a call and
/// its result.
pub(super) fn to_request_messages(messages: &[ChatMessage]) -> Vec<RequestMessage<'_>> {
    let mut steps = Vec::new();
    let mut flaws: &[InvalidToolCall] = &[];
    for message in messages {
        if !matches!(message, ChatMessage::Results(_)) {
            steps.extend(told(std::mem::take(&mut flaws)));
        }
        match message {
            ChatMessage::User(text) => steps.push(RequestMessage::User(text.into())),
            ChatMessage::Response(said) => {
                if !said.text.trim().is_empty() || !said.calls.is_empty() {
                    steps.push(RequestMessage::Response(said));
                }
                flaws = &said.invalid_calls;
            }
            ChatMessage::Results(results) => {
                if !results.is_empty() {
                    steps.push(RequestMessage::Results(results));
                }
                steps.extend(told(std::mem::take(&mut flaws)));
            }
        }
    }
    steps.extend(told(flaws));
    steps
}

/// Returns the reasoning that goes back to this model, which is only its own. A provider would reject the signatures of another model.
pub(super) fn own_reasoning<'a>(said: &'a ModelResponse, by: &str) -> &'a [Reasoning] {
    if said.model == by { &said.reasoning } else { &[] }
}

/// Returns an object without its null fields.
pub(super) fn drop_nulls(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

/// Counts the calls of a conversation. Numbering continues from there, so that ids are unique within it.
pub(crate) fn count_calls(messages: &[ChatMessage]) -> usize {
    let calls = |message: &ChatMessage| match message {
        ChatMessage::Response(said) => said.calls.len(),
        ChatMessage::User(_) | ChatMessage::Results(_) => 0,
    };
    messages.iter().map(calls).sum()
}

/// Reports what was wrong with invalid calls.
fn told(flaws: &[InvalidToolCall]) -> Option<RequestMessage<'static>> {
    let lines: Vec<&str> = flaws.iter().map(|flaw| flaw.message.as_str()).collect();
    (!lines.is_empty()).then(|| RequestMessage::User(lines.join("\n").into()))
}
