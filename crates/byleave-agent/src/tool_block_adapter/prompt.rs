//! The texts for a model that uses tool blocks: the protocol, the tools, its own calls and their results.

use serde_json::{Map, Value, json};

use crate::model::{ChatMessage, InvalidToolCall, ModelResponse, ToolCall, ToolResult, ToolSpec};
use crate::persona::{RESULTS, indent_text};
use crate::tool_blocks::PROTOCOL;

/// The beginning of the ids of calls that were read from blocks.
const BLOCK_ID: &str = "block-";

/// Returns the id of a call that was read from a block.
pub(super) fn block_id(number: usize) -> String {
    format!("{BLOCK_ID}{number}")
}

/// Checks whether an id is that of a call that was read from a block.
pub(super) fn is_block_id(id: &str) -> bool {
    id.starts_with(BLOCK_ID)
}

/// Returns the system prompt followed by the protocol and the tools. Without tools, it is unchanged.
pub(super) fn add_protocol(system: &str, tools: &[ToolSpec]) -> String {
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
        let (name, description) = (indent_text(&tool.name, 2), indent_text(tool.description.trim(), 2));
        format!("- `{name}`: {description}\n  {}", tool.schema)
    }));
    parts.join("\n\n")
}

/// Returns the conversation as text only.
pub(super) fn to_text_messages(messages: &[ChatMessage]) -> Vec<ChatMessage> {
    let mut out = Vec::new();
    // Invalid calls of the message before. They are reported with the results of its calls, if it has any.
    let mut flaws: &[InvalidToolCall] = &[];
    for message in messages {
        if !matches!(message, ChatMessage::Results(_)) {
            out.extend(told(&[], std::mem::take(&mut flaws)));
        }
        match message {
            ChatMessage::User(text) => out.push(ChatMessage::User(text.clone())),
            ChatMessage::Response(said) => {
                out.push(ChatMessage::Response(ModelResponse {
                    text: written(&said.text, &said.calls),
                    model: said.model.clone(),
                    ..ModelResponse::default()
                }));
                flaws = &said.invalid_calls;
            }
            ChatMessage::Results(results) => out.extend(told(results, std::mem::take(&mut flaws))),
        }
    }
    out.extend(told(&[], flaws));
    out
}

/// Returns the conversation with the calls of blocks as text, and with the provider's own calls as they are.
pub(super) fn to_mixed_messages(messages: &[ChatMessage]) -> Vec<ChatMessage> {
    let mut out = Vec::new();
    for message in messages {
        match message {
            ChatMessage::User(text) => out.push(ChatMessage::User(text.clone())),
            ChatMessage::Response(said) => {
                let (blocks, calls): (Vec<ToolCall>, Vec<ToolCall>) =
                    said.calls.iter().cloned().partition(|call| is_block_id(&call.id));
                let text = written(&said.text, &blocks);
                out.push(ChatMessage::Response(ModelResponse { text, calls, ..said.clone() }));
            }
            ChatMessage::Results(results) => {
                let (blocks, native): (Vec<ToolResult>, Vec<ToolResult>) =
                    results.iter().cloned().partition(|result| is_block_id(&result.call_id));
                // A provider accepts nothing between its calls and their results.
                out.push(ChatMessage::Results(native));
                out.extend(told(&blocks, &[]));
            }
        }
    }
    out
}

/// Returns the text of a response with its calls as the model would have written them.
fn written(text: &str, calls: &[ToolCall]) -> String {
    let mut text = text.to_owned();
    for call in calls {
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

/// Returns results as lines of JSON, and what was wrong with invalid calls.
fn told(results: &[ToolResult], flaws: &[InvalidToolCall]) -> Option<ChatMessage> {
    let results = results.iter().map(|result| result.to_model_json().to_string());
    let lines: Vec<String> = results.chain(flaws.iter().map(|flaw| flaw.message.clone())).collect();
    (!lines.is_empty()).then(|| ChatMessage::User(lines.join("\n")))
}
