//! What a provider gets: tools, calls and results in its own form.

use byleave_agent::model::{Call, CallResult, Flaw, Message, Said, Thought, Turn};
use byleave_agent::provider::{Key, Kind, Provider, Settings};
use serde_json::{Value, json};

use crate::fake::{Answer, Fake, KEY, KINDS, Part, reply, tool, user};

fn call(id: &str, path: &str) -> Call {
    let args = json!({ "path": path }).as_object().unwrap().clone();
    Call { id: id.into(), name: "read".into(), args, reason: None, seal: None }
}

fn result(call: &str, output: &str, error: Option<&str>) -> CallResult {
    let success = error.is_none();
    let error = error.map(str::to_owned);
    CallResult {
        call: call.into(),
        tool: "read".into(),
        success,
        output: output.into(),
        error,
        ..CallResult::default()
    }
}

/// A conversation with two calls, their results, and a flaw of the same turn.
fn conversation(by: &str) -> Vec<Message> {
    let said = Said {
        by: by.into(),
        text: "I look.".into(),
        thoughts: vec![Thought { text: "Hm.".into(), seal: json!("c2lnbmVk") }],
        calls: vec![call("id-0", "a.rs"), call("id-1", "b.rs")],
        flaws: vec![Flaw { what: "the call of `write` was not run".into() }],
        ..Said::default()
    };
    let results = vec![result("id-0", "fn a", None), result("id-1", "", Some("no such file"))];
    vec![user("Look."), Message::Said(said), Message::Results(results)]
}

async fn got(kind: Kind, model: &str, messages: &[Message]) -> (String, Value) {
    let fake = Fake::new(vec![Answer::Stream(reply(kind, &[Part::Text("Hi")]))]).await;
    let settings = Settings { model: model.into(), ..fake.settings(kind) };
    let provider = Provider::new(settings, Key::new(KEY)).unwrap();
    let tools = [tool()];
    fake.turn(&provider, Turn { system: "Be brief.", messages, tools: &tools }).await.0.unwrap();
    let got = fake.got().remove(0);
    (got.path, got.body)
}

fn told(output: &str, error: Option<&str>) -> String {
    result("", output, error).told().to_string()
}

#[tokio::test]
async fn openai_gets_its_own_form() {
    let (path, body) = got(Kind::OpenAi, "m", &conversation("openai/m")).await;
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
    let (path, body) = got(Kind::Anthropic, "m", &conversation("anthropic/m")).await;
    assert_eq!(path, "/v1/messages");
    assert_eq!(body["system"], "Be brief.");
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
    let (path, body) = got(Kind::Gemini, "m", &conversation("another/m")).await;
    assert_eq!(path, "/v1/models/m:streamGenerateContent?alt=sse");
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "Be brief."}]}));
    let function =
        json!({"name": "read", "description": "Reads a file.", "parametersJsonSchema": tool().schema});
    assert_eq!(body["tools"], json!([{"functionDeclarations": [function]}]));
    let response = |id: &str, content: String| json!({"functionResponse": {"id": id, "name": "read", "response": {"name": "read", "content": content}}});
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
                response("id-0", told("fn a", None)),
                response("id-1", told("", Some("no such file"))),
            ]},
            {"role": "user", "parts": [{"text": "the call of `write` was not run"}]},
        ])
    );
}

#[tokio::test]
async fn ollama_gets_its_own_form() {
    let (path, body) = got(Kind::Ollama, "m", &conversation("ollama/m")).await;
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
            {"role": "tool", "content": told("fn a", None)},
            {"role": "tool", "content": told("", Some("no such file"))},
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
        let (_, body) = got(Kind::OpenAi, name, &[user("Hi")]).await;
        assert_eq!((&body["model"], body.get("reasoning_effort")), (&json!(name), None));
        let (_, body) = got(Kind::Ollama, name, &[user("Hi")]).await;
        assert_eq!(body["model"], name);
    }
}
