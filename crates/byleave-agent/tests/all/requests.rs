//! The requests that a provider receives: tools, calls and results in its own format.

use byleave_agent::model::{
    ChatMessage, InvalidToolCall, ModelResponse, Reasoning, ToolCall, ToolResult, TurnRequest,
};
use byleave_agent::provider::{ApiKey, ProviderKind, ProviderModel, ProviderSettings, ReasoningEffort};
use serde_json::{Value, json};

use crate::fake::{FakeProvider, FakeResponse, KEY, KINDS, ReplyPart, reply, tool, user};

fn call(id: &str, path: &str) -> ToolCall {
    let args = json!({ "path": path }).as_object().unwrap().clone();
    let (id, name) = (id.into(), "read".into());
    ToolCall { id, name, args, reason: None, text_before: 0, provider_data: None }
}

fn result(call: &str, output: &str, error: Option<&str>) -> ToolResult {
    let success = error.is_none();
    let error = error.map(str::to_owned);
    ToolResult {
        call_id: call.into(),
        tool: "read".into(),
        success,
        output: output.into(),
        error,
        ..ToolResult::default()
    }
}

/// A conversation with two calls, their results, and an invalid call of the same turn.
fn conversation(by: &str) -> Vec<ChatMessage> {
    let said = ModelResponse {
        model: by.into(),
        text: "I look.".into(),
        reasoning: vec![Reasoning { text: "Hm.".into(), provider_data: json!("c2lnbmVk") }],
        calls: vec![call("id-0", "a.rs"), call("id-1", "b.rs")],
        invalid_calls: vec![InvalidToolCall { message: "the call of `write` was not run".into() }],
        ..ModelResponse::default()
    };
    let results = vec![result("id-0", "fn a", None), result("id-1", "", Some("no such file"))];
    vec![user("Look."), ChatMessage::Response(said), ChatMessage::Results(results)]
}

async fn got(kind: ProviderKind, model: &str, messages: &[ChatMessage]) -> (String, Value) {
    let fake = FakeProvider::new(vec![FakeResponse::Stream(reply(kind, &[ReplyPart::Text("Hi")]))]).await;
    let settings = ProviderSettings { model: model.into(), ..fake.settings(kind) };
    let provider = ProviderModel::new(settings, ApiKey::new(KEY)).unwrap();
    let tools = [tool()];
    fake.turn(&provider, TurnRequest { system: "Be brief.", messages, tools: &tools }).await.0.unwrap();
    let got = fake.got().remove(0);
    (got.path, got.body)
}

fn told(output: &str, error: Option<&str>) -> String {
    result("", output, error).to_model_json().to_string()
}

#[tokio::test]
async fn openai_gets_its_own_form() {
    let (path, body) = got(ProviderKind::OpenAi, "m", &conversation("openai/m")).await;
    assert_eq!(path, "/v1/chat/completions");
    let function =
        json!({"name": "read", "description": "Reads a file.", "parameters": tool().schema, "strict": false});
    assert_eq!(body["tools"], json!([{"type": "function", "function": function}]));
    let function = |path: &str| json!({"name": "read", "arguments": json!({"path": path}).to_string()});
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [
                {"type": "function", "id": "id-0", "function": function("a.rs")},
                {"type": "function", "id": "id-1", "function": function("b.rs")},
            ]},
            {"role": "tool", "tool_call_id": "id-0", "content": told("fn a", None)},
            {"role": "tool", "tool_call_id": "id-1", "content": told("", Some("no such file"))},
            {"role": "user", "content": "the call of `write` was not run"},
        ])
    );
}

#[tokio::test]
async fn anthropic_gets_its_own_form() {
    let (path, body) = got(ProviderKind::Anthropic, "m", &conversation("anthropic/m")).await;
    assert_eq!(path, "/v1/messages");
    // Marked for caching: the part up to here on its own, and the rest as it grows.
    let mark = json!({"type": "ephemeral"});
    assert_eq!(body["system"], json!([{"type": "text", "text": "Be brief.", "cache_control": mark}]));
    assert_eq!(body["cache_control"], mark);
    assert_eq!(body["tools"][0]["name"], "read");
    assert_eq!(body["tools"][0]["input_schema"], tool().schema);
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "id-0", "name": "read", "input": {"path": "a.rs"}},
                {"type": "tool_use", "id": "id-1", "name": "read", "input": {"path": "b.rs"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "id-0", "content": told("fn a", None), "is_error": false},
                {"type": "tool_result", "tool_use_id": "id-1", "content": told("", Some("no such file")), "is_error": true},
            ]},
            {"role": "user", "content": "the call of `write` was not run"},
        ])
    );
}

#[tokio::test]
async fn gemini_gets_its_own_form() {
    let (path, body) = got(ProviderKind::Gemini, "m", &conversation("another/m")).await;
    assert_eq!(path, "/v1/models/m:streamGenerateContent?alt=sse");
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "Be brief."}]}));
    let function =
        json!({"name": "read", "description": "Reads a file.", "parametersJsonSchema": tool().schema});
    assert_eq!(body["tools"], json!([{"functionDeclarations": [function]}]));
    let response = |id: &str, output: &str, error: Option<&str>| {
        let told = result("", output, error).to_model_json();
        json!({"functionResponse": {"id": id, "name": "read", "response": told}})
    };
    assert_eq!(
        body["contents"],
        json!([
            {"role": "user", "parts": [{"text": "Look."}]},
            {"role": "model", "parts": [
                {"text": "I look."},
                {"functionCall": {"id": "id-0", "name": "read", "args": {"path": "a.rs"}}},
                {"functionCall": {"id": "id-1", "name": "read", "args": {"path": "b.rs"}}},
            ]},
            {"role": "user", "parts": [
                response("id-0", "fn a", None),
                response("id-1", "", Some("no such file")),
            ]},
            {"role": "user", "parts": [{"text": "the call of `write` was not run"}]},
        ])
    );
}

#[tokio::test]
async fn ollama_gets_its_own_form() {
    let (path, body) = got(ProviderKind::Ollama, "m", &conversation("ollama/m")).await;
    assert_eq!(path, "/api/chat");
    let function = json!({"name": "read", "description": "Reads a file.", "parameters": tool().schema});
    assert_eq!(body["tools"], json!([{"type": "function", "function": function}]));
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"function": {"name": "read", "arguments": {"path": "a.rs"}}},
                {"function": {"name": "read", "arguments": {"path": "b.rs"}}},
            ]},
            {"role": "tool", "tool_name": "read", "content": told("fn a", None)},
            {"role": "tool", "tool_name": "read", "content": told("", Some("no such file"))},
            {"role": "user", "content": "the call of `write` was not run"},
        ])
    );
}

#[tokio::test]
async fn thoughts_go_back_to_nobody_else() {
    for kind in KINDS {
        let (_, body) = got(kind, "m", &conversation("another/m")).await;
        let body = body.to_string();
        assert!(!body.contains("Hm.") && !body.contains("c2lnbmVk"), "{kind:?}: {body}");
    }
}

#[tokio::test]
async fn a_model_has_the_name_that_it_was_given() {
    for name in ["qwen-max", "someone/thing:7b", "a::b"] {
        let (_, body) = got(ProviderKind::OpenAi, name, &[user("Hi")]).await;
        assert_eq!((&body["model"], body.get("reasoning_effort")), (&json!(name), None));
        let (_, body) = got(ProviderKind::Ollama, name, &[user("Hi")]).await;
        assert_eq!(body["model"], name);
    }
}

/// Streams a reply, and returns the form in which the provider gets it back in the next turn.
async fn handed_back(kind: ProviderKind, stream: String) -> Value {
    let fake = FakeProvider::new(vec![
        FakeResponse::Stream(stream),
        FakeResponse::Stream(reply(kind, &[ReplyPart::Text("Hi")])),
    ])
    .await;
    let provider = fake.provider(kind);
    let mut messages = vec![user("Look.")];
    let said =
        fake.turn(&provider, TurnRequest { system: "", messages: &messages, tools: &[] }).await.0.unwrap();
    let results = said.calls.iter().map(|call| result(&call.id, "", None)).collect();
    messages.extend([ChatMessage::Response(said), ChatMessage::Results(results)]);
    fake.turn(&provider, TurnRequest { system: "", messages: &messages, tools: &[] }).await.0.unwrap();
    let place = if kind == ProviderKind::Gemini { "/contents/1/parts" } else { "/messages/1/content" };
    fake.got().remove(1).body.pointer(place).unwrap().clone()
}

#[tokio::test]
async fn thoughts_go_back_to_anthropic_as_they_came() {
    let event = |value: Value| format!("data: {value}\n\n");
    let block = |index: u32, block: Value, deltas: &[Value]| {
        let mut out = event(json!({"type": "content_block_start", "index": index, "content_block": block}));
        for delta in deltas {
            out += &event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        out + &event(json!({"type": "content_block_stop", "index": index}))
    };
    let stream = [
        event(json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}})),
        block(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            &[
                json!({"type": "thinking_delta", "thinking": "H"}),
                json!({"type": "thinking_delta", "thinking": "m."}),
                json!({"type": "signature_delta", "signature": "c2ln"}),
                json!({"type": "signature_delta", "signature": "bmVk"}),
            ],
        ),
        block(1, json!({"type": "redacted_thinking", "data": "c2VhbGVk"}), &[]),
        // Reasoning that is not shown.
        block(
            2,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            &[json!({"type": "signature_delta", "signature": "aGlkZGVu"})],
        ),
        block(3, json!({"type": "tool_use", "id": "id-0", "name": "read", "input": {}}), &[]),
        event(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})),
        event(json!({"type": "message_stop"})),
    ];
    assert_eq!(
        handed_back(ProviderKind::Anthropic, stream.concat()).await,
        json!([
            {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
            {"type": "redacted_thinking", "data": "c2VhbGVk"},
            {"type": "thinking", "thinking": "", "signature": "aGlkZGVu"},
            {"type": "tool_use", "id": "id-0", "name": "read", "input": {}},
        ])
    );
}

#[tokio::test]
async fn seals_go_back_to_gemini_in_the_parts_that_they_came_in() {
    let event = |parts: Value, reason: Option<&str>| {
        let candidate = json!({"content": {"role": "model", "parts": parts}, "finishReason": reason});
        format!("data: {}\n\n", json!({"candidates": [candidate]}))
    };
    let stream = [
        event(json!([{"text": "Hm.", "thought": true}]), None),
        event(json!([{"text": "I look."}]), None),
        event(json!([{"text": "", "thoughtSignature": "b2YgdGV4dA=="}]), None),
        event(
            json!([
                {"functionCall": {"name": "read", "args": {"path": "a.rs"}}, "thoughtSignature": "b2YgY2FsbA=="},
                {"functionCall": {"id": "own", "name": "list"}},
            ]),
            Some("STOP"),
        ),
    ];
    assert_eq!(
        handed_back(ProviderKind::Gemini, stream.concat()).await,
        json!([
            {"text": "I look."},
            {"text": "", "thoughtSignature": "b2YgdGV4dA=="},
            {"functionCall": {"id": "call-1", "name": "read", "args": {"path": "a.rs"}}, "thoughtSignature": "b2YgY2FsbA=="},
            {"functionCall": {"id": "own", "name": "list", "args": {}}},
        ])
    );
}

#[tokio::test]
async fn how_long_to_think_and_to_write_is_said_in_each_dialect() {
    let expected = [
        (ProviderKind::OpenAi, "m", json!({"reasoning_effort": "high", "max_tokens": 9000})),
        (ProviderKind::OpenAi, "gpt-5", json!({"reasoning_effort": "high", "max_completion_tokens": 9000})),
        (
            ProviderKind::Anthropic,
            "claude-opus-5",
            json!({"max_tokens": 9000, "thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}}),
        ),
        (
            ProviderKind::Anthropic,
            "claude-sonnet-4-5",
            json!({"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 8999}}),
        ),
        (
            ProviderKind::Gemini,
            "gemini-3-pro",
            json!({"generationConfig": {"maxOutputTokens": 9000, "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "HIGH"}}}),
        ),
        (
            ProviderKind::Gemini,
            "gemini-2.5-pro",
            json!({"generationConfig": {"maxOutputTokens": 9000, "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 24000}}}),
        ),
        (ProviderKind::Ollama, "m", json!({"think": "high", "options": {"num_predict": 9000}})),
    ];
    for (kind, model, expected) in expected {
        let fake = FakeProvider::new(vec![FakeResponse::Stream(reply(kind, &[ReplyPart::Text("Hi")]))]).await;
        let settings = ProviderSettings {
            model: model.into(),
            effort: Some(ReasoningEffort::High),
            output_tokens_max: Some(9000),
            ..fake.settings(kind)
        };
        let provider = ProviderModel::new(settings, None).unwrap();
        let messages = [user("Hi")];
        fake.turn(&provider, TurnRequest { system: "", messages: &messages, tools: &[] }).await.0.unwrap();
        let mut body = fake.got().remove(0).body;
        let said = ["model", "messages", "contents", "stream", "stream_options", "cache_control"];
        body.as_object_mut().unwrap().retain(|field, _| !said.contains(&field.as_str()));
        assert_eq!(body, expected, "{kind:?} {model}");
    }
}

#[tokio::test]
async fn what_a_base_url_asks_for_is_kept() {
    let fake =
        FakeProvider::new(vec![FakeResponse::Stream(reply(ProviderKind::OpenAi, &[ReplyPart::Text("Hi")]))])
            .await;
    let base_url = Some(format!("{}/deployments/m?api-version=1", fake.url));
    let provider =
        ProviderModel::new(ProviderSettings { base_url, ..fake.settings(ProviderKind::OpenAi) }, None)
            .unwrap();
    let messages = [user("Hi")];
    fake.turn(&provider, TurnRequest { system: "", messages: &messages, tools: &[] }).await.0.unwrap();
    assert_eq!(fake.got().remove(0).path, "/deployments/m/chat/completions?api-version=1");
}
