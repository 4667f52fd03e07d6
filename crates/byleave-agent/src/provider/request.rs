//! A turn as a request: messages, calls and results in the native form of each provider.

use genai::chat::{
    ChatMessage, ChatRequest, ContentPart, CustomPart, MessageContent, Tool, ToolCall, ToolResponse,
};
use serde_json::{Value, json};

use super::Kind;
use crate::model::{CallResult, Flaw, Message, Said, Turn};

/// The request of a turn, for the model of this name.
pub(super) fn of(kind: Kind, by: &str, turn: Turn<'_>) -> ChatRequest {
    let mut messages = Vec::new();
    // What is to be told of the message before. Results come first: no provider takes anything between a call and its result.
    let mut flaws: &[Flaw] = &[];
    for message in turn.messages {
        if !matches!(message, Message::Results(_)) {
            messages.extend(told(std::mem::take(&mut flaws)));
        }
        match message {
            Message::User(text) => messages.push(ChatMessage::user(text.clone())),
            Message::Said(said) => {
                messages.extend(spoken(kind, said, said.by == by));
                flaws = &said.flaws;
            }
            Message::Results(results) => {
                messages.extend(answers(kind, results));
                messages.extend(told(std::mem::take(&mut flaws)));
            }
        }
    }
    messages.extend(told(flaws));

    let mut request = ChatRequest::from_messages(messages);
    if !turn.system.is_empty() {
        request = request.with_system(turn.system);
    }
    if !turn.tools.is_empty() {
        request = request.with_tools(turn.tools.iter().map(|tool| {
            Tool::new(tool.name.clone())
                .with_description(tool.description.clone())
                .with_schema(tool.schema.clone())
        }));
    }
    request
}

/// What the model said, as its own message. Nothing where it said nothing: an empty one is refused.
fn spoken(kind: Kind, said: &Said, is_own: bool) -> Option<ChatMessage> {
    let mut parts = Vec::new();
    // What another one thought is not this one's to be reminded of, and its seals would be refused.
    if is_own && (kind != Kind::OpenAi || !said.calls.is_empty()) {
        for thought in &said.thoughts {
            match &thought.seal {
                Value::String(seal) => parts.push(ContentPart::ThoughtSignature(seal.clone())),
                Value::Null => {}
                block => {
                    parts.push(ContentPart::Custom(CustomPart { model_iden: None, data: block.clone() }))
                }
            }
            // Unsigned, Anthropic takes none.
            if !thought.text.is_empty() && (kind == Kind::OpenAi || thought.seal.is_string()) {
                parts.push(ContentPart::ReasoningContent(thought.text.clone()));
            }
        }
    }
    if !said.text.is_empty() {
        parts.push(ContentPart::Text(said.text.clone()));
    }
    parts.extend(said.calls.iter().map(|call| {
        ContentPart::ToolCall(ToolCall {
            call_id: call.id.clone(),
            fn_name: call.name.clone(),
            fn_arguments: Value::Object(call.args.clone()),
            thought_signatures: call.seal.clone().filter(|_| is_own).map(|seal| vec![seal]),
        })
    }));
    let says_something = !said.text.is_empty() || !said.calls.is_empty();
    says_something.then(|| ChatMessage::assistant(MessageContent::from_parts(parts)))
}

/// What came of calls. All in one message, but for Ollama, where a message holds one.
fn answers(kind: Kind, results: &[CallResult]) -> Vec<ChatMessage> {
    let parts = results.iter().map(|result| {
        let content = result.told().to_string();
        match kind {
            // Its own form, for it has a flag that `genai` does not know.
            Kind::Anthropic => {
                let data = json!({
                    "type": "tool_result",
                    "tool_use_id": result.call,
                    "content": content,
                    "is_error": !result.success,
                });
                ContentPart::Custom(CustomPart { model_iden: None, data })
            }
            Kind::OpenAi | Kind::Gemini | Kind::Ollama => {
                let response = ToolResponse::new(result.call.clone(), content);
                ContentPart::ToolResponse(response.with_fn_name(result.tool.clone()))
            }
        }
    });
    let message = |parts: Vec<ContentPart>| ChatMessage::tool(MessageContent::from_parts(parts));
    match kind {
        Kind::Ollama => parts.map(|part| message(vec![part])).collect(),
        _ if results.is_empty() => Vec::new(),
        _ => vec![message(parts.collect())],
    }
}

/// What was wrong with what was meant as calls.
fn told(flaws: &[Flaw]) -> Option<ChatMessage> {
    let lines: Vec<&str> = flaws.iter().map(|flaw| flaw.what.as_str()).collect();
    (!lines.is_empty()).then(|| ChatMessage::user(lines.join("\n")))
}
