//! Deferred loading (L9): with many tools, the model gets a few and finds the others with `tool_search`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use byleave_agent::agent_loop::{OnQuestion, RunOutcome};
use byleave_agent::deferred_tools::ALL_TOOLS_MAX;
use byleave_agent::provider::ProviderKind;
use byleave_gate::core::manifest::PermissionClass;
use byleave_gate::gate::Gate;
use byleave_gate::tool::RunContext;
use byleave_gate::tool_search::tool_search;
use byleave_gate::typed_tool::TypedTool;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::agent_fixture::{AgentFixture, DONE};
use crate::fake::{KINDS, ReplyPart};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArguments {}

const SEARCHES: &[ReplyPart] = &[ReplyPart::Call("tool_search", &["{\"query\": \"fax\"}"])];
const FAXES: &[ReplyPart] = &[ReplyPart::Call("send_fax", &["{}"])];

/// A gate with this many other tools, `tool_search`, and a tool that sends faxes.
fn gate(stage: &AgentFixture, others: usize, faxes: &Arc<AtomicUsize>) -> Gate {
    let gate = stage.builder().build().unwrap();
    let counts = Arc::clone(faxes);
    let fax = TypedTool::new("send_fax", "Sends a fax.", move |_: NoArguments, _: RunContext| {
        counts.fetch_add(1, Ordering::Relaxed);
        async { "sent" }
    });
    gate.catalog().register(quiet(fax)).unwrap();
    for number in 0..others {
        let (name, about) = (format!("task_{number:03}"), format!("Does task number {number}."));
        let task = TypedTool::new(name, about, |_: NoArguments, _: RunContext| async { "done" });
        gate.catalog().register(quiet(task)).unwrap();
    }
    gate.catalog().register(tool_search(gate.catalog())).unwrap();
    gate
}

fn quiet(tool: TypedTool<NoArguments>) -> TypedTool<NoArguments> {
    tool.permission_class(PermissionClass::Readonly).read_only().not_sensitive()
}

/// Returns the names of the tools in a request.
fn sent(stage: &AgentFixture, request: usize) -> Vec<String> {
    let body = stage.fake.got().get(request).unwrap().body.clone();
    let tools = match stage.kind {
        ProviderKind::Gemini => body.pointer("/tools/0/functionDeclarations").cloned().unwrap_or_default(),
        _ => body.get("tools").cloned().unwrap_or_default(),
    };
    let name = |tool: &Value| {
        let named = if tool["name"].is_string() { tool } else { &tool["function"] };
        named["name"].as_str().unwrap().to_owned()
    };
    tools.as_array().unwrap().iter().map(name).collect()
}

async fn run(stage: &AgentFixture, gate: Gate) -> RunOutcome {
    let agent = stage.on_gate(gate, |_| {});
    agent.add_user_message("Send a fax.").await.unwrap();
    agent.run(OnQuestion::Wait, &CancellationToken::new()).await.unwrap()
}

// req: L9, G3
#[tokio::test]
async fn a_tool_is_sent_once_it_was_found_and_then_it_runs() {
    for kind in KINDS {
        let stage = AgentFixture::says(kind, &[SEARCHES, FAXES, DONE]).await;
        let faxes = Arc::default();
        assert_eq!(run(&stage, gate(&stage, 200, &faxes)).await, RunOutcome::Done, "{kind:?}");
        assert_eq!(sent(&stage, 0), ["tool_search"], "{kind:?}");
        assert_eq!(sent(&stage, 1), ["send_fax", "tool_search"], "{kind:?}");
        assert_eq!(sent(&stage, 2), ["send_fax", "tool_search"], "{kind:?}");
        assert!(stage.told(1).contains("Sends a fax."), "{kind:?}: {}", stage.told(1));
        assert!(stage.told(2).contains("sent"), "{kind:?}: {}", stage.told(2));
        assert_eq!(faxes.load(Ordering::Relaxed), 1, "{kind:?}");
        let prompt = stage.fake.got().first().unwrap().body.to_string();
        assert!(prompt.contains("You have 203 more tools than these."), "{kind:?}: {prompt}");
    }
}

// req: L9
#[tokio::test]
async fn whoever_goes_on_sends_the_tools_that_were_found_before() {
    let stage = AgentFixture::says(KINDS[0], &[SEARCHES, DONE]).await;
    let faxes = Arc::default();
    assert_eq!(run(&stage, gate(&stage, 200, &faxes)).await, RunOutcome::Done);
    assert_eq!(run(&stage, gate(&stage, 200, &faxes)).await, RunOutcome::Done);
    assert_eq!(sent(&stage, 2), ["send_fax", "tool_search"]);
}

// req: L9, L10
#[tokio::test]
async fn a_dry_run_finds_tools_although_no_search_runs() {
    let mut stage = AgentFixture::says(KINDS[0], &[SEARCHES, FAXES, DONE]).await;
    stage.dry_run = true;
    let faxes = Arc::default();
    assert_eq!(run(&stage, gate(&stage, 200, &faxes)).await, RunOutcome::Done);
    assert_eq!(sent(&stage, 1), ["send_fax", "tool_search"]);
    assert!(stage.told(2).contains("[DRY-RUN] send_fax"), "{}", stage.told(2));
    assert_eq!(faxes.load(Ordering::Relaxed), 0);
}

// req: L9
#[tokio::test]
async fn a_few_tools_are_all_sent_and_so_are_tools_that_cannot_be_searched() {
    let faxes = Arc::default();
    // With `read`, `write`, `send_fax` and `tool_search` these are just as many as are sent.
    let stage = AgentFixture::says(KINDS[0], &[DONE]).await;
    assert_eq!(run(&stage, gate(&stage, ALL_TOOLS_MAX - 4, &faxes)).await, RunOutcome::Done);
    assert_eq!(sent(&stage, 0).len(), ALL_TOOLS_MAX);
    let stage = AgentFixture::says(KINDS[0], &[DONE]).await;
    assert_eq!(run(&stage, gate(&stage, ALL_TOOLS_MAX - 3, &faxes)).await, RunOutcome::Done);
    assert_eq!(sent(&stage, 0), ["tool_search"]);

    let stage = AgentFixture::says(KINDS[0], &[DONE]).await;
    let gate = gate(&stage, 200, &faxes);
    gate.catalog().unregister("tool_search").unwrap();
    assert_eq!(run(&stage, gate).await, RunOutcome::Done);
    assert_eq!(sent(&stage, 0).len(), 203);
}

// req: L9, G3
#[tokio::test]
async fn the_tools_of_everyday_work_are_always_sent() {
    let stage = AgentFixture::says(KINDS[0], &[DONE]).await;
    let gate = gate(&stage, 200, &Arc::default());
    let core = ["bash", "edit", "glob", "grep", "read_file", "write_file"];
    for name in core {
        let tool = TypedTool::new(name, "Works.", |_: NoArguments, _: RunContext| async { "done" });
        gate.catalog().register(quiet(tool)).unwrap();
    }
    assert_eq!(run(&stage, gate).await, RunOutcome::Done);
    assert_eq!(sent(&stage, 0), ["bash", "edit", "glob", "grep", "read_file", "tool_search", "write_file"]);
}
