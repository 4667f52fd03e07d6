//! Servers behind the gate: their offers, their acceptance, and the consequences of misbehaviour.

use byleave_gate::result::CallOutcome;
use byleave_mcp::upstream::ServerStatus;
use byleave_mcp::upstream::pins::Drift;
use byleave_mcp::upstream::server_definition::Launch;
use serde_json::json;

use crate::fixture::{UpstreamFixture, hostile, is_there};

// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_of_a_server_is_called_like_any_other() {
    let stage = UpstreamFixture::accepted(hostile("echo", "")).await;
    let names = stage.offered();
    let [name] = names.as_slice() else { panic!("{names:?}") };
    let entry = stage.gate.catalog().get(name).unwrap();
    assert_eq!((entry.manifest().sensitive, entry.manifest().server.as_deref()), (Some(true), Some("h")));
    let said = stage.settle(name, json!({"text": "hello"})).await;
    assert!(said.is_success() && said.to_text().contains("hello"), "{said:?}");
    // An unwanted null is treated as absent. Arguments that do not match the schema are refused before the server
    // receives them.
    let wrong = stage.settle(name, json!({"text": 1})).await;
    assert!(
        matches!(&wrong.outcome, CallOutcome::Refused(refusal) if refusal.code.to_string().contains("arguments")),
        "{wrong:?}"
    );
}

// req: M2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_words_of_a_server_that_does_not_come_up_are_in_the_error() {
    let mut definition = hostile("echo", "");
    let Launch::Child { command, args, .. } = &mut definition.launch else { panic!("{definition:?}") };
    *command = "/bin/sh".into();
    *args = vec!["-c".into(), "echo 'Cannot find module \u{1b}xyz' >&2; exit 1".into()];
    let stage = UpstreamFixture::new(definition);
    let said = format!("{:?}", stage.upstream.accept_without_asking(&stage.server).await);
    assert!(said.contains("its standard error ends with `Cannot find module "), "{said}");
    assert!(said.contains("xyz") && !said.contains('\u{1b}'), "{said}");
}

/// The time limit for a call that ends by itself. Only a hanging call takes as long.
const ENDS_MS: u64 = 120_000;

// req: M2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_misbehaves_costs_an_error() {
    costs_an_error(&[
        (
            "killed",
            "",
            ENDS_MS,
            "the effects of the call are unknown; its standard error ends with `out of memory`",
        ),
        ("error", "", ENDS_MS, "refused the call"),
        ("breaks-schema", "", ENDS_MS, "does not match the output schema"),
        ("wrong-shape", "", ENDS_MS, ""),
        ("stuck", "", 1_000, "timed out"),
    ])
    .await;
}

// req: M2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_answers_without_end_costs_an_error() {
    costs_an_error(&[("endless", "", ENDS_MS, "16 MiB"), ("huge", "20000000", ENDS_MS, "16 MiB")]).await;
}

// req: M2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_floods_with_notifications_costs_an_error() {
    // Truncated, or stopped at its time limit, depending on the speed of the machine.
    costs_an_error(&[("notes", "", 1_500, "")]).await;
}

/// Calls a server in each of these modes: mode, argument, time limit of a call in milliseconds, text of the error.
async fn costs_an_error(modes: &[(&str, &str, u64, &str)]) {
    for &(mode, argument, timeout_ms, wanted) in modes {
        let mut definition = hostile(mode, argument);
        definition.timeout_ms = Some(timeout_ms);
        let stage = UpstreamFixture::accepted(definition).await;
        let tool = stage.offered().pop().unwrap();
        let result = stage.settle(&tool, json!({})).await;
        let error = result.error().unwrap_or_default();
        assert!(
            matches!(result.outcome, CallOutcome::Failed(_)) && error.contains(wanted),
            "{mode}: {result:?}"
        );
        // The gate continues to work, and so does the server if it can.
        let again = stage.settle(&tool, json!({})).await;
        assert!(!matches!(again.outcome, CallOutcome::Unknown(_)), "{mode}: {again:?}");
    }
}

// req: M2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_or_babbles_is_still_of_use() {
    for mode in ["garbage", "chatty", "wrong-id", "progress"] {
        let stage = UpstreamFixture::accepted(hostile(mode, "")).await;
        let tool = stage.offered().pop().unwrap();
        for _ in 0..3 {
            let result = stage.settle(&tool, json!({})).await;
            assert!(result.is_success(), "{mode}: {result:?}");
        }
    }
    // A server that ended between two calls is started again. If it ends during a call, the outcome is unknown.
    let stage = UpstreamFixture::accepted(hostile("restarting", "")).await;
    let tool = stage.offered().pop().unwrap();
    let mut done = 0;
    for _ in 0..20 {
        let result = stage.settle(&tool, json!({})).await;
        done += usize::from(result.is_success());
        assert!(result.is_success() || result.error().unwrap().contains("during the call"), "{result:?}");
    }
    assert!(done >= 5, "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_called_off_is_called_off_at_the_server() {
    let stage = UpstreamFixture::accepted(hostile("slow", "")).await;
    let call = stage.call("mcp_h_go", json!({"ms": 60_000}));
    let id = call.id;
    let mut events = stage.gate.subscribe();
    let gate = stage.gate.clone();
    let running = tokio::spawn(async move { gate.settle(call).await });
    // The attempt is on the record before the server gets the call. One more call shows that it got it.
    loop {
        let event = tokio::time::timeout(crate::fixture::PATIENCE, events.recv()).await.unwrap().unwrap();
        if let byleave_gate::event::GateEvent::Entry { entry, .. } = event
            && entry.event.kind() == "started"
        {
            break;
        }
    }
    assert!(stage.settle("mcp_h_taken_back", json!({})).await.is_success());
    stage.gate.cancel(id, "a person").await.unwrap();
    let result = tokio::time::timeout(crate::fixture::PATIENCE, running).await.unwrap().unwrap();
    assert!(!result.is_success(), "{result:?}");
    let mut told = String::new();
    for _ in 0..100 {
        told = stage.settle("mcp_h_taken_back", json!({})).await.to_text();
        if told != "[]" {
            break;
        }
    }
    assert_ne!(told, "[]", "the server was not told");
}

// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_started_or_offered_before_it_is_accepted() {
    let outside = tempfile::tempdir().unwrap();
    let marker = outside.path().join("gate-marker");
    let stage = UpstreamFixture::new(hostile("starts", marker.to_str().unwrap()));
    assert_eq!(stage.look().await, ServerStatus::NotAccepted);
    assert!(!is_there(&marker) && stage.offered().is_empty());
    stage.upstream.accept(&stage.gate, &stage.asking(), &stage.server).await.unwrap();
    assert!(is_there(&marker) && !stage.offered().is_empty());
    assert_eq!(stage.asked(), 2, "how it is started, and what it offers");
}

// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_command_under_the_same_name_is_not_started() {
    let stage = UpstreamFixture::accepted(hostile("echo", "")).await;
    let UpstreamFixture { folder, .. } = stage;
    let mut other = hostile("echo", "");
    let Launch::Child { env, .. } = &mut other.launch else { panic!() };
    env.insert("NODE_OPTIONS".into(), "--require ./evil.js".into());
    let stage = UpstreamFixture::beside(other, folder);
    assert_eq!(stage.look().await, ServerStatus::NotAccepted);
    assert!(stage.offered().is_empty());
}

// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_changed_is_suspended_until_it_is_accepted() {
    // Its description changes after the first acceptance.
    let stage = UpstreamFixture::accepted(hostile("turning", "")).await;
    let stands = stage.look().await;
    let ServerStatus::Connected { offered, suspended, .. } = &stands else { panic!("{stands:?}") };
    assert!(offered.is_empty() && stage.offered().is_empty(), "{stands:?}");
    assert!(matches!(suspended.as_slice(), [Drift::Changed { .. }]), "{stands:?}");
    let refused = stage.settle("mcp_h_go", json!({})).await;
    assert!(matches!(refused.outcome, CallOutcome::Refused(_)), "{refused:?}");
    stage.upstream.accept(&stage.gate, &stage.asking(), &stage.server).await.unwrap();
    assert_eq!((stage.offered().len(), stage.asked()), (1, 1));

    // A tool that it did not offer at acceptance is not offered later.
    let stage = UpstreamFixture::accepted(hostile("changing", "")).await;
    let before = stage.offered();
    assert!(stage.settle(&before[0], json!({})).await.is_success());
    let ServerStatus::Connected { suspended, .. } = stage.look().await else { panic!() };
    assert!(matches!(suspended.as_slice(), [Drift::New { .. }, ..]), "{suspended:?}");
    assert_eq!(stage.offered(), before);
}

// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_a_tool_is_not_taken() {
    for mode in ["remote-schema", "twins", "control-names"] {
        let stage = UpstreamFixture::accepted(hostile(mode, "")).await;
        let ServerStatus::Connected { rejected: refused, .. } = stage.look().await else { panic!("{mode}") };
        assert!(!refused.is_empty(), "{mode}: {:?}", stage.offered());
        for name in stage.offered() {
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name:?}");
        }
    }
    is_not_accepted("many", "more than 1000 tools").await;
}

// Takes the time that a server may use to list its tools: 15 s.
// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_schemas_have_no_bottom_is_not_taken() {
    is_not_accepted("deep-schema", "did not list its tools").await;
}

async fn is_not_accepted(mode: &str, wanted: &str) {
    let stage = UpstreamFixture::new(hostile(mode, ""));
    let accepted = stage.upstream.accept_without_asking(&stage.server).await;
    assert!(accepted.unwrap_err().contains(wanted), "{mode}");
    assert!(stage.offered().is_empty());
}

// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_says_of_its_tools_counts_only_if_it_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    for trusted in [false, true] {
        let mut definition = hostile("innocent", "");
        definition.trusted = trusted;
        let stage = UpstreamFixture::accepted(definition).await;
        let tool = stage.offered().pop().unwrap();
        assert_eq!(stage.gate.catalog().get(&tool).unwrap().manifest().read_only, trusted);
        // The path is evaluated as an effect in both cases, and no rule allows it.
        let result = stage.settle(&tool, json!({"path": path})).await;
        assert!(result.is_success() && stage.asked() == 1, "{result:?} {}", stage.asked());
    }
}
