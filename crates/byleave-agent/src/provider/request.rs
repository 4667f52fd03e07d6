//! A turn as every dialect tells it: in which order, and what of it is told to whom.

use std::borrow::Cow;

use serde_json::Value;

use crate::model::{CallResult, Flaw, Message, Said, Thought};

/// A message of a request.
pub(super) enum Step<'a> {
    /// What is told to the model.
    Told(Cow<'a, str>),
    /// What it said; never nothing, which is refused.
    Said(&'a Said),
    /// What came of its calls; at least one.
    Results(&'a [CallResult]),
}

/// The messages of a request. Flaws are told after the results: no provider takes anything between a call and its result.
pub(super) fn steps(messages: &[Message]) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut flaws: &[Flaw] = &[];
    for message in messages {
        if !matches!(message, Message::Results(_)) {
            steps.extend(told(std::mem::take(&mut flaws)));
        }
        match message {
            Message::User(text) => steps.push(Step::Told(text.into())),
            Message::Said(said) => {
                if !said.text.trim().is_empty() || !said.calls.is_empty() {
                    steps.push(Step::Said(said));
                }
                flaws = &said.flaws;
            }
            Message::Results(results) => {
                if !results.is_empty() {
                    steps.push(Step::Results(results));
                }
                steps.extend(told(std::mem::take(&mut flaws)));
            }
        }
    }
    steps.extend(told(flaws));
    steps
}

/// The thoughts that go back to this model: its own. Another's are not its to be reminded of, and their seals would be refused.
pub(super) fn thoughts<'a>(said: &'a Said, by: &str) -> &'a [Thought] {
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
pub(crate) fn calls_so_far(messages: &[Message]) -> usize {
    let calls = |message: &Message| match message {
        Message::Said(said) => said.calls.len(),
        Message::User(_) | Message::Results(_) => 0,
    };
    messages.iter().map(calls).sum()
}

/// What was wrong with what was meant as calls.
fn told(flaws: &[Flaw]) -> Option<Step<'static>> {
    let lines: Vec<&str> = flaws.iter().map(|flaw| flaw.what.as_str()).collect();
    (!lines.is_empty()).then(|| Step::Told(lines.join("\n").into()))
}
