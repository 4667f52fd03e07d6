//! Reviewers of the settings (R1 to R3, R12): the same ones, through whichever door a call comes.

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{DoorFixture, args, bash, last_message, text, workspace};
use crate::hooks::{PATIENT_MS, is_denied, rewritten, said};

/// A reviewer that refuses, changes and fails by words in the arguments and in the result.
const REVIEW: &str = r#"#!/usr/bin/env python3
import json, signal, sys
subject = json.load(sys.stdin)
before = subject["stage"] == "input"
words = json.dumps(subject["arguments"] if before else subject["output"])
if sys.argv[1:] == ["hang"]:
    signal.pause()
elif before and "FORBIDDEN" in words:
    print(json.dumps({"opinion": "deny", "reason": "a forbidden word"}))
elif before and "FORGET" in words:
    value = {name: value for name, value in subject["arguments"].items() if name != "agent_cwd"}
    print(json.dumps({"opinion": "change", "value": value, "reason": "shorter"}))
elif before and "EXIT" in words:
    sys.exit(1)
elif before and "GARBAGE" in words:
    print("certainly")
elif not before and "WITHHELD" in words:
    print(json.dumps({"opinion": "deny", "reason": "it is private"}))
elif not before and "BROKEN" in words:
    sys.exit(1)
else:
    print("true")
"#;

/// Only the reviewer that hangs has a short time limit, because a program starts slowly on a busy machine.
const SETTINGS: &str = r#"
mode = "yolo"

[[reviewer]]
name = "no-sql-tricks"
kind = "strip"
tools = ["mcp_notes_query", "client.*.query"]
argument = "sql"
remove = [";", "--"]

[[reviewer]]
name = "no-sly-commands"
kind = "strip"
tools = ["bash"]
argument = "command"
remove = ["SLY "]

[[reviewer]]
name = "no-sly-text"
kind = "strip"
tools = ["claude-code:Write"]
argument = "content"
remove = ["SLY "]

[[reviewer]]
name = "no-tokens"
kind = "drop_fields"
tools = ["mcp_notes_*", "client.*"]
fields = ["password", "token"]

[[reviewer]]
name = "no-secrets"
kind = "secrets"
tools = ["bash"]

[[reviewer]]
name = "words"
kind = "program"
tools = ["*"]
on = "both"
command = ["HOME/review.py"]
timeout = "5m"

[[reviewer]]
name = "slow"
kind = "program"
tools = ["mcp_notes_deploy", "client.*.slow", "claude-code:Edit"]
on = "input"
command = ["HOME/review.py", "hang"]
timeout = "1s"
"#;

const TRICK: &str = "select 1; drop table t--";
const STRIPPED: &str = "select 1 drop table t";
const DENIED: &str = "reviewer `words` refused the arguments: a forbidden word";
const WITHHELD: &str = "reviewer `words` refused the result: it is private";

fn fixture() -> DoorFixture {
    let doors = DoorFixture::new("", "");
    doors.put_program("../review.py", REVIEW);
    doors.set_up(&SETTINGS.replace("HOME", doors.home().to_str().unwrap()));
    doors
}

fn query(sql: &str) -> Value {
    json!({ "sql": sql })
}

// req: R1, R2, R3, R12
// door: program
#[test]
fn a_call_is_reviewed() {
    let doors = fixture();
    doors.accept_server();
    let call = |tool: &str, arguments: &Value| doors.run(&["call", tool, "--args", &args(arguments)]);
    let changed = call("mcp_notes_query", &query(TRICK));
    assert_eq!(changed.status.code(), Some(0), "{changed:?}");
    assert_eq!(text(&changed.stdout).trim_end(), format!("ran: {STRIPPED}").trim_end());
    assert!(text(&changed.stderr).contains("reviewer `no-sql-tricks` changed the arguments"), "{changed:?}");
    let account = call("mcp_notes_account", &json!({}));
    assert!(text(&account.stdout).contains("ann"), "{account:?}");
    assert!(!text(&account.stdout).contains("correct-horse"), "{account:?}");
    assert!(text(&account.stderr).contains("reviewer `no-tokens` changed the result"), "{account:?}");
    // The same reviewers hold for built-in tools.
    let refused = [
        ("mcp_notes_query", query("FORBIDDEN"), "review-denied", DENIED),
        ("read_file", json!({"path": "FORBIDDEN.txt"}), "review-denied", DENIED),
        ("mcp_notes_query", query("WITHHELD"), "output-denied", WITHHELD),
        ("mcp_notes_query", query("EXIT"), "review-failed", "reviewer `words` failed"),
        ("mcp_notes_query", query("GARBAGE"), "review-failed", "reviewer `words` gave an invalid answer"),
        ("mcp_notes_query", query("BROKEN"), "output-review-failed", "reviewer `words` failed"),
        (
            "mcp_notes_deploy",
            json!({"version": "v1"}),
            "review-failed",
            "reviewer `slow` took longer than 1s",
        ),
    ];
    for (tool, arguments, code, why) in refused {
        let said = call(tool, &arguments);
        assert_eq!(said.status.code(), Some(3), "{tool} {arguments}: {said:?}");
        let told = text(&said.stderr);
        assert!(told.contains(code) && told.contains(why), "{tool} {arguments}: {told}");
        assert!(!text(&said.stdout).contains("ran:"), "{tool} {arguments}: {said:?}");
    }
    assert!(!doors.deployed());
    let shown = doors.stand.json(&["config", "show", "--json"]);
    let reviewers = shown["reviewers"].as_array().unwrap();
    assert_eq!(reviewers.len(), 7, "{shown}");
    assert_eq!(
        (&reviewers[5]["name"], &reviewers[5]["origin"]["kind"], &reviewers[5]["timeout"]),
        (&json!("words"), &json!("user"), &json!(300_000))
    );
    let shown = text(&doors.run(&["config"]).stdout);
    assert!(shown.contains("REVIEWER") && shown.contains("client.*.query"), "{shown}");
}

// req: R2, R12, L3
// door: program
#[test]
fn a_model_reads_the_reviewer_and_its_reason() {
    let doors = fixture();
    let says = vec![
        ("I look.", Some(("read_file", json!({"path": "FORBIDDEN.txt"})))),
        ("I look again.", Some(("bash", bash("echo SLY hello")))),
        ("It says hello.", None),
    ];
    // A pattern is about tools. The turn of the model, with the same word in it, is not one.
    let (said, got) = doors.model(says, &["Read FORBIDDEN.txt."]);
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    assert!(last_message(&got[..2]).contains(DENIED), "{}", last_message(&got[..2]));
    let told = last_message(&got);
    assert!(told.contains("reviewer `no-sly-commands` changed the arguments"), "{told}");
    assert!(told.contains("hello"), "{told}");
}

// req: R1, R2, R3, R12
// door: hook
#[test]
fn a_call_of_an_agent_with_a_hook_is_reviewed() {
    let doors = fixture();
    let agent = AgentKind::ClaudeCode;
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    let file = doors.stand.file("new.txt");
    let ask = |tool: &str, input: &Value, cwd: &str| {
        doors.stand.asks(agent, &said(agent, cwd, tool, input, None), PATIENT_MS)
    };
    let write = |content: &str| json!({"file_path": file, "content": content});
    // The agent gets the changed input, and the reason.
    let changed = ask("Write", &write("SLY hello"), &cwd);
    let answer: Value = serde_json::from_slice(&changed.stdout).unwrap_or_else(|_| panic!("{changed:?}"));
    let answer = &answer["hookSpecificOutput"];
    assert_eq!((&answer["permissionDecision"], &answer["updatedInput"]), (&json!("allow"), &write("hello")));
    assert!(answer["permissionDecisionReason"].to_string().contains("no-sly-text"), "{answer}");
    let notes = doors.stand.file("notes.txt");
    let edit = json!({"file_path": notes, "old_string": "hello", "new_string": "bye"});
    let refused = [
        ("Write", write("FORBIDDEN"), DENIED),
        ("Write", write("EXIT"), "reviewer `words` failed"),
        ("Write", write("GARBAGE"), "reviewer `words` gave an invalid answer"),
        ("Edit", edit, "reviewer `slow` took longer than 1s"),
        ("Bash", bash("echo FORBIDDEN"), DENIED),
    ];
    for (tool, input, why) in refused {
        let told = ask(tool, &input, &cwd);
        assert!(is_denied(agent, &told) && text(&told.stderr).contains(why), "{tool} {input}: {told:?}");
    }
    // A change that moves the call to another directory than the agent's is not passed on.
    let beneath = doors.stand.file("bin").to_str().unwrap().to_owned();
    let moved = ask("Write", &json!({"file_path": "x.txt", "content": "FORGET"}), &beneath);
    assert!(is_denied(agent, &moved) && text(&moved.stderr).contains("another directory"), "{moved:?}");
    // Byleave runs the commands itself, so their results are reviewed as well.
    let run = |command: &str| {
        let told = ask("Bash", &bash(command), &cwd);
        doors.stand.shell(&rewritten(agent, &told).unwrap_or_else(|| panic!("{command}: {told:?}")))
    };
    let ran = run("echo SLY hello");
    assert!(text(&ran.stdout).lines().any(|line| line == "hello"), "{ran:?}");
    let ran = run("echo token=abc12345");
    assert!(text(&ran.stdout).contains("token=[redacted: secret]"), "{ran:?}");
    assert!(!text(&ran.stdout).contains("abc12345"), "{ran:?}");
    let ran = run("echo WITHHELD");
    assert!(!text(&ran.stdout).contains("WITHHELD") && text(&ran.stderr).contains(WITHHELD), "{ran:?}");
    // The report of the agent about its own tool is only recorded.
    let after = said(agent, &cwd, "Write", &write("hello"), Some(&json!("FORBIDDEN")));
    let told = doors.stand.asks(agent, &after, PATIENT_MS);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
}

// req: R1, R2, R3, R12, R11
// door: mcp
#[test]
fn a_call_of_an_mcp_client_is_reviewed() {
    let doors = fixture();
    doors.accept_server();
    let mut gateway = doors.gateway(&[], &json!({}));
    let changed = gateway.call("mcp_notes_query", &query(TRICK));
    let told = crate::mcp::text(&changed);
    assert!(
        told.contains(format!("ran: {STRIPPED}").trim_end()) && told.contains("no-sql-tricks"),
        "{changed}"
    );
    let account = gateway.call("mcp_notes_account", &json!({}));
    assert_eq!(account["structuredContent"], json!({"user": "ann"}), "{account}");
    assert!(!account.to_string().contains("correct-horse"), "{account}");
    let refused = [
        ("mcp_notes_query", query("FORBIDDEN"), "review-denied", DENIED),
        ("read_file", json!({"path": "FORBIDDEN.txt"}), "review-denied", DENIED),
        ("mcp_notes_query", query("WITHHELD"), "output-denied", WITHHELD),
        ("mcp_notes_query", query("EXIT"), "review-failed", "reviewer `words` failed"),
        ("mcp_notes_query", query("GARBAGE"), "review-failed", "reviewer `words` gave an invalid answer"),
        (
            "mcp_notes_deploy",
            json!({"version": "v1"}),
            "review-failed",
            "reviewer `slow` took longer than 1s",
        ),
    ];
    for (tool, arguments, code, why) in refused {
        let said = gateway.call(tool, &arguments);
        assert_eq!(
            (&said["isError"], &said["_meta"]["byleave/code"]),
            (&json!(true), &json!(code)),
            "{said}"
        );
        let told = crate::mcp::text(&said);
        assert!(told.contains(why) && !told.contains("ran:"), "{tool} {arguments}: {said}");
    }
    assert!(!doors.deployed());
}

// req: R1, R2, R3, R12, R11
// door: http
#[test]
fn a_call_over_http_is_reviewed() {
    const CLAIM: &str = "0123456789abcdef";
    let doors = fixture();
    let bot = doors.token(&["bot"]);
    let served = doors.serve();
    let schema = json!({"type": "object", "properties": {"sql": {"type": "string"}}});
    let tool = json!({"description": "Runs a query.", "input_schema": schema, "class": "readonly", "sensitive": false});
    for name in ["query", "slow"] {
        let (status, made) = served.ask(&bot, "PUT", &format!("/v1/client-tools/{name}"), &tool);
        assert!(status < 300, "{made}");
    }
    let settled = |mut status: Value| {
        while status["state"] == "running" {
            let path = format!("/v1/calls/{}?wait=60", status["call"].as_str().unwrap());
            status = served.ask(&bot, "GET", &path, &Value::Null).1;
        }
        status
    };
    // Each call has its own session, because a claimed call blocks its session.
    let submit = |key: &str, tool: &str, arguments: Value, review: Option<Value>| {
        let mut body = json!({"tool": tool, "arguments": arguments, "mode": "yolo", "session": key});
        if let Some(review) = review {
            body["review"] = review;
        }
        settled(
            crate::serve::request(&served.address, &bot, key, "POST", "/v1/calls?wait=60", &body).unwrap().1,
        )
    };
    let claim = |ready: &Value| {
        assert_eq!(ready["state"], "ready", "{ready}");
        let path = format!("/v1/calls/{}/claim?wait=60", ready["call"].as_str().unwrap());
        served.ask(&bot, "POST", &path, &json!({"claim": CLAIM})).1
    };
    let report = |claimed: &Value, text: &str, data: Value| {
        let path = format!("/v1/calls/{}/report?wait=60", claimed["call"].as_str().unwrap());
        settled(served.ask(&bot, "POST", &path, &json!({"claim": CLAIM, "text": text, "data": data})).1)
    };
    let claimed = claim(&submit("changed", "client.bot.query", query(TRICK), None));
    assert_eq!(claimed["arguments"], query(STRIPPED), "{claimed}");
    let data = json!({"user": "ann", "password": "correct-horse", "token": "battery-staple"});
    let done = report(&claimed, "done", data);
    assert_eq!(done["result"]["data"], json!({"user": "ann"}), "{done}");
    // The reviewers of the settings have the last word, after the reviewer of the client.
    let own = json!({"opinion": "change", "arguments": query("select 2;")});
    let claimed = claim(&submit("client", "client.bot.query", query("select 1"), Some(own)));
    assert_eq!(claimed["arguments"], query("select 2"), "{claimed}");
    let withheld = report(&claimed, "WITHHELD", Value::Null);
    assert_eq!(withheld["result"]["outcome"], "withheld", "{withheld}");
    assert_eq!(withheld["result"]["refusal"]["code"], "output-denied", "{withheld}");
    assert!(withheld["result"]["refusal"]["message"].as_str().unwrap().contains(WITHHELD), "{withheld}");
    let refused = [
        ("client.bot.query", query("FORBIDDEN"), "review-denied", DENIED),
        ("read_file", json!({"path": "FORBIDDEN.txt"}), "review-denied", DENIED),
        ("client.bot.query", query("EXIT"), "review-failed", "reviewer `words` failed"),
        ("client.bot.query", query("GARBAGE"), "review-failed", "reviewer `words` gave an invalid answer"),
        ("client.bot.slow", query("x"), "review-failed", "reviewer `slow` took longer than 1s"),
    ];
    for (number, (tool, arguments, code, why)) in refused.into_iter().enumerate() {
        let said = submit(&format!("refused-{number}"), tool, arguments, None);
        assert_eq!(said["result"]["outcome"], "refused", "{said}");
        let refusal = &said["result"]["refusal"];
        assert_eq!(refusal["code"], code, "{said}");
        assert!(refusal["message"].as_str().unwrap().contains(why), "{said}");
    }
    served.stop();
}

// req: R3, R12
// door: program
#[test]
fn a_reviewer_that_cannot_be_built_stops_the_program() {
    let doors = DoorFixture::new("", "");
    doors.put_program("review.py", REVIEW);
    doors.put("../plain.py", REVIEW);
    doors.put("../open.secret", "a secret of some length");
    doors.put("../short.secret", "short");
    for (name, mode) in [("../open.secret", 0o644), ("../short.secret", 0o600)] {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(doors.stand.file(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let program = |path: &str| format!("kind = \"program\"\ncommand = [\"{path}\"]");
    let webhook = |url: &str, secret: &str| {
        format!("kind = \"webhook\"\nurl = \"{url}\"\nsecret_file = \"HOME/{secret}\"")
    };
    let local = "http://127.0.0.1:9/";
    let wrong = [
        (program("HOME/missing.py"), "No such file"),
        (program("HOME"), "is not an executable file"),
        (program("HOME/plain.py"), "chmod u+x"),
        (program("HOME/w/review.py"), "in the workspace, where agents can change it"),
        (webhook(local, "missing.secret"), "missing.secret"),
        (webhook(local, "open.secret"), "other users can read the file"),
        (webhook(local, "short.secret"), "the shared secret has 5 bytes"),
        (webhook("http://reviews.example/", "short.secret"), "must begin with https"),
    ];
    let agent = AgentKind::ClaudeCode;
    for (lines, why) in wrong {
        let settings =
            format!("[[reviewer]]\nname = \"broken\"\ntools = [\"none\"]\non = \"both\"\n{lines}\n");
        doors.set_up(&settings.replace("HOME", doors.home().to_str().unwrap()));
        for words in [
            &["call", "read_file", "--args", r#"{"path":"notes.txt"}"#][..],
            &["mcp", "serve"],
            &["serve", "--listen", "127.0.0.1:0"],
        ] {
            let said = doors.run(words);
            let told = text(&said.stderr);
            assert_eq!(said.status.code(), Some(2), "{words:?}: {said:?}");
            assert!(
                told.contains("cannot use the reviewer `broken`") && told.contains("config.toml:1"),
                "{told}"
            );
            assert!(told.contains(why) && told.contains("hint:"), "{told}");
        }
        let cwd = workspace(&doors).to_str().unwrap().to_owned();
        let read = said(agent, &cwd, "Read", &json!({"file_path": doors.stand.file("notes.txt")}), None);
        let told = doors.stand.asks(agent, &read, PATIENT_MS);
        assert!(is_denied(agent, &told) && text(&told.stderr).contains("broken"), "{told:?}");
    }
}
