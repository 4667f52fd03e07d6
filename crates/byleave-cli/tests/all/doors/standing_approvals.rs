//! Standing approvals by effect (R5): what was approved for one tool needs no question from another tool with the same effect.

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{DoorFixture, args, bash, text, workspace};
use crate::hooks::{PATIENT_MS, ended, said, start};

/// Answers the open question with a standing approval for everything beneath `src/`.
fn approve_src(doors: &DoorFixture, limits: &[&str]) -> String {
    let question = doors.stand.question();
    let scope = format!("write:{}/src/**", workspace(doors).to_str().unwrap());
    let mut words = vec!["inbox", "answer", &question, "standing-approval", "--pattern", &scope];
    words.extend(limits);
    let given = doors.run(&words);
    assert_eq!(given.status.code(), Some(0), "{given:?}");
    text(&given.stderr)
}

fn call(doors: &DoorFixture, tool: &str, arguments: &Value) -> Option<i32> {
    let words = ["call", tool, "--ask", "inbox", "--session", "work", "--args", &args(arguments)];
    doors.run(&words).status.code()
}

fn write_file(name: &str) -> Value {
    json!({"path": name, "content": "a = 1\n"})
}

// req: R5
// door: program
#[test]
fn an_approval_for_a_directory_covers_every_tool_that_writes_there() {
    let doors = DoorFixture::new("", "");
    doors.put("src/a.txt", "a = 1\n");
    assert_eq!(call(&doors, "write_file", &write_file("src/new.txt")), Some(4));
    let told = approve_src(&doors, &[]);
    assert!(told.contains("only in the session") && told.contains("until "), "{told}");
    let edit = json!({"path": "src/a.txt", "old": "1", "new": "2"});
    assert_eq!(call(&doors, "edit", &edit), Some(0));
    assert_eq!(call(&doors, "bash", &bash("sed -i s/2/3/ src/a.txt")), Some(0));
    let patch = "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +1 @@\n-a = 3\n+a = 4\n";
    assert_eq!(call(&doors, "apply_patch", &json!({"patch": patch})), Some(0));
    assert_eq!(std::fs::read_to_string(doors.stand.file("src/a.txt")).unwrap(), "a = 4\n");
    // Elsewhere, in another session, and after the end of the approval, it asks.
    assert_eq!(call(&doors, "write_file", &write_file("other.txt")), Some(4));
    let elsewhere = args(&write_file("src/b.txt"));
    let other =
        doors.run(&["call", "write_file", "--ask", "inbox", "--session", "other", "--args", &elsewhere]);
    assert_eq!(other.status.code(), Some(4), "{other:?}");
}

// req: R5
// door: hook
#[test]
fn an_approval_covers_the_tools_of_an_agent_too() {
    let doors = DoorFixture::new("", "");
    doors.put("src/a.txt", "a = 1\n");
    assert_eq!(call(&doors, "write_file", &write_file("src/new.txt")), Some(4));
    approve_src(&doors, &["--every-session", "--for", "until-revoked"]);
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    let path = doors.stand.file("src/a.txt").to_str().unwrap().to_owned();
    let edit = json!({"file_path": path, "old_string": "1", "new_string": "2"});
    let _gate = doors.stand.serve();
    let allowed = doors
        .stand
        .asks_until_judged(AgentKind::ClaudeCode, &said(AgentKind::ClaudeCode, &cwd, "Edit", &edit, None));
    assert!(text(&allowed.stdout).contains("\"allow\""), "{allowed:?}");
    assert!(doors.stand.json(&["inbox", "--json"]).as_array().unwrap().is_empty());
}

// req: R5
// door: program
#[test]
fn the_past_calls_of_every_tool_are_shown_before_an_approval_is_given() {
    let doors = DoorFixture::new("", "");
    for (tool, arguments) in [("write_file", write_file("src/b.txt")), ("bash", bash("echo 1 > src/c.txt"))] {
        doors.put("src/a.txt", "a = 1\n");
        assert_eq!(call(&doors, tool, &arguments), Some(4));
        let yes = doors.run(&["inbox", "answer", &doors.stand.question(), "yes"]);
        assert_eq!(yes.status.code(), Some(0), "{yes:?}");
    }
    assert_eq!(call(&doors, "write_file", &write_file("src/d.txt")), Some(4));
    let question = doors.stand.question();
    let scope = format!("write:{}/src/**", workspace(&doors).to_str().unwrap());
    let words =
        ["inbox", "answer", &question, "standing-approval", "--pattern", &scope, "--preview", "--json"];
    let preview = doors.stand.json(&words);
    assert_eq!(preview["recorded_calls"]["covered"].as_array().unwrap().len(), 2, "{preview}");
}

// req: P4, R5
// door: hook
#[test]
fn rules_are_suggested_for_the_calls_of_an_agent_with_a_hook() {
    let doors = DoorFixture::new("", "");
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    let path = doors.stand.file("src/a.txt").to_str().unwrap().to_owned();
    let _gate = doors.stand.serve();
    for (old, new) in [("1", "2"), ("2", "3")] {
        doors.put("src/a.txt", &format!("a = {old}\n"));
        let edit = json!({"file_path": path, "old_string": old, "new_string": new});
        let asks = said(AgentKind::ClaudeCode, &cwd, "Edit", &edit, None);
        let hook = start(doors.stand.hook(AgentKind::ClaudeCode, PATIENT_MS), asks.to_string().as_bytes());
        let yes = doors.run(&["inbox", "answer", &doors.stand.question(), "yes"]);
        assert!(matches!(yes.status.code(), Some(0 | 4)), "{yes:?}");
        assert_eq!(ended(hook).status.code(), Some(0));
    }
    let suggested = doors.stand.json(&["policy", "suggest", "--json"]);
    assert_eq!(
        (&suggested["skipped"], suggested["suggestions"].as_array().unwrap().len()),
        (&json!(0), 1),
        "{suggested}"
    );
    assert!(suggested.to_string().contains("src/a.txt"), "{suggested}");
}
