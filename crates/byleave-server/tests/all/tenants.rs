//! Tenants: the objects of one tenant are invisible to another.

use byleave_server::principal::{AccessScope, PrincipalKind};
use serde_json::json;

use crate::stage::ServerFixture;

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_one_tenant_is_there_for_another() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let all = [AccessScope::Submit, AccessScope::Answer, AccessScope::Read, AccessScope::Administer];
    let foreign = stage.token_in("other", "ann", PrincipalKind::Person, &all);
    // Even with the same name.
    let namesake = stage.token_in("other", "bot", PrincipalKind::Agent, &[AccessScope::Submit]);
    let (call, question, digest) = stage.waiting(&bot, "k").await;
    for token in [&foreign, &namesake] {
        stage.ask(token, "GET", &format!("/v1/calls/{call}"), None).await.is_problem(404, "not-found");
        stage
            .ask(token, "POST", &format!("/v1/calls/{call}/cancel"), None)
            .await
            .is_problem(404, "not-found");
        stage.ask(token, "GET", &format!("/v1/calls/{call}/events"), None).await.is_problem(404, "not-found");
    }
    stage.ask(&foreign, "GET", &format!("/v1/log/calls/{call}"), None).await.is_problem(404, "not-found");
    stage.ask(&foreign, "GET", &format!("/v1/questions/{question}"), None).await.is_problem(404, "not-found");
    let yes = json!({"digest": digest, "answer": {"kind": "yes"}});
    let path = format!("/v1/questions/{question}/answer");
    stage.ask(&foreign, "POST", &path, Some(&yes)).await.is_problem(404, "not-found");
    assert_eq!(stage.ask(&foreign, "GET", "/v1/questions", None).await.json, json!({"questions": []}));
    assert_eq!(stage.ask(&foreign, "GET", "/v1/log/calls", None).await.json, json!({"calls": []}));
    assert_eq!(stage.ask(&foreign, "GET", "/v1/audit/export", None).await.text, "");
    let verified = stage.ask(&foreign, "POST", "/v1/audit/verify", None).await;
    assert_eq!(verified.json["records"], 0, "{}", verified.text);
    // A halt of one tenant does not stop the other, and only the operator's tenant sees metrics.
    assert_eq!(stage.ask(&foreign, "PUT", "/v1/halt", Some(&json!({"reason": "x"}))).await.status, 204);
    stage.ask(&foreign, "GET", "/v1/metrics", None).await.is_problem(403, "forbidden");
    let body = json!({"tool": "echo", "arguments": {"text": "x"}});
    assert_eq!(stage.call(&bot, "k2", 30, &body).await.json["result"]["outcome"], "completed");
    let halted = stage.call(&namesake, "k2", 30, &body).await;
    assert_eq!(halted.json["result"]["refusal"]["code"], "halted", "{}", halted.text);
}
