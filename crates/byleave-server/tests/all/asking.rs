//! Questions over HTTP: shown in full, answered once by an authorized approver, and their calls resumed.

use std::sync::atomic::Ordering;

use byleave_server::principal::{AccessScope, PrincipalKind};
use serde_json::{Value, json};

use crate::stage::{ServerFixture, ServerTestSettings};

fn answer(digest: &str, said: &Value) -> Value {
    json!({"digest": digest, "answer": said})
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_listed_shown_answered_and_its_call_goes_on() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Answer, AccessScope::Read]));
    let (call, question, digest) = stage.waiting(&bot, "k").await;
    let listed = stage.ask(&ann, "GET", "/v1/questions", None).await;
    assert_eq!(listed.json["questions"][0]["question"], question.as_str(), "{}", listed.text);
    let sheet = stage.ask(&ann, "GET", &format!("/v1/questions/{question}"), None).await;
    assert_eq!(sheet.json["question"]["digest"], digest.as_str(), "{}", sheet.text);
    assert_eq!(sheet.json["complete"], true);
    assert!(sheet.json["lines"].as_array().unwrap().len() > 5);
    let path = format!("/v1/questions/{question}/answer");
    let heard = stage.ask(&ann, "POST", &path, Some(&answer(&digest, &json!({"kind": "yes"})))).await;
    assert!(matches!(heard.status, 200 | 202), "{}", heard.text);
    let result = stage.settled(&bot, &call).await;
    assert_eq!(result["output"], "noted k as 1", "{result}");
    // The record says who answered, and about what (R6).
    let record = stage.ask(&ann, "GET", &format!("/v1/log/calls/{call}"), None).await;
    let lines = record.json["entries"].as_array().unwrap();
    let answered = lines
        .iter()
        .find_map(|line| line["entry"].get("answered").or(line["entry"]["event"].get("answered")));
    let answered = answered.expect("it was answered");
    assert_eq!(answered["approver"], json!({"name": "ann", "assurance": "web"}), "{answered}");
    assert_eq!(answered["digest"], digest.as_str());
    // The same answer again is too late.
    let again = stage.ask(&ann, "POST", &path, Some(&answer(&digest, &json!({"kind": "yes"})))).await;
    assert!(matches!(again.status, 404 | 409), "{}", again.text);
    assert_eq!(stage.notes.load(Ordering::SeqCst), 1);
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn no_edit_and_abort_do_what_they_say() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Answer]));
    let cases = [
        ("no", json!({"kind": "no", "feedback": "not today"}), "declined"),
        ("abort", json!({"kind": "abort"}), "aborted"),
    ];
    for (key, said, code) in cases {
        let (call, question, digest) = stage.waiting(&bot, key).await;
        let path = format!("/v1/questions/{question}/answer");
        stage.ask(&ann, "POST", &path, Some(&answer(&digest, &said))).await;
        assert_eq!(stage.settled(&bot, &call).await["refusal"]["code"], code);
    }
    let (call, question, digest) = stage.waiting(&bot, "edit").await;
    let said = json!({"kind": "edit", "value": {"text": "mended"}});
    let path = format!("/v1/questions/{question}/answer");
    let heard = stage.ask(&ann, "POST", &path, Some(&answer(&digest, &said))).await;
    assert!(matches!(heard.status, 200 | 202), "{}", heard.text);
    assert_eq!(
        stage.settled(&bot, &call).await["output"].as_str().map(|text| text.contains("noted mended as 1")),
        Some(true)
    );
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn a_no_stays_a_no_for_the_same_call_in_its_session() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Answer]));
    let (call, question, digest) = stage.waiting(&bot, "once").await;
    let said = json!({"kind": "no", "feedback": "not that"});
    let path = format!("/v1/questions/{question}/answer");
    stage.ask(&ann, "POST", &path, Some(&answer(&digest, &said))).await;
    assert_eq!(stage.settled(&bot, &call).await["refusal"]["code"], "declined");
    let again = json!({"tool": "note", "arguments": {"text": "once"}, "session": "once"});
    let heard = stage.call(&bot, "again", 30, &again).await;
    assert_eq!(heard.json["result"]["refusal"]["code"], "declined", "{}", heard.text);
    assert!(heard.text.contains("ann said no before: not that"), "{}", heard.text);
    // A different call, and the same call in another session, lead to a question.
    stage.waiting(&bot, "other").await;
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn a_leave_spares_the_next_question_until_it_is_revoked() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let ann = stage.person("ann", &[AccessScope::Answer, AccessScope::Read, AccessScope::Administer]);
    let (call, question, digest) = stage.waiting(&bot, "first").await;
    let path = format!("/v1/questions/{question}/answer");
    let none = json!({"kind": "standing-approval", "scope": 99});
    stage.ask(&ann, "POST", &path, Some(&answer(&digest, &none))).await.is_problem(422, "unusable");
    let said = json!({"kind": "standing-approval", "scope": 1, "max_uses": 10, "every_session": true});
    let heard = stage.ask(&ann, "POST", &path, Some(&answer(&digest, &said))).await;
    assert!(matches!(heard.status, 200 | 202), "{}", heard.text);
    assert_eq!(stage.settled(&bot, &call).await["outcome"], "completed");
    let body = json!({"tool": "note", "arguments": {"text": "again"}});
    let second = stage.call(&bot, "second", 30, &body).await;
    assert_eq!(second.json["result"]["outcome"], "completed", "{}", second.text);
    let leaves = stage.ask(&ann, "GET", "/v1/approvals", None).await;
    let leave = leaves.json["standing_approvals"][0]["standing_approval"].as_str().unwrap().to_owned();
    assert_eq!(
        (&leaves.json["standing_approvals"][0]["approver"], &leaves.json["standing_approvals"][0]["state"]),
        (&json!("ann"), &json!("active"))
    );
    assert_eq!(stage.ask(&ann, "DELETE", &format!("/v1/approvals/{leave}"), None).await.status, 204);
    stage.waiting(&bot, "third").await;
}

// req: R4
#[tokio::test(flavor = "multi_thread")]
async fn nobody_answers_what_stands_under_their_own_name() {
    let stage = ServerFixture::new().await;
    let bot =
        stage.token_in("local", "bot", PrincipalKind::Agent, &[AccessScope::Submit, AccessScope::Answer]);
    let boss = stage.person("boss", &[AccessScope::Submit, AccessScope::Answer]);
    for who in [&bot, &boss] {
        let (call, question, digest) = stage.waiting(who, "own").await;
        let path = format!("/v1/questions/{question}/answer");
        let heard = stage.ask(who, "POST", &path, Some(&answer(&digest, &json!({"kind": "yes"})))).await;
        heard.is_problem(403, "own-question");
        let standing = stage.ask(who, "GET", &format!("/v1/calls/{call}"), None).await;
        assert_eq!(standing.json["state"], "waiting");
    }
    // Another token of the same name cannot answer either.
    let answering = stage.token_in("local", "bot", PrincipalKind::Agent, &[AccessScope::Answer]);
    let (_, question, digest) = stage.waiting(&bot, "again").await;
    let path = format!("/v1/questions/{question}/answer");
    let heard = stage.ask(&answering, "POST", &path, Some(&answer(&digest, &json!({"kind": "yes"})))).await;
    heard.is_problem(403, "own-question");
    assert_eq!(stage.notes.load(Ordering::SeqCst), 0);
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_answers_others_as_a_program_and_gives_no_leave() {
    let stage = ServerFixture::new().await;
    let (bot, judge) =
        (stage.agent("bot"), stage.token_in("local", "judge", PrincipalKind::Agent, &[AccessScope::Answer]));
    let (call, question, digest) = stage.waiting(&bot, "k").await;
    let path = format!("/v1/questions/{question}/answer");
    for said in [
        json!({"kind": "standing-approval", "scope": 1}),
        json!({"kind": "abort"}),
        json!({"kind": "edit", "value": {}}),
    ] {
        stage.ask(&judge, "POST", &path, Some(&answer(&digest, &said))).await.is_problem(403, "forbidden");
    }
    stage.ask(&judge, "POST", &path, Some(&answer(&digest, &json!({"kind": "yes"})))).await;
    assert_eq!(stage.settled(&bot, &call).await["outcome"], "completed");
}

// req: R4
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_good_for_the_question_that_was_shown_and_no_other() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Answer]));
    let (first, question, digest) = stage.waiting(&bot, "one").await;
    let (second, other, _) = stage.waiting(&bot, "two").await;
    let yes = json!({"kind": "yes"});
    let path = format!("/v1/questions/{other}/answer");
    // A digest of another question, an invented digest, a truncated digest, and none.
    stage.ask(&ann, "POST", &path, Some(&answer(&digest, &yes))).await.is_problem(409, "answer-mismatch");
    stage
        .ask(&ann, "POST", &path, Some(&answer(&"0".repeat(64), &yes)))
        .await
        .is_problem(409, "answer-mismatch");
    stage.ask(&ann, "POST", &path, Some(&answer(&digest[..12], &yes))).await.is_problem(422, "unusable");
    stage.ask(&ann, "POST", &path, Some(&json!({"answer": yes}))).await.is_problem(400, "malformed");
    for call in [&first, &second] {
        let standing = stage.ask(&bot, "GET", &format!("/v1/calls/{call}"), None).await;
        assert_eq!(standing.json["state"], "waiting", "{}", standing.text);
    }
    let path = format!("/v1/questions/{question}/answer");
    stage.ask(&ann, "POST", &path, Some(&answer(&digest, &yes))).await;
    assert_eq!(stage.settled(&bot, &first).await["outcome"], "completed");
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn a_question_outlives_the_server() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Answer]));
    let (call, question, digest) = stage.waiting(&bot, "k").await;
    let stage = stage.again().await;
    let standing = stage.ask(&bot, "GET", &format!("/v1/calls/{call}"), None).await;
    assert_eq!(standing.json["state"], "waiting", "{}", standing.text);
    let path = format!("/v1/questions/{question}/answer");
    stage.ask(&ann, "POST", &path, Some(&answer(&digest, &json!({"kind": "yes"})))).await;
    assert_eq!(stage.settled(&bot, &call).await["outcome"], "completed");
    assert_eq!(stage.notes.load(Ordering::SeqCst), 1);
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_too_late_is_none() {
    let mut setup = ServerTestSettings::default();
    setup.settings.limits.question_timeout_ms = 3_000;
    let stage = ServerFixture::with(setup).await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Answer]));
    let (call, question, digest) = stage.waiting(&bot, "k").await;
    // Only the server itself expires the question.
    assert_eq!(stage.settled(&bot, &call).await["refusal"]["code"], "unanswered");
    let path = format!("/v1/questions/{question}/answer");
    let heard = stage.ask(&ann, "POST", &path, Some(&answer(&digest, &json!({"kind": "yes"})))).await;
    assert!(matches!(heard.status, 404 | 409), "{}", heard.text);
    assert_eq!(heard.headers["content-type"], "application/problem+json");
    assert_eq!(stage.notes.load(Ordering::SeqCst), 0);
}
