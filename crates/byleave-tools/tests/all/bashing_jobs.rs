//! Background jobs: started by `bash`, read with `bash_output`, ended by `bash_kill` and by everything that ends a session.

use std::fs;
use std::time::Duration;

use byleave_gate::core::call::Mode;
use byleave_gate::core::id::SessionId;
use byleave_gate::core::question_view::RehearsalView;
use serde_json::{Value, json};

use crate::attacks::{SECRET, as_user};
use crate::bashing::{called, hydra, soon};
use crate::world::{CallObservation, ToolTestWorld, yes};

async fn call(world: &ToolTestWorld, tool: &str, arguments: Value) -> CallObservation {
    world.call(tool, arguments, &[yes()], Mode::ConfirmSensitive).await
}

/// Starts a job and returns its id.
async fn started(world: &ToolTestWorld, command: &str) -> String {
    let played = call(world, "bash", json!({"command": command, "background": true})).await;
    assert!(played.result.is_success(), "{command}: {:?}", played.result);
    assert!(played.text().contains("cannot be undone"), "{}", played.text());
    played.result.to_report().data.unwrap()["job"].as_str().unwrap().to_owned()
}

/// Reads until the job has ended. Returns the whole output, the last text and the last data.
async fn to_the_end(world: &ToolTestWorld, job: &str) -> (String, String, Value) {
    let mut printed = String::new();
    loop {
        let played = call(world, "bash_output", json!({"job": job, "wait_ms": 20_000})).await;
        assert!(played.result.is_success() && played.asked.is_empty(), "{:?}", played.result);
        let ours = |line: &&str| line.starts_with("[byleave]");
        printed.extend(played.text().split_inclusive('\n').filter(|line| !ours(line)));
        let data = played.result.to_report().data.unwrap();
        if data["running"] == false {
            return (printed, played.text(), data);
        }
    }
}

// req: B1
#[test]
fn a_job_runs_on_is_asked_about_and_tells_only_what_is_new() {
    as_user("bashing_jobs::a_job_runs_on_is_asked_about_and_tells_only_what_is_new", async {
        let world = ToolTestWorld::new();
        let job = started(&world, "echo one; until [ -e go ]; do sleep 0.02; done; cat go; exit 4").await;
        let first = call(&world, "bash_output", json!({"job": job, "wait_ms": 20_000})).await;
        assert!(
            first.text().starts_with("one\n[byleave] job `job-1` has been running for"),
            "{}",
            first.text()
        );
        assert!(first.asked.is_empty() && first.result.is_success(), "{:?}", first.result);
        // It sees edits that are made after it began.
        world.write("go", "second\n");
        let (printed, last, data) = to_the_end(&world, &job).await;
        assert_eq!(printed, "second\n");
        assert!(last.contains("ended after") && last.contains("exit status 4"), "{last}");
        assert_eq!(data["exit_status"], 4);
        let again = call(&world, "bash_output", json!({ "job": job })).await;
        assert!(
            !again.text().contains("second") && again.text().contains("exit status 4"),
            "{}",
            again.text()
        );
    });
}

// req: B1, E5, E6
#[test]
fn a_job_is_never_rehearsed_and_the_question_says_so() {
    as_user("bashing_jobs::a_job_is_never_rehearsed_and_the_question_says_so", async {
        let world = ToolTestWorld::new();
        world.write(".env", SECRET);
        // A file younger than the resolution of file times is treated as made while the job ran, and then the output is not
        // shown.
        let age =
            || fs::metadata(world.at(".env")).unwrap().modified().unwrap().elapsed().unwrap_or_default();
        soon("the secret is older than the job", || age() > Duration::from_millis(100));
        let command = "python3 -c \"open('made', 'w').write('x'); print(open('.env').read())\"";
        // Written differently, because a refused call is not asked about again.
        let arguments = json!({"command": format!("{command} #"), "background": true});
        let refused = world.call("bash", arguments, &[], Mode::ConfirmSensitive).await;
        let seen = refused.asked.first().and_then(|sheet| sheet.rehearsal.as_ref());
        assert!(
            matches!(seen, Some(RehearsalView::Unavailable { reason: why }) if why.contains("in the background") && why.contains("cannot be undone")),
            "{seen:?}"
        );
        assert!(!refused.result.is_success() && !world.at("made").exists());
        let job = started(&world, command).await;
        let (_, last, _) = to_the_end(&world, &job).await;
        assert_eq!(world.read("made"), "x", "on the real files");
        assert!(!last.contains(SECRET), "confined like any other: {last}");
    });
}

// req: B1, E2
#[test]
fn a_killed_job_is_gone_with_its_whole_tree() {
    as_user("bashing_jobs::a_killed_job_is_gone_with_its_whole_tree", async {
        let world = ToolTestWorld::new();
        let (script, marker) = hydra();
        let job = started(&world, &script).await;
        soon("six of them run", || called(&marker).len() >= 6);
        let killed = world.call("bash_kill", json!({ "job": job }), &[], Mode::ConfirmSensitive).await;
        assert_eq!(called(&marker), [0; 0], "left running");
        assert!(killed.result.is_success() && killed.asked.is_empty(), "{:?}", killed.result);
        assert!(
            killed.text().contains("started\n") && killed.text().contains("ms: killed"),
            "{}",
            killed.text()
        );
        let again = call(&world, "bash_kill", json!({ "job": job })).await;
        assert!(again.result.is_success() && again.text().contains("ms: killed"), "{}", again.text());
    });
}

// req: E2
#[test]
fn jobs_end_with_their_time_their_session_and_the_last_handle() {
    as_user("bashing_jobs::jobs_end_with_their_time_their_session_and_the_last_handle", async {
        let world = ToolTestWorld::new();
        let (script, marker) = hydra();
        // Long enough for all six to run, also on a slow machine.
        let arguments = json!({"command": script, "background": true, "timeout_ms": 6000});
        let played = call(&world, "bash", arguments).await;
        assert!(played.result.is_success(), "{:?}", played.result);
        soon("six of them run", || called(&marker).len() >= 6);
        let (_, last, _) = to_the_end(&world, "job-1").await;
        assert!(last.contains("timed out") && last.contains("stopped after 6000 ms"), "{last}");
        assert_eq!(called(&marker), [0; 0], "after its time");

        let (script, marker) = hydra();
        let job = started(&world, &script).await;
        soon("six of them run", || called(&marker).len() >= 6);
        world.jobs.end_session(&"local".parse().unwrap(), &SessionId::new("other").unwrap());
        assert!(called(&marker).len() >= 6, "another session's end");
        world.jobs.end_session(&"local".parse().unwrap(), &SessionId::new("s").unwrap());
        assert_eq!(called(&marker), [0; 0], "after its session");
        let gone = call(&world, "bash_output", json!({ "job": job })).await;
        assert!(gone.text().contains("no such job"), "{}", gone.text());

        let (script, marker) = hydra();
        started(&world, &script).await;
        soon("six of them run", || called(&marker).len() >= 6);
        drop(world);
        assert_eq!(called(&marker), [0; 0], "after the last handle");
    });
}

// req: B1, B8
#[test]
fn every_error_about_jobs_says_what_to_do() {
    as_user("bashing_jobs::every_error_about_jobs_says_what_to_do", async {
        let world = ToolTestWorld::new();
        let check = async |session: &str, tool: &str, arguments: Value, words: &[&str]| {
            let played = world.call_in(session, tool, arguments.clone(), &[], Mode::ConfirmSensitive).await;
            assert!(!played.result.is_success(), "{tool} {arguments}: {:?}", played.result);
            assert!(played.asked.is_empty(), "{tool} {arguments}");
            for word in words {
                assert!(
                    played.text().contains(word),
                    "{tool} {arguments}: `{word}` is not in: {}",
                    played.text()
                );
            }
        };
        let none: &[&str] = &["no such job", "this session has none", "`background: true`"];
        check("s", "bash_output", json!({"job": "job-1"}), none).await;
        check("s", "bash_kill", json!({"job": "x\ny"}), none).await;
        for _ in 0..3 {
            started(&world, "sleep 600").await;
        }
        // (session, tool, arguments, parts of the message)
        let cases: [(&str, &str, Value, &[&str]); 9] = [
            (
                "s",
                "bash_output",
                json!({"job": "job-9"}),
                &["no such job: `job-9`", "`job-1` (runs), `job-2` (runs)"],
            ),
            ("s", "bash_kill", json!({"job": "job-9"}), &["no such job: `job-9`", "`job-1` (runs)"]),
            ("other", "bash_output", json!({"job": "job-1"}), none),
            ("other", "bash_kill", json!({"job": "job-1"}), none),
            ("s", "bash_output", json!({}), &["job", "required"]),
            ("s", "bash_kill", json!({}), &["job", "required"]),
            ("s", "bash_output", json!({"job": "job-1", "wait_ms": 60_001}), &["wait_ms", "60000"]),
            ("s", "bash_kill", json!({"job": "job-1", "signal": 9}), &["signal"]),
            (
                "s",
                "bash",
                json!({"command": "sleep 600", "background": true}),
                &["3 jobs of this session are running", "`bash_kill`", "`bash_output`", "`job-3` (runs)"],
            ),
        ];
        for (session, tool, arguments, words) in cases {
            check(session, tool, arguments, words).await;
        }
        // Requests from other sessions end nothing, and another session has its own limit.
        let there = call(&world, "bash_output", json!({"job": "job-1"})).await;
        assert!(there.text().contains("has been running for"), "{}", there.text());
        let arguments = json!({"command": "sleep 600", "background": true});
        let other = world.call_in("other", "bash", arguments, &[], Mode::ConfirmSensitive).await;
        assert!(other.result.is_success(), "{:?}", other.result);
        let killed = call(&world, "bash_kill", json!({"job": "job-1"})).await;
        assert!(killed.result.is_success(), "{:?}", killed.result);
        started(&world, "sleep 600").await;
    });
}

// req: B1, E3
#[test]
fn of_a_job_that_prints_a_lot_beginning_and_end_are_kept() {
    as_user("bashing_jobs::of_a_job_that_prints_a_lot_beginning_and_end_are_kept", async {
        let world = ToolTestWorld::new();
        let job = started(&world, "seq 2000000; touch done; sleep 600").await;
        soon("it is done", || world.at("done").exists());
        let killed = call(&world, "bash_kill", json!({ "job": job })).await;
        let report = killed.result.to_report();
        assert!(report.truncated && report.output.starts_with("1\n2\n3\n"), "{:?}", killed.result.error());
    });
}
