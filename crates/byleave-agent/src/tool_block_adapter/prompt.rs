//! What a model that asks by blocks is told: the protocol, the tools, its own calls and what came of them.

use serde_json::{Map, Value, json};

use crate::model::{ChatMessage, InvalidToolCall, ModelResponse, ToolResult, ToolSpec};
use crate::persona::{RESULTS, contained};
use crate::tool_blocks::PROTOCOL;

/// The system prompt, with the protocol and the tools behind it. Without tools there is nothing to tell.
pub(super) fn system(system: &str, tools: &[ToolSpec]) -> String {
    if tools.is_empty() {
        return system.to_owned();
    }
    let mut parts = Vec::new();
    if !system.is_empty() {
        parts.push(system.to_owned());
    }
    parts.push(PROTOCOL.to_owned());
    parts.push(RESULTS.trim().to_owned());
    parts.push("The tools, each with the JSON schema of its `args`:".to_owned());
    parts.extend(tools.iter().map(|tool| {
        let (name, description) = (contained(&tool.name, 2), contained(tool.description.trim(), 2));
        format!("- `{name}`: {description}\n  {}", tool.schema)
    }));
    parts.join("\n\n")
}

/// The conversation in text alone.
pub(super) fn messages(messages: &[ChatMessage]) -> Vec<ChatMessage> {
    let mut out = Vec::new();
    // What is to be told of the message before: with the results of its calls, where there are any.
    let mut flaws: &[InvalidToolCall] = &[];
    for message in messages {
        if !matches!(message, ChatMessage::Results(_)) {
            out.extend(told(&[], std::mem::take(&mut flaws)));
        }
        match message {
            ChatMessage::User(text) => out.push(ChatMessage::User(text.clone())),
            ChatMessage::Said(said) => {
                out.push(ChatMessage::Said(ModelResponse {
                    text: written(said),
                    by: said.by.clone(),
                    ..ModelResponse::default()
                }));
                flaws = &said.flaws;
            }
            ChatMessage::Results(results) => out.extend(told(results, std::mem::take(&mut flaws))),
        }
    }
    out.extend(told(&[], flaws));
    out
}

/// What the model said, with its calls as it would have written them.
fn written(said: &ModelResponse) -> String {
    let mut text = said.text.clone();
    for call in &said.calls {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let mut block = Map::new();
        block.insert("name".to_owned(), json!(call.name));
        block.insert("args".to_owned(), Value::Object(call.args.clone()));
        if let Some(reason) = &call.reason {
            block.insert("reason".to_owned(), json!(reason));
        }
        text.push_str(&format!("```tool\n{}\n```\n", Value::Object(block)));
    }
    text
}

/// Results as JSON, a line each, and what was wrong with what was meant as calls.
fn told(results: &[ToolResult], flaws: &[InvalidToolCall]) -> Option<ChatMessage> {
    let results = results.iter().map(|result| result.told().to_string());
    let lines: Vec<String> = results.chain(flaws.iter().map(|flaw| flaw.what.clone())).collect();
    (!lines.is_empty()).then(|| ChatMessage::User(lines.join("\n")))
}
