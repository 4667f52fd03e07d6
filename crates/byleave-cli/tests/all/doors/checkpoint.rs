//! A rule with `checkpoint = true` (R8): not even `yolo` runs the call before a person has released it, through whichever door it came.

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{DoorFixture, args, bash, last_message, text, workspace};
use crate::hooks::{PATIENT_MS, ended, rewritten, said, start};

const YOLO: &str = "mode = \"yolo\"\n";
const RULES: &str = r#"
[[rule]]
id = "production"
verdict = "ask"
run = "kubectl apply"
mcp = "notes/deploy"
checkpoint = true
reason = "this changes production"
"#;
const APPLY: &str = "kubectl apply -f app.yaml";

fn fixture() -> DoorFixture {
    DoorFixture::new(YOLO, RULES)
}

// req: R8
// door: program
#[test]
fn at_a_terminal_only_the_typed_word_releases_it() {
    let doors = fixture();
    let call = ["call", "bash", "--args", &args(&bash(APPLY))];
    let mut sitting = doors.at_terminal(&call);
    assert!(sitting.asks());
    sitting.press("\u{1b}[F");
    assert!(!doors.deployed());
    sitting.choose("y", "yes");
    sitting.await_shown("type “release”");
    assert!(!doors.deployed());
    sitting.press("yes\r");
    sitting.await_shown("the words do not match");
    assert!(!doors.deployed());
    sitting.choose("y", "yes");
    sitting.await_shown("type “release”");
    sitting.press("release\r");
    let (code, seen) = sitting.end();
    assert_eq!((code, doors.deployed()), (Some(0), true), "{seen}");
    // Without a person nothing is asked and nothing runs. Another command of the same program needs no release.
    let alone = doors.run(&call);
    assert_eq!(alone.status.code(), Some(3), "{alone:?}");
    assert!(text(&alone.stderr).contains("no-checkpoint"), "{alone:?}");
    let other = doors.run(&["call", "bash", "--args", &args(&bash("kubectl get pods"))]);
    assert_eq!(other.status.code(), Some(0), "{other:?}");
}

// req: R8, R5
// door: program
#[test]
fn in_the_inbox_a_script_releases_nothing_and_a_person_does() {
    let doors = fixture();
    let explained = doors.run(&["explain", "--command", APPLY, "--mode", "yolo"]);
    assert!(text(&explained.stdout).contains("a person must release it in every mode"), "{explained:?}");
    let waits = doors.run(&["call", "bash", "--ask", "inbox", "--args", &args(&bash(APPLY))]);
    assert_eq!(waits.status.code(), Some(4), "{waits:?}");
    assert!(text(&waits.stderr).contains("yes --confirm release"), "{waits:?}");
    let question = doors.stand.question();
    let open = doors.stand.json(&["inbox", "--json"]);
    assert_eq!(open[0]["kind"], "checkpoint", "{open}");
    let by_script = doors.run(&["inbox", "answer", &question, "yes", "--confirm", "release"]);
    assert_eq!((by_script.status.code(), doors.deployed()), (Some(3), false), "{by_script:?}");
    assert!(text(&by_script.stderr).contains("only a person can release a checkpoint"), "{by_script:?}");
    doors.release();
    assert!(doors.deployed());
}

// req: R8, L3
// door: program
#[test]
fn a_model_waits_for_the_release() {
    let doors = fixture();
    let says = || vec![("I deploy.", Some(("bash", bash(APPLY)))), ("It is deployed.", None)];
    let (refused, got) = doors.model(says(), &["Deploy."]);
    assert_eq!((refused.status.code(), doors.deployed()), (Some(0), false), "{refused:?}");
    assert!(last_message(&got).contains("no-checkpoint"), "{}", last_message(&got));
    let (waits, _) = doors.model(says(), &["--ask", "inbox", "Deploy."]);
    assert_eq!((waits.status.code(), doors.deployed()), (Some(4), false), "{waits:?}");
    doors.release();
    assert!(doors.deployed());
}

// req: R8
// door: hook
#[test]
fn an_agent_with_a_hook_waits_for_the_release() {
    let doors = fixture();
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    let asks = said(AgentKind::ClaudeCode, &cwd, "Bash", &bash(APPLY), None);
    let _gate = doors.stand.serve();
    let hook = start(doors.stand.hook(AgentKind::ClaudeCode, PATIENT_MS), asks.to_string().as_bytes());
    let question = doors.stand.question();
    let by_script = doors.run(&["inbox", "answer", &question, "yes", "--confirm", "release"]);
    assert_eq!((by_script.status.code(), doors.deployed()), (Some(3), false), "{by_script:?}");
    doors.release();
    let told = ended(hook);
    let line = rewritten(AgentKind::ClaudeCode, &told).unwrap_or_else(|| panic!("{told:?}"));
    assert!(!doors.deployed(), "it ran before the agent ran it");
    let ran = doors.stand.shell(&line);
    assert_eq!((ran.status.code(), doors.deployed()), (Some(0), true), "{ran:?}");
}

// req: R8
// door: mcp
#[test]
fn an_mcp_client_is_not_asked_and_waits_for_the_release() {
    let doors = fixture();
    doors.accept_server();
    // A client that could show a form. The gateway must not let it answer.
    let mut gateway = doors.gateway(&["--deadline", "2"], &json!({"elicitation": {}}));
    for (tool, arguments) in [("bash", bash(APPLY)), ("mcp_notes_deploy", json!({"version": "v1"}))] {
        let waits = gateway.call(tool, &arguments);
        let pending = &waits["_meta"]["byleave/pending"];
        assert!(pending.is_object(), "{waits}");
        let has_run = waits.to_string().contains("deployed v1") || tool == "bash" && doors.deployed();
        assert!(!has_run, "{waits}");
        doors.release();
        let mut done = Value::Null;
        // The client repeats the call until its result is there.
        for _ in 0..40 {
            done = gateway.call(tool, &arguments);
            if !done["_meta"]["byleave/pending"].is_object() {
                break;
            }
        }
        assert_eq!(done["isError"], false, "{done}");
    }
    assert!(doors.deployed());
}

// req: R8, R5
// door: http
#[test]
fn over_http_an_agent_releases_nothing_and_a_signed_in_person_does() {
    let doors = fixture();
    let (bot, other) = (doors.token(&["bot"]), doors.token(&["other", "--scope", "answer,read"]));
    let ann = doors.token(&["web-ann", "--person"]);
    let served = doors.serve();
    let call = json!({"tool": "bash", "arguments": bash(APPLY), "mode": "yolo"});
    let waits = served.asked_about(&bot, "k", &call);
    let (id, digest) = (waits["question"]["id"].as_str().unwrap(), &waits["question"]["digest"]);
    let path = format!("/v1/questions/{id}/answer");
    let yes = json!({"digest": digest, "answer": {"kind": "yes", "confirm": "release"}});
    assert_eq!(served.ask(&other, "POST", &path, &yes).0, 403);
    let plain = json!({"digest": digest, "answer": {"kind": "yes"}});
    assert_eq!(served.ask(&ann, "POST", &path, &plain).0, 422);
    assert!(!doors.deployed());
    let (status, answered) = served.ask(&ann, "POST", &path, &yes);
    assert!(status < 300, "{answered}");
    let path = format!("/v1/calls/{}?wait=60", waits["call"].as_str().unwrap());
    let (_, done) = served.ask(&bot, "GET", &path, &Value::Null);
    assert_eq!((&done["result"]["outcome"], doors.deployed()), (&json!("completed"), true), "{done}");
    served.stop();
}
