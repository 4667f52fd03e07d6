//! What every door must do with an ordinary call: show what it did on a copy, ask, record the answer, and stop it in time.

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{DoorFixture, bash, text, workspace};
use crate::hooks::{PATIENT_MS, ended, is_denied, rewritten, said, start};

const FEEDBACK: &str = "make it elsewhere";

impl DoorFixture {
    /// Checks that the open question shows the run on a copy, and declines it with feedback.
    fn decline(&self) {
        let question = self.stand.question();
        let shown = text(&self.run(&["inbox", "show", &question]).stdout);
        assert!(
            shown.contains("Actual effects, from a run on a copy") && shown.contains("created"),
            "{shown}"
        );
        assert!(!self.stand.file("made").exists());
        let no = self.run(&["inbox", "answer", &question, "no", "--feedback", FEEDBACK]);
        assert!(matches!(no.status.code(), Some(3 | 4)), "{no:?}");
    }

    /// Checks that the declined call is on the record with its answer, and that the audit log is intact.
    fn decline_is_recorded(&self) {
        let calls = self.stand.json(&["log", "--json", "--tool", "bash"]);
        let shown = self.stand.json(&["log", "show", calls[0]["call"].as_str().unwrap(), "--json"]);
        let record = shown.to_string();
        assert!(record.contains("answered") && record.contains(FEEDBACK), "{record}");
        let verified = self.run(&["audit", "verify"]);
        assert!(verified.status.success(), "{verified:?}");
        assert!(!self.stand.file("made").exists());
    }
}

// req: R5, R6, E9, A1
// door: hook
#[test]
fn an_agent_with_a_hook_is_told_the_answer_and_it_is_recorded() {
    let doors = DoorFixture::new("", "");
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    let asks = said(AgentKind::ClaudeCode, &cwd, "Bash", &bash("touch made"), None);
    let _gate = doors.stand.serve();
    let hook = start(doors.stand.hook(AgentKind::ClaudeCode, PATIENT_MS), asks.to_string().as_bytes());
    doors.decline();
    let told = ended(hook);
    assert_eq!(told.status.code(), Some(2), "{told:?}");
    assert!(text(&told.stderr).contains(FEEDBACK), "{told:?}");
    doors.decline_is_recorded();
}

// req: E2
// door: hook
#[test]
fn a_command_of_an_agent_with_a_hook_ends_in_time() {
    let doors = DoorFixture::new("mode = \"yolo\"\n", "");
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    // The agent has limits of its own, and says them with the call.
    let input = json!({"command": "sleep 1000; touch made", "timeout": 1_000});
    let asks = said(AgentKind::ClaudeCode, &cwd, "Bash", &input, None);
    let _gate = doors.stand.serve();
    let told = doors.stand.asks_until_judged(AgentKind::ClaudeCode, &asks);
    let line = rewritten(AgentKind::ClaudeCode, &told).unwrap_or_else(|| panic!("{told:?}"));
    let ran = doors.stand.shell(&line);
    assert!(!ran.status.success() && !doors.stand.file("made").exists(), "{ran:?}");
}

// req: L3
// door: hook
#[test]
fn an_agent_with_a_hook_gets_an_error_and_goes_on() {
    let doors = DoorFixture::new("mode = \"yolo\"\n", "");
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    let _gate = doors.stand.serve();
    let run = |command: &str| {
        let asks = said(AgentKind::ClaudeCode, &cwd, "Bash", &bash(command), None);
        let told = doors.stand.asks_until_judged(AgentKind::ClaudeCode, &asks);
        doors.stand.shell(&rewritten(AgentKind::ClaudeCode, &told).unwrap_or_else(|| panic!("{told:?}")))
    };
    let failed = run("echo half done; exit 3");
    // A note says in which confinement it failed.
    assert_eq!(
        (failed.status.code(), text(&failed.stdout).lines().next()),
        (Some(3), Some("half done")),
        "{failed:?}"
    );
    // A denied call of its own tool comes with the reason.
    let secret = doors.stand.file(".env");
    let asks = said(AgentKind::ClaudeCode, &cwd, "Read", &json!({ "file_path": secret }), None);
    let told = doors.stand.asks_until_judged(AgentKind::ClaudeCode, &asks);
    assert!(is_denied(AgentKind::ClaudeCode, &told) && !told.stderr.is_empty(), "{told:?}");
    let next = run("cat notes.txt");
    assert!(next.status.success() && text(&next.stdout).contains("hello"), "{next:?}");
}

// req: E5, L10
// door: hook
#[test]
fn a_dry_run_of_an_agent_with_a_hook_tells_every_call_and_changes_nothing() {
    let doors = DoorFixture::new("dry_run = true\nmode = \"yolo\"\n", "");
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    let _gate = doors.stand.serve();
    let ask = |tool: &str, input: &Value| {
        let asks = said(AgentKind::ClaudeCode, &cwd, tool, input, None);
        doors.stand.asks_until_judged(AgentKind::ClaudeCode, &asks)
    };
    // A command succeeds, and prints what would run.
    let told = ask("Bash", &bash("touch made"));
    let line = rewritten(AgentKind::ClaudeCode, &told).unwrap_or_else(|| panic!("{told:?}"));
    let ran = doors.stand.shell(&line);
    assert!(ran.status.success() && text(&ran.stdout).contains("[DRY-RUN]"), "{ran:?}");
    assert!(text(&ran.stdout).contains("touch made"), "{ran:?}");
    // A hook cannot answer in the place of the agent's own tools. So they are denied, and the reason says what would run.
    let file = doors.stand.file("made");
    let own = [
        ("Write", json!({"file_path": file, "content": "hello"})),
        ("Read", json!({"file_path": doors.stand.file("notes.txt")})),
    ];
    for (tool, input) in own {
        let told = ask(tool, &input);
        let why = text(&told.stderr);
        assert!(is_denied(AgentKind::ClaudeCode, &told), "{tool}: {told:?}");
        assert!(why.contains("dry run") && why.contains("[DRY-RUN]"), "{tool}: {why}");
    }
    assert!(!file.exists());
    let calls = doors.stand.json(&["log", "--json"]);
    assert!(calls.as_array().unwrap().iter().all(|call| call["outcome"] == "dry-run"), "{calls}");
}

// req: R5, R6, E9, A1, L3
// door: mcp
#[test]
fn an_mcp_client_is_told_the_answer_and_goes_on() {
    let doors = DoorFixture::new("", "");
    let mut gateway = doors.gateway(&["--deadline", "2"], &json!({}));
    let waits = gateway.call("bash", &bash("touch made"));
    assert!(waits["_meta"]["byleave/pending"].is_object(), "{waits}");
    doors.decline();
    let mut told = Value::Null;
    for _ in 0..40 {
        told = gateway.call("bash", &bash("touch made"));
        if !told["_meta"]["byleave/pending"].is_object() {
            break;
        }
    }
    assert!(told["isError"] == true && told.to_string().contains(FEEDBACK), "{told}");
    let next = gateway.call("read_file", &json!({"path": "notes.txt"}));
    assert!(crate::mcp::text(&next).contains("hello"), "{next}");
    doors.decline_is_recorded();
}

// req: E2
// door: mcp
#[test]
fn a_command_of_an_mcp_client_ends_in_time() {
    let doors = DoorFixture::new("mode = \"yolo\"\ncall_timeout = \"1s\"\n", "");
    let mut gateway = doors.gateway(&[], &json!({}));
    let told = gateway.call("bash", &bash("sleep 1000; touch made"));
    assert!(told["isError"] == true && !doors.stand.file("made").exists(), "{told}");
}

// req: E9, R6, A1, L3
// door: http
#[test]
fn an_http_client_is_told_the_answer_and_goes_on() {
    let doors = DoorFixture::new("", "");
    let (bot, ann) = (doors.token(&["bot"]), doors.token(&["web-ann", "--person"]));
    let served = doors.serve();
    let waits = served.asked_about(&bot, "k", &json!({"tool": "bash", "arguments": bash("touch made")}));
    let (id, digest) = (waits["question"]["id"].as_str().unwrap(), &waits["question"]["digest"]);
    let (_, shown) = served.ask(&ann, "GET", &format!("/v1/questions/{id}"), &Value::Null);
    assert!(shown.to_string().contains("from a run on a copy"), "{shown}");
    let no = json!({"digest": digest, "answer": {"kind": "no", "feedback": FEEDBACK}});
    assert!(served.ask(&ann, "POST", &format!("/v1/questions/{id}/answer"), &no).0 < 300);
    let path = format!("/v1/calls/{}?wait=60", waits["call"].as_str().unwrap());
    let (_, told) = served.ask(&bot, "GET", &path, &Value::Null);
    assert_eq!(told["result"]["refusal"]["code"], "declined", "{told}");
    assert!(told.to_string().contains(FEEDBACK), "{told}");
    let read = json!({"tool": "read_file", "arguments": {"path": "notes.txt"}});
    let next =
        crate::serve::request(&served.address, &bot, "n", "POST", "/v1/calls?wait=60", &read).unwrap().1;
    assert_eq!(next["result"]["outcome"], "completed", "{next}");
    doors.decline_is_recorded();
    served.stop();
}

// req: E5
// door: http
#[test]
fn a_dry_run_over_http_changes_nothing() {
    let doors = DoorFixture::new("", "");
    let bot = doors.token(&["bot"]);
    let served = doors.serve();
    let call = json!({"tool": "bash", "arguments": bash("touch made"), "dry_run": true});
    let (_, told) = served.ask(&bot, "POST", "/v1/calls?wait=60", &call);
    let output = told["result"]["output"].as_str().unwrap_or_default();
    assert!(told["result"]["outcome"] == "dry-run" && output.contains("[DRY-RUN]"), "{told}");
    assert!(!doors.stand.file("made").exists());
    served.stop();
}
