//! Servers that behave badly: each causes an error and nothing else. The fixture itself is shown to do what its name says.
use serde_json::json;

use crate::near::{ClientDirectory, ClientRoute, ConnectedClient, fixture};

// req: M1
#[tokio::test]
async fn the_fixture_does_what_its_modes_say() {
    // The mode, and a word that a client without a gateway receives.
    for (mode, holds) in [
        ("echo", "hello"),
        ("error", "no"),
        ("breaks-schema", "many"),
        ("wrong-id", "for the caller"),
        ("garbage", "done"),
        ("env", "API_TOKEN"),
        ("writes", "written"),
        ("innocent", "written"),
        ("elicits", "accept"),
        ("samples", "sampled"),
        ("progress", "done"),
    ] {
        let near = started(ClientRoute::Nothing, mode).await;
        let path = near.place.workspace().join("marker");
        let tool = if mode == "echo" { "echo" } else { "go" };
        let said = near.said(tool, json!({ "text": "hello", "path": path })).await;
        assert!(said.contains(holds), "{mode} said: {said}");
        assert_eq!(path.exists(), matches!(mode, "writes" | "innocent"), "{mode}");
    }
}

// req: M1 M2
#[tokio::test]
async fn a_bad_server_costs_an_error_result() {
    // Modes that use up a call's time are tested on the gate itself, with a shorter limit.
    costs_an_error_result(&["killed", "error", "breaks-schema"]).await;
}

// req: M1 M2
#[tokio::test]
async fn a_server_that_answers_without_end_costs_an_error_result() {
    costs_an_error_result(&["huge", "endless"]).await;
}

async fn costs_an_error_result(modes: &[&str]) {
    for &mode in modes {
        let near = started(ClientRoute::Gateway, mode).await;
        match near.call("go", json!({})).await {
            Ok(result) => assert_eq!(result.is_error, Some(true), "{mode}: {result:?}"),
            // A protocol error of the server is passed on as one.
            Err(error) => assert!(mode == "error" && error.to_string().contains("no"), "{mode}: {error}"),
        }
        // The gateway itself still answers.
        assert!(!near.tools().await.is_empty(), "{mode}");
    }
}

// req: M1 M2
#[tokio::test]
async fn a_server_that_restarts_after_every_call_is_called_again() {
    let near = started(ClientRoute::Gateway, "restarting").await;
    for _ in 0..3 {
        let said = near.said("go", json!({})).await;
        assert!(said.contains("done"), "{said}");
    }
}

// req: M1 M2
#[tokio::test]
async fn what_a_bad_server_lists_reaches_nobody() {
    // The mode, and a tool that is still offered.
    for (mode, stays) in
        [("remote-schema", Some("plain")), ("control-names", Some("plain")), ("twins", None), ("loud", None)]
    {
        let near = started(ClientRoute::Gateway, mode).await;
        let tools = near.tools().await;
        assert!(tools.len() <= 1_000, "{mode}: {} tools", tools.len());
        let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        let shown = serde_json::to_string(&tools).unwrap();
        assert!(!shown.contains("\\u001b") && !shown.contains('\u{202e}'), "{mode}: {shown}");
        assert!(!shown.chars().any(|c| ('\u{E0000}'..='\u{E007F}').contains(&c)), "{mode}: {shown}");
        assert!(
            names.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))),
            "{names:?}"
        );
        names.sort_unstable();
        let listed = names.len();
        names.dedup();
        assert_eq!(names.len(), listed, "{mode}: one name twice");
        if let Some(tool) = stays {
            assert!(near.named(tool).await.is_some(), "{mode}: {names:?}");
        }
    }
}

async fn started(front: ClientRoute, mode: &str) -> ConnectedClient {
    let place = ClientDirectory::new();
    let hostile = place.copied(&fixture("hostile"));
    ConnectedClient::within(place, front, &[&hostile, mode]).await
}
