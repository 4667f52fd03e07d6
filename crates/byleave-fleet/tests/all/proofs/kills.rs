//! The service, the worker and the engine, killed at random moments while calls that append lines to files are run.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use byleave_gate::core::entry::RecordEvent;
use byleave_gate::core::grant::Claim;
use byleave_gate::ledger::Ledger as _;

use super::fleet::Fleet;
use super::worker::{SESSIONS, lines_of, open, start, submitted, take_up};

/// After every kill each call has one outcome, no line of a call that may run only once stands in the worker's log twice,
/// nothing ran that was not marked as started, and no accepted answer is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "kills a fleet of its own: scripts/prove fleet-kills"]
async fn kills() {
    let kills: u32 = if super::long() { 60 } else { 10 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let fleet = Fleet::start(path);
    let began = Instant::now();
    let mut dice = 0x9E37_79B9_7F4A_7C15_u64;
    let mut worker = start(path, &fleet.ingress());
    let mut killed: HashMap<&str, u32> = HashMap::new();
    for round in 0..kills {
        let calls = submitted(path).len();
        // Something must have happened since the last kill, or they would all fall into one moment.
        while submitted(path).len() < calls + 4 {
            let ended = worker.try_wait().unwrap();
            let said = std::fs::read_to_string(path.join("worker.stderr")).unwrap_or_default();
            assert!(ended.is_none(), "the worker ended: {said}");
            assert!(began.elapsed() < Duration::from_secs(900), "nothing happens any more: {said}");
            std::thread::sleep(Duration::from_millis(1));
        }
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((dice >> 33) % 200_000));
        let victim = ["service", "worker", "server"][(round % 3) as usize];
        *killed.entry(victim).or_default() += 1;
        if victim == "worker" {
            worker.kill().unwrap();
            worker.wait().unwrap();
            worker = start(path, &fleet.ingress());
        } else {
            fleet.kill(victim);
            fleet.up();
        }
    }
    worker.kill().unwrap();
    worker.wait().unwrap();

    let (ledger, gate) = open(path, &fleet.ingress());
    take_up(&ledger, &gate, path).await;
    let mut lines: HashMap<String, u32> = HashMap::new();
    for session in 0..SESSIONS {
        lines.extend(lines_of(&path.join(format!("f{session}"))));
    }
    let mut answered = lines_of(&path.join("answered"));
    let calls = submitted(path);
    let mut outcomes: HashMap<String, u32> = HashMap::new();
    let (mut answers, mut never_started) = (0, 0);
    for (call, tool) in &calls {
        let ran = lines.remove(&call.to_string()).unwrap_or(0);
        let Some(loaded) = ledger.load(*call).await.unwrap() else {
            assert_eq!(ran, 0, "{call} is not on record and ran");
            *outcomes.entry("never recorded".into()).or_default() += 1;
            continue;
        };
        let record = loaded.record;
        let settled =
            record.entries().iter().filter(|entry| matches!(entry.event, RecordEvent::Settled(_))).count();
        assert_eq!(settled, 1, "{call}: {record:?}");
        let outcome = record.outcome().unwrap().as_str();
        *outcomes.entry(outcome.into()).or_default() += 1;
        let repeatable = tool == "append_again";
        match outcome {
            "completed" if repeatable => assert!(ran >= 1, "{call} completed and left nothing"),
            "completed" => assert_eq!(ran, 1, "{call} completed"),
            "unknown" => assert!(ran <= 1 || repeatable, "{call} ran {ran} times"),
            "refused" => assert_eq!(ran, 0, "{call} was refused and ran: {record:?}"),
            other => panic!("{call} ended {other}"),
        }
        assert!(repeatable || record.attempts() <= 1, "{call} was begun again");
        let claims = record.entries().iter().filter_map(|entry| match &entry.event {
            RecordEvent::Started(Ok(claim)) => Some(claim),
            _ => None,
        });
        let is_started = |claim: &&Claim| ledger.was_started(claim.owner, claim.attempt).unwrap().unwrap();
        let started = claims.filter(is_started).count();
        assert!(ran as usize <= started, "{call} ran {ran} times and was marked {started} times");
        never_started += u32::from(outcome == "unknown" && started == 0);
        if answered.remove(&call.to_string()).is_some() {
            answers += 1;
            assert!(
                record.entries().iter().any(|entry| matches!(entry.event, RecordEvent::Answered(_))),
                "{call}"
            );
            assert_ne!(outcome, "refused", "{call} was answered yes: {:?}", record.outcome());
        }
    }
    assert!(lines.is_empty(), "lines of calls that nobody submitted: {lines:?}");
    assert!(answered.is_empty(), "accepted answers that are lost: {answered:?}");
    println!(
        "figure: {kills} kills {killed:?}; {} calls {outcomes:?} ({never_started} of the unknown were never started, by the \
         worker's own disk); {answers} accepted answers, none lost; no line twice of a call that may run only once, none \
         without a mark; {:.0} s",
        calls.len(),
        began.elapsed().as_secs_f64()
    );
    assert!(calls.len() > kills as usize * 4, "too few calls to mean anything: {}", calls.len());
}
