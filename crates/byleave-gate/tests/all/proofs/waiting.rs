//! Waiting is cheap: a very large number of open questions in one audit log, and a new process that lists
//! them.

use std::path::Path;
use std::time::{Duration, Instant};

use byleave_gate::audit_log::{AuditLog as _, PageRequest, QuestionFilter};
use byleave_gate::core::call::Mode;
use byleave_gate::result::CallStatus;

use super::worker::{append, call, lines_of, open, start, yes};

/// The bars. The long form fails beyond twice the time, because machines are noisy. The short form does not check the
/// time.
const LIST_MS_MAX: u128 = 20;
const RESIDENT_MB_MAX: u64 = 64;

/// After a restart, the newest 50 are listed quickly, an answer resumes only its call, and an idle gate is small.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting() {
    let questions: usize = if super::long() { 100_000 } else { 2_000 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let began = Instant::now();
    let (book, gate) = open(path);
    let tasks = (0..64).map(|lane| {
        let (gate, path) = (gate.clone(), path.to_path_buf());
        tokio::spawn(async move {
            for number in (lane..questions).step_by(64) {
                let (session, line) = (format!("s{}", number % 1_000), format!("line {number}"));
                // A different path each, so that none blocks another.
                let file = format!("d{}/f{number}", number % 100);
                let asked = call(&path, &session, "append_line", &file, &line, Mode::ConfirmSensitive);
                let standing = gate.advance(asked).await;
                assert!(matches!(standing, CallStatus::Waiting { .. }), "{standing:?}");
            }
        })
    });
    for task in futures::future::join_all(tasks).await {
        task.unwrap();
    }
    let asked_in = began.elapsed();
    drop(gate);
    drop(book);

    let mut child = start(path, "idle", "");
    let status = child.wait().unwrap();
    let said = std::fs::read_to_string(path.join("idle-.stderr")).unwrap_or_default();
    assert!(status.success(), "{said}");
    let figures = std::fs::read_to_string(path.join("figures")).unwrap();
    println!(
        "figure: {questions} open questions, asked in {:.0} s; a fresh process: {figures}",
        asked_in.as_secs_f64()
    );
}

/// The work of the new process: lists, measures itself, and answers one.
pub(super) async fn look(folder: &Path) {
    let started = Instant::now();
    let (book, gate) = open(folder);
    let opened = started.elapsed();
    let mut lists = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let newest = book.questions(QuestionFilter::default(), PageRequest::with_limit(50)).await.unwrap();
        lists.push(started.elapsed());
        assert_eq!(newest.len(), 50);
        assert!(newest.is_sorted_by(|a, b| a.cursor > b.cursor), "newest first");
    }
    let first_list = lists[0];
    lists.sort_unstable();
    assert!(gate.resume_all().await.unwrap().is_empty(), "nothing but an answer moves them");
    let resident_mb = resident_kb() / 1_024;

    let newest = book.questions(QuestionFilter::default(), PageRequest::with_limit(50)).await.unwrap();
    let chosen = &newest[17];
    std::fs::create_dir_all(folder.join("d0")).unwrap();
    for folder_of in 0..100 {
        std::fs::create_dir_all(folder.join(format!("d{folder_of}"))).unwrap();
    }
    let sheet = gate.question_view(chosen.question).await.unwrap();
    let started = Instant::now();
    let call = gate.answer(yes(&sheet.question)).await.unwrap();
    let standing = gate.resume(call).await;
    let answered = started.elapsed();
    let CallStatus::Settled(result) = standing else { panic!("{standing:?}") };
    assert_eq!(result.outcome.as_str(), "completed", "{result:?}");
    let mut ran = 0;
    for folder_of in 0..100 {
        for file in std::fs::read_dir(folder.join(format!("d{folder_of}"))).unwrap() {
            ran += lines_of(&file.unwrap().path()).values().sum::<u32>();
        }
    }
    assert_eq!(ran, 1, "just that call ran");
    append(
        &folder.join("figures"),
        &format!(
            "opened in {:.1} ms, listed the newest 50 in {:.2} ms (first) and {:.2} ms (median), {resident_mb} MB \
             resident, answered and resumed one in {:.1} ms",
            ms(opened),
            ms(first_list),
            ms(lists[2]),
            ms(answered)
        ),
    );
    assert!(!super::long() || first_list.as_millis() < 2 * LIST_MS_MAX, "listing took {first_list:?}");
    assert!(resident_mb < RESIDENT_MB_MAX, "{resident_mb} MB resident");
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
