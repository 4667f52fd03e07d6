//! Client tools: functions in the process of the caller. They are judged, asked about and recorded like any other tool, and run once.

use byleave_server::principal::AccessScope;
use serde_json::{Value, json};

use crate::stage::{ServerFixture, TestResponse};

const CLAIM: &str = "0123456789abcdef";

async fn register(stage: &ServerFixture, token: &str, name: &str, more: Value) -> TestResponse {
    let mut body = json!({
        "description": "Pays money back.",
        "input_schema": {
            "type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"],
        },
        "class": "readonly", "sensitive": false,
    });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    stage.ask(token, "PUT", &format!("/v1/client-tools/{name}"), Some(&body)).await
}

async fn submit(stage: &ServerFixture, token: &str, key: &str, more: Value) -> Value {
    let mut body = json!({"tool": "client.bot.refund", "arguments": {"cents": 5}});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    let heard = stage.call(token, key, 30, &body).await;
    assert!(heard.status < 300, "{}", heard.text);
    heard.json
}

async fn take(stage: &ServerFixture, token: &str, call: &str, claim: &str) -> TestResponse {
    let path = format!("/v1/calls/{call}/claim?wait=30");
    stage.ask(token, "POST", &path, Some(&json!({"claim": claim}))).await
}

async fn report(stage: &ServerFixture, token: &str, call: &str, body: Value) -> TestResponse {
    stage.ask(token, "POST", &format!("/v1/calls/{call}/report?wait=30"), Some(&body)).await
}

fn id(standing: &Value) -> &str {
    standing["call"].as_str().unwrap()
}

/// Makes a call that is ready to be claimed.
async fn ready(stage: &ServerFixture, token: &str, key: &str) -> String {
    let name = register(stage, token, "refund", json!({})).await;
    assert_eq!(name.json["tool"], "client.bot.refund", "{}", name.text);
    // Each call has its own session, because a claimed call blocks its session.
    let standing = submit(stage, token, key, json!({"session": key})).await;
    assert_eq!(standing["state"], "ready", "{standing}");
    id(&standing).to_owned()
}

// req: E1
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_taken_run_and_reported_once() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let call = ready(&stage, &bot, "k").await;
    let taken = take(&stage, &bot, &call, CLAIM).await;
    assert_eq!((taken.status, &taken.json["state"]), (202, &json!("claimed")), "{}", taken.text);
    assert_eq!(taken.json["arguments"], json!({"cents": 5}));
    // The same claim finds the call again. Another claim is refused, now and when it comes with the same key.
    assert_eq!(take(&stage, &bot, &call, CLAIM).await.json, taken.json);
    take(&stage, &bot, &call, "another-claim-of-it").await.is_problem(409, "claimed");
    report(&stage, &bot, &call, json!({"claim": "another-claim-of-it", "text": "x"}))
        .await
        .is_problem(409, "claimed");
    let done =
        report(&stage, &bot, &call, json!({"claim": CLAIM, "text": "paid", "data": {"value": 5}})).await;
    let result = &done.json["result"];
    assert_eq!((result["outcome"].as_str(), result["output"].as_str()), (Some("completed"), Some("paid")));
    assert_eq!(result["data"], json!({"value": 5}));
    // The first report is final, and a settled call is not handed out.
    let again = report(&stage, &bot, &call, json!({"claim": CLAIM, "text": "other"})).await;
    assert_eq!(again.json["result"], *result);
    assert_eq!(take(&stage, &bot, &call, "another-claim-of-it").await.json["result"], *result);
}

// req: T5, G3, R9
#[tokio::test(flavor = "multi_thread")]
async fn everything_that_a_tool_can_declare_can_be_declared_over_http() {
    let stage = ServerFixture::new().await;
    let (bot, other) = (stage.agent("bot"), stage.agent("other"));
    let more = json!({
        "aliases": ["pay_back", "repay"], "search_hint": "give customers their money back",
        "requires_reverse_thinking": true, "reversible": true,
    });
    let made = register(&stage, &bot, "refund", more.clone()).await;
    assert_eq!(made.status, 200, "{}", made.text);
    // The same declaration again is no change.
    assert_eq!(register(&stage, &bot, "refund", more).await.status, 200);
    // An alias is called like the name, and belongs to the same principal. The person who answers makes the case against the call.
    let body = json!({"tool": "client.bot.pay_back", "arguments": {"cents": 5}});
    let mut waits = stage.call(&bot, "a", 0, &body).await.json;
    while waits["state"] == "running" {
        waits = stage.ask(&bot, "GET", &format!("/v1/calls/{}?wait=1", id(&waits)), None).await.json;
    }
    assert_eq!(waits["question"]["kind"], "approval", "{waits}");
    assert!(stage.call(&other, "b", 0, &body).await.status >= 400);
    // An alias cannot be the name of another tool, of another principal, or have the form of one.
    let taken = register(&stage, &bot, "second", json!({"aliases": ["refund"]})).await;
    taken.is_problem(422, "unusable");
    register(&stage, &bot, "third", json!({"aliases": ["other.refund"]})).await.is_problem(422, "unusable");
    register(&stage, &bot, "fourth", json!({"search_hint": "money"})).await.is_problem(422, "unusable");
    assert_eq!(register(&stage, &other, "x", json!({"aliases": ["refund"]})).await.status, 200);
    // A client cannot declare that its function may run twice.
    register(&stage, &bot, "fifth", json!({"idempotent": true})).await.is_problem(400, "malformed");
}

// req: R2
#[tokio::test(flavor = "multi_thread")]
async fn what_the_makers_reviewers_say_is_on_the_record() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let ann = stage.person("ann", &[AccessScope::Read]);
    register(&stage, &bot, "refund", json!({})).await;
    let denied =
        submit(&stage, &bot, "a", json!({"review": {"opinion": "deny", "reason": "too much"}})).await;
    let refusal = &denied["result"]["refusal"];
    assert_eq!(
        (denied["result"]["outcome"].as_str(), refusal["code"].as_str()),
        (Some("refused"), Some("review-denied"))
    );
    assert!(refusal["message"].as_str().unwrap().contains("too much"), "{refusal}");
    // A changed draft is judged again like any draft. The client receives the changed arguments.
    let change = json!({"review": {"opinion": "change", "arguments": {"cents": 1}, "reason": "less"}});
    let changed = submit(&stage, &bot, "b", change).await;
    let taken = take(&stage, &bot, id(&changed), CLAIM).await;
    assert_eq!(taken.json["arguments"], json!({"cents": 1}), "{}", taken.text);
    let said = json!({"claim": CLAIM, "text": "paid, password x", "review": {"opinion": "change", "text": "paid", "reason": "secret"}});
    let done = report(&stage, &bot, id(&changed), said).await;
    let output = done.json["result"]["output"].as_str().unwrap();
    assert!(
        output.ends_with(
            "
paid"
        ) && !output.contains("password"),
        "{output}"
    );
    let by = json!("reviewer `client`");
    let whats: Vec<_> = done.json["result"]["modifications"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (&change["kind"], &change["actor"]))
        .collect();
    assert_eq!(whats, [(&json!("arguments"), &by), (&json!("output"), &by)]);
    let record = stage.ask(&ann, "GET", &format!("/v1/log/calls/{}", id(&changed)), None).await;
    assert!(record.text.contains("client") && record.text.contains("less"), "{}", record.text);
    // A change that does not fit the schema does not run.
    let bad =
        submit(&stage, &bot, "c", json!({"review": {"opinion": "change", "arguments": {"cents": "x"}}}))
            .await;
    assert_eq!(bad["result"]["refusal"]["code"], "arguments-invalid", "{bad}");
    let call = ready(&stage, &bot, "d").await;
    take(&stage, &bot, &call, CLAIM).await;
    let withheld =
        report(&stage, &bot, &call, json!({"claim": CLAIM, "text": "x", "review": {"opinion": "deny"}}))
            .await;
    assert_eq!(withheld.json["result"]["outcome"], "withheld", "{}", withheld.text);
    assert_eq!(withheld.json["result"]["refusal"]["code"], "output-denied");
    let heard = stage
        .call(
            &bot,
            "e",
            0,
            &json!({"tool": "echo", "arguments": {"text": "x"}, "review": {"opinion": "pass"}}),
        )
        .await;
    heard.is_problem(403, "forbidden");
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_asked_before_it_can_be_taken() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let ann = stage.person("ann", &[AccessScope::Answer]);
    register(&stage, &bot, "refund", json!({"class": "generic"})).await;
    let refund = json!({"tool": "client.bot.refund", "arguments": {"cents": 5}});
    let mut standing = stage.call(&bot, "k", 0, &refund).await.json;
    // The state is not `waiting` at once, because the driver may still be working.
    let call = id(&standing).to_owned();
    while standing["state"] != "waiting" {
        standing = stage.ask(&bot, "GET", &format!("/v1/calls/{call}"), None).await.json;
    }
    let path = format!("/v1/calls/{call}/claim?wait=0");
    let early = stage.ask(&bot, "POST", &path, Some(&json!({"claim": CLAIM}))).await;
    assert_eq!(early.json["state"], "waiting", "{}", early.text);
    let question = &standing["question"];
    let body = json!({"digest": question["digest"], "answer": {"kind": "yes"}});
    let path = format!("/v1/questions/{}/answer", question["id"].as_str().unwrap());
    assert!(stage.ask(&ann, "POST", &path, Some(&body)).await.status < 300);
    assert_eq!(take(&stage, &bot, &call, CLAIM).await.json["state"], "claimed");
    let done = report(&stage, &bot, &call, json!({"claim": CLAIM, "error": "no such order"})).await;
    assert_eq!(done.json["result"]["outcome"], "failed", "{}", done.text);
    assert_eq!(done.json["result"]["error"], "no such order");
}

// req: E2
#[tokio::test(flavor = "multi_thread")]
async fn who_takes_a_call_and_does_not_report_has_it_end_as_unknown() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    register(&stage, &bot, "refund", json!({"timeout_ms": 300})).await;
    let standing = submit(&stage, &bot, "k", json!({})).await;
    let call = id(&standing);
    take(&stage, &bot, call, CLAIM).await;
    let result = stage.settled(&bot, call).await;
    assert_eq!(
        (result["outcome"].as_str(), result["refusal"]["code"].as_str()),
        (Some("unknown"), Some("interrupted"))
    );
    // A late report does not change the recorded outcome.
    let late = report(&stage, &bot, call, json!({"claim": CLAIM, "text": "paid"})).await;
    assert_eq!(late.json["result"], result, "{}", late.text);
    // If a claimed call is cancelled, its outcome is unknown as well.
    let call = ready(&stage, &bot, "k2").await;
    take(&stage, &bot, &call, CLAIM).await;
    let cancelled = stage.ask(&bot, "POST", &format!("/v1/calls/{call}/cancel?wait=30"), None).await;
    assert_eq!(cancelled.json["result"]["outcome"], "unknown", "{}", cancelled.text);
}

// req: E2
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_in_the_middle_hands_nothing_out_again() {
    let (stage, process) = ServerFixture::in_a_process_of_its_own().await;
    let bot = stage.agent("bot");
    let taken = ready(&stage, &bot, "taken").await;
    take(&stage, &bot, &taken, CLAIM).await;
    let untaken = ready(&stage, &bot, "untaken").await;
    let stage = stage.killed(process).await;
    let unregistered = stage.ask(&bot, "GET", &format!("/v1/calls/{untaken}"), None).await;
    assert_ne!(unregistered.json["state"], "settled", "{}", unregistered.text);
    assert_eq!(ready(&stage, &bot, "untaken").await, untaken, "it waits for its maker");
    assert_eq!(take(&stage, &bot, &untaken, CLAIM).await.json["state"], "claimed");
    let lost = take(&stage, &bot, &taken, CLAIM).await;
    assert_eq!(lost.json["result"]["outcome"], "unknown", "{}", lost.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_own_tool_is_nobody_elses() {
    let stage = ServerFixture::new().await;
    let (bot, mallory) = (stage.agent("bot"), stage.agent("mallory"));
    let call = ready(&stage, &bot, "k").await;
    let body = json!({"tool": "client.bot.refund", "arguments": {"cents": 5}});
    stage.call(&mallory, "k", 0, &body).await.is_problem(404, "not-found");
    stage.ask(&mallory, "POST", "/v1/policy/explain", Some(&body)).await.is_problem(404, "not-found");
    take(&stage, &mallory, &call, CLAIM).await.is_problem(404, "not-found");
    report(&stage, &mallory, &call, json!({"claim": CLAIM, "text": "x"})).await.is_problem(404, "not-found");
    let listed = |heard: TestResponse| heard.text.contains("client.bot.refund");
    assert!(!listed(stage.ask(&mallory, "GET", "/v1/tools", None).await));
    assert!(listed(stage.ask(&bot, "GET", "/v1/tools", None).await));
    // A name cannot reach into another principal's tools, or replace a tool of the server.
    for name in ["a.b", "..", "", "x%2Fy", "%FF"] {
        let heard = register(&stage, &mallory, name, json!({})).await;
        assert!((400..500).contains(&heard.status), "{name}: {}", heard.text);
    }
    let bad = json!({"input_schema": {"type": "no such type"}});
    register(&stage, &bot, "refund", bad).await.is_problem(422, "unusable");
    // A principal that may only read cannot register tools.
    let ann = stage.person("ann", &[AccessScope::Read]);
    register(&stage, &ann, "refund", json!({})).await.is_problem(403, "forbidden");
    // The manifest has changed since the call was judged, so the tool is not the one that was judged.
    register(&stage, &bot, "refund", json!({"description": "Something else."})).await;
    let changed = take(&stage, &bot, &call, CLAIM).await;
    assert_eq!(changed.json["result"]["outcome"], "refused", "{}", changed.text);
}
