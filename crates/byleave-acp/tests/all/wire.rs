//! Tests, line by line, which messages the proxy forwards, blocks and answers.

use byleave_acp::ProxyError;
use byleave_gate::core::call::Mode;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::pipes::between;

const ALL: [(&str, &str); 4] =
    [("y", "allow_once"), ("Y", "allow_always"), ("n", "reject_once"), ("N", "reject_always")];

fn asks(id: i64, call: Value, options: &[(&str, &str)]) -> String {
    let options: Vec<Value> =
        options.iter().map(|(id, kind)| json!({ "optionId": id, "name": id, "kind": kind })).collect();
    let mut call = call;
    call["toolCallId"] = "t".into();
    let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params })
        .to_string()
}

fn runs(command: &str) -> Value {
    json!({ "kind": "execute", "title": "harmless, honestly", "rawInput": { "command": command } })
}

// req: M2
#[tokio::test]
async fn everything_else_passes_byte_for_byte() {
    let mut between = between(Mode::ConfirmSensitive, false);
    for line in [
        r#"{"jsonrpc":"2.0",  "id":1,"method":"initialize","params":{"protocolVersion":1,"odd":[1.0,1e3]}}"#,
        r#"{"method":"session/prompt","id":"zwei","jsonrpc":"2.0","params":{"prompt":"räum auf \u00e9"},"_new":{}}"#,
        "not JSON at all",
    ] {
        between.editor.say(line).await;
        assert_eq!(between.agent.hear().await.unwrap(), line);
    }
    for line in [
        r#"{"jsonrpc":"2.0",  "id":1,"result":{"protocolVersion":1,"x":0.12345678901234567890}}"#,
        r#"{"method":"session/update","jsonrpc":"2.0","params":{"update":"é"},"_new":{}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"fs/read_text_file","params":{"path":"/tmp/x"}}"#,
        r#"{"jsonrpc":"2.0","id":"zwei","error":{"code":-1,"message":"no"}}"#,
    ] {
        between.agent.say(line).await;
        assert_eq!(between.editor.hear().await.unwrap(), line);
    }
    // When one side closes, the proxy closes the other.
    between.editor.writes.shutdown().await.unwrap();
    assert_eq!(between.agent.hear().await, None);
    between.agent.writes.shutdown().await.unwrap();
    assert_eq!(between.editor.hear().await, None);
    between.proxy.await.unwrap().unwrap();
}

// req: M2
#[tokio::test]
async fn leave_is_given_by_policy_once_and_never_for_good() {
    let mut between = between(Mode::ConfirmSensitive, false);
    let cases = [
        (runs("git status"), &ALL[..], json!({ "outcome": "selected", "optionId": "y" })),
        // The built-in rules deny this, regardless of the kind that the agent declares.
        (
            json!({ "kind": "read", "rawInput": { "command": "rm -rf /" } }),
            &ALL,
            json!({ "outcome": "selected", "optionId": "n" }),
        ),
        (
            json!({ "kind": "read", "rawInput": { "file_path": "/home/ann/.ssh/id_rsa" } }),
            &ALL,
            json!({ "outcome": "selected", "optionId": "n" }),
        ),
        // A person would have to be asked, but none is available.
        (
            json!({ "kind": "read", "title": "just looks" }),
            &ALL,
            json!({ "outcome": "selected", "optionId": "n" }),
        ),
        (
            runs("git status"),
            &[("Y", "allow_always"), ("n", "reject_once")],
            json!({ "outcome": "selected", "optionId": "n" }),
        ),
        (runs("git status"), &[("Y", "allow_always")], json!({ "outcome": "cancelled" })),
        (runs("rm -rf /"), &[("y", "allow_once"), ("N", "reject_always")], json!({ "outcome": "cancelled" })),
    ];
    for (number, (call, options, outcome)) in cases.into_iter().enumerate() {
        let id = i64::try_from(number).unwrap();
        between.agent.say(&asks(id, call.clone(), options)).await;
        let answer = between.agent.hear_json().await;
        assert_eq!((&answer["id"], &answer["result"]["outcome"]), (&json!(id), &outcome), "{call}: {answer}");
        assert_eq!(
            answer["result"]["_meta"]["byleave"]["reason"].is_null(),
            outcome["optionId"] == "y",
            "{answer}"
        );
    }
    between.agent.say(r#"{"id":9,"method":"session/request_permission","params":{"sessionId":3}}"#).await;
    assert_eq!(between.agent.hear_json().await["error"]["code"], -32602);
    // The editor has received none of these requests.
    between.agent.say(r#"{"method":"end"}"#).await;
    assert_eq!(between.editor.hear().await.unwrap(), r#"{"method":"end"}"#);
}

// req: M2, R3
#[tokio::test]
async fn the_editor_is_asked_where_that_is_wanted_and_only_for_once() {
    let mut between = between(Mode::ConfirmSensitive, true);
    // Each call differs, because a refused call is not asked about again.
    let unclear = |id: i64| json!({ "kind": "other", "title": format!("something {id}") });
    for (id, answer, wanted) in [
        (1, json!({ "outcome": "selected", "optionId": "y" }), "y"),
        (2, json!({ "outcome": "selected", "optionId": "n" }), "n"),
        // The answer names an option that was not offered, is not valid, or is missing.
        (3, json!({ "outcome": "selected", "optionId": "Y" }), "n"),
        (4, json!({ "outcome": "cancelled" }), "n"),
        (5, json!("yes"), "n"),
    ] {
        between.agent.say(&asks(id, unclear(id), &ALL)).await;
        let asked = between.editor.hear_json().await;
        let kinds: Vec<&str> = asked["params"]["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|option| option["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["allow_once", "reject_once"]);
        assert_eq!(asked["params"]["toolCall"]["title"], format!("something {id}"));
        between
            .editor
            .say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "outcome": answer } }).to_string())
            .await;
        let told = between.agent.hear_json().await;
        assert_eq!(
            (&told["id"], &told["result"]["outcome"]["optionId"]),
            (&json!(id), &json!(wanted)),
            "{told}"
        );
    }
    // The proxy does not ask about calls that are denied or allowed.
    for (command, wanted) in [("rm -rf /", "n"), ("git status", "y")] {
        between.agent.say(&asks(6, runs(command), &ALL)).await;
        assert_eq!(between.agent.hear_json().await["result"]["outcome"]["optionId"], wanted);
    }
    // The person cancelled the whole turn.
    between.agent.say(&asks(7, unclear(7), &ALL)).await;
    between.editor.hear_json().await;
    between.editor.say(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#).await;
    let mut heard = [between.agent.hear_json().await, between.agent.hear_json().await];
    heard.sort_by_key(|line| line["method"].is_null());
    assert_eq!(heard[0]["method"], "session/cancel");
    assert_eq!(heard[1]["result"]["outcome"], json!({ "outcome": "cancelled" }));
}

// req: M2
#[tokio::test]
async fn a_write_is_judged_before_it_is_passed_on() {
    let write = |path: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,  "method":"fs/write_text_file","params":{{"sessionId":"s","path":"{path}","content":"x"}}}}"#
        )
    };
    let mut free = between(Mode::Yolo, false);
    let line = write("/tmp/acp-x");
    free.agent.say(&line).await;
    assert_eq!(free.editor.hear().await.unwrap(), line);
    free.editor.say(r#"{"jsonrpc":"2.0","id":1,"result":null}"#).await;
    assert_eq!(free.agent.hear().await.unwrap(), r#"{"jsonrpc":"2.0","id":1,"result":null}"#);
    free.agent.say(&write("/home/ann/.ssh/authorized_keys")).await;
    let told = free.agent.hear_json().await;
    assert_eq!(told["error"]["code"], -32000, "{told}");
    let mut careful = between(Mode::ConfirmAll, false);
    careful.agent.say(&line).await;
    assert!(careful.agent.hear_json().await["error"]["message"].is_string());
}

// req: M2
#[tokio::test]
async fn a_line_that_cannot_be_judged_ends_it_and_is_not_passed_on() {
    for line in [
        r#"{"id":1,"method":"a","method":"fs/write_text_file","params":{}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"fs/write_text_file","params":{}}]"#,
        r#"{"jsonrpc":"2.0","method":"fs/write_text_file","params":{"sessionId":"s","path":"/tmp/x","content":"x"}}"#,
        "garbage",
    ] {
        let mut between = between(Mode::Yolo, false);
        between.agent.say(line).await;
        assert_eq!(between.editor.hear().await, None, "{line}");
        assert!(matches!(between.proxy.await.unwrap(), Err(ProxyError::InvalidMessage)), "{line}");
    }
}

// req: M2, P2
#[tokio::test]
async fn a_session_is_judged_where_it_works() {
    let there = tempfile::tempdir().unwrap();
    let there = there.path().canonicalize().unwrap();
    let mut between = between(Mode::ConfirmDangerous, false);
    // Paths are resolved against the session's directory, not the one in which the proxy was started.
    let edit = json!({ "kind": "edit", "rawInput": { "file_path": "a", "content": "x" } });
    let new = json!({ "id": 1, "method": "session/new", "params": { "cwd": there, "mcpServers": [] } });
    between.editor.say(&new.to_string()).await;
    between.agent.hear().await.unwrap();
    between.agent.say(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#).await;
    between.editor.hear().await.unwrap();
    between.agent.say(&asks(2, edit, &ALL)).await;
    let told = between.agent.hear_json().await;
    assert_eq!(told["result"]["outcome"]["optionId"], "y", "{told}");
    // If the session's directory does not exist, the proxy evaluates and allows nothing.
    between
        .editor
        .say(r#"{"id":3,"method":"session/load","params":{"sessionId":"s","cwd":"/nowhere/at/all"}}"#)
        .await;
    between.agent.hear().await.unwrap();
    between.agent.say(&asks(4, runs("git status"), &ALL)).await;
    let told = between.agent.hear_json().await;
    assert_eq!(told["result"]["outcome"]["optionId"], "n", "{told}");
}
