//! The gate, as an application meets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use byleave::core::call::{Call, Mode};
use byleave::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave::core::outcome::Output;
use byleave::gate::Gate;
use byleave::result::Ending;
use byleave::typed::Typed;
use serde_json::{Value, json};

// req: E1, E2, E4, E5, E8, L3, T3, T5, T8, P1, P7, P9, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, A1, A2
mod memory {
    byleave::gate_scenarios!(crate::ledger::MemoryBench(byleave::ledger::memory::MemoryLedger::new()));
}

mod sqlite {
    byleave::gate_scenarios!(crate::ledger::SqliteBench::new());
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Say {
    text: String,
}

fn call(tool: &str, arguments: Value, mode: Mode) -> Call {
    Call {
        id: CallId::new(byleave::clock::fresh_id()),
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
    let echo = Typed::new("echo", "says it back", move |say: Say, _run| {
        let counter = counter.clone();
        async move {
            counter.fetch_add(1, Ordering::SeqCst);
            Output::text(say.text)
        }
    });
    let gate = Gate::builder().tool(echo).build().unwrap();
    let result = gate.settle(call("echo", json!({"text": "hi"}), Mode::Yolo)).await;
    let Ending::Completed(output) = &result.ending else { panic!("{result:?}") };
    assert_eq!(output.text, "hi");
    assert_eq!(ran.load(Ordering::SeqCst), 1);

    let refused = gate.settle(call("echo", json!({"text": "hi"}), Mode::ConfirmSensitive)).await;
    assert_eq!(refused.ending.refusal().unwrap().code.as_str(), "no-approver");
    let refused = gate.settle(call("ecko", json!({}), Mode::Yolo)).await;
    assert!(refused.error().unwrap().contains("`echo`"), "{refused:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}
