//! Crash anywhere: a process killed at random moments while it runs calls that append lines to files.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use byleave_gate::audit_log::{AuditLog as _, CallState};
use byleave_gate::core::entry::RecordEvent;
use byleave_gate::core::record::Record;
use byleave_gate::ledger::Ledger as _;

use super::worker::{all_calls, lines_of, open, start, take_up};

/// After every restart each call has exactly one outcome. No line of a call that may run only once appears twice. No
/// accepted answer is lost. An interrupted call has an unknown outcome and was not run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash() {
    let kills = if super::long() { 1_000 } else { 25 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let began = Instant::now();
    let mut dice = 0x9E37_79B9_7F4A_7C15_u64;
    for round in 0..kills {
        let ready = lines_of(&path.join("ready")).get("ready").copied().unwrap_or(0);
        let submitted = || lines_of(&path.join("submitted")).len();
        let before = submitted();
        let mut child = start(path, "crash", "");
        // Most kills come while calls run, after some calls. Every tenth comes while the process starts and resumes earlier
        // calls.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let calls = usize::try_from((dice >> 40) % 24).unwrap();
        let moment = Duration::from_micros((dice >> 33) % 5_000);
        if round % 10 != 0 {
            while lines_of(&path.join("ready")).get("ready").copied().unwrap_or(0) == ready {
                assert!(child.try_wait().unwrap().is_none(), "{}", stderr(path));
                std::thread::sleep(Duration::from_millis(1));
            }
            // Waits for a number of calls and not for milliseconds, because on a slow machine nothing happens
            // in a few of those.
            while submitted() < before + calls {
                assert!(child.try_wait().unwrap().is_none(), "{}", stderr(path));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        std::thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (book, gate) = open(path);
    take_up(&book, &gate, path).await;
    let calls = all_calls(&book).await;
    let mut lines: HashMap<String, u32> = HashMap::new();
    for session in 0..4 {
        lines.extend(lines_of(&path.join(format!("f{session}"))));
    }
    let answered = lines_of(&path.join("answered"));
    let mut outcomes: HashMap<String, u32> = HashMap::new();
    let (mut answers_kept, mut known) = (0, 0);
    for item in &calls {
        let id = item.call.to_string();
        let record: Record = book.load(item.call).await.unwrap().unwrap().record;
        let settled =
            record.entries().iter().filter(|entry| matches!(entry.event, RecordEvent::Settled(_))).count();
        assert_eq!((settled, item.state), (1, CallState::Settled), "{id}: {item:?}");
        let outcome = record.outcome().unwrap().as_str();
        *outcomes.entry(outcome.into()).or_default() += 1;
        let ran = lines.remove(&id).unwrap_or(0);
        let repeatable = item.call_summary.tool == "append_again";
        match outcome {
            "completed" if repeatable => assert!(ran >= 1, "{id} completed and left nothing"),
            "completed" => assert_eq!(ran, 1, "{id} completed"),
            "unknown" => assert!(ran <= 1 && (!repeatable || record.attempts() == 3), "{id} ran {ran} times"),
            "refused" => assert_eq!(ran, 0, "{id} was refused and ran: {item:?}"),
            other => panic!("{id} ended {other}"),
        }
        if record.attempts() > 1 {
            assert!(repeatable, "{id} was begun again");
        }
        if answered.contains_key(&id) {
            answers_kept += 1;
            assert!(
                record.entries().iter().any(|entry| matches!(entry.event, RecordEvent::Answered(_))),
                "{id}"
            );
            assert_ne!(outcome, "refused", "{id} was answered yes: {:?}", record.outcome());
        }
        known += 1;
    }
    assert!(lines.is_empty(), "lines of calls that are not in the book: {lines:?}");
    assert_eq!(answers_kept, answered.len(), "an accepted answer is not in the book");
    let verification = book.verify().await.unwrap();
    assert!(verification.is_intact(), "{:?}", verification.integrity_error);
    println!(
        "figure: {kills} kills, {} calls ({known} settled: {outcomes:?}), {answers_kept} accepted answers, none lost; \
         no line twice of a call that may run only once; {:.0} s",
        calls.len(),
        began.elapsed().as_secs_f64()
    );
    assert!(calls.len() > kills, "too few calls to mean anything: {}", calls.len());
}

fn stderr(path: &std::path::Path) -> String {
    std::fs::read_to_string(path.join("crash-.stderr")).unwrap_or_default()
}
