//! A shell for an agent: every command runs in the sandbox, on a copy of the workspace. The approver sees the changes of that run, a
//! yes commits them, and an undo reverts them.
//!
//! `cargo run -p byleave --example sandboxed_shell`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use byleave::approver::RehearsalView;
use byleave::prelude::*;

#[tokio::main]
async fn main() -> byleave::Result<()> {
    let (work, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    std::fs::write(work.path().join("a.txt"), "one\n")?;
    std::fs::write(work.path().join("b.txt"), "two\n")?;

    // Without `state_dir` the calls are in the audit log of the `byleave` program: `byleave log`, `byleave undo`.
    let gate = Gate::local()
        .workspace(work.path())
        .state_dir(state.path())
        .approve_with(|question: &QuestionView| {
            let Some(RehearsalView::Ran { rehearsal, .. }) = &question.rehearsal else { return false };
            for change in &rehearsal.changes.list {
                println!("  {} {}", change.kind(), change.path);
            }
            rehearsal.is_committable() && rehearsal.changes.list.len() <= 2
        })
        .build()?;
    let session = gate.session("example").cwd(work.path());

    let done = session.call("bash", json!({ "command": "sed -i s/one/1/ a.txt && rm b.txt" })).await;
    if done.code() == Some(Code::CannotRun) {
        // A machine without any sandbox backend refuses to run commands.
        println!("{}", done.error().unwrap_or_default());
        return Ok(());
    }
    assert!(done.is_success(), "{:?}", done.error());
    assert_eq!(std::fs::read_to_string(work.path().join("a.txt"))?, "1\n");
    assert!(!work.path().join("b.txt").exists());

    let undone = session.mode(Mode::Yolo).call("undo", json!({ "call": done.call })).await;
    println!("{}", undone.to_text());
    assert!(undone.is_success(), "{:?}", undone.error());
    assert_eq!(std::fs::read_to_string(work.path().join("a.txt"))?, "one\n");
    assert_eq!(std::fs::read_to_string(work.path().join("b.txt"))?, "two\n");
    Ok(())
}
