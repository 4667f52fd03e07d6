//! The public API as an application uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use byleave::audit_log::{CallFilter, PageRequest, SqliteLedger, SqliteOptions};
use byleave::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Touch {
    path: String,
}

fn touch(runs: &Arc<AtomicU32>) -> impl Tool + use<> {
    let runs = Arc::clone(runs);
    TypedTool::new("touch", "Creates a file", move |args: Touch, run: RunContext| {
        let runs = Arc::clone(&runs);
        async move {
            runs.fetch_add(1, Ordering::Relaxed);
            std::fs::File::create(run.resolve(&args.path)).map(|_| args.path)
        }
    })
    .writes_path("/path")
}

// req: E1
#[tokio::test]
async fn a_session_makes_calls_in_order_and_a_dry_run_runs_nothing() {
    let (dir, runs) = (tempfile::tempdir().unwrap(), Arc::default());
    let gate = Gate::builder().tool(touch(&runs)).approve_with(|_: &QuestionView| true).build().unwrap();
    let session = gate.session("s").agent("a").cwd(dir.path());

    let planned = session.dry_run("touch", json!({ "path": "x" })).await;
    assert!(matches!(planned.outcome, CallOutcome::DryRun(_)), "{:?}", planned.outcome);
    assert_eq!(runs.load(Ordering::Relaxed), 0);

    let calls = ["a", "b", "c"].map(|path| ("touch", json!({ "path": path })));
    let texts: Vec<String> = session.call_all(calls).await.iter().map(CallResult::to_text).collect();
    assert_eq!(texts, ["a", "b", "c"]);
    assert_eq!(runs.load(Ordering::Relaxed), 3);
}

// What cannot be recorded under its names does not run.
// req: E1
#[tokio::test]
async fn an_invalid_name_is_a_refusal_and_nothing_runs() {
    let (dir, runs) = (tempfile::tempdir().unwrap(), Arc::default());
    let gate = Gate::builder().tool(touch(&runs)).approve_with(|_: &QuestionView| true).build().unwrap();
    let named = |name: &str| gate.session(name).cwd(dir.path());
    for session in [named("two words"), named("s").agent(""), named("s").tenant("a\nb")] {
        let refused = session.call("touch", json!({ "path": "x" })).await;
        assert_eq!(refused.code(), Some(Code::NotRecorded));
        let all =
            session.call_all([("touch", json!({ "path": "x" })), ("touch", json!({ "path": "y" }))]).await;
        assert!(all.len() == 2 && all.iter().all(|result| result.code() == Some(Code::NotRecorded)));
    }
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

// req: E1
#[tokio::test]
async fn an_approver_by_closure_is_named_in_the_audit_log_and_its_no_counts() {
    let (dir, runs) = (tempfile::tempdir().unwrap(), Arc::default());
    let gate = Gate::builder()
        .tool(touch(&runs))
        .approve_with(|question: &QuestionView| {
            question.plan.only_affects_paths(|path| path.ends_with(".log"))
        })
        .build()
        .unwrap();
    let session = gate.session("s").cwd(dir.path());
    assert!(session.call("touch", json!({ "path": "a.log" })).await.is_success());
    let refused = session.call("touch", json!({ "path": "a.txt" })).await;
    assert_eq!(refused.code(), Some(Code::Declined));
    assert!(refused.error().unwrap().contains("program"), "{:?}", refused.error());
}

// req: G4
#[tokio::test(flavor = "multi_thread")]
async fn a_local_gate_has_the_built_in_tools_the_policy_files_and_the_audit_log() {
    let (work, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(work.path().join("notes.txt"), "one\ntwo\n").unwrap();
    std::fs::create_dir(work.path().join(".byleave")).unwrap();
    let rules = "[[rule]]\nid = \"no-secrets\"\nverdict = \"deny\"\nread = [\"secret.txt\"]\n";
    std::fs::write(work.path().join(".byleave/policy.toml"), rules).unwrap();
    std::fs::write(work.path().join("secret.txt"), "hidden\n").unwrap();

    let gate = Gate::local().workspace(work.path()).state_dir(state.path()).build().unwrap();
    let session = gate.session("s").cwd(work.path());
    let read = session.call("read_file", json!({ "path": "notes.txt" })).await;
    assert!(read.to_text().contains("two"), "{:?}", read.error());
    // The project's policy file is in force.
    let denied = session.call("read_file", json!({ "path": "secret.txt" })).await;
    assert_eq!(denied.code(), Some(Code::Denied));
    // There is no approver.
    let asked = session.call("write_file", json!({ "path": "x", "content": "x" })).await;
    assert_eq!(asked.code(), Some(Code::NoApprover));
    drop((gate, session));

    let log = SqliteLedger::open(state.path(), &SqliteOptions::default()).unwrap();
    let calls = log.calls(CallFilter::default(), PageRequest::with_limit(10)).await.unwrap();
    assert_eq!(calls.len(), 3);
    assert!(log.verify().await.unwrap().is_intact());
}

// req: G4
#[test]
fn a_local_gate_with_a_broken_policy_file_is_not_built() {
    let (work, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(work.path().join(".byleave")).unwrap();
    std::fs::write(work.path().join(".byleave/policy.toml"), "rule = 1\n").unwrap();
    let built = Gate::local().workspace(work.path()).state_dir(state.path()).build();
    assert!(built.is_err());
    let missing = Gate::local().workspace("/no/such/directory").state_dir(state.path()).build();
    assert!(missing.is_err_and(|error| error.to_string().contains("/no/such/directory")));
}
