//! A question whose time is over, with nobody there: the engine itself says so on the record.

use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_fleet::RestateLedger;
use byleave_gate::core::call::Mode;
use byleave_gate::core::entry::{Limits, RecordEvent};
use byleave_gate::gate::Gate;
use byleave_gate::ledger::Ledger as _;
use byleave_gate::result::CallStatus;
use byleave_gate::settings::GateSettings;

use crate::engine::{ingress, options};
use crate::proofs::worker::{appender, call, lines_of};

/// How long the question stays open. On a machine where it expires before the gate has looked once, a longer time is taken.
const OPEN_MS: [u64; 4] = [300, 3_000, 10_000, 30_000];
/// How long we wait for the engine to notice.
const NOTICED_WITHIN: Duration = Duration::from_secs(120);

// req: A2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_expires_with_nobody_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let name = uuid::Uuid::now_v7().to_string();
    let ledger = Arc::new(RestateLedger::open(options(&ingress(), &name, &path.join("workers"))).unwrap());
    let gate = |question_ms: u64| {
        let limits = Limits { question_timeout_ms: question_ms, ..Limits::default() };
        let settings = GateSettings { inbox: true, limits, ..GateSettings::default() };
        let builder = Gate::builder().ledger(ledger.clone()).tool(appender("append_line"));
        builder.settings(settings).build().unwrap()
    };
    let mut waiting = None;
    for open_ms in OPEN_MS {
        let asked = call(path, "s", "append_line", "lines", "never", Mode::ConfirmSensitive);
        let id = asked.id;
        if let CallStatus::Waiting { .. } = gate(open_ms).advance(asked).await {
            waiting = Some((id, open_ms));
            break;
        }
    }
    let (id, open_ms) = waiting.expect("no question stays open for as long as the gate needs to look");

    // No gate is left. Reading changes nothing, so what is found was written by the engine.
    let began = Instant::now();
    loop {
        let record = ledger.load(id).await.unwrap().unwrap().record;
        match &record.entries().last().unwrap().event {
            RecordEvent::Expired { .. } => break,
            RecordEvent::Asked(Ok(_)) => {
                assert!(began.elapsed() < NOTICED_WITHIN, "nobody noticed: {record:?}")
            }
            other => panic!("{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ledger.resumable_calls(0, 10).await.unwrap(), vec![id], "it can be driven on");
    let CallStatus::Settled(result) = gate(open_ms).resume(id).await else { panic!("it is not settled") };
    assert_eq!(result.outcome.refusal().unwrap().code.as_str(), "unanswered");
    assert!(lines_of(&path.join("lines")).is_empty());
}
