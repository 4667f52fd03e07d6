//! The full-screen inbox at a real terminal.

use crate::sitting::TerminalSession;
use crate::world::CliTestWorld;

/// Makes a call whose question stays open.
fn ask(world: &CliTestWorld, agent: &str, session: &str, line: &str) -> String {
    let args = format!(r#"{{"path":"{session}.txt","line":"{line}"}}"#);
    let words =
        ["call", "append_line", "--args", &args, "--ask", "inbox", "--agent", agent, "--session", session];
    let output = world.quietly(&words, "");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn three(world: &CliTestWorld) {
    ask(world, "coder", "one", "first");
    ask(world, "coder", "two", "second");
    ask(world, "tester", "three", "third");
}

fn sit(world: &CliTestWorld) -> TerminalSession {
    let mut sitting = TerminalSession::new(world, &["inbox"]);
    sitting.await_shown("q quit");
    sitting
}

fn shown(world: &CliTestWorld, sitting: &TerminalSession) -> String {
    sitting.shown(world)
}

// req: R5, L5
#[test]
fn a_question_is_opened_read_and_answered() {
    let world = CliTestWorld::new();
    three(&world);
    let mut sitting = sit(&world);
    sitting.await_shown("3 open");
    insta::assert_snapshot!("list", shown(&world, &sitting));
    sitting.press("\r");
    sitting.await_shown("Call “append_line”");
    sitting.choose("y", "yes");
    sitting.await_shown("appended 6 bytes");
    sitting.await_shown("2 open");
    assert_eq!(world.file("one.txt"), "first\n");
    // Goes back without an answer, and quits.
    sitting.press("\r");
    sitting.await_ready();
    sitting.press("\u{1b}");
    sitting.await_shown("2 open");
    sitting.press("q");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(world.json(&["inbox", "list", "--json"]).as_array().unwrap().len(), 2);
}

// req: R5
#[test]
fn several_get_one_answer_after_all_of_them_were_seen() {
    let world = CliTestWorld::new();
    three(&world);
    let mut sitting = sit(&world);
    sitting.await_shown("3 open");
    sitting.press("/");
    sitting.press("coder");
    sitting.await_shown("2 shown");
    sitting.press("\r*");
    sitting.await_shown("2 marked");
    insta::assert_snapshot!("marked", shown(&world, &sitting));
    // A yes is refused before the end of the last question was on the screen.
    sitting.resize(80, 9);
    sitting.press("\r");
    sitting.await_shown("2 questions, one answer");
    sitting.await_shown("below");
    sitting.await_ready();
    sitting.press("y");
    sitting.await_shown("scroll to the end first");
    sitting.press("\u{1b}[F");
    sitting.await_screen("the end", |screen| !screen.contains("below"));
    sitting.resize(80, 24);
    sitting.await_shown("── in short;");
    insta::assert_snapshot!("several", shown(&world, &sitting));
    sitting.choose("y", "yes");
    sitting.await_shown("1 open");
    sitting.await_shown("appended 7 bytes");
    assert_eq!((world.file("one.txt"), world.file("two.txt")), ("first\n".into(), "second\n".into()));
    assert!(!world.workspace().join("three.txt").exists());
    sitting.press("q");
    assert_eq!(sitting.end().0, Some(0));
}

// req: R5
#[test]
fn questions_are_put_in_another_order() {
    let world = CliTestWorld::new();
    three(&world);
    let mut sitting = sit(&world);
    sitting.await_shown("3 open, oldest first");
    let order = |screen: &str| {
        let place = |name: &str| screen.find(name).unwrap();
        [place("one.txt"), place("two.txt"), place("three.txt")]
    };
    let [one, two, three] = order(&sitting.screen());
    assert!(one < two && two < three);
    sitting.press("s");
    sitting.await_shown("newest first");
    let [one, two, three] = order(&sitting.screen());
    assert!(one > two && two > three);
    sitting.press("q");
    assert_eq!(sitting.end().0, Some(0));
}

// req: R5
#[test]
fn a_question_that_is_answered_elsewhere_leaves_the_screen() {
    let world = CliTestWorld::new();
    let question = ask(&world, "coder", "one", "first");
    let mut sitting = sit(&world);
    sitting.await_shown("1 open");
    sitting.press("\r");
    sitting.await_ready();
    world.quietly(&["inbox", "answer", &question, "no"], "");
    sitting.await_shown("answered elsewhere");
    insta::assert_snapshot!("gone", shown(&world, &sitting));
    sitting.press("q");
    assert_eq!(sitting.end().0, Some(0));
}

// req: R5
#[test]
fn abort_and_ctrl_c_leave_with_130() {
    let world = CliTestWorld::new();
    ask(&world, "coder", "one", "first");
    let mut sitting = sit(&world);
    sitting.await_shown("1 open");
    sitting.press("\r");
    sitting.choose("x", "abort");
    assert_eq!(sitting.end().0, Some(130));
    let mut sitting = sit(&world);
    sitting.await_shown("no open questions");
    sitting.press("\u{3}");
    assert_eq!(sitting.end().0, Some(130));
}
