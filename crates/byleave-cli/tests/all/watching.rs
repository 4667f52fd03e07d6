//! Viewing calls: `log` with filters, `log stats`, and `log follow` during a call of another process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::desk::OtherUserWorld;
use crate::sitting::TerminalSession;
use crate::world::CliTestWorld;

const NOTE: &str = r#"{"path":"notes.txt","line":"first"}"#;

/// Makes calls of every kind: done, refused, answered with yes or no, and waiting.
fn busy() -> CliTestWorld {
    let world = CliTestWorld::new();
    world.quietly(&["call", "echo", "--session", "other", "--args", r#"{"text":"hi"}"#], "");
    world.quietly(&["call", "ecko"], "");
    for answer in ["yes", "yes", "no"] {
        world.quietly(&["call", "append_line", "--ask", "inbox", "--agent", "bob", "--args", NOTE], "");
        world.quietly(&["inbox", "answer", &world.question(), answer], "");
    }
    world.quietly(&["call", "append_line", "--ask", "inbox", "--args", NOTE], "");
    world
}

// req: A1
#[test]
fn calls_are_found_by_what_is_asked_for() {
    let mut world = busy();
    for words in [
        &["--tool", "echo"][..],
        &["--session", "other"],
        &["--agent", "bob"],
        &["--outcome", "refused"],
        &["--code", "declined"],
        &["--is", "waiting"],
        &["--asked", "--outcome", "completed", "-n", "1"],
        &["--text", "NOTES"],
        &["--since", "1h", "--until", "1m"],
        &["--since", "2020-01-01", "--until", "2099-12-31T23:59", "--tool", "ecko", "--json"],
    ] {
        assert_eq!(world.run(&[&["log"], words].concat()).status.code(), Some(0));
    }
    world.note("invalid values are refused with a list of the valid ones");
    for words in [
        &["--outcome", "done"][..],
        &["--is", "running"],
        &["--code", "decline"],
        &["--since", "yesterday"],
        &["--until", "2026-02-30"],
    ] {
        assert_eq!(world.run(&[&["log"], words].concat()).status.code(), Some(2));
    }
    insta::assert_snapshot!(world.transcript());
}

// req: A1
#[test]
fn what_was_called_and_asked_is_counted() {
    let mut world = busy();
    world.run(&["log", "stats", "--since", "1d"]);
    world.run(&["log", "stats", "--since", "1d", "--tool", "echo", "--color", "always"]);
    world.run(&["log", "stats", "--since", "1d", "--agent", "bob", "--json"]);
    world.run(&["log", "stats", "--since", "1h", "--until", "1m"]);
    world.run(&["log", "stats", "--since", "soon"]);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn rules_that_are_always_answered_yes_are_named() {
    let mut world = CliTestWorld::new();
    for _ in 0..2 {
        world.quietly(&["call", "append_line", "--ask", "inbox", "--args", NOTE], "");
        world.quietly(&["inbox", "answer", &world.question(), "yes"], "");
    }
    let said = world.run(&["log", "stats"]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("byleave policy suggest"));
}

#[test]
fn of_a_damaged_record_nothing_is_counted() {
    let mut world = CliTestWorld::new();
    world.quietly(&["call", "echo", "--args", r#"{"text":"one"}"#], "");
    world.quietly(&["call", "echo", "--args", r#"{"text":"two"}"#], "");
    let book = rusqlite::Connection::open(world.state().join("audit.sqlite")).unwrap();
    book.execute("UPDATE batch SET body = x'00' WHERE pos = (SELECT min(pos) FROM batch)", []).unwrap();
    drop(book);
    let said = world.run(&["log", "stats", "--json"]);
    let stats: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&stats["calls"], &stats["damaged"]), (&1.into(), &1.into()), "{stats}");
    assert!(String::from_utf8_lossy(&said.stderr).contains("1 record not counted"));
}

/// The program with `log follow`, and its output line by line.
struct WatchProcess {
    child: Child,
    lines: Option<BufReader<ChildStdout>>,
    heard: Vec<String>,
}

impl WatchProcess {
    fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines: Some(lines), heard: Vec::new() }
    }

    /// Reads until a line contains this text.
    fn until(&mut self, wanted: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.lines.as_mut().unwrap().read_line(&mut line).unwrap();
            assert!(read > 0, "no `{wanted}`: {:#?}", self.heard);
            self.heard.push(line.clone());
            if line.contains(wanted) {
                return line;
            }
        }
    }

    /// Sends Ctrl-C. Returns the exit code.
    fn interrupt(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Closes the reading end. Returns the exit code.
    fn turn_away(mut self) -> Option<i32> {
        self.lines = None;
        self.child.wait().unwrap().code()
    }
}

impl Drop for WatchProcess {
    fn drop(&mut self) {
        // Uses the child's own handle. The child is still running only if a test has failed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

// req: E5
#[test]
fn calls_of_other_processes_are_watched_line_by_line() {
    let world = CliTestWorld::new();
    world.quietly(&["call", "append_line", "--ask", "inbox", "--args", NOTE], "");
    let first = world.question();
    let mut command = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
    command.args(["log", "follow"]);
    let mut watching = WatchProcess::start(command);
    let line = watching.until("ongoing");
    assert!(line.contains("waits for a person") && line.contains("byleave inbox answer"), "{line}");

    world.quietly(&["inbox", "answer", &first, "yes"], "");
    watching.until("answered    yes by ann");
    watching.until("SETTLED     completed");
    world.quietly(&["call", "echo", "--agent", "bob", "--args", r#"{"text":"hi"}"#], "");
    watching.until("received    by bob in session cli");
    watching.until("SETTLED     completed");
    world.quietly(&["call", "append_line", "--ask", "inbox", "--args", NOTE], "");
    watching.until("decided     ask: ");
    let line = watching.until("WAITING");
    let id = world.question();
    assert!(line.contains(&format!("byleave inbox answer {} yes", id.get(28..).unwrap())), "{line}");
    world.quietly(&["call", "ecko"], "");
    watching.until("SETTLED     refused");
    assert_eq!(watching.interrupt(), Some(0));
}

#[test]
fn only_what_is_wanted_is_watched_and_once_is_once() {
    let mut world = busy();
    let program = Path::new(env!("CARGO_BIN_EXE_byleave"));
    let mut command = world.command(program);
    command.args(["log", "follow", "--json", "--session", "mine", "--tool", "echo"]);
    let mut watching = WatchProcess::start(command);
    // Nothing shows that it has begun to watch, so the calls are repeated until it reports one.
    let heard = std::thread::scope(|scope| {
        let heard = scope.spawn(|| watching.until("settled"));
        while !heard.is_finished() {
            world.quietly(&["call", "echo", "--args", r#"{"text":"not wanted"}"#], "");
            world.quietly(&["call", "append_line", "--session", "mine", "--ask", "none", "--args", NOTE], "");
            world.quietly(&["call", "echo", "--session", "mine", "--args", r#"{"text":"hi"}"#], "");
        }
        heard.join().unwrap()
    });
    for line in watching.heard.iter().chain([&heard]) {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&event["session"], &event["tool"]), (&"mine".into(), &"echo".into()), "{line}");
        assert_eq!(event["event"], "entry");
    }
    assert_eq!(watching.interrupt(), Some(0));

    world.run(&["log", "follow", "--once"]);
    world.run(&["log", "follow", "--once", "--json"]);
    world.run(&["log", "follow", "--once", "--tool", "echo"]);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn it_ends_when_nobody_reads() {
    let world = busy();
    let mut command = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
    command.args(["log", "follow"]);
    let mut watching = WatchProcess::start(command);
    // Everything has been printed. The program needs no further line to notice the closed pipe.
    watching.until("ongoing");
    assert_eq!(watching.turn_away(), Some(0));
}

#[test]
fn at_a_terminal_it_is_drawn_in_place() {
    let world = CliTestWorld::new();
    world.quietly(&["call", "append_line", "--ask", "inbox", "--args", NOTE], "");
    let question = world.question();
    let mut command = world.command(Path::new("setsid"));
    command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_byleave"), "log", "follow"]);
    let mut sitting = TerminalSession::before(command);
    sitting.await_text("waits for a person");
    sitting.await_text(&format!("byleave inbox answer {} yes", question.get(28..).unwrap()));
    sitting.await_text("ask: no rule matches");
    world.quietly(&["inbox", "answer", &question, "no"], "");
    sitting.await_text("SETTLED     refused");
    sitting.await_text("no call is in progress");
    sitting.press("\u{3}");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    // The three lines of the question are overwritten, and the result stays above.
    assert!(seen.contains("\u{1b}[3A\r\u{1b}[J"), "{seen:?}");
    let last = seen.rsplit("\u{1b}[J").next().unwrap();
    assert!(last.contains("SETTLED") && !last.contains("waits for a person"), "{last:?}");
}

// req: T1
#[test]
fn what_a_command_prints_is_seen_while_it_runs_and_left_nowhere() {
    let desk = OtherUserWorld::new();
    let waived = |words: &[&str]| {
        let mut command = desk.command(words);
        command.env("BYLEAVE_WAIVE", "memory-limited").stdin(Stdio::null());
        command
    };
    // The audit log must exist before it can be watched.
    assert!(waived(&["call", "echo", "--args", r#"{"text":"hi"}"#]).output().unwrap().status.success());
    let mut watching = WatchProcess::start(waived(&["log", "follow", "--tool", "bash"]));
    // Prints an escape sequence, and then does not end by itself.
    let arguments = serde_json::json!({ "command": r"printf 'one\033[2J\n'; sleep 600" }).to_string();
    let words = ["call", "bash", "--mode", "yolo", "--args", &arguments];
    let call = waived(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    watching.until("  runs");
    let line = watching.until("printed");
    assert!(line.contains("one") && !line.contains('\u{1b}'), "{line:?}");
    let live = desk.world.state().join("live");
    assert_eq!(std::fs::read_dir(&live).unwrap().count(), 1);
    let once = waived(&["log", "follow", "--once"]).output().unwrap();
    let once = String::from_utf8(once.stdout).unwrap();
    assert!(once.contains("runs for") && once.contains("  | one"), "{once}");
    watching.until("progress");

    kill_process(Pid::from_child(&call), Signal::INT).unwrap();
    watching.until("SETTLED");
    call.wait_with_output().unwrap();
    assert_eq!(std::fs::read_dir(&live).unwrap().count(), 0);
    assert_eq!(watching.interrupt(), Some(0));
}
