//! A person at a terminal: a scripted one for the text, and a real pseudo-terminal for the keys.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use byleave_gate::approver::{Approver, ApproverError, Console, KeyInput, Reply, TerminalApprover};
use byleave_gate::core::question::{Assurance, QuestionKind};
use byleave_gate::core::render::{LineRole, RenderLine, Rendering};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::approve::{ask, rendering, sheet};

/// A person with typed-ahead input, who then types these lines, one at each prompt, and hangs up.
struct ScriptedConsole {
    ahead: Vec<u8>,
    lines: VecDeque<String>,
    drawn: Arc<Mutex<String>>,
}

impl Console for ScriptedConsole {
    fn draw(&mut self, text: &str) -> io::Result<()> {
        self.drawn.lock().unwrap().push_str(text);
        Ok(())
    }
    fn drain(&mut self, _: Duration) -> io::Result<()> {
        self.ahead.clear();
        Ok(())
    }
    fn read_keys(&mut self, _: Duration) -> io::Result<KeyInput> {
        if !self.ahead.is_empty() {
            return Ok(KeyInput::Bytes(std::mem::take(&mut self.ahead)));
        }
        Ok(self.lines.pop_front().map_or(KeyInput::Eof, |line| KeyInput::Bytes(line.into_bytes())))
    }
}

fn scripted(ahead: &str, lines: &[&str]) -> (TerminalApprover, Arc<Mutex<String>>) {
    let drawn = Arc::new(Mutex::new(String::new()));
    let lines = lines.iter().map(|line| (*line).to_owned()).collect();
    let script = ScriptedConsole { ahead: ahead.into(), lines, drawn: Arc::clone(&drawn) };
    (TerminalApprover::with_console("ann", script), drawn)
}

async fn typed(kind: QuestionKind, lines: &[&str]) -> Result<Reply, ApproverError> {
    ask(&scripted("", lines).0, kind).await
}

const YES: Reply = Reply::Yes { note: None };

fn no(feedback: Option<&str>) -> Reply {
    Reply::No { feedback: feedback.map(Into::into) }
}

// req: R5, R11
#[tokio::test]
async fn a_delete_is_confirmed_at_the_terminal() {
    let (terminal, drawn) = scripted("", &["y\n"]);
    assert_eq!(ask(&terminal, QuestionKind::Approval).await, Ok(YES));
    assert_eq!(terminal.assurance(), Assurance::Terminal);
    let drawn = drawn.lock().unwrap();
    for line in rendering().lines {
        assert!(drawn.contains(&line.text), "`{}` was shown", line.text);
    }
    assert!(drawn.ends_with("[y]es  [n]o  [e]dit  [r]esult instead  [a]bort > "));
}

// req: R5
#[tokio::test]
async fn every_answer_can_be_typed() {
    let edit = |value| Ok(Reply::Edit { value, note: None });
    let cases: &[(&[&str], Result<Reply, ApproverError>)] = &[
        (&["YES\r\n"], Ok(YES)),
        (&["ye", "s\n"], Ok(YES)),
        (&["n\n", "\n"], Ok(no(None))),
        (&["no\n", "archive it\n"], Ok(no(Some("archive it")))),
        (&["a\n"], Ok(Reply::Abort)),
        (&["e\n", "{\"path\":\n", " \"/w/b\"}\n", "\n"], edit(json!({"path": "/w/b"}))),
        (&["e\n", "not json\n", "\n", "e\n", "[1]\n", "\n", "y\n"], Ok(YES)),
        (&["r\n", "gone\n", "since May\n", "\n"], Ok(Reply::Result { text: "gone\nsince May".into() })),
        (&["result\n", "\n", "y\n"], Ok(YES)),
        (&["\n", "what?\n", "y\n"], Ok(YES)),
    ];
    for (lines, expected) in cases {
        assert_eq!(typed(QuestionKind::Approval, lines).await, *expected, "{lines:?}");
    }
}

// req: R5
#[tokio::test]
async fn a_held_result_has_no_tool_to_answer_for() {
    let (terminal, drawn) = scripted("", &["r\n", "n\n", "\n"]);
    assert_eq!(ask(&terminal, QuestionKind::Release).await, Ok(no(None)));
    assert!(!drawn.lock().unwrap().contains("[r]esult"));
}

// req: R3
#[tokio::test]
async fn silence_and_nonsense_are_no_answer() {
    let failed: &[&[&str]] = &[&[], &["y"], &["n\n"], &["e\n", "{}\n"]];
    for lines in failed {
        let fault = typed(QuestionKind::Approval, lines).await;
        assert!(matches!(fault, Err(ApproverError::Failed(_))), "{lines:?}: {fault:?}");
    }
    let fault = typed(QuestionKind::Approval, &["?\n"; 9]).await;
    assert!(matches!(fault, Err(ApproverError::InvalidResponse(_))), "{fault:?}");
    let endless = "y".repeat(70_000);
    let fault = typed(QuestionKind::Approval, &[&endless]).await;
    assert!(matches!(fault, Err(ApproverError::InvalidResponse(_))), "{fault:?}");
}

// req: R8
#[tokio::test]
async fn a_checkpoint_wants_the_whole_word() {
    let kind = QuestionKind::Checkpoint;
    assert_eq!(typed(kind, &["release\n"]).await, Ok(YES));
    assert_eq!(typed(kind, &["abort\n"]).await, Ok(Reply::Abort));
    for word in ["y\n", "yes\n", "Release\n", "releas\n", "\n"] {
        assert_eq!(typed(kind, &[word, "not now\n"]).await, Ok(no(Some("not now"))), "{word:?}");
    }
}

#[tokio::test]
async fn what_was_typed_before_the_question_could_be_read_does_not_count() {
    let (terminal, _) = scripted("y\nrelease\n", &["n\n", "\n"]);
    assert_eq!(ask(&terminal, QuestionKind::Approval).await, Ok(no(None)));
}

#[tokio::test]
async fn a_question_that_is_not_whole_cannot_be_answered() {
    let (terminal, drawn) = scripted("", &["y\n"]);
    let part = Rendering { complete: false, ..rendering() };
    let fault = terminal.ask(&sheet(QuestionKind::Approval), &part).await;
    assert!(matches!(fault, Err(ApproverError::Failed(_))), "{fault:?}");
    assert_eq!(*drawn.lock().unwrap(), "");
}

#[tokio::test]
async fn control_characters_never_reach_the_terminal() {
    let (terminal, drawn) = scripted("", &["n\n", "\n"]);
    let line = RenderLine { role: LineRole::Content, text: "a\u{1b}[2Jb\u{7}\u{9b}c\rd".into(), gutter: 0 };
    let hostile = Rendering { lines: vec![line], complete: true };
    terminal.ask(&sheet(QuestionKind::Approval), &hostile).await.unwrap();
    let drawn = drawn.lock().unwrap();
    assert!(drawn.chars().all(|c| c == '\n' || !c.is_control()), "{drawn:?}");
    assert!(drawn.contains("a\\u{1b}[2Jb"), "{drawn:?}");
}

/// The person's end of a real terminal.
struct TerminalUser {
    end: File,
    seen: String,
}

impl TerminalUser {
    fn sit_down() -> (Self, String) {
        let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&end).unwrap();
        unlockpt(&end).unwrap();
        let path = ptsname(&end, Vec::new()).unwrap().into_string().unwrap();
        (Self { end: end.into(), seen: String::new() }, path)
    }

    fn types(&mut self, text: &str) {
        self.end.write_all(text.as_bytes()).unwrap();
    }

    /// Reads the screen until it shows this text, and drops everything up to there.
    fn sees(&mut self, text: &str) {
        loop {
            if let Some((_, rest)) = self.seen.split_once(text) {
                self.seen = rest.to_owned();
                return;
            }
            let mut buffer = [0; 1024];
            let read = self.end.read(&mut buffer).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    }
}

// req: R5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_terminal_takes_only_what_is_typed_after_the_question() {
    let (mut person, path) = TerminalUser::sit_down();
    let terminal = TerminalApprover::open_at("ann", &path).unwrap();
    person.types("y\n");
    person.sees("y");
    let person = std::thread::spawn(move || {
        person.sees("[a]bort > ");
        person.types("n\n");
        person.sees("instead?");
        person.types("archive it\n");
        person
    });
    assert_eq!(ask(&terminal, QuestionKind::Approval).await, Ok(no(Some("archive it"))));

    let person = person.join().unwrap();
    drop(person);
    let fault = ask(&terminal, QuestionKind::Approval).await;
    assert!(matches!(fault, Err(ApproverError::Failed(_))), "hung up: {fault:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_nobody_waits_for_gives_the_terminal_back() {
    let (mut person, path) = TerminalUser::sit_down();
    let terminal = TerminalApprover::open_at("ann", &path).unwrap();
    let (asked, was_asked) = tokio::sync::oneshot::channel();
    let person = std::thread::spawn(move || {
        person.sees("[a]bort > ");
        asked.send(()).unwrap();
        person.sees("no longer needs an answer");
        person.sees("[a]bort > ");
        person.types("y\n");
        person
    });
    tokio::select! {
        reply = ask(&terminal, QuestionKind::Approval) => panic!("nobody has answered: {reply:?}"),
        _ = was_asked => {}
    }
    assert_eq!(ask(&terminal, QuestionKind::Approval).await, Ok(YES));
    drop(person.join().unwrap());
}

#[test]
fn a_file_is_no_terminal() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(TerminalApprover::open_at("ann", file.path()).is_err());
}
