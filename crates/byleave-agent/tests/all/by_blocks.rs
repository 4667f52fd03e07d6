//! Tool blocks for models without tool calls.

use std::sync::Mutex;

use async_trait::async_trait;
use byleave_agent::by_blocks::{ByBlocks, Calling};
use byleave_agent::model::{Call, CallResult, Fault, Heard, Listener, Message, Model, Said, Stop, Turn};
use byleave_agent::provider::{Kind, Settings};
use serde_json::{Map, json};

use crate::fake::{Answer, Fake, KINDS, Part, reply, tool, user};

const ASKS: [Part; 3] = [
    Part::Text("I look.\n``"),
    Part::Text("`tool\n{\"name\": \"read\", \"args\": {\"path\": \"a.rs\"}, \"reason\": \"to see\"}\n"),
    Part::Text("```\n"),
];

#[tokio::test]
async fn a_model_that_takes_no_tools_gets_blocks_from_then_on() {
    for kind in KINDS {
        let no = json!({"error": {"message": "registry/some-model does not support tools"}}).to_string();
        let script = vec![
            Answer::Status(400, &[], no),
            Answer::Stream(reply(kind, &ASKS)),
            Answer::Stream(reply(kind, &[Part::Text("It is empty.")])),
        ];
        let fake = Fake::new(script).await;
        let model = ByBlocks::new(fake.provider(kind), &fake.settings(kind), Calling::Auto);
        let (mut messages, tools) = (vec![user("Look.")], [tool()]);
        let turn = Turn { system: "Be brief.", messages: &messages, tools: &tools };
        let (said, heard) = fake.turn(&model, turn).await;
        let said = said.unwrap();
        assert_eq!(heard, "anew: \ntext: I look.\n\ncall: read", "{kind:?}");
        assert_eq!((said.text.as_str(), &said.stop), ("I look.\n", &Stop::Calls), "{kind:?}");
        let expected = Call {
            id: "block-1".into(),
            name: "read".into(),
            args: Map::from_iter([("path".to_owned(), json!("a.rs"))]),
            reason: Some("to see".into()),
            seal: None,
        };
        assert_eq!(said.calls, [expected], "{kind:?}");

        messages.push(Message::Said(said));
        let result = CallResult {
            call: "block-1".into(),
            tool: "read".into(),
            success: true,
            ..CallResult::default()
        };
        messages.push(Message::Results(vec![result.clone()]));
        let turn = Turn { system: "Be brief.", messages: &messages, tools: &tools };
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
        assert!(last.contains(&result.told().to_string()), "{kind:?}: {last:?}");
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
        (Kind::Ollama, "gemma3:4b", Calling::Auto, true),
        (Kind::Ollama, "gemma", Calling::Auto, true),
        (Kind::Ollama, "someone/llama2", Calling::Auto, true),
        (Kind::Ollama, "qwen3", Calling::Auto, false),
        (Kind::Ollama, "gemma3:4b", Calling::Native, false),
        (Kind::Gemini, "gemma-3-27b-it", Calling::Auto, true),
        (Kind::Gemini, "gemini-2.5-pro", Calling::Auto, false),
        (Kind::OpenAi, "gpt-5", Calling::Auto, false),
        (Kind::OpenAi, "gpt-5", Calling::Blocks, true),
    ] {
        let model = ByBlocks::new(Scripted::new(&[], Said::default()), &Settings::new(kind, name), calling);
        assert_eq!(model.is_on(), by_blocks, "{name} {calling:?}");
    }
    // Who wants calls and nothing else is told.
    let fake =
        Fake::new(vec![Answer::Status(400, &[], "{\"error\": \"x does not support tools\"}".into())]).await;
    let model = ByBlocks::new(fake.provider(Kind::Ollama), &fake.settings(Kind::Ollama), Calling::Native);
    let (messages, tools) = ([user("Look.")], [tool()]);
    let turn = Turn { system: "", messages: &messages, tools: &tools };
    assert_eq!(fake.turn(&model, turn).await.0, Err(Fault::NoTools));
}

/// A fake model: says what it is told to, to see what is made of it.
struct Scripted {
    hears: Vec<Heard<'static>>,
    said: Said,
    got: Mutex<Vec<Message>>,
}

impl Scripted {
    fn new(hears: &[Heard<'static>], said: Said) -> Self {
        Self { hears: hears.to_vec(), said, got: Mutex::default() }
    }
}

#[async_trait]
impl Model for Scripted {
    async fn turn(&self, turn: Turn<'_>, heard: Listener<'_>) -> Result<Said, Fault> {
        self.got.lock().unwrap().extend_from_slice(turn.messages);
        self.hears.iter().for_each(|piece| heard(*piece));
        Ok(self.said.clone())
    }
}

async fn by_blocks(hears: &[Heard<'static>], said: Said) -> Result<Said, Fault> {
    let model = ByBlocks::new(Scripted::new(hears, said), &Settings::new(Kind::OpenAi, "m"), Calling::Blocks);
    let (messages, tools) = ([user("Look.")], [tool()]);
    model.turn(Turn { system: "", messages: &messages, tools: &tools }, &mut |_| {}).await
}

#[tokio::test]
async fn what_was_heard_before_it_begins_anew_is_no_call() {
    let block = "```tool\n{\"name\": \"write\", \"args\": {}}\n```\n";
    let hears = [Heard::Text(block), Heard::Text("```tool\n{"), Heard::Anew, Heard::Text("Hi")];
    let said = by_blocks(&hears, Said { text: "Hi".into(), ..Said::default() }).await.unwrap();
    assert_eq!((said.text.as_str(), said.calls.len(), said.flaws.len()), ("Hi", 0, 0));
}

#[tokio::test]
async fn what_is_no_block_is_no_call() {
    // Cut off, and by a call of the provider's.
    let text = "```tool\n{\"name\": \"write\", \"args\": {}}";
    let stray = Call { id: "x".into(), name: "write".into(), args: Map::new(), reason: None, seal: None };
    let said = Said { text: text.into(), calls: vec![stray], stop: Stop::Calls, ..Said::default() };
    let said = by_blocks(&[Heard::Text(text)], said).await.unwrap();
    assert_eq!((said.calls.len(), said.flaws.len(), said.stop), (0, 2, Stop::Done));
}

#[tokio::test]
async fn what_is_said_must_have_been_heard() {
    let said = Said { text: "```tool\n{\"name\": \"write\", \"args\": {}}\n```\n".into(), ..Said::default() };
    assert!(matches!(by_blocks(&[], said).await, Err(Fault::Unreadable { .. })));
}

#[tokio::test]
async fn flaws_are_told_with_the_results() {
    let flawed = "```tool\n{}\n```\n```tool\n{\"name\": \"read\", \"args\": {}}\n```\n";
    let said =
        by_blocks(&[Heard::Text(flawed)], Said { text: flawed.into(), ..Said::default() }).await.unwrap();
    assert_eq!((said.calls.len(), said.flaws.len()), (1, 1));
    let result = CallResult { call: said.calls[0].id.clone(), tool: "read".into(), ..CallResult::default() };
    let model = Scripted::new(&[], Said::default());
    let model = ByBlocks::new(model, &Settings::new(Kind::OpenAi, "m"), Calling::Blocks);
    let expected = format!("{}\n{}", result.told(), said.flaws[0].what);
    let messages = [user("Look."), Message::Said(said), Message::Results(vec![result])];
    model.turn(Turn { system: "", messages: &messages, tools: &[] }, &mut |_| {}).await.unwrap();
    let got = model.inner().got.lock().unwrap().clone();
    assert_eq!(got.last(), Some(&Message::User(expected)));
}
