//! The chat at a real terminal: a scripted model fixes a failing test, a person answers, and an interrupted chat continues.

use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::json;

use crate::desk::said;
use crate::dice::SeededRandom;
use crate::provider::FakeModel;
use crate::sitting::TerminalSession;
use crate::task::{ProjectFixture, WRONG, careful, mends};

/// Returns the screen, with placeholders for everything that differs between runs.
fn shown(project: &ProjectFixture, sitting: &TerminalSession) -> String {
    let mut text = sitting.shown(&project.desk.world);
    let differs = [(r"\d+(\.\d+)? (ms|s)\b", "[time]"), (r"\[…\d+\](-[0-9a-f]{4}){3}-\[digest…\]", "[id]")];
    for (what, name) in differs {
        text = Regex::new(what).unwrap().replace_all(&text, name).into_owned();
    }
    text
}

// req: L7, L6, R5, E5
#[test]
fn a_model_mends_a_failing_test_in_a_chat() {
    let mut says = mends();
    // The environment differs between machines, so the turn that runs `env` is removed.
    says.remove(1);
    let project = ProjectFixture::new(says);
    let mut sitting = project.sitting_at(120, 40, &["agent", "chat"]);
    sitting.await_shown("Describe the task.");
    insta::assert_snapshot!("empty", shown(&project, &sitting));
    sitting.press("Mend the failing test.\r");
    assert!(sitting.asks());
    sitting.await_ready();
    insta::assert_snapshot!("asks", shown(&project, &sitting));
    sitting.press("\u{1b}[F");
    sitting.await_screen("the end", |screen| !screen.contains("below"));
    sitting.choose("y", "yes");
    sitting.await_shown("It is mended: the test passes.");
    sitting.await_shown("5 turns, 550 tokens");
    insta::assert_snapshot!("mended", shown(&project, &sitting));
    let mended = WRONG.replace("a - b", "a + b");
    assert_eq!(project.desk.world.file("src/lib.rs"), mended);

    // Slash commands that a person may need during a chat.
    sitting.press("/export html talk.html\r");
    sitting.await_shown("written to talk.html");
    assert!(project.desk.world.file("talk.html").contains("Mend the failing test."));
    sitting.press("/approvals\r");
    sitting.await_shown("no standing approval was ever given");
    sitting.press("\u{1b}");
    sitting.await_shown("written to talk.html");
    sitting.press("/policy\r");
    sitting.await_shown("mode: confirm-sensitive");
    sitting.press("\u{1b}");
    sitting.await_shown("written to talk.html");
    sitting.press("/undo\r");
    sitting.await_shown("undo of edit (src/lib.rs): completed");
    assert_eq!(project.desk.world.file("src/lib.rs"), WRONG);
    sitting.press("/quit\r");
    let (code, seen) = sitting.end();
    assert!(code == Some(0) && seen.contains("byleave agent chat --resume chat-"), "{seen}");

    // The conversation is still there and can be continued.
    let mut sitting = project.sitting_at(120, 20, &["agent", "chat", "--resume"]);
    sitting.await_shown("Conversations");
    insta::assert_snapshot!("picker", shown(&project, &sitting));
    sitting.press("\r");
    sitting.await_shown("It is mended: the test passes.");
    sitting.await_shown("5 turns, 550 tokens");
    sitting.press("Thank you.\r");
    sitting.await_shown("6 turns");
    sitting.press("\u{4}");
    assert_eq!(sitting.end().0, Some(0));
    let last = project.model.got().pop().unwrap();
    let messages = last["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap()["content"], json!("Thank you."));
    assert_eq!(messages.iter().filter(|message| message["role"] == "tool").count(), 4);
    assert_eq!(project.json(&["audit", "verify", "--json"])["intact"], json!(true));
}

// req: L7
#[test]
fn work_is_called_off_and_gone_on_with() {
    let slow = Some(("bash", json!({"command": "sleep 600"})));
    let project = ProjectFixture::new(vec![("I wait.", slow), ("Done.", None)]);
    let mut sitting = project.sitting(&["agent", "chat", "Wait.", "--mode", "yolo"]);
    sitting.await_shown("sleep 600");
    sitting.await_shown("a tool is running");
    // A message typed during the work is sent when the model is done.
    sitting.press("And tell me.\r");
    sitting.await_shown("And tell me. (queued until");
    sitting.press("\u{3}");
    sitting.await_shown("cancelled; type how");
    sitting.await_shown("Done.");
    let last = project.model.got().pop().unwrap().to_string();
    assert!(last.contains("And tell me."), "{last}");
    // With nothing at work, the same key quits.
    sitting.await_shown("2 turns");
    sitting.press("\u{3}");
    assert_eq!(sitting.end().0, Some(0));
}

// req: L7
#[test]
fn who_must_leave_leaves_at_once_and_what_was_open_goes_on() {
    let slow = Some(("bash", json!({"command": "sleep 600"})));
    let project = ProjectFixture::new(vec![("I wait.", slow), ("Done.", None)]);
    let mut sitting = project.sitting(&["agent", "chat", "Wait.", "--mode", "yolo"]);
    sitting.await_shown("sleep 600");
    sitting.await_shown("a tool is running");
    // The tool has started. A tool that has not started would start when the chat continues.
    sitting.await_shown("running for");
    // The chat ends, although the tool would run for longer than a test may take.
    sitting.signal(rustix::process::Signal::TERM);
    assert_eq!(sitting.end().0, Some(130));
    let session = project.json(&["agent", "history", "--json"])[0]["session"].as_str().unwrap().to_owned();
    let mut sitting = project.sitting(&["agent", "chat", "--resume", &session]);
    sitting.await_shown("Done.");
    sitting.await_shown("2 turns");
    sitting.press("\u{4}");
    assert_eq!(sitting.end().0, Some(0));
}

// req: L7
#[test]
fn a_chat_says_what_it_needs_before_there_is_a_screen() {
    let project = ProjectFixture::new(mends());
    let (code, _, told) = said(&project.command(&["agent", "chat"]).output().unwrap());
    assert!(code == Some(2) && told.contains("the chat needs an interactive terminal"), "{told}");
    let sitting = project.sitting(&["agent", "chat", "--model", "nobody/knows"]);
    let (code, seen) = sitting.end();
    assert!(code == Some(2) && seen.contains("does not name a model of a known provider"), "{seen}");
    let sitting = project.sitting(&["agent", "chat", "--resume", "chat-none"]);
    let (code, seen) = sitting.end();
    assert!(code == Some(2) && seen.contains("there is no conversation"), "{seen}");
}

/// Answers questions until this text is on the screen, the program has ended, or the time is over.
fn attend(sitting: &mut TerminalSession, until: &str, time: Duration) -> bool {
    let began = Instant::now();
    let mut has_chosen = false;
    while began.elapsed() < time {
        sitting.look(Duration::from_millis(20).min(time.saturating_sub(began.elapsed())));
        let screen = sitting.screen();
        if screen.contains(until) {
            return true;
        }
        // Presses each key only when the screen is ready for it.
        if screen.contains("yes: ") && screen.contains("Enter confirms") {
            if std::mem::take(&mut has_chosen) {
                sitting.press("\r");
            }
        } else if screen.contains("x abort") && !screen.contains('⏳') && !has_chosen {
            sitting.press("y");
            has_chosen = true;
        }
    }
    false
}

// req: E1, L7
#[test]
fn killed_at_any_moment_a_chat_goes_on_and_nothing_runs_twice() {
    let kills: u64 = std::env::var("BYLEAVE_KILLS").map_or(2, |many| many.parse().unwrap());
    let project = ProjectFixture::with(FakeModel::deciding(careful));
    let place = project.desk.world.workspace();
    let (source, log) = (place.join("src/lib.rs"), place.join("log.txt"));
    let (mut dice, mut asked, mut late) = (SeededRandom(0x51_7c_c1_b7), 0, 0);
    let long = Duration::from_secs(120);
    let done = "Done.";
    // Measures an undisturbed run, including the answer. The first run also compiles.
    let mut takes = Duration::ZERO;
    for _ in 0..2 {
        std::fs::write(&source, WRONG).unwrap();
        std::fs::remove_file(&log).unwrap_or_default();
        let began = Instant::now();
        let mut sitting = project.sitting(&["agent", "chat", "Mend it."]);
        assert!(attend(&mut sitting, done, long), "{}", sitting.screen());
        takes = began.elapsed();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "mended\n");
        sitting.await_shown("tokens");
        sitting.press("\u{4}");
        assert_eq!(sitting.end().0, Some(0));
    }
    let takes = u64::try_from(takes.as_millis()).unwrap();
    let conversations = || project.json(&["agent", "history", "list", "-n", "100000", "--json"]);
    let mut known = conversations().as_array().unwrap().len();
    for kill in 0..kills {
        std::fs::write(&source, WRONG).unwrap();
        std::fs::remove_file(&log).unwrap_or_default();
        let mut sitting = project.sitting(&["agent", "chat", "Mend it."]);
        late += usize::from(attend(&mut sitting, done, Duration::from_millis(dice.below(takes))));
        asked += usize::from(sitting.screen().contains("x abort"));
        sitting.kill();
        let list = conversations();
        let list = list.as_array().unwrap();
        let is_begun = list.len() > known;
        let session = list[0]["session"].as_str().unwrap_or_default().to_owned();
        let mut sitting = if is_begun {
            project.sitting(&["agent", "chat", "--resume", &session])
        } else {
            // The chat was killed before it accepted the task, so nothing has happened.
            assert_eq!((std::fs::read_to_string(&source).unwrap().as_str(), log.exists()), (WRONG, false));
            project.sitting(&["agent", "chat", "Mend it."])
        };
        known = list.len() + usize::from(!is_begun);
        assert!(attend(&mut sitting, done, long), "{kill}: {}", sitting.screen());
        sitting.await_shown("tokens");
        sitting.press("\u{4}");
        assert_eq!(sitting.end().0, Some(0), "{kill}");
        assert_eq!(std::fs::read_to_string(&source).unwrap(), WRONG.replace("a - b", "a + b"), "{kill}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "mended\n", "{kill}");
    }
    assert_eq!(project.json(&["audit", "verify", "--json"])["intact"], json!(true));
    println!(
        "figure: {kills} kills within {takes} ms, {late} of them after the end, {asked} of them with a question on the screen"
    );
}
