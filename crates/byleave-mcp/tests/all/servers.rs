//! Real servers from npm. Every tool is called directly, to check the client, and through the gateway.

use std::time::Duration;

use rmcp::model::{CallToolRequest, ClientRequest};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};

use crate::near::{ClientDirectory, ClientRoute, ConnectedClient, SECRET, fixture, patiently, request};

/// An intended difference between the gateway and the server.
#[derive(Clone, Copy, PartialEq)]
enum ExpectedDifference {
    /// No difference.
    Same,
    /// The server may not do this. The result does not contain what it would have returned.
    Not,
    /// Any answer is accepted, because this depends on the server.
    Whatever,
}
use ExpectedDifference::{Not, Same, Whatever};

// req: M1
#[tokio::test]
async fn everything_alone() {
    everything(ClientRoute::Nothing).await;
}

// req: M1 M2
#[tokio::test]
async fn everything_behind_the_gateway() {
    everything(ClientRoute::Gateway).await;
}

// req: M1
#[tokio::test]
async fn filesystem_alone() {
    filesystem(ClientRoute::Nothing).await;
}

// req: M1 M2
#[tokio::test]
async fn filesystem_behind_the_gateway() {
    filesystem(ClientRoute::Gateway).await;
}

// req: M1
#[tokio::test]
async fn a_cancelled_call_is_taken_back_at_the_server() {
    taken_back(ClientRoute::Nothing).await;
}

// req: M1 M2
#[tokio::test]
async fn a_cancelled_call_is_taken_back_at_the_server_behind_the_gateway() {
    taken_back(ClientRoute::Gateway).await;
}

async fn everything(front: ClientRoute) {
    let place = ClientDirectory::new();
    let server = place.npm("mcp-server-everything");
    let near = ConnectedClient::within(place, front, &[&server, "stdio"]).await;
    // The server has more tools once it knows the client's capabilities. The gateway has waited for them.
    if front == ClientRoute::Nothing {
        near.changed().await;
    }
    let cases: &[(&str, Value, &str, ExpectedDifference)] = &[
        ("echo", json!({ "message": "hello" }), "Echo: hello", Same),
        ("get-annotated-message", json!({ "messageType": "error" }), "Error", Same),
        // It declares itself read-only, and prints its whole environment.
        ("get-env", json!({}), SECRET, Not),
        ("get-resource-links", json!({ "count": 2 }), "resource_link", Same),
        ("get-resource-reference", json!({ "resourceType": "Text", "resourceId": 1 }), "demo://", Same),
        ("get-structured-content", json!({ "location": "New York" }), "structuredContent", Same),
        ("get-sum", json!({ "a": 2, "b": 3 }), "5", Same),
        ("get-tiny-image", json!({}), "image/png", Same),
        (
            "gzip-file-as-resource",
            json!({ "name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource" }),
            "application/gzip",
            Same,
        ),
        ("toggle-simulated-logging", json!({}), "logging", Same),
        ("toggle-subscriber-updates", json!({}), "updates", Same),
        ("trigger-long-running-operation", json!({ "duration": 0.2, "steps": 4 }), "completed", Same),
        ("get-roots-list", json!({}), "oots", Whatever),
        ("trigger-elicitation-request", json!({}), "ann", Same),
        // A server may not use the client's model.
        ("trigger-sampling-request", json!({ "prompt": "hello", "maxTokens": 10 }), "sampled", Not),
        // Only for clients that support URL elicitation.
        ("trigger-url-elicitation", json!({}), "", Whatever),
        // It requires task execution in a form that no protocol version has any more.
        ("simulate-research-query", json!({ "topic": "none" }), "task", Whatever),
    ];
    every_tool(&near, front, cases).await;
    let heard = std::mem::take(&mut *near.ear.heard.lock().unwrap());
    // Through the gateway, progress is a fraction of the total.
    let whole = if front == ClientRoute::Nothing { 1.0 } else { 4.0 };
    let progress: Vec<f64> = heard.progress.iter().map(|done| done * whole).collect();
    assert_eq!(progress, [1.0, 2.0, 3.0, 4.0], "progress of the one long operation");
    let forms = heard.asked.iter().filter(|asked| !asked.contains("\"url\"")).count();
    assert_eq!(forms, 1, "what the person was asked: {:?}", heard.asked);
    assert_eq!(heard.sampled, usize::from(front == ClientRoute::Nothing), "how often the model was used");
    near.end().await;
}

async fn filesystem(front: ClientRoute) {
    let place = ClientDirectory::new();
    place.write("a.txt", "one\ntwo\nthree\n");
    place.write("b.txt", "beta\n");
    place.write("dot.png", "no picture");
    let at = |name: &str| place.workspace().join(name).to_str().unwrap().to_owned();
    let (root, outside) = (at("."), place.home().join("allow-all.toml").to_str().unwrap().to_owned());
    let cases: &[(&str, Value, &str, ExpectedDifference)] = &[
        ("list_allowed_directories", json!({}), "/w", Same),
        ("read_file", json!({ "path": at("a.txt") }), "two", Same),
        ("read_text_file", json!({ "path": at("a.txt"), "head": 1 }), "one", Same),
        // Refused by the server itself, or by the gate in front of it.
        ("read_text_file", json!({ "path": outside }), "outside", Same),
        ("read_media_file", json!({ "path": at("dot.png") }), "image/png", Same),
        ("read_multiple_files", json!({ "paths": [at("a.txt"), at("b.txt")] }), "beta", Same),
        ("write_file", json!({ "path": at("c.txt"), "content": "written" }), "c.txt", Same),
        (
            "edit_file",
            json!({ "path": at("c.txt"), "edits": [{ "oldText": "written", "newText": "edited" }] }),
            "+edited",
            Same,
        ),
        ("create_directory", json!({ "path": at("d") }), "d", Same),
        ("move_file", json!({ "source": at("c.txt"), "destination": at("d/c.txt") }), "moved", Same),
        ("list_directory", json!({ "path": at("d") }), "c.txt", Same),
        ("list_directory_with_sizes", json!({ "path": root }), "a.txt", Same),
        ("directory_tree", json!({ "path": root }), "c.txt", Same),
        ("search_files", json!({ "path": root, "pattern": "**/c.txt" }), "c.txt", Same),
        ("get_file_info", json!({ "path": at("a.txt") }), "size", Same),
    ];
    let server = place.npm("mcp-server-filesystem");
    let moved = at("d/c.txt");
    let near = ConnectedClient::within(place, front, &[&server, root.as_str()]).await;
    every_tool(&near, front, cases).await;
    assert_eq!(std::fs::read_to_string(moved).unwrap(), "edited");
    near.end().await;
}

/// Calls each tool, and checks that none was left out.
async fn every_tool(
    near: &ConnectedClient,
    front: ClientRoute,
    cases: &[(&str, Value, &str, ExpectedDifference)],
) {
    let mut called = std::collections::BTreeSet::new();
    for (tool, arguments, holds, behind) in cases {
        // The server does not offer a tool if the client does not support the requests that it makes.
        if (front == ClientRoute::Gateway || *behind == Whatever)
            && *behind != Same
            && near.named(tool).await.is_none()
        {
            continue;
        }
        let said = near.said(tool, arguments.clone()).await;
        let expected = match (front, behind) {
            (_, Whatever) => None,
            (ClientRoute::Gateway, Not) => Some(false),
            _ => Some(true),
        };
        if let Some(expected) = expected {
            assert_eq!(said.contains(holds), expected, "{tool} {arguments} ({front:?}) said: {said}");
        }
        called.insert(near.named(tool).await.unwrap());
    }
    let listed = near.tools().await.into_iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(called, listed, "tools called, tools there");
}

async fn taken_back(front: ClientRoute) {
    let place = ClientDirectory::new();
    let hostile = place.copied(&fixture("hostile"));
    let near = ConnectedClient::within(place, front, &[&hostile, "slow"]).await;
    let name = near.named("go").await.unwrap();
    let call = ClientRequest::CallToolRequest(CallToolRequest::new(request(&name, &json!({ "ms": 60_000 }))));
    let sent = near.client.peer().send_cancellable_request(call, PeerRequestOptions::no_options());
    let held = patiently(sent).await.unwrap();
    patiently(held.cancel(Some("no longer wanted".into()))).await.unwrap();
    // The notification may still be under way. Each look is an answer of the server.
    let seen = async {
        while near.said("taken_back", json!({})).await.contains("[]") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    patiently(seen).await;
    near.end().await;
}
