//! The workspace boundary for the tools of agents: no mode lets them out of the workspace without a question.

use std::fs;
use std::os::unix::fs::symlink;

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{HookFixture, PATIENT_MS, is_denied, rewritten, said, tools};

const UNASKED: [&str; 2] = ["confirm-dangerous", "yolo"];

fn patch(line: &str) -> Value {
    format!("*** Begin Patch\n{line}\n*** End Patch").into()
}

/// Returns every tool that names a path, with the path of a file or of its directory.
fn calls([path, directory]: &[String; 2]) -> Vec<(&'static str, Value)> {
    let mut calls: Vec<(&str, Value)> = ["Read", "Grep", "Glob", "LS", "Write", "Edit", "Delete"]
        .map(|tool| {
            let key = if matches!(tool, "Read" | "Write" | "Edit") { "file_path" } else { "path" };
            (tool, json!({ key: path }))
        })
        .into();
    calls.push(("Glob", json!({ "pattern": format!("{directory}/**") })));
    calls.push(("apply_patch", json!({ "input": patch(&format!("*** Delete File: {path}")) })));
    calls.push(("apply_patch", json!({ "input": patch(&format!("*** Add File: {directory}/new.txt\n+x")) })));
    calls.extend(
        ["view", "create", "str_replace"].map(|what| {
            ("developer__text_editor", json!({ "command": what, "path": path, "file_text": "x" }))
        }),
    );
    calls
}

/// Returns a call of this agent that writes one file.
fn writes(dialect: AgentKind, path: &str) -> (&'static str, Value) {
    let (_, tool, key) = tools(dialect);
    let input = match dialect {
        AgentKind::Codex => json!({ key: patch(&format!("*** Add File: {path}\n+x")) }),
        AgentKind::Goose => json!({ key: path, "command": "write", "file_text": "x" }),
        AgentKind::Copilot => json!({ key: path, "file_text": "x" }),
        _ => json!({ key: path, "content": "x" }),
    };
    (tool, input)
}

/// Returns a fixture with a file beside the workspace, and the paths that lead to it.
fn stand() -> (HookFixture, String, Vec<[String; 2]>) {
    let stand = HookFixture::new();
    let cwd = stand.desk.world.workspace().to_str().unwrap().to_owned();
    let outside = stand.desk.world.workspace().parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f.txt"), "x").unwrap();
    symlink(&outside, stand.file("door")).unwrap();
    symlink(outside.join("f.txt"), stand.file("link.txt")).unwrap();
    let outside = outside.to_str().unwrap();
    let ways = [
        ["../outside/f.txt", "../outside"],
        [&format!("{outside}/f.txt"), outside],
        ["door/f.txt", "door"],
        ["link.txt", "door"],
    ];
    (stand, cwd, ways.map(|way| way.map(str::to_owned)).into())
}

/// Writes a file into the directory of the user's own settings.
pub(super) fn own(stand: &HookFixture, name: &str, text: &str) {
    let home = stand.desk.world.workspace().parent().unwrap().to_path_buf();
    let dir = home.join(".config/byleave");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(name), text).unwrap();
    for path in [home.join(".config"), dir.clone(), dir.join(name)] {
        stand.desk.give(&path);
    }
}

// req: P2, P4, B7
#[test]
fn no_mode_lets_the_tools_of_an_agent_out_of_the_workspace_unasked() {
    let (stand, cwd, ways) = stand();
    for mode in UNASKED {
        own(&stand, "config.toml", &format!("mode = \"{mode}\"\n"));
        let _served = stand.serve();
        let refused = |dialect: AgentKind, at: &str, tool: &str, input: &Value| {
            let told = stand.asks(dialect, &said(dialect, at, tool, input, None), PATIENT_MS);
            let why = String::from_utf8_lossy(&told.stderr).into_owned();
            assert!(is_denied(dialect, &told), "{mode} {dialect:?} {tool} {input}: {told:?}");
            assert!(why.contains("outside-workspace"), "{mode} {dialect:?} {tool} {input}: {why}");
            assert!(why.contains("[[rule]]") && why.contains("outside"), "{why}");
        };
        for way in &ways {
            for (tool, input) in calls(way) {
                refused(AgentKind::ClaudeCode, &cwd, tool, &input);
            }
        }
        for dialect in AgentKind::ALL {
            let (tool, input) = writes(dialect, &ways[0][0]);
            refused(dialect, &cwd, tool, &input);
        }
        // A call from another directory is judged there, and that directory is outside.
        let elsewhere = format!("{cwd}/../outside");
        refused(AgentKind::ClaudeCode, &elsewhere, "Read", &json!({ "file_path": "f.txt" }));
        // Inside the workspace, the mode allows the call.
        let inside =
            said(AgentKind::ClaudeCode, &cwd, "Write", &json!({ "file_path": "n", "content": "" }), None);
        let told = stand.asks(AgentKind::ClaudeCode, &inside, PATIENT_MS);
        assert!(told.status.success() && !is_denied(AgentKind::ClaudeCode, &told), "{told:?}");
    }
}

// req: P4
#[test]
fn a_rule_lets_the_tools_of_an_agent_out_where_it_says() {
    let (stand, cwd, ways) = stand();
    own(&stand, "policy.toml", "[[rule]]\nverdict = \"allow\"\ntouch = \"~/outside/\"\n");
    own(&stand, "config.toml", "mode = \"yolo\"\n");
    let _served = stand.serve();
    for way in &ways {
        for (tool, input) in calls(way) {
            let told = stand.asks(
                AgentKind::ClaudeCode,
                &said(AgentKind::ClaudeCode, &cwd, tool, &input, None),
                PATIENT_MS,
            );
            assert!(
                told.status.success() && !is_denied(AgentKind::ClaudeCode, &told),
                "{tool} {input}: {told:?}"
            );
        }
    }
}

// req: P4
#[test]
fn in_a_mode_that_asks_a_person_is_asked() {
    let (stand, cwd, ways) = stand();
    let _served = stand.serve();
    let read = said(AgentKind::ClaudeCode, &cwd, "Read", &json!({ "file_path": ways[0][0] }), None);
    let hook = super::start(stand.hook(AgentKind::ClaudeCode, PATIENT_MS), read.to_string().as_bytes());
    stand.answers(&["yes"]);
    let told = super::ended(hook);
    assert!(told.status.success() && !is_denied(AgentKind::ClaudeCode, &told), "{told:?}");
}

// req: M2
#[test]
fn a_prepared_call_is_started_by_its_own_session_only() {
    let (stand, cwd, _) = stand();
    let asks = |session: &str, command: &str| {
        let mut request = said(AgentKind::ClaudeCode, &cwd, "Bash", &json!({ "command": command }), None);
        request["session_id"] = session.into();
        stand.asks(AgentKind::ClaudeCode, &request, PATIENT_MS)
    };
    let line = rewritten(AgentKind::ClaudeCode, &asks("5f0c", "echo mine")).expect("a line of ours");
    let told = asks("another", &line);
    let why = String::from_utf8_lossy(&told.stderr);
    assert!(is_denied(AgentKind::ClaudeCode, &told) && why.contains("another session"), "{told:?}");
    let told = asks("5f0c", &line);
    assert!(told.status.success() && !is_denied(AgentKind::ClaudeCode, &told), "{told:?}");
}
