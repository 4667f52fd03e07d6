//! Two processes on one audit log, each with many calls in one session. One of them is killed half-way.

use std::time::{Duration, Instant};

use byleave_gate::audit_log::CallState;

use super::worker::{all_calls, calls_of_a_session, lines_of, open, start};

/// Order is kept, nothing runs twice, and nothing is stuck.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let began = Instant::now();
    let mut staying = start(path, "session", "staying");
    let mut killed = start(path, "session", "killed");
    let file = path.join("lines");
    let count = |name: &str| {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(name)).count()
    };
    while count("killed") < calls_of_a_session() / 2 {
        assert!(began.elapsed() < Duration::from_secs(200), "stuck at {} lines", count("killed"));
        assert!(killed.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let status = loop {
        if let Some(status) = staying.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < Duration::from_secs(240), "stuck at {} lines", count("staying"));
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = std::fs::read_to_string(path.join("session-staying.stderr")).unwrap_or_default();
    assert!(status.success(), "{said}");

    let (book, gate) = open(path);
    gate.resume_all().await.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    for name in ["staying", "killed"] {
        let own: Vec<&str> = text.lines().filter(|line| line.starts_with(name)).collect();
        assert!(own.is_sorted(), "{name} is out of order");
    }
    assert_eq!(count("staying"), calls_of_a_session());
    assert!(lines_of(&file).values().all(|times| *times == 1), "a line stands there twice");
    let calls = all_calls(&book).await;
    let unsettled: Vec<_> = calls.iter().filter(|call| call.state != CallState::Settled).collect();
    assert!(unsettled.is_empty(), "stuck: {unsettled:?}");
    let unknown = calls.iter().filter(|call| call.outcome.as_deref() == Some("unknown")).count();
    assert!(unknown <= 1, "{unknown} unknown");
    let completed = calls.iter().filter(|call| call.outcome.as_deref() == Some("completed")).count();
    assert!(text.lines().count() - completed <= unknown, "a line without a completed call");
    println!(
        "figure: {} calls of the one that stayed and {} of the one that was killed, in one session; {unknown} unknown; \
         in order, none twice, none stuck; {:.1} s",
        count("staying"),
        count("killed"),
        began.elapsed().as_secs_f64()
    );
}
