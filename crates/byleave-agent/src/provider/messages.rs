//! A turn as every dialect tells it: in which order, and what of it is told to whom.

use std::borrow::Cow;

use serde_json::Value;

use crate::model::{ChatMessage, InvalidToolCall, ModelResponse, Reasoning, ToolResult};

/// A message of a request.
pub(super) enum RequestMessage<'a> {
    /// What is told to the model.
    Told(Cow<'a, str>),
    /// What it said; never nothing, which is refused.
    Said(&'a ModelResponse),
    /// What came of its calls; at least one.
    Results(&'a [ToolResult]),
}

/// The messages of a request. Flaws are told after the results: no provider takes anything between a call and its result.
pub(super) fn steps(messages: &[ChatMessage]) -> Vec<RequestMessage<'_>> {
    let mut steps = Vec::new();
    let mut flaws: &[InvalidToolCall] = &[];
    for message in messages {
        if !matches!(message, ChatMessage::Results(_)) {
            steps.extend(told(std::mem::take(&mut flaws)));
        }
        match message {
            ChatMessage::User(text) => steps.push(RequestMessage::Told(text.into())),
            ChatMessage::Said(said) => {
                if !said.text.trim().is_empty() || !said.calls.is_empty() {
                    steps.push(RequestMessage::Said(said));
                }
                flaws = &said.flaws;
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

/// The thoughts that go back to this model: its own. Another's are not its to be reminded of, and their seals would be refused.
pub(super) fn thoughts<'a>(said: &'a ModelResponse, by: &str) -> &'a [Reasoning] {
    if said.by == by { &said.thoughts } else { &[] }
}

/// An object without the fields that are null.
pub(super) fn present(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

/// How many calls a conversation has. Numbers go on from there, so that no two calls of it share an id.
pub(crate) fn calls_so_far(messages: &[ChatMessage]) -> usize {
    let calls = |message: &ChatMessage| match message {
        ChatMessage::Said(said) => said.calls.len(),
        ChatMessage::User(_) | ChatMessage::Results(_) => 0,
    };
    messages.iter().map(calls).sum()
}

/// What was wrong with what was meant as calls.
fn told(flaws: &[InvalidToolCall]) -> Option<RequestMessage<'static>> {
    let lines: Vec<&str> = flaws.iter().map(|flaw| flaw.what.as_str()).collect();
    (!lines.is_empty()).then(|| RequestMessage::Told(lines.join("\n").into()))
}
