//! The OpenAPI document describes every served operation and nothing else.

use byleave_server::{ProblemKind, openapi};
use serde_json::Value;

use crate::stage::ServerFixture;

// req: T9
#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_served_and_says_who_may() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let heard = stage.ask(&bot, "GET", "/v1/openapi.json", None).await;
    assert_eq!(heard.status, 200);
    assert_eq!(heard.json, serde_json::to_value(openapi()).unwrap());
    assert_eq!(heard.json["security"][0]["token"], Value::Array(Vec::new()));
    for (path, item) in heard.json["paths"].as_object().unwrap() {
        assert!(path.starts_with("/v1/"), "{path}");
        for (method, operation) in item.as_object().unwrap() {
            for status in ["401", "403", "429", "500"] {
                let problem = &operation["responses"][status]["content"]["application/problem+json"];
                assert!(problem["schema"].is_object(), "{method} {path} {status}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_come_in_every_form() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    for (form, field) in [
        ("mcp", "inputSchema"),
        ("openai", "function"),
        ("anthropic", "input_schema"),
        ("gemini", "parameters"),
    ] {
        let heard = stage.ask(&bot, "GET", &format!("/v1/tools?format={form}"), None).await;
        let tools = heard.json["tools"].as_array().unwrap();
        let echo = tools.iter().find(|tool| tool["name"] == "echo").unwrap();
        assert!(echo["schema"][field].is_object(), "{form}: {echo}");
    }
    stage.ask(&bot, "GET", "/v1/tools?format=other", None).await.is_problem(400, "malformed");
}

#[test]
fn the_guide_lists_every_code_of_a_problem() {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/server.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for trouble in ProblemKind::ALL {
        let row = format!("| `{}` | {} |", trouble.as_str(), trouble.status().as_u16());
        assert_eq!(guide.matches(&row).count(), 1, "docs/guide/server.md should have this once: {row}");
    }
    let rows = guide.lines().skip_while(|line| *line != "## Problems").filter(|line| line.starts_with("| `"));
    assert_eq!(rows.count(), ProblemKind::ALL.len());
}
