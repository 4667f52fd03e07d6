//! Questions at a real terminal, drawn in place.

use crate::desk::OtherUserWorld;
use crate::sitting::TerminalSession;
use crate::world::CliTestWorld;

fn asks(world: &CliTestWorld) -> TerminalSession {
    let args = r#"{"path":"notes.txt","line":"first"}"#;
    TerminalSession::new(world, &["call", "append_line", "--args", args, "--reason", "because"])
}

// req: R5
#[test]
fn yes_runs_it() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.await_ready();
    insta::assert_snapshot!("question", sitting.shown(&world));
    sitting.choose("y", "yes");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("appended 6 bytes"), "{seen}");
    assert_eq!(world.file("notes.txt"), "first\n");
    let lines = world.json(&["log", "show", &world.call(), "--json"])["entries"].to_string();
    assert!(lines.contains(r#""approver":{"assurance":"terminal","name":"ann"}"#), "{lines}");
}

// req: R5
#[test]
fn no_tells_the_model_what_to_do_instead() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.choose("n", "no");
    sitting.await_shown("What should the model do instead?");
    sitting.press("use the journal");
    sitting.await_shown("use the journal");
    insta::assert_snapshot!("no", sitting.shown(&world));
    sitting.press("\r");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(3), "{seen}");
    assert!(seen.contains("refused:") && seen.contains("(declined)"), "{seen}");
    assert!(seen.contains("use the journal"), "{seen}");
    assert!(!world.workspace().join("notes.txt").exists());
}

// req: R5
#[test]
fn an_edit_is_what_runs() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.choose("e", "edit");
    sitting.await_shown("Ctrl-D");
    // Corrects one character in place.
    sitting.press("\u{1b}[B\u{1b}[F\u{1b}[D\u{1b}[D\u{7f}T");
    sitting.await_shown("firsT");
    insta::assert_snapshot!("edit", sitting.shown(&world));
    sitting.press("\u{4}");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(world.file("notes.txt"), "firsT\n");
}

// req: R5
#[test]
fn abort_exits_with_130() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.choose("x", "abort");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(!world.workspace().join("notes.txt").exists());
}

// req: E2
#[test]
fn ctrl_c_calls_it_off() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.await_ready();
    sitting.press("\u{3}");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains("(cancelled)"), "{seen}");
    assert!(!world.workspace().join("notes.txt").exists());
    assert_eq!(world.json(&["log", "--json"])[0]["outcome"], "refused");
    assert_eq!(world.json(&["inbox", "--json"]).as_array().unwrap().len(), 0);
}

// req: R5
#[test]
fn a_question_fits_any_window_and_scrolls_to_its_end() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.await_ready();
    sitting.resize(40, 8);
    sitting.await_shown("below");
    insta::assert_snapshot!("small", sitting.shown(&world));
    sitting.resize(80, 24);
    sitting.await_shown("── in short; d shows the details");
    insta::assert_snapshot!("large_again", sitting.shown(&world));
    sitting.open_details();
    sitting.await_shown("the whole question is visible");
    // The end was on the screen once, which is enough.
    sitting.resize(40, 10);
    sitting.await_shown("below");
    sitting.choose("y", "yes");
    assert_eq!(sitting.end().0, Some(0));
}

// req: R5
#[test]
fn an_argument_of_200_kilobytes_is_shown_to_its_last_byte_before_it_can_be_approved() {
    let world = CliTestWorld::new();
    let line = format!("{}THE END", "0123456789".repeat(20_480));
    let args = serde_json::json!({"path": "notes.txt", "line": line}).to_string();
    std::fs::write(world.workspace().join("args.json"), &args).unwrap();
    let mut sitting = TerminalSession::new(&world, &["call", "append_line", "--args", "@args.json"]);
    sitting.await_ready();
    sitting.press("y");
    sitting.await_shown("read the details first");
    insta::assert_snapshot!("cut_argument", sitting.shown(&world));
    sitting.open_details();
    sitting.await_ready();
    sitting.press("y");
    sitting.await_shown("scroll to the end first");
    insta::assert_snapshot!("whole_argument", sitting.shown(&world));
    sitting.press("\u{1b}[F");
    sitting.await_shown("THE END");
    sitting.choose("y", "yes");
    assert_eq!(sitting.end().0, Some(0));
    assert_eq!(world.file("notes.txt"), format!("{line}\n"));
}

// req: R5
#[test]
fn wide_and_right_to_left_text_stays_in_its_place() {
    let world = CliTestWorld::new();
    let line = "漢字かな交じり文 👩‍👩‍👧 שלום עולם مرحبا e\u{301} \u{202e}gpj.exe Ꭺ";
    let args = serde_json::json!({"path": "notes.txt", "line": line.repeat(3)}).to_string();
    let mut sitting =
        TerminalSession::new(&world, &["call", "append_line", "--args", &args, "--reason", line]);
    sitting.await_ready();
    insta::assert_snapshot!("wide_card", sitting.shown(&world));
    sitting.open_details();
    sitting.press("\u{1b}[F");
    sitting.await_screen("the end", |screen| !screen.contains("below"));
    insta::assert_snapshot!("wide", sitting.shown(&world));
    sitting.choose("n", "no");
    sitting.await_shown("instead?");
    sitting.press("\r");
    assert_eq!(sitting.end().0, Some(3));
}

// req: R5
#[test]
fn what_was_typed_ahead_is_no_answer() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.press("y\ry\ry\r");
    declined(&world, sitting);
}

// req: R5
#[test]
fn what_is_pasted_is_no_answer() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.await_ready();
    sitting.press("\u{1b}[200~y\r\u{1b}[201~");
    sitting.await_shown("pasted text is not accepted");
    declined(&world, sitting);
}

// req: R5
#[test]
fn a_sentence_is_no_answer() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.await_ready();
    sitting.press("yes, but\r");
    sitting.await_drawn("wait: keys were typed");
    declined(&world, sitting);
}

/// Declines a question that is still open, and checks that nothing was done.
fn declined(world: &CliTestWorld, mut sitting: TerminalSession) {
    sitting.choose("n", "no");
    sitting.await_shown("instead?");
    sitting.press("\r");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(3), "{seen}");
    assert!(!world.workspace().join("notes.txt").exists());
}

// req: R5, R8
#[test]
fn what_cannot_be_taken_back_needs_the_words() {
    let desk = OtherUserWorld::new();
    let world = &desk.world;
    let git = "git init -q -b main . && git remote add origin https://git.example/x.git && \
               git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one";
    let mut made = world.command(std::path::Path::new("/bin/sh"));
    made.args(["-c", git]);
    assert!(desk.by_another(made).status().unwrap().success());
    let mut command = world.command(std::path::Path::new("setsid"));
    command.args(["--ctty", "--wait"]).arg(&desk.program);
    command.args(["call", "bash", "--args", r#"{"command":"git push --force origin main"}"#]);
    command.env("TERM", "xterm-256color");
    let mut sitting = TerminalSession::before(desk.by_another(command));
    sitting.await_ready();
    sitting.press("\u{1b}[F");
    sitting.await_screen("the end", |screen| !screen.contains("below"));
    sitting.choose("y", "yes");
    sitting.await_shown("type “for good”");
    let shown = sitting.shown(world);
    let foot: Vec<&str> = shown.lines().rev().take(2).collect();
    insta::assert_snapshot!("words", foot.into_iter().rev().collect::<Vec<_>>().join("\n"));
    // Neither a paste nor other words are accepted.
    sitting.press("\u{1b}[200~for good\u{1b}[201~");
    sitting.await_shown("pasted text is not accepted");
    sitting.press("for bad\r");
    sitting.await_shown("the words do not match");
    sitting.choose("y", "yes");
    sitting.await_shown("type “for good”");
    sitting.press("for good\r");
    let (_, seen) = sitting.end();
    assert!(seen.contains("asked about bash: yes"), "{seen}");
    let lines = world.json(&["log", "show", &world.call(), "--json"])["entries"].to_string();
    assert!(lines.contains("\"assurance\":\"terminal\""), "{lines}");
}

// req: R5
#[test]
fn a_leave_shows_its_rule_and_what_it_would_have_covered() {
    let world = CliTestWorld::new();
    for line in ["zero", "one"] {
        let mut sitting = TerminalSession::new(
            &world,
            &["call", "append_line", "--args", &format!(r#"{{"path":"notes.txt","line":"{line}"}}"#)],
        );
        sitting.choose("y", "yes");
        assert_eq!(sitting.end().0, Some(0));
    }
    let mut sitting = asks(&world);
    sitting.choose("a", "don't ask again");
    sitting.await_shown("would have covered 2");
    insta::assert_snapshot!("leave", sitting.shown(&world));
    // The approval cannot be confirmed in a window that is too small for its rule.
    sitting.resize(40, 10);
    sitting.await_shown("Standing approval");
    sitting.press("\r");
    sitting.await_shown("the window is too small");
    sitting.resize(80, 24);
    sitting.await_shown("would have covered 2");
    // Chooses a wider scope and a shorter time, then grants it.
    sitting.press("\u{1b}[C");
    sitting.await_shown("would have covered 2");
    sitting.press("\u{1b}[B\u{1b}[D");
    sitting.await_shown("15 minutes");
    sitting.press("\r");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    let leaves = world.json(&["policy", "approvals", "--json"]);
    assert_eq!(leaves.as_array().unwrap().len(), 1, "{leaves}");
    // The next call within its scope needs no question.
    let output = world.quietly(&["call", "append_line", "--args", r#"{"path":"notes.txt","line":"x"}"#], "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

// req: R5
#[test]
fn a_question_that_grows_too_old_leaves_the_screen() {
    let world = CliTestWorld::new();
    let args = r#"{"path":"notes.txt","line":"first"}"#;
    // Enough time for a slow machine to draw the question.
    let short = [("BYLEAVE_QUESTION_EXPIRY", "6s")];
    let mut sitting = TerminalSession::with(&world, &["call", "append_line", "--args", args], &short);
    sitting.await_drawn("s left");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(3), "{seen}");
    assert!(seen.contains("not answered"), "{seen}");
    assert!(!world.workspace().join("notes.txt").exists());
}

// req: R5
#[test]
fn arguments_are_changed_in_the_persons_own_editor() {
    let world = CliTestWorld::new();
    let args = r#"{"path":"notes.txt","line":"first"}"#;
    let editor = [("EDITOR", "sed -i s/first/second/")];
    let mut sitting = TerminalSession::with(&world, &["call", "append_line", "--args", args], &editor);
    sitting.choose("e", "edit");
    sitting.await_shown("Ctrl-O");
    sitting.press("\u{f}");
    sitting.await_shown("second");
    sitting.press("\u{4}");
    assert_eq!(sitting.end().0, Some(0));
    assert_eq!(world.file("notes.txt"), "second\n");
}

// req: R5
#[test]
fn an_edit_is_judged_again() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.choose("e", "edit");
    sitting.await_shown("Ctrl-D");
    let end = "\u{1b}[B\u{1b}[B\u{1b}[F\u{7f}".to_owned() + &"\u{7f}".repeat(9);
    sitting.press(&format!("{end}.env\""));
    sitting.await_shown("\".env\"");
    sitting.press("\u{4}");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(3), "what the rules deny stays denied: {seen}");
    assert!(!world.workspace().join(".env").exists());
}

// req: R3
#[test]
fn a_terminal_that_hangs_up_answers_nothing() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.await_ready();
    sitting.press("y");
    sitting.await_shown("yes: ");
    sitting.hang_up();
    assert!(!world.workspace().join("notes.txt").exists());
}

// req: R5
#[test]
fn a_difference_of_5000_lines_is_scrolled_and_folded() {
    let desk = OtherUserWorld::new();
    let script = "i=0; while [ $i -lt 5000 ]; do echo \"let v_$i = $i;\"; i=$((i+1)); done > long.rs";
    let mut command = desk.world.command(std::path::Path::new("setsid"));
    command.args(["--ctty", "--wait"]).arg(&desk.program);
    command.args(["call", "bash", "--mode", "confirm-all", "--args"]);
    command.arg(serde_json::json!({ "command": script }).to_string());
    command.env("TERM", "xterm-256color").env("BYLEAVE_WAIVE", "memory-limited");
    let mut sitting = TerminalSession::before(desk.by_another(command));
    sitting.await_ready();
    sitting.await_shown("v_3");
    insta::assert_snapshot!("long_difference", sitting.shown(&desk.world));
    sitting.open_details();
    sitting.await_ready();
    sitting.press("y");
    sitting.await_shown("scroll to the end first");
    // With all differences folded, the rest fits.
    sitting.press("\t");
    sitting.await_shown("folded");
    assert!(sitting.screen().contains("output: "), "{}", sitting.screen());
    sitting.press("\t\u{1b}[F");
    sitting.await_screen("the end", |screen| !screen.contains("below"));
    sitting.choose("y", "yes");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(desk.world.file("long.rs").lines().count(), 5000);
}

// req: R5
#[test]
fn later_leaves_the_question_in_the_inbox() {
    let world = CliTestWorld::new();
    let mut sitting = asks(&world);
    sitting.choose("l", "later");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(4), "{seen}");
    assert!(seen.contains("left open for a later answer"), "{seen}");
    let answered = world.quietly(&["inbox", "answer", &world.question(), "yes"], "");
    assert_eq!(answered.status.code(), Some(0), "{answered:?}");
    assert_eq!(world.file("notes.txt"), "first\n");
}
