//! A question that is answered in another place than where it was asked: whoever asked is told who answered what, and gets the result of
//! the call and its exit code.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::desk::OtherUserWorld;
use crate::sitting::TerminalSession;
use crate::world::CliTestWorld;

const NOTE: &str = r#"{"path":"notes.txt","line":"first"}"#;

/// Answers the open question as another person.
fn answers(world: &CliTestWorld, answer: &[&str]) -> Output {
    let mut command = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
    command.args(["inbox", "answer", &world.question()]).args(answer).env("USER", "bob");
    command.stdin(Stdio::null()).output().unwrap()
}

// req: R5, E1
// door: program
#[test]
fn a_prompt_that_is_answered_elsewhere_says_so_and_ends_like_the_call() {
    // (answer, exit code, what the prompt says, what the call says)
    let cases: [(&[&str], i32, &str, &str); 4] = [
        (&["yes"], 0, "answered elsewhere: yes by bob", "appended 6 bytes"),
        (
            &["no", "--feedback", "use the journal"],
            3,
            "answered elsewhere: no by bob: use the journal",
            "refused:",
        ),
        (
            &["edit", "--args", r#"{"path":"notes.txt","line":"second"}"#],
            0,
            "yes, with changes by bob",
            "appended 7",
        ),
        (&["abort"], 130, "answered elsewhere: abort by bob", "refused:"),
    ];
    for (answer, wanted, said, result) in cases {
        let world = CliTestWorld::new();
        let mut sitting = TerminalSession::new(&world, &["call", "append_line", "--args", NOTE]);
        sitting.await_ready();
        let answered = answers(&world, answer);
        assert_eq!(answered.status.code(), Some(wanted), "{answer:?}: {answered:?}");
        let (code, seen) = sitting.end();
        assert_eq!(code, Some(wanted), "{answer:?}: {seen}");
        assert!(seen.contains(said) && seen.contains(result), "{answer:?}: {seen}");
        assert!(!seen.contains("not answered"), "{answer:?}: {seen}");
        let lines = fs::read_to_string(world.workspace().join("notes.txt")).unwrap_or_default();
        assert_eq!(lines.lines().count(), usize::from(wanted == 0), "it runs once: {lines}");
    }
}

// req: R5, E1
// door: program
#[test]
fn a_terminal_that_only_prints_lines_gets_the_result_too() {
    let world = CliTestWorld::new();
    let dumb = [("TERM", "dumb")];
    let mut sitting = TerminalSession::with(&world, &["call", "append_line", "--args", NOTE], &dumb);
    sitting.await_text("[a]bort > ");
    assert_eq!(answers(&world, &["yes"]).status.code(), Some(0));
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("no longer needs an answer") && seen.contains("appended 6 bytes"), "{seen}");
}

/// Starts `byleave rehearse` at a terminal, and waits for its question.
fn rehearses(desk: &OtherUserWorld, script: &str) -> TerminalSession {
    let mut command = desk.world.command(Path::new("setsid"));
    command.args(["--ctty", "--wait"]).arg(&desk.program).args(["rehearse", "--", script]);
    command.env("BYLEAVE_WAIVE", "memory-limited");
    let mut sitting = TerminalSession::before(desk.by_another(command));
    sitting.await_text("later > ");
    sitting
}

fn answers_at(desk: &OtherUserWorld, answer: &[&str]) -> Output {
    let waived = |words: &[&str]| -> Command {
        let mut command = desk.command(words);
        command.env("BYLEAVE_WAIVE", "memory-limited").env("USER", "bob").stdin(Stdio::null());
        command
    };
    let open = waived(&["inbox", "--json"]).output().unwrap();
    let open: serde_json::Value = serde_json::from_slice(&open.stdout).unwrap();
    let question = open[0]["question"].as_str().unwrap().to_owned();
    waived(&[&["inbox", "answer", &question], answer].concat()).output().unwrap()
}

// req: R5, E5
// door: program
#[test]
fn a_rehearsal_that_is_answered_elsewhere_leaves_its_prompt() {
    let text = |desk: &OtherUserWorld| fs::read_to_string(desk.world.workspace().join("notes.txt")).unwrap();
    let desk = OtherUserWorld::new();
    let sitting = rehearses(&desk, "printf bye > notes.txt; touch other; true");
    let answered = answers_at(&desk, &["partial", "notes.txt"]);
    assert_eq!(answered.status.code(), Some(0), "{answered:?}");
    let (code, seen) = sitting.end();
    assert!(code == Some(0) && seen.contains("answered elsewhere:"), "{code:?} {seen}");
    assert!(seen.contains("yes to a part by bob"), "{seen}");
    assert!(seen.contains("byleave undo"), "{seen}");
    assert_eq!((text(&desk).as_str(), desk.world.workspace().join("other").exists()), ("bye", false));

    let sitting = rehearses(&desk, "printf gone > notes.txt");
    let answered = answers_at(&desk, &["no", "--feedback", "not now"]);
    assert_eq!(answered.status.code(), Some(3), "{answered:?}");
    let (code, seen) = sitting.end();
    assert!(code == Some(3) && seen.contains("no by bob: not now"), "{code:?} {seen}");
    assert!(seen.contains("(declined)"), "{seen}");
    assert_eq!(text(&desk), "bye");
}
