//! A rule with `challenge = true` (R9): somebody makes the case against the call first. The model does where there is one, and the person who
//! answers does otherwise. It is stored, shown, and part of the record.

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{DoorFixture, args, last_message, text, workspace};
use crate::hooks::{PATIENT_MS, ended, said, start};
use crate::provider::FakeModel;

const YOLO: &str = "mode = \"yolo\"\n";
const RULES: &str = r#"
[[rule]]
verdict = "ask"
write = "plan.txt"
challenge = true
"#;
const CASE: [&str; 6] =
    ["--assumption", "nobody edits it", "--failure", "it is overwritten", "--because", "it is a draft"];

fn fixture() -> DoorFixture {
    DoorFixture::new(YOLO, RULES)
}

fn write() -> Value {
    json!({"path": "plan.txt", "content": "new"})
}

impl DoorFixture {
    fn written(&self) -> bool {
        self.stand.file("plan.txt").exists()
    }

    /// Answers the open question with the case against the call.
    fn answer_with_case(&self) {
        let question = self.stand.question();
        let plain = self.run(&["inbox", "answer", &question, "yes"]);
        assert!(!plain.status.success() && !self.written(), "{plain:?}");
        assert!(text(&plain.stderr).contains("the case against it"), "{plain:?}");
        let made = self.run(&[&["inbox", "answer", &question, "yes"], &CASE[..]].concat());
        assert!(matches!(made.status.code(), Some(0 | 4)), "{made:?}");
    }

    /// Checks that the case is on the record of the newest call of this tool.
    fn case_is_recorded(&self, tool: &str, words: &str) {
        let calls = self.stand.json(&["log", "--json", "--tool", tool]);
        let shown =
            self.stand.json(&["log", "show", calls[0]["call"].as_str().unwrap(), "--contents", "--json"]);
        let record = shown.to_string();
        assert!(record.contains("challenged") && record.contains(words), "{record}");
    }
}

// req: R9, R5
// door: program
#[test]
fn a_person_makes_the_case_in_the_inbox() {
    let doors = fixture();
    let explained = doors.run(&["explain", "write_file", "--mode", "yolo", "--args", &args(&write())]);
    assert!(text(&explained.stdout).contains("make the case against it first"), "{explained:?}");
    let alone = doors.run(&["call", "write_file", "--args", &args(&write())]);
    assert!(text(&alone.stderr).contains("no-challenger") && !doors.written(), "{alone:?}");
    let waits = doors.run(&["call", "write_file", "--ask", "inbox", "--args", &args(&write())]);
    assert_eq!((waits.status.code(), doors.written()), (Some(4), false), "{waits:?}");
    let shown = doors.run(&["inbox", "show", &doors.stand.question()]);
    assert!(text(&shown.stdout).contains("a yes needs the case against the call"), "{shown:?}");
    doors.answer_with_case();
    assert!(doors.written());
    doors.case_is_recorded("write_file", "it is overwritten");
    // Nothing else is challenged.
    let other = doors.run(&["call", "write_file", "--args", r#"{"path":"other.txt","content":"x"}"#]);
    assert_eq!(other.status.code(), Some(0), "{other:?}");
}

// req: R9
// door: program
#[test]
fn a_person_makes_the_case_at_a_terminal() {
    let doors = fixture();
    let mut sitting = doors.at_terminal(&["call", "write_file", "--args", &args(&write())]);
    assert!(sitting.asks());
    sitting.press("\u{1b}[F");
    sitting.choose("y", "yes");
    for (prompt, words) in [
        ("Which assumption", "nobody edits it"),
        ("How could it fail?", "it is overwritten"),
        ("Why is it right", "it is a draft"),
    ] {
        sitting.await_shown(prompt);
        assert!(!doors.written());
        sitting.press(&format!("{words}\r"));
    }
    let (code, seen) = sitting.end();
    assert_eq!((code, doors.written()), (Some(0), true), "{seen}");
    doors.case_is_recorded("write_file", "nobody edits it");
}

/// Runs a conversation with a model that makes the case with this verdict.
fn converse(doors: &DoorFixture, verdict: &'static str) -> (std::process::Output, Vec<Value>) {
    let model = FakeModel::deciding(move |messages| {
        let asked = messages.last().unwrap()["content"].as_str().unwrap_or_default().to_owned();
        if asked.contains("Make the case against") {
            return match verdict {
                "proceed" => (
                    r#"{"assumptions":["it is free"],"failure_scenarios":["it is not"],"verdict":"proceed","reason":"small"}"#,
                    None,
                ),
                "stop" => (
                    r#"{"assumptions":["it is free"],"failure_scenarios":["it is not"],"verdict":"stop","reason":"too risky"}"#,
                    None,
                ),
                _ => ("I would rather not say.", None),
            };
        }
        match messages.iter().filter(|message| message["role"] == "assistant").count() {
            0 => ("I write it.", Some(("write_file", write()))),
            _ => ("Done.", None),
        }
    });
    let mut command = doors.command(&["agent", "run", "Write it."]);
    command.env("OPENAI_API_KEY", "sk-very-secret").env("BYLEAVE_MODEL", "openai/some-model");
    command.env("BYLEAVE_MODEL_URL", &model.url);
    (ended(start(command, b"")), model.got())
}

// req: R9, L3
// door: program
#[test]
fn a_model_makes_the_case_against_its_own_call() {
    let doors = fixture();
    for (verdict, code) in [("stop", "challenge-stopped"), ("nothing", "challenge-failed")] {
        let (ended, got) = converse(&doors, verdict);
        assert_eq!((ended.status.code(), doors.written()), (Some(0), false), "{verdict}: {ended:?}");
        assert!(last_message(&got).contains(code), "{verdict}: {}", last_message(&got));
    }
    let (ended, got) = converse(&doors, "proceed");
    assert_eq!((ended.status.code(), doors.written()), (Some(0), true), "{ended:?}");
    let case = got.iter().find(|body| body.to_string().contains("Make the case against")).unwrap();
    assert!(case["tools"].as_array().is_none_or(Vec::is_empty), "it is offered no tools: {case}");
    doors.case_is_recorded("write_file", "it is not");
}

// req: R9
// door: hook
#[test]
fn a_person_makes_the_case_against_the_call_of_an_agent() {
    let doors = fixture();
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    let input = json!({"file_path": format!("{cwd}/plan.txt"), "content": "new"});
    let asks = said(AgentKind::ClaudeCode, &cwd, "Write", &input, None);
    let _gate = doors.stand.serve();
    let hook = start(doors.stand.hook(AgentKind::ClaudeCode, PATIENT_MS), asks.to_string().as_bytes());
    doors.answer_with_case();
    let told = ended(hook);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    let calls = doors.stand.json(&["log", "--json"]).to_string();
    assert!(calls.contains("plan.txt"), "{calls}");
}

// req: R9
// door: mcp
#[test]
fn the_model_of_an_mcp_client_makes_the_case_or_a_person_does() {
    let doors = fixture();
    let mut gateway = doors.gateway(&["--deadline", "60"], &json!({"sampling": {}}));
    let id = gateway.begin("tools/call", &json!({"name": "write_file", "arguments": write()}));
    let asked = gateway.until(|message| message["method"] == "sampling/createMessage");
    assert!(asked["params"].to_string().contains("Make the case against") && !doors.written(), "{asked}");
    let case = r#"{"assumptions":["it is free"],"failure_scenarios":["it is not"],"verdict":"proceed","reason":"small"}"#;
    let answer = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": case}});
    gateway.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}));
    let done = gateway.until(|message| message["id"] == id);
    assert_eq!((&done["result"]["isError"], doors.written()), (&json!(false), true), "{done}");
    doors.case_is_recorded("write_file", "it is not");
    assert_eq!(gateway.ends(), Some(0));
    std::fs::remove_file(doors.stand.file("plan.txt")).unwrap();

    // A client without a model: a person makes the case, and no form of the client.
    let mut gateway = doors.gateway(&["--deadline", "2"], &json!({"elicitation": {}}));
    let waits = gateway.call("write_file", &write());
    assert!(waits["_meta"]["byleave/pending"].is_object() && !doors.written(), "{waits}");
    doors.answer_with_case();
    for _ in 0..40 {
        if !gateway.call("write_file", &write())["_meta"]["byleave/pending"].is_object() {
            break;
        }
    }
    assert!(doors.written());
}

// req: R9
// door: http
#[test]
fn over_http_the_answer_carries_the_case() {
    let doors = fixture();
    let (bot, ann) = (doors.token(&["bot"]), doors.token(&["web-ann", "--person"]));
    let served = doors.serve();
    let call = json!({"tool": "write_file", "arguments": write(), "mode": "yolo"});
    let waits = served.asked_about(&bot, "k", &call);
    let (id, digest) = (waits["question"]["id"].as_str().unwrap(), &waits["question"]["digest"]);
    let path = format!("/v1/questions/{id}/answer");
    let plain = json!({"digest": digest, "answer": {"kind": "yes"}});
    assert_eq!(served.ask(&ann, "POST", &path, &plain).0, 422);
    let case = json!({"assumptions": ["a"], "failure_scenarios": ["it is overwritten"], "reason": "r"});
    let yes = json!({"digest": digest, "answer": {"kind": "yes", "challenge": case}});
    let (status, answered) = served.ask(&ann, "POST", &path, &yes);
    assert!(status < 300, "{answered}");
    let path = format!("/v1/calls/{}?wait=60", waits["call"].as_str().unwrap());
    let (_, done) = served.ask(&bot, "GET", &path, &Value::Null);
    assert_eq!((&done["result"]["outcome"], doors.written()), (&json!("completed"), true), "{done}");
    doors.case_is_recorded("write_file", "it is overwritten");
    served.stop();
}
