//! The gate from the view of an application.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use byleave_gate::approver::{Reply, callback};
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::effect::Effect;
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::outcome::Output;
use byleave_gate::gate::Gate;
use byleave_gate::ledger::Ledger as _;
use byleave_gate::result::CallOutcome;
use byleave_gate::settings::GateSettings;
use byleave_gate::typed_tool::TypedTool;
use serde_json::{Value, json};

// req: E1, E2, E4, E5, E8, L3, T3, T5, T8, P1, P7, P9, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, A1, A2
mod memory {
    byleave_conformance::gate_scenarios!(crate::ledger::MemoryHarness(
        byleave_gate::ledger::memory::MemoryLedger::new()
    ));
}

mod sqlite {
    byleave_conformance::gate_scenarios!(crate::ledger::SqliteHarness::new());
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Say {
    text: String,
}

fn call(tool: &str, arguments: Value, mode: Mode) -> Call {
    Call {
        id: CallId::new(byleave_gate::clock::fresh_id()),
        tenant: TenantId::new("local").unwrap(),
        session: SessionId::new("s").unwrap(),
        agent: AgentId::new("a").unwrap(),
        tool: tool.into(),
        arguments,
        reason: None,
        cwd: "/".into(),
        mode,
        dry_run: false,
    }
}

// req: E1
#[tokio::test]
async fn a_call_goes_all_the_way() {
    let ran = Arc::new(AtomicU32::new(0));
    let counter = ran.clone();
    let echo = TypedTool::new("echo", "says it back", move |say: Say, _run| {
        let counter = counter.clone();
        async move {
            counter.fetch_add(1, Ordering::SeqCst);
            Output::text(say.text)
        }
    });
    let gate = Gate::builder().tool(echo).build().unwrap();
    let result = gate.settle(call("echo", json!({"text": "hi"}), Mode::Yolo)).await;
    let CallOutcome::Completed(output) = &result.outcome else { panic!("{result:?}") };
    assert_eq!(output.text, "hi");
    assert_eq!(ran.load(Ordering::SeqCst), 1);

    let refused = gate.settle(call("echo", json!({"text": "hi"}), Mode::ConfirmSensitive)).await;
    assert_eq!(refused.outcome.refusal().unwrap().code.as_str(), "no-approver");
    let refused = gate.settle(call("ecko", json!({}), Mode::Yolo)).await;
    assert!(refused.error().unwrap().contains("`echo`"), "{refused:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

// req: P1
#[tokio::test]
async fn an_explanation_is_the_ruling_that_the_call_would_get_and_leaves_no_trace() {
    let ran = Arc::new(AtomicU32::new(0));
    let counter = ran.clone();
    let echo = TypedTool::new("echo", "says it back", move |say: Say, _run| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move { Output::text(say.text) }
    });
    let ledger = Arc::new(byleave_gate::ledger::memory::MemoryLedger::new());
    let gate = Gate::builder().tool(echo).ledger(ledger.clone()).build().unwrap();
    for (mode, verdict) in [(Mode::ConfirmSensitive, Verdict::Ask), (Mode::Yolo, Verdict::Allow)] {
        let asked = call("echo", json!({"text": "hi"}), mode);
        let found = gate.explain(asked.clone()).await.unwrap();
        assert_eq!((found.tool.as_str(), found.decision.verdict), ("echo", verdict));
        assert_eq!(found.plan.effects, [Effect::Invoke { tool: "echo".into() }]);
        assert!(ledger.load(asked.id).await.unwrap().is_none());
        // The call itself gets the same decision.
        gate.settle(asked.clone()).await;
        let record = ledger.load(asked.id).await.unwrap().unwrap().record;
        let ruled = record.draft().unwrap().decision().unwrap().clone().unwrap();
        assert_eq!(ruled.reasons, found.decision.reasons);
    }
    assert_eq!(ran.load(Ordering::SeqCst), 1, "only the call that was allowed ran");
    let refused = |tool: &str, arguments: Value| gate.explain(call(tool, arguments, Mode::Yolo));
    assert_eq!(refused("ecko", json!({})).await.unwrap_err().code.as_str(), "tool-unknown");
    assert_eq!(refused("echo", json!({"text": 1})).await.unwrap_err().code.as_str(), "arguments-invalid");
}

// req: A1, R5
#[tokio::test]
async fn sessions_of_the_same_name_in_two_tenants_share_neither_a_no_nor_a_count() {
    // With one question per minute, the second of a tenant exceeds the limit. With more, its no is remembered. Neither affects
    // the other tenant.
    for (questions_per_minute, again) in [(1, "too-many-questions"), (9, "declined")] {
        let asked = Arc::new(AtomicU32::new(0));
        let counter = asked.clone();
        let no = callback("ada", move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            Reply::No { feedback: None }
        });
        let echo =
            TypedTool::new("echo", "says it back", |say: Say, _run| async move { Output::text(say.text) });
        let settings = GateSettings { questions_per_minute, ..GateSettings::default() };
        let gate = Gate::builder().tool(echo).approver(Arc::new(no)).settings(settings).build().unwrap();
        for (tenant, times, code) in [("one", 1, "declined"), ("other", 2, "declined"), ("one", 2, again)] {
            let mut call = call("echo", json!({"text": "hi"}), Mode::ConfirmSensitive);
            call.tenant = TenantId::new(tenant).unwrap();
            let refused = gate.settle(call).await;
            assert_eq!(refused.outcome.refusal().unwrap().code.as_str(), code, "{tenant}: {refused:?}");
            assert_eq!(asked.load(Ordering::SeqCst), times, "{tenant}");
        }
    }
}
