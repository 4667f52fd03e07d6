//! A person answers in the place of the tool (R5, R6): the model gets the text as the result, and the tool never runs, through whichever
//! door the call came. A script cannot, and a checkpoint is not answered so.

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{DoorFixture, args, bash, last_message, text, workspace};
use crate::hooks::{PATIENT_MS, ended, is_denied, said, start};
use crate::provider::FakeModel;

const SETTINGS: &str = r#"
[[reviewer]]
name = "no-secrets"
kind = "secrets"
tools = ["bash", "mcp_notes_*"]
"#;
const RULES: &str = r#"
[[rule]]
verdict = "ask"
run = "kubectl apply"
mcp = "notes/deploy"
write = "plan.txt"

[[rule]]
verdict = "ask"
run = "kubectl delete"
checkpoint = true
"#;
const APPLY: &str = "kubectl apply -f app.yaml";
const KNOWN: &str = "applied yesterday, token=abc12345";
const MARK: &str = "answered in the place of the tool; the tool did not run";
const RELEASED: &str = "applied yesterday, token=[redacted: secret]";

fn fixture() -> DoorFixture {
    DoorFixture::new(SETTINGS, RULES)
}

impl DoorFixture {
    /// Answers the open question in the place of the tool, as a person at a terminal. A script is refused before.
    fn answer_in_place(&self) {
        let question = self.stand.question();
        let answer = ["inbox", "answer", &question, "result", "--text", KNOWN];
        let by_script = self.run(&answer);
        assert_eq!(by_script.status.code(), Some(3), "{by_script:?}");
        let told = text(&by_script.stderr);
        assert!(told.contains("only a person can answer in the place of a tool"), "{by_script:?}");
        let mut sitting = self.at_terminal(&answer);
        sitting.look_to_the_end();
        let (_, seen) = sitting.end();
        assert!(!seen.contains("error:") && !seen.contains("abc12345"), "{seen}");
    }

    /// Checks the audit log: who answered, and that the newest call of this tool never started.
    fn is_recorded_as_answered(&self, tool: &str) {
        let calls = self.stand.json(&["log", "--json", "--tool", tool, "--outcome", "answered"]);
        let call = calls[0]["call"].as_str().unwrap_or_else(|| panic!("{calls}"));
        let shown = self.stand.json(&["log", "show", call, "--json"]).to_string();
        assert!(!shown.contains("\"started\"") && shown.contains("\"result\""), "{shown}");
        let shown = self.run(&["log", "show", call]);
        assert!(text(&shown.stdout).contains("in the place of the tool"), "{shown:?}");
        let (all, stats) = (
            self.stand.json(&["log", "--json", "--outcome", "answered"]),
            self.stand.json(&["log", "stats", "--json"]),
        );
        assert_eq!(stats["outcomes"]["answered"], all.as_array().unwrap().len(), "{stats}");
        let undone = self.run(&["undo", call]);
        assert!(!undone.status.success(), "there is nothing to undo: {undone:?}");
    }
}

// req: R5, R6
// door: program
#[test]
fn at_a_terminal_a_person_writes_the_result() {
    let doors = fixture();
    let mut sitting = doors.at_terminal(&["call", "bash", "--args", &args(&bash(APPLY))]);
    assert!(sitting.asks());
    sitting.await_shown("  r result");
    sitting.choose("r", "result");
    sitting.await_shown("Write the result that the model gets");
    // An empty result is not accepted.
    sitting.press("\u{4}");
    sitting.await_shown("the result is empty");
    sitting.press("applied yesterday");
    sitting.await_shown("applied yesterday");
    sitting.press("\u{4}");
    let (code, seen) = sitting.end();
    assert_eq!((code, doors.deployed()), (Some(0), false), "{seen}");
    assert!(seen.contains("answered in the place of the tool"), "{seen}");
    doors.is_recorded_as_answered("bash");
}

// req: R5, R6
// door: program
#[test]
fn in_the_inbox_a_script_answers_for_no_tool_and_a_person_does() {
    let doors = fixture();
    let waits = doors.run(&["call", "bash", "--ask", "inbox", "--args", &args(&bash(APPLY))]);
    assert_eq!(waits.status.code(), Some(4), "{waits:?}");
    let shown = doors.run(&["inbox", "show", &doors.stand.question()]);
    assert!(text(&[shown.stdout, shown.stderr].concat()).contains("result, abort"));
    doors.answer_in_place();
    assert!(!doors.deployed());
    doors.is_recorded_as_answered("bash");
}

// req: R5, R8
// door: program
#[test]
fn a_checkpoint_is_not_answered_in_the_place_of_the_tool() {
    let doors = fixture();
    let delete = args(&bash("kubectl delete -f app.yaml"));
    let waits = doors.run(&["call", "bash", "--ask", "inbox", "--args", &delete]);
    assert_eq!(waits.status.code(), Some(4), "{waits:?}");
    let question = doors.stand.question();
    let mut sitting = doors.at_terminal(&["inbox", "answer", &question, "result", "--text", "deleted"]);
    sitting.look_to_the_end();
    let (code, seen) = sitting.end();
    assert_ne!(code, Some(0), "{seen}");
    assert!(seen.contains("a checkpoint cannot be answered"), "{seen}");
    assert_eq!(doors.stand.question(), question, "it is still open");
    doors.run(&["inbox", "answer", &question, "no"]);
    let mut sitting = doors.at_terminal(&["call", "bash", "--args", &delete]);
    assert!(sitting.asks());
    assert!(!sitting.screen().contains("  r result"), "{}", sitting.screen());
    sitting.choose("x", "abort");
    assert_eq!((sitting.end().0, doors.deployed()), (Some(130), false));
}

// req: R5, L3
// door: program
#[test]
fn a_model_reads_the_result_of_a_person() {
    let doors = fixture();
    let model = FakeModel::new(vec![("I deploy.", Some(("bash", bash(APPLY)))), ("It is deployed.", None)]);
    let mut sitting = doors.at_terminal_with(&model, &["agent", "run", "Deploy."]);
    assert!(sitting.asks());
    sitting.choose("r", "result");
    sitting.await_shown("Write the result that the model gets");
    sitting.press(KNOWN);
    sitting.await_shown(KNOWN);
    sitting.press("\u{4}");
    let (code, seen) = sitting.end();
    assert_eq!((code, doors.deployed()), (Some(0), false), "{seen}");
    let told = last_message(&model.got());
    assert!(told.contains(MARK) && told.contains(RELEASED) && !told.contains("abc12345"), "{told}");
}

// req: R5
// door: hook
#[test]
fn a_hook_denies_the_call_with_the_text_as_the_reason() {
    let doors = fixture();
    let agent = AgentKind::ClaudeCode;
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    let _gate = doors.stand.serve();
    let write = json!({"file_path": format!("{cwd}/plan.txt"), "content": "new"});
    // Byleave would run the command itself. The agent would write the file itself.
    for (tool, input, released) in [("Bash", bash(APPLY), RELEASED), ("Write", write, KNOWN)] {
        let asks = said(agent, &cwd, tool, &input, None);
        let hook = start(doors.stand.hook(agent, PATIENT_MS), asks.to_string().as_bytes());
        let question = doors.stand.question();
        let mut sitting = doors.at_terminal(&["inbox", "answer", &question, "result", "--text", KNOWN]);
        sitting.look_to_the_end();
        drop(sitting.end());
        let told = ended(hook);
        assert!(is_denied(agent, &told), "{tool}: {told:?}");
        let reason = text(&told.stderr);
        assert!(reason.contains("A person answered in the place of the tool: "), "{tool}: {reason}");
        assert!(reason.contains(released), "{tool}: {reason}");
    }
    assert!(!doors.deployed() && !doors.stand.file("plan.txt").exists());
}

// req: R5
// door: mcp
#[test]
fn an_mcp_client_gets_the_text_as_the_result() {
    let doors = fixture();
    doors.accept_server();
    let mut gateway = doors.gateway(&["--deadline", "2"], &json!({}));
    for (tool, arguments) in [("bash", bash(APPLY)), ("mcp_notes_deploy", json!({"version": "v1"}))] {
        let waits = gateway.call(tool, &arguments);
        assert!(waits["_meta"]["byleave/pending"].is_object(), "{waits}");
        doors.answer_in_place();
        let mut done = Value::Null;
        // The client repeats the call until its result is there.
        for _ in 0..40 {
            done = gateway.call(tool, &arguments);
            if !done["_meta"]["byleave/pending"].is_object() {
                break;
            }
        }
        assert_eq!(done["isError"], false, "{done}");
        let told = crate::mcp::text(&done);
        assert!(told.contains(MARK) && told.contains(RELEASED), "{told}");
        assert!(!told.contains("deployed v1") && !told.contains("abc12345"), "{told}");
    }
    assert!(!doors.deployed());
    doors.is_recorded_as_answered("bash");
}

// req: R5, R6
// door: http
#[test]
fn over_http_an_agent_answers_for_no_tool_and_a_person_does() {
    let doors = fixture();
    let (bot, other) = (doors.token(&["bot"]), doors.token(&["other", "--scope", "answer,read"]));
    let ann = doors.token(&["web-ann", "--person"]);
    let served = doors.serve();
    let call = json!({"tool": "bash", "arguments": bash(APPLY)});
    let waits = served.asked_about(&bot, "k", &call);
    let (id, digest) = (waits["question"]["id"].as_str().unwrap(), &waits["question"]["digest"]);
    let path = format!("/v1/questions/{id}/answer");
    let result = |text: &str| json!({"digest": digest, "answer": {"kind": "result", "text": text}});
    assert_eq!(served.ask(&other, "POST", &path, &result(KNOWN)).0, 403);
    for text in ["", "  \n", &"x".repeat(100_001)] {
        assert_eq!(served.ask(&ann, "POST", &path, &result(text)).0, 422, "{} characters", text.len());
    }
    let (status, answered) = served.ask(&ann, "POST", &path, &result(KNOWN));
    assert!(status < 300, "{answered}");
    let path = format!("/v1/calls/{}?wait=60", waits["call"].as_str().unwrap());
    let (_, done) = served.ask(&bot, "GET", &path, &Value::Null);
    let result = &done["result"];
    assert_eq!((&result["outcome"], &result["success"]), (&json!("answered"), &json!(true)), "{done}");
    let told = result["output"].as_str().unwrap();
    assert!(told.starts_with("[byleave] a person (web-ann) ") && told.contains(MARK), "{told}");
    assert!(told.ends_with(RELEASED), "{told}");
    assert!(!doors.deployed());

    // A checkpoint is not answered so, not even by a person.
    let call = json!({"tool": "bash", "arguments": bash("kubectl delete -f app.yaml"), "session": "other"});
    let waits = served.asked_about(&bot, "c", &call);
    let path = format!("/v1/questions/{}/answer", waits["question"]["id"].as_str().unwrap());
    let answer =
        json!({"digest": waits["question"]["digest"], "answer": {"kind": "result", "text": "deleted"}});
    let (status, refused) = served.ask(&ann, "POST", &path, &answer);
    assert_eq!(status, 422, "{refused}");
    assert!(refused.to_string().contains("a checkpoint cannot be answered"), "{refused}");
    assert!(!doors.deployed());
    served.stop();
}
