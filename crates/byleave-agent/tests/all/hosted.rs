//! A persona that its provider hosts (L11): no prompt is sent, and tools are called by blocks or natively.

use byleave_agent::model::{ChatMessage, ModelError, ModelResponse, ToolResult, TurnRequest};
use byleave_agent::provider::ProviderKind;
use byleave_agent::tool_block_adapter::{ToolBlockModel, ToolCallStyle};
use serde_json::Value;

use crate::fake::{FakeProvider, FakeResponse, KINDS, ReplyPart, reply, tool, user};

const BLOCK: &str = "I look.\n```tool\n{\"name\": \"read\", \"args\": {\"path\": \"a\"}}\n```\n";
const BOTH: [ReplyPart; 2] = [ReplyPart::Text(BLOCK), ReplyPart::Call("read", &["{\"path\": \"b\"}"])];
const DONE: [ReplyPart; 1] = [ReplyPart::Text("Done.")];

/// Checks that a request has no system prompt, in any provider's format.
fn has_no_system(body: &Value) -> bool {
    let mut messages = body["messages"].as_array().into_iter().flatten();
    body.get("system").is_none()
        && body.get("systemInstruction").is_none()
        && messages.all(|message| message["role"] != "system")
}

fn result(said: &ModelResponse, place: usize, output: &str) -> ToolResult {
    let call_id = said.calls.get(place).unwrap().id.clone();
    let (tool, output) = ("read".to_owned(), output.to_owned());
    ToolResult { call_id, tool, success: true, output, ..ToolResult::default() }
}

// req: L8, L11, L1
#[tokio::test]
async fn blocks_and_native_calls_are_both_calls_and_no_prompt_is_sent() {
    for kind in KINDS {
        let script = [&BOTH[..], &DONE[..]].map(|parts| FakeResponse::Stream(reply(kind, parts)));
        let fake = FakeProvider::new(script.into()).await;
        let model = ToolBlockModel::hosted(fake.provider(kind), ToolCallStyle::Auto);
        let (mut messages, tools) = (vec![user("Look.")], [tool()]);
        // Even a caller that has a prompt cannot send it.
        let turn = TurnRequest { system: "Be brief.", messages: &messages, tools: &tools };
        let (said, heard) = fake.turn(&model, turn).await;
        let said = said.unwrap();
        assert_eq!(heard, "text: I look.\n\ncall: read\ncall: read", "{kind:?}");
        assert_eq!((said.text.as_str(), said.invalid_calls.len()), ("I look.\n", 0), "{kind:?}");
        let paths: Vec<&Value> = said.calls.iter().map(|call| &call.args["path"]).collect();
        assert_eq!(paths, ["a", "b"], "{kind:?}");
        let reasons: Vec<Option<String>> = said.calls.iter().map(|call| said.reason_for(call)).collect();
        assert_eq!(reasons, [Some("I look.".to_owned()), Some("I look.".to_owned())], "{kind:?}");

        let results = vec![result(&said, 0, "this is a"), result(&said, 1, "this is b")];
        messages.extend([ChatMessage::Response(said), ChatMessage::Results(results)]);
        let turn = TurnRequest { system: "Be brief.", messages: &messages, tools: &tools };
        assert_eq!(fake.turn(&model, turn).await.0.unwrap().text, "Done.", "{kind:?}");

        let got = fake.got();
        assert!(got.iter().all(|request| has_no_system(&request.body)), "{kind:?}: {got:?}");
        let body = got.last().unwrap().body.to_string();
        assert!(!body.contains("Be brief.") && body.contains("```tool"), "{kind:?}: {body}");
        assert!(!body.contains("block-1"), "only its text tells of a block: {kind:?}: {body}");
        assert!(body.contains("this is a") && body.contains("this is b"), "{kind:?}: {body}");
    }
}

// req: L11
#[tokio::test]
async fn a_style_chooses_one_of_the_ways() {
    let kind = ProviderKind::OpenAi;
    for (style, calls, invalid, tools_sent) in
        [(ToolCallStyle::Blocks, "a", 1, false), (ToolCallStyle::Native, "b", 0, true)]
    {
        let fake = FakeProvider::new(vec![FakeResponse::Stream(reply(kind, &BOTH))]).await;
        let model = ToolBlockModel::hosted(fake.provider(kind), style);
        let (messages, tools) = ([user("Look.")], [tool()]);
        let turn = TurnRequest { system: "Be brief.", messages: &messages, tools: &tools };
        let said = fake.turn(&model, turn).await.0.unwrap();
        let paths: Vec<&Value> = said.calls.iter().map(|call| &call.args["path"]).collect();
        assert_eq!((paths, said.invalid_calls.len()), (vec![&Value::from(calls)], invalid), "{style:?}");
        let body = fake.got().first().unwrap().body.clone();
        assert!(has_no_system(&body) && body.get("tools").is_some() == tools_sent, "{style:?}: {body}");
    }
}

// req: L11
#[tokio::test]
async fn a_provider_without_tool_calls_is_asked_again_without_tools_and_without_a_prompt() {
    for kind in KINDS {
        let no = "{\"error\": {\"message\": \"some-model does not support tools\"}}".to_owned();
        let script = vec![
            FakeResponse::Status(400, &[], no),
            FakeResponse::Stream(reply(kind, &[ReplyPart::Text(BLOCK)])),
        ];
        let fake = FakeProvider::new(script).await;
        let model = ToolBlockModel::hosted(fake.provider(kind), ToolCallStyle::Auto);
        let (messages, tools) = ([user("Look.")], [tool()]);
        let turn = TurnRequest { system: "", messages: &messages, tools: &tools };
        let said: Result<ModelResponse, ModelError> = fake.turn(&model, turn).await.0;
        assert_eq!(said.unwrap().calls.len(), 1, "{kind:?}");
        let got = fake.got();
        assert!(got.iter().all(|request| has_no_system(&request.body)), "{kind:?}: {got:?}");
        assert!(got.last().unwrap().body.get("tools").is_none(), "{kind:?}: {got:?}");
    }
}
