//! Tool blocks for models without tool calls.

use std::sync::Mutex;

use async_trait::async_trait;
use byleave_agent::model::{
    ChatMessage, Model, ModelError, ModelResponse, StopReason, StreamEvent, StreamEventSink, ToolCall,
    ToolResult, TurnRequest,
};
use byleave_agent::provider::{ProviderKind, ProviderSettings};
use byleave_agent::tool_block_adapter::{ToolBlockModel, ToolCallStyle};
use serde_json::{Map, json};

use crate::fake::{FakeProvider, FakeResponse, KINDS, ReplyPart, reply, tool, user};

const ASKS: [ReplyPart; 3] = [
    ReplyPart::Text("I look.\n``"),
    ReplyPart::Text("`tool\n{\"name\": \"read\", \"args\": {\"path\": \"a.rs\"}, \"reason\": \"to see\"}\n"),
    ReplyPart::Text("```\n"),
];

#[tokio::test]
async fn a_model_that_takes_no_tools_gets_blocks_from_then_on() {
    for kind in KINDS {
        let no = json!({"error": {"message": "registry/some-model does not support tools"}}).to_string();
        let script = vec![
            FakeResponse::Status(400, &[], no),
            FakeResponse::Stream(reply(kind, &ASKS)),
            FakeResponse::Stream(reply(kind, &[ReplyPart::Text("It is empty.")])),
        ];
        let fake = FakeProvider::new(script).await;
        let model = ToolBlockModel::new(fake.provider(kind), &fake.settings(kind), ToolCallStyle::Auto);
        let (mut messages, tools) = (vec![user("Look.")], [tool()]);
        let turn = TurnRequest { system: "Be brief.", messages: &messages, tools: &tools };
        let (said, heard) = fake.turn(&model, turn).await;
        let said = said.unwrap();
        assert_eq!(heard, "anew: \ntext: I look.\n\ncall: read", "{kind:?}");
        assert_eq!((said.text.as_str(), &said.stop_reason), ("I look.\n", &StopReason::Calls), "{kind:?}");
        let expected = ToolCall {
            id: "block-1".into(),
            name: "read".into(),
            args: Map::from_iter([("path".to_owned(), json!("a.rs"))]),
            reason: Some("to see".into()),
            text_before: said.text.len(),
            provider_data: None,
        };
        assert_eq!(said.calls, [expected], "{kind:?}");

        messages.push(ChatMessage::Response(said));
        let result = ToolResult {
            call_id: "block-1".into(),
            tool: "read".into(),
            success: true,
            ..ToolResult::default()
        };
        messages.push(ChatMessage::Results(vec![result.clone()]));
        let turn = TurnRequest { system: "Be brief.", messages: &messages, tools: &tools };
        assert_eq!(fake.turn(&model, turn).await.0.unwrap().text, "It is empty.", "{kind:?}");

        let got = fake.got();
        assert_eq!(got.len(), 3, "{kind:?}");
        assert!(got[0].body.get("tools").is_some(), "{kind:?}");
        let texts = |body: &serde_json::Value| {
            let mut texts = Vec::new();
            gather(body, &mut texts);
            texts
        };
        for request in &got[1..] {
            assert_eq!(request.body.get("tools"), None, "{kind:?}");
            let system = texts(&request.body)
                .into_iter()
                .find(|text| text.starts_with("Be brief.\n\nTo use a tool"))
                .unwrap();
            assert!(system.contains("- `read`: Reads a file.\n  {"), "{kind:?}: {system}");
        }
        let last = texts(&got[2].body);
        assert!(last.contains(&result.to_model_json().to_string()), "{kind:?}: {last:?}");
        let block = last
            .iter()
            .find_map(|text| text.strip_prefix("I look.\n```tool\n")?.strip_suffix("\n```\n"))
            .unwrap();
        let block: serde_json::Value = serde_json::from_str(block).unwrap();
        assert_eq!(block, json!({"name": "read", "args": {"path": "a.rs"}, "reason": "to see"}), "{kind:?}");
    }
}

fn gather(value: &serde_json::Value, texts: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => texts.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| gather(item, texts)),
        serde_json::Value::Object(fields) => fields.values().for_each(|item| gather(item, texts)),
        _ => {}
    }
}

#[tokio::test]
async fn a_setting_says_which_way() {
    for (kind, name, calling, by_blocks) in [
        (ProviderKind::Ollama, "gemma3:4b", ToolCallStyle::Auto, true),
        (ProviderKind::Ollama, "gemma", ToolCallStyle::Auto, true),
        (ProviderKind::Ollama, "someone/llama2", ToolCallStyle::Auto, true),
        (ProviderKind::Ollama, "qwen3", ToolCallStyle::Auto, false),
        (ProviderKind::Ollama, "gemma3:4b", ToolCallStyle::Native, false),
        (ProviderKind::Gemini, "gemma-3-27b-it", ToolCallStyle::Auto, true),
        (ProviderKind::Gemini, "gemini-2.5-pro", ToolCallStyle::Auto, false),
        (ProviderKind::OpenAi, "gpt-5", ToolCallStyle::Auto, false),
        (ProviderKind::OpenAi, "gpt-5", ToolCallStyle::Blocks, true),
    ] {
        let model = ToolBlockModel::new(
            ScriptedModel::new(&[], ModelResponse::default()),
            &ProviderSettings::new(kind, name),
            calling,
        );
        assert_eq!(model.is_on(), by_blocks, "{name} {calling:?}");
    }
    // A caller that requires native tool calls gets an error.
    let fake = FakeProvider::new(vec![FakeResponse::Status(
        400,
        &[],
        "{\"error\": \"x does not support tools\"}".into(),
    )])
    .await;
    let model = ToolBlockModel::new(
        fake.provider(ProviderKind::Ollama),
        &fake.settings(ProviderKind::Ollama),
        ToolCallStyle::Native,
    );
    let (messages, tools) = ([user("Look.")], [tool()]);
    let turn = TurnRequest { system: "", messages: &messages, tools: &tools };
    assert_eq!(fake.turn(&model, turn).await.0, Err(ModelError::NoTools));
}

/// A fake model with a scripted response. It stores the messages that it receives.
struct ScriptedModel {
    hears: Vec<StreamEvent<'static>>,
    said: ModelResponse,
    got: Mutex<Vec<ChatMessage>>,
}

impl ScriptedModel {
    fn new(hears: &[StreamEvent<'static>], said: ModelResponse) -> Self {
        Self { hears: hears.to_vec(), said, got: Mutex::default() }
    }
}

#[async_trait]
impl Model for ScriptedModel {
    async fn take_turn(
        &self,
        turn: TurnRequest<'_>,
        heard: StreamEventSink<'_>,
    ) -> Result<ModelResponse, ModelError> {
        self.got.lock().unwrap().extend_from_slice(turn.messages);
        self.hears.iter().for_each(|piece| heard(*piece));
        Ok(self.said.clone())
    }
}

async fn by_blocks(hears: &[StreamEvent<'static>], said: ModelResponse) -> Result<ModelResponse, ModelError> {
    let model = ToolBlockModel::new(
        ScriptedModel::new(hears, said),
        &ProviderSettings::new(ProviderKind::OpenAi, "m"),
        ToolCallStyle::Blocks,
    );
    let (messages, tools) = ([user("Look.")], [tool()]);
    model.take_turn(TurnRequest { system: "", messages: &messages, tools: &tools }, &mut |_| {}).await
}

#[tokio::test]
async fn what_was_heard_before_it_begins_anew_is_no_call() {
    let block = "```tool\n{\"name\": \"write\", \"args\": {}}\n```\n";
    let hears = [
        StreamEvent::Text(block),
        StreamEvent::Text("```tool\n{"),
        StreamEvent::Restarted,
        StreamEvent::Text("Hi"),
    ];
    let said =
        by_blocks(&hears, ModelResponse { text: "Hi".into(), ..ModelResponse::default() }).await.unwrap();
    assert_eq!((said.text.as_str(), said.calls.len(), said.invalid_calls.len()), ("Hi", 0, 0));
}

#[tokio::test]
async fn what_is_no_block_is_no_call() {
    // The block is cut off, and the provider also returns a call.
    let text = "```tool\n{\"name\": \"write\", \"args\": {}}";
    let stray = ToolCall {
        id: "x".into(),
        name: "write".into(),
        args: Map::new(),
        reason: None,
        text_before: 0,
        provider_data: None,
    };
    let said = ModelResponse {
        text: text.into(),
        calls: vec![stray],
        stop_reason: StopReason::Calls,
        ..ModelResponse::default()
    };
    let said = by_blocks(&[StreamEvent::Text(text)], said).await.unwrap();
    assert_eq!((said.calls.len(), said.invalid_calls.len(), said.stop_reason), (0, 2, StopReason::Done));
}

#[tokio::test]
async fn what_is_said_must_have_been_heard() {
    let said = ModelResponse {
        text: "```tool\n{\"name\": \"write\", \"args\": {}}\n```\n".into(),
        ..ModelResponse::default()
    };
    assert!(matches!(by_blocks(&[], said).await, Err(ModelError::Unreadable { .. })));
}

#[tokio::test]
async fn flaws_are_told_with_the_results() {
    let flawed = "```tool\n{}\n```\n```tool\n{\"name\": \"read\", \"args\": {}}\n```\n";
    let said = by_blocks(
        &[StreamEvent::Text(flawed)],
        ModelResponse { text: flawed.into(), ..ModelResponse::default() },
    )
    .await
    .unwrap();
    assert_eq!((said.calls.len(), said.invalid_calls.len()), (1, 1));
    let result =
        ToolResult { call_id: said.calls[0].id.clone(), tool: "read".into(), ..ToolResult::default() };
    let model = ScriptedModel::new(&[], ModelResponse::default());
    let model =
        ToolBlockModel::new(model, &ProviderSettings::new(ProviderKind::OpenAi, "m"), ToolCallStyle::Blocks);
    let expected = format!("{}\n{}", result.to_model_json(), said.invalid_calls[0].message);
    let messages = [user("Look."), ChatMessage::Response(said), ChatMessage::Results(vec![result])];
    model.take_turn(TurnRequest { system: "", messages: &messages, tools: &[] }, &mut |_| {}).await.unwrap();
    let got = model.inner().got.lock().unwrap().clone();
    assert_eq!(got.last(), Some(&ChatMessage::User(expected)));
}
