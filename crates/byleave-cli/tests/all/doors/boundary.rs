//! The workspace boundary (P4): in a mode that does not ask, no tool leaves the workspace, whatever its arguments are called.

use serde_json::{Value, json};

use super::{DoorFixture, args, last_message, text};

const YOLO: &str = "mode = \"yolo\"\n";

/// Returns every path that leads to the file outside.
fn ways(doors: &DoorFixture) -> Vec<String> {
    doors.outside();
    let absolute = doors.stand.file("../outside/f.txt").canonicalize().unwrap();
    vec!["../outside/f.txt".into(), "door/f.txt".into(), absolute.to_str().unwrap().to_owned()]
}

// req: P4, B7, M3
// door: program
#[test]
fn a_call_stays_in_the_workspace() {
    let doors = DoorFixture::new(YOLO, "");
    doors.accept_server();
    for way in ways(&doors) {
        for (tool, key) in [("read_file", "path"), ("mcp_notes_read", "target")] {
            let said = doors.run(&["call", tool, "--args", &args(&json!({ key: way }))]);
            let why = text(&said.stderr);
            assert_eq!(said.status.code(), Some(3), "{tool} {way}: {said:?}");
            assert!(why.contains("outside-workspace") && why.contains("[[rule]]"), "{tool} {way}: {why}");
            assert!(!text(&said.stdout).contains("MARKER"), "{said:?}");
        }
    }
    let inside = doors.run(&["call", "mcp_notes_read", "--args", r#"{"target":"notes.txt"}"#]);
    assert_eq!((inside.status.code(), text(&inside.stdout).trim()), (Some(0), "hello"), "{inside:?}");
}

// req: P4, L3
// door: program
#[test]
fn a_model_stays_in_the_workspace_and_goes_on() {
    let doors = DoorFixture::new(YOLO, "");
    doors.outside();
    let says =
        vec![("I look.", Some(("read_file", json!({"path": "door/f.txt"})))), ("I cannot read it.", None)];
    let (said, got) = doors.model(says, &["Read it."]);
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let told = last_message(&got);
    assert!(told.contains("outside-workspace") && !told.contains("MARKER"), "{told}");
}

// req: P4, M2, M3
// door: mcp
#[test]
fn an_mcp_client_stays_in_the_workspace() {
    let doors = DoorFixture::new(YOLO, "");
    doors.accept_server();
    let ways = ways(&doors);
    let mut gateway = doors.gateway(&[], &json!({}));
    for way in ways {
        for (tool, key) in [("read_file", "path"), ("mcp_notes_read", "target")] {
            let said = gateway.call(tool, &json!({ key: way }));
            assert_eq!(said["_meta"]["byleave/code"], "outside-workspace", "{tool} {way}: {said}");
            assert!(!said.to_string().contains("MARKER"), "{said}");
        }
    }
    let inside = gateway.call("mcp_notes_read", &json!({"target": "notes.txt"}));
    assert_eq!(crate::mcp::text(&inside), "hello", "{inside}");
}

// req: P4, B7
// door: http
#[test]
fn a_tool_of_an_http_client_stays_in_the_workspace() {
    let doors = DoorFixture::new(YOLO, "");
    let (ways, bot) = (ways(&doors), doors.token(&["bot"]));
    let served = doors.serve();
    let schema = json!({"type": "object", "properties": {"target": {"type": "string"}}});
    let undeclared = json!({"description": "Opens something.", "input_schema": schema});
    let (status, made) = served.ask(&bot, "PUT", "/v1/client-tools/open", &undeclared);
    assert!(status < 300, "{made}");
    let call = |key: &str, tool: &str, arguments: Value| {
        let body = json!({"tool": tool, "arguments": arguments, "mode": "yolo", "session": key});
        crate::serve::request(&served.address, &bot, key, "POST", "/v1/calls?wait=60", &body).unwrap().1
    };
    for (number, way) in ways.iter().enumerate() {
        for (tool, name) in [("read_file", "path"), ("client.bot.open", "target")] {
            let said = call(&format!("{number}-{tool}"), tool, json!({ name: way }));
            assert_eq!(said["result"]["refusal"]["code"], "outside-workspace", "{tool} {way}: {said}");
        }
    }
    let inside = call("inside", "client.bot.open", json!({"target": "notes.txt"}));
    assert_eq!(inside["state"], "ready", "the client may run it: {inside}");
    served.stop();
}
