//! Listing and calling tools, progress and cancellation, in every version of the protocol.

use std::time::Duration;

use rmcp::model::{ClientRequest, PaginatedRequestParams, Request, RequestMetaObject};
use rmcp::service::PeerRequestOptions;
use serde_json::json;

use crate::stage::{GatewayFixture, SOON, TestClient, VERSIONS, call, is_error, text};

// req: M1
#[tokio::test]
async fn tools_are_listed_and_called_in_every_version() {
    for version in &VERSIONS {
        let stage = GatewayFixture::new();
        let client = stage.client(stage.setup(), TestClient::new(version)).await;
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["echo", "mark", "slow"], "{version}: nothing else, and nothing that answers");
        let echo = &tools[0];
        assert_eq!(echo.description.as_deref(), Some("Says a text back."));
        assert!(echo.input_schema.get("properties").is_some_and(|of| of.get("text").is_some()));
        let said = client.call_tool(call("echo", json!({"text": "hello"}))).await.unwrap();
        assert_eq!((text(&said).as_str(), is_error(&said)), ("hello", false), "{version}");
    }
}

// req: M1
#[tokio::test]
async fn a_list_goes_on_where_the_page_before_ended() {
    let stage = GatewayFixture::new();
    for n in 0..130 {
        let name = format!("more_{n:03}");
        let more = byleave_gate::typed_tool::TypedTool::new(name, "More.", |_: EmptyArguments, _run| async {
            "more"
        });
        stage.gate.catalog().register(more).unwrap();
    }
    let client = stage.client(stage.setup(), TestClient::new(&VERSIONS[1])).await;
    let first = client.list_tools(None).await.unwrap();
    assert_eq!(first.tools.len(), 100);
    let next = PaginatedRequestParams::default().with_cursor(first.next_cursor);
    let second = client.list_tools(Some(next)).await.unwrap();
    assert_eq!((second.tools.len(), second.next_cursor), (33, None));
    let wrong = PaginatedRequestParams::default().with_cursor(Some("nonsense".into()));
    assert!(client.list_tools(Some(wrong)).await.is_err());
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EmptyArguments {}

// req: M1
#[tokio::test]
async fn a_refusal_is_an_error_that_the_model_can_read() {
    for version in &VERSIONS {
        let stage = GatewayFixture::new();
        let client = stage.client(stage.setup(), TestClient::new(version)).await;
        for (wrong, code) in [
            (call("echo", json!({"text": 1})), "arguments-invalid"),
            (call("nothing_such", json!({})), "tool-unknown"),
        ] {
            let refused = client.call_tool(wrong).await.unwrap();
            assert!(is_error(&refused), "{version}");
            assert!(text(&refused).contains(code), "{version}: {}", text(&refused));
            let meta = refused.meta.unwrap();
            assert_eq!(meta.get("byleave/code").unwrap(), code, "{version}");
        }
    }
}

// req: M1
#[tokio::test]
async fn progress_comes_under_the_callers_token_and_a_cancelled_tool_stops() {
    for version in &VERSIONS {
        let stage = GatewayFixture::new();
        let handler = TestClient::new(version);
        let client = stage.client(stage.setup(), handler.clone()).await;
        let request = ClientRequest::CallToolRequest(Request::new(call("slow", json!({}))));
        let handle =
            client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
        tokio::time::timeout(SOON, stage.deeds.slow_began.notified()).await.unwrap();
        let both = async {
            while handler.progress.lock().unwrap().len() < 2 {
                handler.heard.notified().await;
            }
        };
        tokio::time::timeout(SOON, both).await.unwrap();
        let progress = handler.progress.lock().unwrap().clone();
        assert_eq!(progress, [(0.25, "a quarter".into()), (0.5, "half".into())], "{version}");
        handle.cancel(Some("enough".into())).await.unwrap();
        tokio::time::timeout(SOON, stage.deeds.slow_stopped.notified()).await.unwrap();
    }
}

// req: M1
#[tokio::test]
async fn calls_run_beside_each_other() {
    let stage = GatewayFixture::new();
    let client = stage.client(stage.setup(), TestClient::new(&VERSIONS[1])).await;
    let request = ClientRequest::CallToolRequest(Request::new(call("slow", json!({}))));
    let slow = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
    tokio::time::timeout(SOON, stage.deeds.slow_began.notified()).await.unwrap();
    let said = client.call_tool(call("echo", json!({"text": "beside"}))).await.unwrap();
    assert_eq!(text(&said), "beside");
    slow.cancel(None).await.unwrap();
    tokio::time::timeout(SOON, stage.deeds.slow_stopped.notified()).await.unwrap();
}

// req: M1
#[tokio::test]
async fn a_reason_is_passed_to_who_is_asked_as_the_models_words() {
    let stage = GatewayFixture::new();
    let mut questions = stage.questions();
    let setup = byleave_mcp::gateway::GatewaySettings { call_timeout: Some(Duration::ZERO), ..stage.setup() };
    let client = stage.client(setup, TestClient::new(&VERSIONS[2])).await;
    let mut request = crate::stage::mark("x");
    let mut meta = RequestMetaObject::new();
    meta.insert("byleave/reason".into(), "because I say so".into());
    request.meta = Some(meta);
    client.call_tool(request).await.unwrap();
    let (_, question) = questions.next().await;
    let sheet = stage.gate.question_view(question.id).await.unwrap();
    assert_eq!(sheet.reason.as_deref(), Some("because I say so"));
    assert_eq!(sheet.agent.as_str(), "tester");
}
