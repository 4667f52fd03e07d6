//! Calls over HTTP: made once, awaited, looked up and cancelled.

use std::sync::atomic::Ordering;

use byleave_server::principal::AccessScope;
use serde_json::json;

use crate::stage::{ServerFixture, ServerTestSettings, files_hold};

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_another_body_is_refused_whether_or_not_it_is_waited_for() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    for round in 0..60 {
        let (key, wait) = (format!("k{round}"), round % 2);
        let body = |text: &str| json!({"tool": "echo", "arguments": {"text": text}});
        let first = stage.call(&bot, &key, 0, &body("first")).await;
        let second = stage.call(&bot, &key, wait, &body("second")).await;
        assert!(matches!(first.status, 200 | 202), "{}", first.text);
        second.is_problem(409, "call-reused");
        assert_eq!(stage.call(&bot, &key, 30, &body("first")).await.json["result"]["output"], "first");
    }
}

// req: E1
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_made_and_settles() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let heard = stage.call(&bot, "k1", 30, &json!({"tool": "echo", "arguments": {"text": "hi"}})).await;
    assert_eq!(heard.status, 200, "{}", heard.text);
    let result = &heard.json["result"];
    assert_eq!((result["outcome"].as_str(), result["output"].as_str()), (Some("completed"), Some("hi")));
    assert_eq!(heard.headers["location"], format!("/v1/calls/{}", heard.json["call"].as_str().unwrap()));
    assert_eq!(heard.headers["cache-control"], "no-store");
    assert!(heard.headers["content-security-policy"].contains("default-src 'none'"));
    // The result is found again by the id of the call.
    let again = stage.settled(&bot, heard.json["call"].as_str().unwrap()).await;
    assert_eq!(again, *result);
    assert!(!files_hold(&stage, &bot), "the token is nowhere on the disk");
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn whoever_looks_at_a_settled_call_sees_its_end_without_waiting() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let made = stage.call(&bot, "k", 30, &json!({"tool": "echo", "arguments": {"text": "hi"}})).await;
    let place = made.headers["location"].clone();
    // Many requests at once, so that each has to wait for a thread.
    for _ in 0..20 {
        let looks = (0..50).map(|_| stage.ask(&bot, "GET", &place, None));
        for seen in futures::future::join_all(looks).await {
            assert_eq!(seen.json["state"], "settled", "{}", seen.text);
        }
    }
}

// req: E1
#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_is_the_same_call_and_another_body_is_refused() {
    let stage = ServerFixture::with(ServerTestSettings {
        mode: byleave_gate::core::call::Mode::Yolo,
        ..ServerTestSettings::default()
    })
    .await;
    let bot = stage.agent("bot");
    let body = json!({"tool": "note", "arguments": {"text": "x"}});
    let first = stage.call(&bot, "k", 30, &body).await;
    assert_eq!(first.json["result"]["output"], "noted x as 1", "{}", first.text);
    for _ in 0..3 {
        assert_eq!(stage.call(&bot, "k", 30, &body).await.json, first.json);
    }
    let other = json!({"tool": "note", "arguments": {"text": "y"}});
    let refused = stage.call(&bot, "k", 30, &other).await;
    refused.is_problem(409, "call-reused");
    assert!(refused.json["type"].as_str().unwrap().ends_with("docs/refusals/call-reused.md"));
    // Many identical calls at once, too.
    let calls = (0..8).map(|_| stage.call(&bot, "k2", 30, &body));
    let heard = futures::future::join_all(calls).await;
    assert!(heard.iter().all(|heard| heard.json["result"]["output"] == "noted x as 2"), "{heard:?}");
    assert_eq!(stage.notes.load(Ordering::SeqCst), 2);
    // A key belongs to its principal.
    let second = stage.agent("second");
    assert_eq!(stage.call(&second, "k", 30, &body).await.json["result"]["output"], "noted x as 3");
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_is_a_result_with_its_code_and_page() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    for (key, body, code) in [
        ("a", json!({"tool": "nothing"}), "tool-unknown"),
        ("b", json!({"tool": "echo", "arguments": {"txt": 1}}), "arguments-invalid"),
    ] {
        let heard = stage.call(&bot, key, 30, &body).await;
        let refusal = &heard.json["result"]["refusal"];
        assert_eq!((heard.status, refusal["code"].as_str()), (200, Some(code)), "{}", heard.text);
        assert!(refusal["page"].as_str().unwrap().ends_with(&format!("docs/refusals/{code}.md")));
    }
}

// req: E5
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_and_an_explanation_run_nothing() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Read]));
    let body = json!({"tool": "note", "arguments": {"text": "x"}, "dry_run": true});
    let heard = stage.call(&bot, "k", 30, &body).await;
    assert_eq!(heard.json["result"]["outcome"], "dry-run", "{}", heard.text);
    let explain = json!({"tool": "note", "arguments": {"text": "x"}});
    let heard = stage.ask(&ann, "POST", "/v1/policy/explain", Some(&explain)).await;
    assert_eq!((heard.status, heard.json["verdict"].as_str()), (200, Some("ask")), "{}", heard.text);
    assert_eq!(heard.json["effects"], json!([{"kind": "invoke", "tool": "note"}]));
    let unknown = stage.ask(&ann, "POST", "/v1/policy/explain", Some(&json!({"tool": "none"}))).await;
    assert_eq!(unknown.json["refusal"]["code"], "tool-unknown", "{}", unknown.text);
    // Only the dry run is in the audit log.
    let calls = stage.ask(&ann, "GET", "/v1/log/calls", None).await;
    assert_eq!(calls.json["calls"].as_array().unwrap().len(), 1, "{}", calls.text);
    assert_eq!(stage.notes.load(Ordering::SeqCst), 0);
}

// req: P2
#[tokio::test(flavor = "multi_thread")]
async fn a_call_cannot_choose_a_looser_mode_than_the_servers() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let call = |mode: &str| json!({"tool": "note", "arguments": {"text": "x"}, "mode": mode});
    stage.call(&bot, "a", 0, &call("yolo")).await.is_problem(403, "forbidden");
    stage.call(&bot, "b", 0, &call("confirm-dangerous")).await.is_problem(403, "forbidden");
    stage.call(&bot, "c", 0, &call("anything")).await.is_problem(400, "malformed");
    let strict = json!({"tool": "echo", "arguments": {"text": "x"}, "mode": "confirm-all"});
    let strict = stage.call(&bot, "d", 0, &strict).await;
    let call = strict.json["call"].as_str().unwrap().to_owned();
    loop {
        let standing = stage.ask(&bot, "GET", &format!("/v1/calls/{call}"), None).await;
        if standing.json["state"] == "waiting" {
            break;
        }
        assert_eq!(standing.json["state"], "running", "{}", standing.text);
    }
    assert_eq!(stage.notes.load(Ordering::SeqCst), 0);
}

// req: E2
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_stops_nothing_and_a_cancellation_does() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let heard = stage.call(&bot, "k", 0, &json!({"tool": "hang"})).await;
    assert_eq!((heard.status, heard.json["state"].as_str()), (202, Some("running")), "{}", heard.text);
    let call = heard.json["call"].as_str().unwrap();
    let path = format!("/v1/calls/{call}/cancel?wait=60");
    // Another agent cannot cancel the call.
    let other = stage.agent("other");
    stage.ask(&other, "POST", &path, None).await.is_problem(404, "not-found");
    let heard = stage.ask(&bot, "POST", &path, None).await;
    assert_eq!(heard.status, 200, "{}", heard.text);
    assert_ne!(heard.json["result"]["outcome"], "completed", "{}", heard.text);
    // A waiting call is refused when it is cancelled.
    let (call, _, _) = stage.waiting(&bot, "w").await;
    let heard = stage.ask(&bot, "POST", &format!("/v1/calls/{call}/cancel?wait=60"), None).await;
    assert_eq!(heard.json["result"]["refusal"]["code"], "cancelled", "{}", heard.text);
}

// req: A1
#[tokio::test(flavor = "multi_thread")]
async fn the_book_is_listed_read_exported_and_verified() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Read]));
    for key in ["a", "b", "c"] {
        stage.call(&bot, key, 30, &json!({"tool": "echo", "arguments": {"text": "a secret word"}})).await;
    }
    let first = stage.ask(&ann, "GET", "/v1/log/calls?limit=2", None).await;
    let calls = first.json["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2, "{}", first.text);
    let rest = format!("/v1/log/calls?limit=2&after={}", calls[1]["cursor"]);
    assert_eq!(stage.ask(&ann, "GET", &rest, None).await.json["calls"].as_array().unwrap().len(), 1);
    let record = format!("/v1/log/calls/{}", calls[0]["call"].as_str().unwrap());
    let record = stage.ask(&ann, "GET", &record, None).await;
    assert!(record.json["entries"].as_array().unwrap().len() > 5, "{}", record.text);
    let export = stage.ask(&ann, "GET", "/v1/audit/export", None).await;
    assert_eq!((export.status, export.text.lines().count()), (200, 3), "{}", export.text);
    let markdown = stage.ask(&ann, "GET", "/v1/audit/export?format=markdown", None).await;
    assert_eq!(markdown.text.matches("## Call").count(), 3);
    assert!(!export.text.contains("a secret word") && !record.text.contains("a secret word"));
    let verified = stage.ask(&ann, "POST", "/v1/audit/verify", None).await;
    assert_eq!((verified.json["intact"].as_bool(), verified.json["records"].as_u64()), (Some(true), Some(3)));
}

// req: P2
#[tokio::test(flavor = "multi_thread")]
async fn a_halt_refuses_everything_until_it_is_lifted() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Administer]));
    let heard = stage.ask(&ann, "PUT", "/v1/halt", Some(&json!({"reason": "lunch"}))).await;
    assert_eq!(heard.status, 204, "{}", heard.text);
    assert_eq!(stage.ask(&bot, "GET", "/v1/halt", None).await.json["reason"], "lunch");
    let body = json!({"tool": "echo", "arguments": {"text": "x"}});
    let heard = stage.call(&bot, "a", 30, &body).await;
    assert_eq!(heard.json["result"]["refusal"]["code"], "halted", "{}", heard.text);
    assert_eq!(stage.ask(&ann, "DELETE", "/v1/halt", None).await.status, 204);
    assert_eq!(stage.call(&bot, "b", 30, &body).await.json["result"]["outcome"], "completed");
}
