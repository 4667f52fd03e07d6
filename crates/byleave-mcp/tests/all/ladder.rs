//! The approvers in order: the person at the client, the inbox, and calls that wait longer than their client.

use std::time::Duration;

use byleave_gate::core::question::Assurance;
use byleave_mcp::gateway::GatewaySettings;
use rmcp::model::{CallToolResponse, ClientRequest, Request};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};

use crate::stage::{GatewayFixture, SOON, TestClient, VERSIONS, is_error, is_pending, mark, no, text, yes};

fn at_once(stage: &GatewayFixture) -> GatewaySettings {
    GatewaySettings { call_timeout: Some(Duration::ZERO), ..stage.setup() }
}

// req: R5
#[tokio::test]
async fn a_call_is_held_while_the_inbox_can_answer() {
    for version in &VERSIONS {
        let stage = GatewayFixture::new();
        let mut questions = stage.questions();
        let handler = TestClient::new(version);
        let setup = GatewaySettings { progress_interval: Duration::from_millis(20), ..stage.setup() };
        let client = stage.client(setup, handler.clone()).await;
        let peer = client.peer().clone();
        let held = tokio::spawn(async move { peer.call_tool(mark("x")).await });
        let (call, question) = questions.next().await;
        // The client gets progress notifications, more than one and with rising values.
        let ticks = async {
            while handler.progress.lock().unwrap().len() < 3 {
                handler.heard.notified().await;
            }
        };
        tokio::time::timeout(SOON, ticks).await.unwrap();
        assert_eq!(stage.marks(), 0);
        stage.answer(&question, yes()).await;
        let result = tokio::time::timeout(SOON, held).await.unwrap().unwrap().unwrap();
        assert_eq!(text(&result), "mark 1 x", "{version}");
        assert_eq!(stage.marks(), 1);
        let progress = handler.progress.lock().unwrap().clone();
        assert!(progress.iter().all(|(_, words)| words.starts_with("waiting for an answer (")));
        assert!(progress.windows(2).all(|two| two[0].0 < two[1].0), "{progress:?}");
        assert_eq!(stage.answered_by(call).await[0].assurance, Assurance::Terminal);
    }
}

// req: R5
#[tokio::test]
async fn before_the_deadline_it_is_pending_and_the_same_call_picks_it_up_once() {
    for version in &VERSIONS {
        let stage = GatewayFixture::new();
        let mut questions = stage.questions();
        let client = stage.client(at_once(&stage), TestClient::new(version)).await;
        let waits = client.call_tool(mark("x")).await.unwrap();
        let (_, question) = questions.next().await;
        assert!(is_pending(&waits) && !is_error(&waits), "{version}: {}", text(&waits));
        assert!(text(&waits).contains(&question.id.to_string()) && text(&waits).contains("byleave inbox"));
        // Not answered yet: repeating the call continues the same call.
        let again = client.call_tool(mark("x")).await.unwrap();
        assert!(is_pending(&again) && text(&again).contains(&question.id.to_string()));
        // A call with other arguments is another call.
        let other = client.call_tool(mark("y")).await.unwrap();
        assert!(is_pending(&other) && !text(&other).contains(&question.id.to_string()));
        stage.answer(&question, yes()).await;
        let picked_up = client.call_tool(mark("x")).await.unwrap();
        assert!(text(&picked_up).ends_with("mark 1 x"), "{version}: {}", text(&picked_up));
        assert_eq!(stage.marks(), 1);
        // The result was delivered, so the same call is a new one and is asked about.
        let new = client.call_tool(mark("x")).await.unwrap();
        assert!(is_pending(&new) && !text(&new).contains(&question.id.to_string()));
        assert_eq!(stage.marks(), 1, "{version}: one yes, one run");
    }
}

// req: R5
#[tokio::test]
async fn a_no_is_picked_up_once_too() {
    let stage = GatewayFixture::new();
    let mut questions = stage.questions();
    let client = stage.client(at_once(&stage), TestClient::new(&VERSIONS[1])).await;
    assert!(is_pending(&client.call_tool(mark("x")).await.unwrap()));
    let (_, question) = questions.next().await;
    stage.answer(&question, no("write it down instead")).await;
    let refused = client.call_tool(mark("x")).await.unwrap();
    assert!(is_error(&refused) && text(&refused).contains("write it down instead"));
    assert!(text(&refused).contains("declined"));
    assert_eq!(stage.marks(), 0);
}

// req: R5
#[tokio::test]
async fn a_restart_between_the_answer_and_the_pick_up_loses_nothing_and_repeats_nothing() {
    for restart_before_answer in [true, false] {
        let mut stage = GatewayFixture::new();
        let mut questions = stage.questions();
        let client = stage.client(at_once(&stage), TestClient::new(&VERSIONS[1])).await;
        assert!(is_pending(&client.call_tool(mark("x")).await.unwrap()));
        let (call, question) = questions.next().await;
        client.cancel().await.unwrap();
        if restart_before_answer {
            stage.restart();
        }
        stage.answer(&question, yes()).await;
        // As the inbox does: the process that records the answer also resumes the call.
        stage.gate.resume(call).await;
        assert_eq!(stage.marks(), 1);
        stage.restart();
        let client = stage.client(at_once(&stage), TestClient::new(&VERSIONS[1])).await;
        let picked_up = client.call_tool(mark("x")).await.unwrap();
        assert!(text(&picked_up).ends_with("mark 1 x"), "{}", text(&picked_up));
        assert!(is_pending(&client.call_tool(mark("x")).await.unwrap()), "and then it is a new one");
        assert_eq!(stage.marks(), 1);
    }
}

// req: R5
#[tokio::test]
async fn two_same_calls_at_once_are_two_calls_and_each_is_picked_up() {
    let stage = GatewayFixture::new();
    let mut questions = stage.questions();
    let setup = GatewaySettings { call_timeout: Some(Duration::from_millis(1_500)), ..stage.setup() };
    let client = stage.client(setup, TestClient::new(&VERSIONS[1])).await;
    let both = || async { tokio::join!(client.call_tool(mark("x")), client.call_tool(mark("x"))) };
    let (first, second) = both().await;
    assert!(is_pending(&first.unwrap()) && is_pending(&second.unwrap()));
    let (_, first) = questions.next().await;
    stage.answer(&first, yes()).await;
    // The second waits for the first, and asks when that is done. On a slow machine both are still pending at the deadline.
    let (picked_up, other) = loop {
        let (picked_up, other) = both().await;
        let (picked_up, other) = (picked_up.unwrap(), other.unwrap());
        if !is_pending(&picked_up) || !is_pending(&other) {
            break (picked_up, other);
        }
    };
    let one = [&picked_up, &other].into_iter().filter(|result| text(result).contains("mark 1 x")).count();
    assert_eq!((one, stage.marks()), (1, 1), "{} / {}", text(&picked_up), text(&other));
    let (_, second) = questions.next().await;
    stage.answer(&second, yes()).await;
    let rest = loop {
        let rest = client.call_tool(mark("x")).await.unwrap();
        if !is_pending(&rest) {
            break rest;
        }
    };
    assert!(text(&rest).contains("mark 2 x"), "{}", text(&rest));
    assert_eq!(stage.marks(), 2);
}

// req: R5
#[tokio::test]
async fn a_cancelled_call_withdraws_its_question() {
    for version in &VERSIONS {
        let stage = GatewayFixture::new();
        let mut questions = stage.questions();
        let client = stage.client(stage.setup(), TestClient::new(version)).await;
        let request = ClientRequest::CallToolRequest(Request::new(mark("x")));
        let handle =
            client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
        let (call, question) = questions.next().await;
        handle.cancel(None).await.unwrap();
        let withdrawn = async {
            while stage.gate.question_view(question.id).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, withdrawn).await.unwrap();
        assert!(stage.answered_by(call).await.is_empty());
        assert_eq!(stage.marks(), 0);
    }
}

// req: R5
#[tokio::test]
async fn the_clients_person_is_asked_where_the_client_can() {
    for version in &VERSIONS {
        let stage = GatewayFixture::new();
        let mut questions = stage.questions();
        let said = json!({"action": "accept", "content": {"decision": "once", "reason": "go on"}});
        let handler = TestClient::new(version).with_form(said);
        let client = stage.client(stage.setup(), handler.clone()).await;
        let result = client.call_tool(mark("x")).await.unwrap();
        assert!(text(&result).ends_with("mark 1 x"), "{version}: {}", text(&result));
        assert_eq!(stage.marks(), 1);
        let shown = handler.shown.lock().unwrap().clone();
        assert_eq!(shown.len(), 1, "{version}: asked once");
        assert!(shown[0].contains("mark") && shown[0].contains("invoke"), "{}", shown[0]);
        let (call, _) = questions.next().await;
        let by = stage.answered_by(call).await;
        assert_eq!(by.len(), 1);
        assert_eq!(by[0].assurance, Assurance::ClientAttested);
        assert_eq!(by[0].name, "tester (elicitation)");
    }
}

// req: R5
#[tokio::test]
async fn what_is_not_a_yes_is_none() {
    for version in &VERSIONS {
        for (said, refused) in [
            (json!({"action": "decline"}), true),
            (json!({"action": "accept", "content": {"decision": "deny", "reason": "no way"}}), true),
            (json!({"action": "cancel"}), false),
            (json!({"action": "accept", "content": {"decision": "always"}}), false),
        ] {
            let stage = GatewayFixture::new();
            // A refusal must come before the deadline, also on a slow machine. The others wait until the
            // deadline passes.
            let deadline = if refused { SOON } else { Duration::from_millis(400) };
            let setup = GatewaySettings { call_timeout: Some(deadline), ..stage.setup() };
            let client = stage.client(setup, TestClient::new(version).with_form(said.clone())).await;
            let result = client.call_tool(mark("x")).await.unwrap();
            assert_eq!((is_error(&result), is_pending(&result)), (refused, !refused), "{version} {said}");
            assert_eq!(stage.marks(), 0, "{version} {said}");
        }
    }
}

// req: R5, R7
#[tokio::test]
async fn a_client_that_declines_at_once_has_nobody_to_ask() {
    for version in &VERSIONS {
        let stage = GatewayFixture::new();
        let mut questions = stage.questions();
        let setup = GatewaySettings { min_decline_time: Duration::from_secs(3_600), ..stage.setup() };
        let handler = TestClient::new(version).with_form(json!({"action": "decline"}));
        let client = stage.client(setup, handler).await;
        let held = tokio::spawn(async move { client.call_tool(mark("x")).await });
        let (call, question) = questions.next().await;
        stage.answer(&question, yes()).await;
        let result = tokio::time::timeout(SOON, held).await.unwrap().unwrap().unwrap();
        assert_eq!(text(&result), "mark 1 x", "{version}");
        assert_eq!(stage.answered_by(call).await[0].assurance, Assurance::Terminal);
    }
}

// req: R5
#[tokio::test]
async fn the_inbox_can_be_quicker_than_the_clients_person() {
    let stage = GatewayFixture::new();
    let mut questions = stage.questions();
    let client = stage.client(stage.setup(), TestClient::new(&VERSIONS[1]).with_form(Value::Null)).await;
    let peer = client.peer().clone();
    let held = tokio::spawn(async move { peer.call_tool(mark("x")).await });
    let (call, question) = questions.next().await;
    stage.answer(&question, yes()).await;
    let result = tokio::time::timeout(SOON, held).await.unwrap().unwrap().unwrap();
    assert_eq!(text(&result), "mark 1 x");
    assert_eq!(stage.answered_by(call).await[0].assurance, Assurance::Terminal);
}

// req: R5
#[tokio::test]
async fn forms_can_be_turned_off() {
    for version in &VERSIONS {
        let stage = GatewayFixture::new();
        let said = json!({"action": "accept", "content": {"decision": "once"}});
        let handler = TestClient::new(version).with_form(said);
        let client =
            stage.client(GatewaySettings { elicitation: false, ..at_once(&stage) }, handler.clone()).await;
        assert!(is_pending(&client.call_tool(mark("x")).await.unwrap()));
        assert!(handler.shown.lock().unwrap().is_empty());
    }
}

// req: R5
#[tokio::test]
async fn an_answer_that_a_client_brings_back_counts_once_and_for_its_call_only() {
    let stage = GatewayFixture::new();
    let client = stage.client(stage.setup(), TestClient::new(&VERSIONS[2]).with_form(Value::Null)).await;
    let CallToolResponse::InputRequired(asks) = client.call_tool_once(mark("x")).await.unwrap() else {
        panic!("it was not asked");
    };
    let with_answer = |mut request: rmcp::model::CallToolRequestParams| {
        let said = json!({"action": "accept", "content": {"decision": "once"}});
        request.input_responses = Some([("byleave".to_owned(), said)].into());
        request.request_state = asks.request_state.clone();
        request
    };
    let complete = |response| match response {
        CallToolResponse::Complete(result) => result,
        other => panic!("not complete: {other:?}"),
    };
    // The answer is not valid for other arguments.
    let other = complete(client.call_tool_once(with_answer(mark("y"))).await.unwrap());
    assert!(is_error(&other), "{}", text(&other));
    assert_eq!(stage.marks(), 0);
    let done = complete(client.call_tool_once(with_answer(mark("x"))).await.unwrap());
    assert!(text(&done).ends_with("mark 1 x"), "{}", text(&done));
    // The answer is valid only once.
    let again = complete(client.call_tool_once(with_answer(mark("x"))).await.unwrap());
    assert!(is_error(&again) && text(&again).contains("already used"), "{}", text(&again));
    assert_eq!(stage.marks(), 1);
}
