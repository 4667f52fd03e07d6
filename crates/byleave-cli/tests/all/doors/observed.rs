//! What a run really changed decides (P1, E9): an allowed command commits only what the policy allows, and work that can be undone needs no
//! question.

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{DoorFixture, args, bash, last_message, text};
use crate::hooks::{PATIENT_MS, rewritten, said};

/// A program that does what its first argument says. No manual describes it.
const DOES: &str = r#"#!/bin/sh
case $1 in
    new) echo new > new.txt;;
    two) echo new > new.txt; echo new > kept-out.txt;;
    workflow) mkdir -p .github/workflows; echo x > .github/workflows/x.yml;;
    many) rm many/*;;
    leave) echo new > new.txt; setsid sleep 300 > /dev/null 2>&1 & ;;
    link) ln -s ../outside elsewhere;;
    inside) ln -s notes.txt near;;
    pipe) mkfifo pipe;;
    edit) sed -i s/hello/good-bye/ notes.txt;;
esac
echo "did $1"
"#;
const UNDOABLE: &str = "[defaults]\nundoable = \"allow\"\n";

fn fixture(settings: &str, rules: &str) -> DoorFixture {
    let doors = DoorFixture::new(settings, rules);
    doors.put_program("bin/does", DOES);
    doors
}

fn call(doors: &DoorFixture, what: &str) -> std::process::Output {
    let does = args(&bash(&format!("does {what}")));
    doors.run(&["call", "bash", "--ask", "inbox", "--session", what, "--args", &does])
}

fn exists(doors: &DoorFixture, name: &str) -> bool {
    doors.stand.file(name).symlink_metadata().is_ok()
}

/// Returns the record of the newest call of this tool.
fn record(doors: &DoorFixture) -> Value {
    let calls = doors.stand.json(&["log", "--json", "--tool", "bash"]);
    doors.stand.json(&["log", "show", calls[0]["call"].as_str().unwrap(), "--contents", "--json"])
}

// req: P1, E9, R5
// door: program
#[test]
fn a_rule_that_allows_a_program_does_not_allow_what_it_writes() {
    let doors = fixture("", "[[rule]]\nverdict = \"allow\"\nrun = \"./bin/does\"\n");
    let waits = call(&doors, "new");
    assert_eq!((waits.status.code(), exists(&doors, "new.txt")), (Some(4), false), "{waits:?}");
    let question = doors.stand.question();
    let shown = text(&doors.run(&["inbox", "show", &question]).stdout);
    assert!(shown.contains("new.txt") && shown.contains("+new"), "{shown}");
    let done = doors.run(&["inbox", "answer", &question, "yes"]);
    assert_eq!((done.status.code(), exists(&doors, "new.txt")), (Some(0), true), "{done:?}");
    assert!(text(&done.stdout).contains("did new"), "{done:?}");
    let record = record(&doors).to_string();
    assert!(record.contains("observed"), "{record}");
    assert_eq!(record.matches("\"started\"").count(), 2, "the run, and its commit: {record}");
}

// req: P1, E9, R5, M2
// door: hook
#[test]
fn a_hook_waits_for_the_answer_about_what_a_run_changed() {
    let doors = fixture("", "[[rule]]\nverdict = \"allow\"\nrun = \"./bin/does\"\n");
    let cwd = doors.stand.desk.world.workspace().to_str().unwrap().to_owned();
    for (answer, code, told) in [("yes", 0, "answered: yes by ann"), ("no", 125, "answered: no by ann")] {
        drop(std::fs::remove_file(doors.stand.file("new.txt")));
        let asks = said(AgentKind::ClaudeCode, &cwd, "Bash", &json!({"command": "./bin/does new"}), None);
        let passed = doors.stand.asks(AgentKind::ClaudeCode, &asks, PATIENT_MS);
        let line = rewritten(AgentKind::ClaudeCode, &passed).unwrap_or_else(|| panic!("{passed:?}"));
        let ran = std::thread::scope(|scope| {
            let running = scope.spawn(|| doors.stand.shell(&line));
            let question = doors.stand.question();
            let answered = doors.run(&["inbox", "answer", &question, answer]);
            assert!(matches!(answered.status.code(), Some(0 | 3 | 4)), "{answered:?}");
            running.join().unwrap()
        });
        assert_eq!(ran.status.code(), Some(code), "{ran:?}");
        assert!(text(&ran.stdout).contains("did new") && text(&ran.stderr).contains(told), "{ran:?}");
        assert_eq!(exists(&doors, "new.txt"), code == 0);
    }
}

// req: P1, E9
// door: program
#[test]
fn a_no_to_what_a_run_changed_leaves_nothing_behind() {
    let doors = fixture("", "[[rule]]\nverdict = \"allow\"\nrun = \"./bin/does\"\n");
    assert_eq!(call(&doors, "edit").status.code(), Some(4));
    let refused = doors.run(&["inbox", "answer", &doors.stand.question(), "no"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert_eq!(std::fs::read_to_string(doors.stand.file("notes.txt")).unwrap().trim(), "hello");
}

// req: P1, E9
// door: program
#[test]
fn one_denied_change_keeps_all_changes_out() {
    let rules = format!("{UNDOABLE}\n[[rule]]\nverdict = \"deny\"\nwrite = \"**/kept-out.txt\"\n");
    for settings in ["", "mode = \"yolo\"\n"] {
        let doors = fixture(settings, &rules);
        let refused = call(&doors, "two");
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
        assert!(!exists(&doors, "new.txt") && !exists(&doors, "kept-out.txt"));
        let (_, got) =
            doors.model(vec![("I do.", Some(("bash", bash("does two")))), ("No.", None)], &["Do it."]);
        assert!(last_message(&got).contains("denied"), "{}", last_message(&got));
    }
}

// req: P1, E9, E6
// door: program
#[test]
fn undoable_work_passes_and_is_undone() {
    let doors = fixture("", UNDOABLE);
    for what in ["new", "edit", "inside"] {
        let done = call(&doors, what);
        assert_eq!(done.status.code(), Some(0), "{what}: {done:?}");
    }
    let covered = record(&doors).to_string();
    assert!(covered.contains(r#""rule":"undoable""#), "{covered}");
    assert_eq!(doors.stand.json(&["inbox", "--json"]), json!([]));
    let written = doors.run(&["call", "write_file", "--args", r#"{"path":"w.txt","content":"x"}"#]);
    assert_eq!((written.status.code(), exists(&doors, "w.txt")), (Some(0), true), "{written:?}");
    // Without an id it takes back the last change of this workspace, and names it.
    let undone = doors.run(&["undo"]);
    assert_eq!((undone.status.code(), exists(&doors, "w.txt")), (Some(0), false), "{undone:?}");
    assert!(text(&undone.stderr).contains("w.txt") && exists(&doors, "new.txt"), "{undone:?}");
    let undone = doors.run(&["undo", "--since", "1h"]);
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    let left = ["new.txt", "near", "w.txt"].map(|name| exists(&doors, name));
    assert_eq!(left, [false; 3]);
    assert_eq!(std::fs::read_to_string(doors.stand.file("notes.txt")).unwrap().trim(), "hello");
}

// req: P1, E9
// door: program
#[test]
fn what_undo_could_not_take_back_is_asked_about() {
    let doors = fixture("", UNDOABLE);
    doors.put("../outside/f.txt", "OUTSIDE");
    for number in 0..51 {
        doors.put(&format!("many/{number}.txt"), "x");
    }
    let cases = [
        ("workflow", ".github/workflows/x.yml"),
        ("leave", "new.txt"),
        ("link", "elsewhere"),
        ("pipe", "pipe"),
    ];
    for (what, path) in cases {
        let waits = call(&doors, what);
        assert_eq!((waits.status.code(), exists(&doors, path)), (Some(4), false), "{what}: {waits:?}");
    }
    let waits = call(&doors, "many");
    assert_eq!((waits.status.code(), exists(&doors, "many/0.txt")), (Some(4), true), "{waits:?}");
    // One deletion less is undoable work.
    std::fs::remove_file(doors.stand.file("many/0.txt")).unwrap();
    let fewer = fixture("", UNDOABLE);
    for number in 0..50 {
        fewer.put(&format!("many/{number}.txt"), "x");
    }
    assert_eq!(call(&fewer, "many").status.code(), Some(0));
    assert!(!exists(&fewer, "many/0.txt"));
}

// req: P1, P2
// door: program
#[test]
fn undoable_work_is_asked_about_where_everything_is() {
    let doors = fixture("mode = \"confirm-all\"\n", UNDOABLE);
    assert_eq!(call(&doors, "new").status.code(), Some(4));
    let doors = fixture("", &format!("{UNDOABLE}\n[[rule]]\nverdict = \"ask\"\nwrite = \"**/new.txt\"\n"));
    assert_eq!(call(&doors, "new").status.code(), Some(4), "an ask rule");
    let doors = fixture("", UNDOABLE);
    doors.put(".byleave/policy.toml", "[defaults]\nundoable = \"ask\"\n");
    assert_eq!(call(&doors, "new").status.code(), Some(4), "a project tightens");
    doors.put(".byleave/policy.toml", UNDOABLE);
    let refused = call(&doors, "new");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("a project may only tighten"), "{refused:?}");
}

// req: P1, P2
// door: program
#[test]
fn no_mode_lets_a_surprise_in_a_protected_file_pass() {
    let doors = fixture("mode = \"yolo\"\n", "");
    let waits = call(&doors, "workflow");
    assert_eq!((waits.status.code(), exists(&doors, ".github")), (Some(4), false), "{waits:?}");
    // What a command says is let pass by the mode, as before.
    let said = doors.run(&[
        "call",
        "bash",
        "--args",
        &args(&bash("mkdir -p .github/workflows && echo x > .github/workflows/x.yml")),
    ]);
    assert_eq!((said.status.code(), exists(&doors, ".github")), (Some(0), true), "{said:?}");
}

// req: P1, P8
// door: program
#[test]
fn a_profile_is_chosen_by_name_and_never_overrides_a_deny() {
    let deny = "# my rules\n[[rule]]\nverdict = \"deny\"\nwrite = \"**/kept-out.txt\"\n";
    let doors = fixture("", deny);
    assert_eq!(call(&doors, "new").status.code(), Some(4));
    let chosen = doors.run(&["policy", "profile", "everyday"]);
    assert_eq!(chosen.status.code(), Some(0), "{chosen:?}");
    let file = std::fs::read_to_string(doors.stand.file("../.config/byleave/policy.toml")).unwrap();
    assert!(file.contains("profile = \"everyday\"") && file.contains("# my rules"), "{file}");
    assert_eq!(doors.stand.json(&["policy", "profile", "--json"])["active"], json!(["everyday"]));
    assert_eq!(call(&doors, "edit").status.code(), Some(0));
    assert_eq!(call(&doors, "two").status.code(), Some(3), "a deny of the user");
    // A project may only tighten.
    doors.put(".byleave/policy.toml", "profile = \"strict\"\n");
    let asked = doors.run(&["call", "read_file", "--ask", "inbox", "--args", r#"{"path":"notes.txt"}"#]);
    assert_eq!(asked.status.code(), Some(4), "{asked:?}");
    doors.put(".byleave/policy.toml", "profile = \"ci\"\n");
    let refused = call(&doors, "new");
    assert!(text(&refused.stderr).contains("a project may only tighten"), "{refused:?}");
    doors.put(".byleave/policy.toml", "profile = \"hasty\"\n");
    let unknown = call(&doors, "new");
    assert!(text(&unknown.stderr).contains("choose one of `everyday`"), "{unknown:?}");
}

// req: P1, E9
// door: program
#[test]
fn under_everyday_an_ordinary_session_is_not_interrupted() {
    let doors = fixture("", "profile = \"everyday\"\n");
    for words in [
        &["init", "-q", "-b", "main", "."][..],
        &["config", "user.name", "ann"],
        &["config", "user.email", "a@b"],
    ] {
        let mut git = doors.stand.desk.world.command(std::path::Path::new("git"));
        git.args(words);
        assert!(doors.stand.desk.by_another(git).status().unwrap().success());
    }
    doors.put(".gitignore", ".env\n__pycache__\n");
    doors.put("__pycache__/a.pyc", "x");
    let passes = [
        "git add -A",
        "git commit -q -m first",
        "git checkout -q -b side",
        "mkdir -p docs && touch docs/x.md",
        "mv docs/x.md docs/y.md",
        "sed -i s/hello/good-bye/ notes.txt",
        "git stash -q && git stash pop -q",
        "python3 -c \"print(1)\"",
        "echo 'a note' >> notes.txt",
        "rm -rf __pycache__",
        "git commit -q -a -m second && git log --oneline",
    ];
    for command in passes {
        let done = doors.run(&["call", "bash", "--args", &args(&bash(command))]);
        assert_eq!(done.status.code(), Some(0), "{command}: {done:?}");
    }
    assert!(exists(&doors, "docs/y.md") && !exists(&doors, "__pycache__"));
    for asked in ["git push origin main", "does workflow", "cp notes.txt ../elsewhere.txt"] {
        let refused = doors.run(&["call", "bash", "--args", &args(&bash(asked))]);
        assert_eq!(refused.status.code(), Some(3), "{asked}: {refused:?}");
    }
}

// req: E6, E9
// door: program
#[test]
fn an_undo_waits_for_no_question() {
    let doors = fixture("", UNDOABLE);
    assert_eq!(call(&doors, "edit").status.code(), Some(0));
    // In the same session and about the same file.
    let denied = args(&bash("sed -i s/good-bye/x/ notes.txt; curl https://example.org"));
    let waits = doors.run(&["call", "bash", "--ask", "inbox", "--session", "edit", "--args", &denied]);
    assert_eq!(waits.status.code(), Some(4), "{waits:?}");
    let undone = doors.run(&["undo"]);
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    assert_eq!(std::fs::read_to_string(doors.stand.file("notes.txt")).unwrap().trim(), "hello");
}
