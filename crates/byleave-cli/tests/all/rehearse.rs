//! `byleave rehearse`, `undo` and `diff` for a user who is not root.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::desk::{OtherUserWorld, said};
use crate::sitting::TerminalSession;

/// Memory as a whole is limited only with a delegated cgroup, which not every machine has.
const WAIVE: (&str, &str) = ("BYLEAVE_WAIVE", "memory-limited");

impl OtherUserWorld {
    /// Runs the program with the waiver and without standard input.
    fn does(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let mut command = self.command(words);
        command.env(WAIVE.0, WAIVE.1).stdin(Stdio::null());
        said(&command.output().unwrap())
    }

    fn rehearse(&self, options: &[&str], script: &str) -> (Option<i32>, String, String) {
        self.does(&[&["rehearse"], options, &["--", script]].concat())
    }

    fn json(&self, words: &[&str]) -> Value {
        let (_, out, err) = self.does(words);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}"))
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.world.workspace().join(name)).ok()
    }
}

// req: E5, E6
#[test]
fn a_command_is_seen_kept_and_taken_back() {
    let desk = OtherUserWorld::new();
    let script = "sed -i s/hello/bye/ notes.txt; mkdir new; echo x > new/f; echo done";
    // The answer is left for later, so nothing has happened.
    let (code, out, err) = desk.rehearse(&[], script);
    assert_eq!(code, Some(4), "{out}{err}");
    assert!(out.contains("done") && out.contains("M  notes.txt") && out.contains("A  new/"), "{out}");
    assert!(err.contains("byleave inbox answer"), "{err}");
    assert_eq!((desk.text("notes.txt").as_deref(), desk.text("new/f")), (Some("hello"), None));
    let open = desk.json(&["inbox", "--json"]);
    let id = open[0]["question"].as_str().or(open[0]["id"].as_str()).unwrap().to_owned();
    let (code, out, err) = desk.does(&["inbox", "answer", &id, "yes"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(
        (desk.text("notes.txt").as_deref(), desk.text("new/f").as_deref()),
        (Some("bye"), Some("x\n"))
    );

    // The changes are shown. Undo without an id reverts the newest call.
    let call = desk.json(&["log", "--json"])[0]["call"].as_str().unwrap().to_owned();
    let (code, out, _) = desk.does(&["diff", &call]);
    assert_eq!(code, Some(0));
    assert!(out.contains("committed") && out.contains("-hello") && out.contains("+bye"), "{out}");
    let (code, out, err) = desk.does(&["undo"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(err.contains("undone:") && err.contains("restores it"), "{err}");
    assert_eq!((desk.text("notes.txt").as_deref(), desk.text("new/f")), (Some("hello"), None));
    let (_, out, _) = desk.does(&["diff", &call]);
    assert!(out.contains("undone"), "{out}");
    // An undo is a call and can be undone.
    let undo = desk.json(&["log", "--json"])[0]["call"].as_str().unwrap().to_owned();
    let (code, out, err) = desk.does(&["undo", &undo]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(desk.text("notes.txt").as_deref(), Some("bye"));
    let (code, out, err) = desk.does(&["audit", "verify"]);
    assert_eq!(code, Some(0), "{out}{err}");
}

// req: E5
#[test]
fn exit_codes_and_json_are_for_programs() {
    let desk = OtherUserWorld::new();
    let kept = desk.json(&["rehearse", "--yes", "--json", "--", "touch", "a b"]);
    assert_eq!(kept["committed"], true, "{kept}");
    // The audit log names the waived guarantee, also if the environment waived it.
    let (_, acts, _) = desk.does(&["audit", "actions"]);
    assert!(acts.contains("memory-limited"), "{acts}");
    let path = kept["rehearsal"]["changes"]["list"][0]["path"].as_str().unwrap();
    assert!(path.ends_with("/a b") && Path::new(path).exists(), "{kept}");
    let dropped = desk.json(&["rehearse", "--no", "--json", "--", "rm", "a b"]);
    assert_eq!(dropped["committed"], false);
    assert!(Path::new(path).exists());
    // (options, command, exit code, expected message)
    let cases: [(&[&str], &str, i32, &str); 6] = [
        (&["--yes"], "true", 0, "changed nothing"),
        (&["--yes"], "exit 3 ; echo", 1, "exit status 3"),
        (&["--no"], "touch c", 0, "discarded"),
        (&[], "touch c", 4, "A  c"),
        (&["--yes"], "echo x > .env.local", 3, "environment files hold secrets"),
        (&["--yes"], "cat .env; true", 3, "environment files hold secrets"),
    ];
    for (options, script, wanted, told) in cases {
        let (code, out, err) = desk.rehearse(options, script);
        assert_eq!(code, Some(wanted), "{script}: {out}{err}");
        assert!(format!("{out}{err}").contains(told), "{script}: {out}{err}");
    }
    assert_eq!(desk.text("c"), None);
    // The command also runs without a cgroup and without a waiver.
    let ran = desk.command(&["rehearse", "--yes", "--", "touch", "d"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(said(&ran).0, Some(0), "{ran:?}");
    assert!(desk.text("d").is_some());
}

// req: E6
#[test]
fn a_session_is_taken_back_newest_first_and_a_conflict_stops_it() {
    let desk = OtherUserWorld::new();
    for text in ["one", "two", "three"] {
        let script = format!("printf {text} > notes.txt");
        assert_eq!(desk.rehearse(&["--yes", "--session", "s"], &script).0, Some(0));
    }
    assert_eq!(desk.rehearse(&["--yes", "--session", "other"], "touch theirs").0, Some(0));
    let (code, _, err) = desk.does(&["undo", "--session", "s", "--since", "1h"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(err.matches("undone:").count(), 3, "{err}");
    assert_eq!(
        (desk.text("notes.txt").as_deref(), desk.text("theirs").as_deref()),
        (Some("hello"), Some(""))
    );

    assert_eq!(desk.rehearse(&["--yes", "--session", "t"], "printf four > notes.txt").0, Some(0));
    fs::write(desk.world.workspace().join("notes.txt"), "mine").unwrap();
    let (code, _, err) = desk.does(&["undo", "--session", "t"]);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("changed since") && err.contains("mine") && err.contains("hello"), "{err}");
    assert_eq!(desk.text("notes.txt").as_deref(), Some("mine"));
    let (code, _, err) = desk.does(&["undo", "--session", "t", "--force"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(desk.text("notes.txt").as_deref(), Some("hello"));
    assert!(desk.does(&["undo", "--session", "t"]).2.contains("nothing to undo"));
}

// req: E5
#[test]
fn a_person_at_a_terminal_is_asked_once_it_was_shown() {
    let desk = OtherUserWorld::new();
    let sit = |answer: &[(&str, &str)], script: &str| {
        let mut command = desk.world.command(Path::new("setsid"));
        command.args(["--ctty", "--wait"]).arg(&desk.program).args(["rehearse", "--", script]);
        command.env(WAIVE.0, WAIVE.1);
        let mut sitting = TerminalSession::before(desk.by_another(command));
        for (prompt, key) in answer {
            sitting.await_text(prompt);
            sitting.press(key);
        }
        sitting.end()
    };
    let (code, seen) = sit(&[("later > ", "d"), ("later > ", "y")], "printf bye > notes.txt");
    assert!(code == Some(0) && seen.contains("-hello") && seen.contains("committed:"), "{seen}");
    assert_eq!(desk.text("notes.txt").as_deref(), Some("bye"));
    // One key answers, and no other key does.
    let (code, seen) = sit(&[("later > ", "xq\r\nn")], "rm notes.txt");
    assert!(code == Some(0) && seen.contains("discarded"), "{seen}");
    assert_eq!(desk.text("notes.txt").as_deref(), Some("bye"));
    let answers =
        [("later > ", "p"), ("create a?  [y] create it  [n] leave it as it was > ", "y"), ("create b?", "n")];
    let (code, seen) = sit(&answers, "touch a b; true");
    assert!(code == Some(0), "{seen}");
    assert_eq!((desk.text("a").as_deref(), desk.text("b")), (Some(""), None));
    // The prompt says what a yes does to a file. Nobody reads "keep" over a deletion.
    let answers = [("later > ", "p"), ("delete a?  [y] delete it  [n] leave it as it was > ", "n")];
    let answers = [&answers[..], &[("change notes.txt?  [y] change it", "y")]].concat();
    let (code, seen) = sit(&answers, "rm a; printf new > notes.txt");
    assert!(code == Some(0) && !seen.contains("keep?"), "{seen}");
    assert_eq!((desk.text("a").as_deref(), desk.text("notes.txt").as_deref()), (Some(""), Some("new")));
}

// req: E5
#[test]
fn ctrl_c_at_the_prompt_leaves_and_changes_nothing() {
    let desk = OtherUserWorld::new();
    for prompts in [&["later > "][..], &["later > ", "create x?"]] {
        let mut command = desk.world.command(Path::new("setsid"));
        command.args(["--ctty", "--wait"]).arg(&desk.program).args(["rehearse", "--", "touch x y; true"]);
        let mut sitting = TerminalSession::before(desk.by_another(command));
        for (place, prompt) in prompts.iter().enumerate() {
            if place > 0 {
                sitting.press("p");
            }
            sitting.await_text(prompt);
        }
        sitting.press("\u{3}");
        let (code, seen) = sitting.end();
        assert!(code == Some(130) && seen.contains("discarded, and nothing has changed"), "{code:?} {seen}");
        assert_eq!((desk.text("x"), desk.text("y")), (None, None));
        // No open question remains that other calls would wait behind.
        assert_eq!(desk.json(&["inbox", "--json"]), serde_json::json!([]));
    }
}

// req: E6
#[test]
fn an_undo_stays_in_its_workspace_and_names_the_files() {
    let desk = OtherUserWorld::new();
    assert_eq!(desk.rehearse(&["--yes"], "printf one > notes.txt").0, Some(0));
    let other = desk.world.workspace().with_file_name("other");
    fs::create_dir(&other).unwrap();
    desk.give(&other);
    let there = |words: &[&str]| {
        said(&desk.command(words).current_dir(&other).stdin(Stdio::null()).output().unwrap())
    };
    let (code, out, err) = there(&["undo"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    let workspace = desk.world.workspace().display().to_string();
    assert!(err.contains("nothing to undo in this directory") && err.contains(&workspace), "{err}");
    assert_eq!(desk.text("notes.txt").as_deref(), Some("one"), "another workspace is left alone");
    let (code, _, err) = there(&["undo", "--anywhere"]);
    assert!(code == Some(0) && err.contains(&format!("in `{workspace}`: notes.txt")), "{err}");
    assert_eq!(desk.text("notes.txt").as_deref(), Some("hello"));
    // A subdirectory of the workspace belongs to the same workspace.
    assert_eq!(desk.rehearse(&["--yes"], "mkdir sub; printf two > notes.txt").0, Some(0));
    let sub = desk.world.workspace().join("sub");
    let (code, _, err) =
        said(&desk.command(&["undo"]).current_dir(sub).stdin(Stdio::null()).output().unwrap());
    assert!(code == Some(0) && err.contains("notes.txt"), "{err}");
    assert_eq!(desk.text("notes.txt").as_deref(), Some("hello"));
}

// req: E6
#[test]
fn what_is_forgotten_can_no_longer_be_undone() {
    let desk = OtherUserWorld::new();
    assert_eq!(desk.rehearse(&["--yes"], "printf secret > notes.txt").0, Some(0));
    let call = desk.json(&["log", "--json"])[0]["call"].as_str().unwrap().to_owned();
    let (code, out, err) = desk.does(&["audit", "forget", &call]);
    assert!(code == Some(0) && out.contains("can no longer be undone"), "{out}{err}");
    let (code, _, err) = desk.does(&["undo", &call]);
    assert!(code != Some(0) && err.contains("forgotten"), "{err}");
    let left = fs::read_dir(desk.world.state().join("copies/copies")).unwrap().count();
    assert_eq!(left, 0, "something is left of it");
    assert_eq!(desk.does(&["audit", "verify"]).0, Some(0));
}
