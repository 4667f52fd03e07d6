//! Small promises of the doors: what is offered can be used, what is missing is explained, and a killed terminal blocks nobody.

use serde_json::{Value, json};

use super::{DoorFixture, args, bash, last_message, text};

const YOLO: &str = "mode = \"yolo\"\n";
const DELETE: &str = r#"{"path":"notes.txt"}"#;
const KEY_END: &str = "\u{1b}[F";

/// Returns the state and the code of a call.
fn fate(doors: &DoorFixture, call: &str) -> (String, String) {
    let listed = doors.stand.json(&["log", "--json"]);
    let one = listed.as_array().unwrap().iter().find(|item| item["call"] == call).unwrap().clone();
    (one["state"].as_str().unwrap().to_owned(), one["code"].as_str().unwrap_or_default().to_owned())
}

fn newest_call(doors: &DoorFixture) -> String {
    doors.stand.json(&["log", "--json"])[0]["call"].as_str().unwrap().to_owned()
}

// req: L9, G4
// door: program
#[test]
fn a_model_is_offered_only_what_it_can_use() {
    let doors = DoorFixture::new(YOLO, "");
    let says = vec![("I echo.", Some(("echo", json!({"text": "hi"})))), ("It is not there.", None)];
    let (said, got) = doors.model(says, &["Echo."]);
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let offered = got[0]["tools"].as_array().unwrap();
    let named = |name: &str| offered.iter().find(|tool| tool["function"]["name"] == name);
    assert!(named("echo").is_none() && named("append_line").is_none(), "{offered:?}");
    let bash = named("bash").unwrap().to_string();
    assert!(!bash.contains("background") && bash.contains("timeout"), "{bash}");
    assert!(last_message(&got).contains("tool-unknown"), "{}", last_message(&got));
    // A person can still try things out.
    let tried = doors.run(&["call", "echo", "--args", r#"{"text":"hi"}"#]);
    assert_eq!(text(&tried.stdout).trim(), "hi", "{tried:?}");
    // And start a job, which the call holds.
    let job = doors.run(&["call", "bash", "--args", r#"{"command":"true","background":true}"#]);
    assert!(text(&job.stdout).contains("the background job ran"), "{job:?}");
}

// req: L9
// door: mcp
#[test]
fn an_mcp_client_is_offered_only_what_it_can_use() {
    let doors = DoorFixture::new(YOLO, "");
    let mut gateway = doors.gateway(&[], &json!({}));
    let listed = gateway.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == name);
    assert!(named("echo").is_none() && named("append_line").is_none(), "{tools:?}");
    assert!(named("bash").unwrap()["inputSchema"]["properties"].get("background").is_none(), "{tools:?}");
}

// req: B2, G1, L3
// door: program
#[test]
fn a_disabled_delete_says_what_enables_it() {
    let doors = DoorFixture::new(YOLO, "");
    let refused = doors.run(&["call", "delete_file", "--args", DELETE]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let why = text(&refused.stderr);
    assert!(why.contains("is disabled") && why.contains("allow_delete"), "{why}");
    assert!(!why.contains("did you mean") && why.contains("BYLEAVE_ALLOW_DELETE=1"), "{why}");
    let shown = doors.run(&["tools", "show", "delete_file"]);
    assert!(text(&shown.stderr).contains("allow_delete"), "{shown:?}");
    let delete: Value = serde_json::from_str(DELETE).unwrap();
    let says = vec![("I delete it.", Some(("delete_file", delete))), ("I cannot.", None)];
    let (_, got) = doors.model(says, &["Delete it."]);
    let told = last_message(&got);
    assert!(told.contains("is disabled") && told.contains("allow_delete"), "{told}");
    // Enabled, it deletes, and that can be undone.
    doors.put("../.config/byleave/config.toml", "mode = \"yolo\"\nallow_delete = true\n");
    let done = doors.run(&["call", "delete_file", "--args", DELETE]);
    assert_eq!((done.status.code(), doors.stand.file("notes.txt").exists()), (Some(0), false), "{done:?}");
}

// req: E6
// door: program
#[test]
fn the_json_of_a_call_says_whether_it_can_be_undone() {
    let doors = DoorFixture::new(YOLO, "");
    let call = |tool: &str, arguments: &Value| {
        let said = doors.run(&["call", tool, "--json", "--args", &args(arguments)]);
        serde_json::from_slice::<Value>(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"))
    };
    let written = call("write_file", &json!({"path": "new.txt", "content": "x"}));
    assert_eq!(written["undoable"], true, "{written}");
    let command = written["undo"].as_str().unwrap().to_owned();
    let read = call("read_file", &json!({"path": "new.txt"}));
    assert_eq!((&read["undoable"], &read["undo"]), (&json!(false), &Value::Null), "{read}");
    // The command is complete.
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let undone = doors.run(&words);
    assert_eq!((undone.status.code(), doors.stand.file("new.txt").exists()), (Some(0), false), "{undone:?}");
    let plain = doors.run(&["call", "write_file", "--args", r#"{"path":"two.txt","content":"x"}"#]);
    assert!(text(&plain.stderr).contains("byleave undo "), "{plain:?}");
}

// req: M1
// door: program
#[test]
fn servers_are_listed_in_columns() {
    let doors = DoorFixture::new("", "");
    let long = "a-server-with-a-rather-long-name";
    for name in ["notes", long] {
        let added = doors.run(&["mcp", "add", name, "--", "python3", "server.py"]);
        assert!(added.status.success(), "{added:?}");
    }
    let listed = text(&doors.run(&["mcp", "list"]).stdout);
    let columns: Vec<Option<usize>> =
        listed.lines().map(|line| line.find("python3").or_else(|| line.find("STARTED BY"))).collect();
    assert_eq!(columns.len(), 3, "{listed}");
    assert!(columns.iter().all(|column| column.is_some() && *column == columns[0]), "{listed}");
}

// req: M3, R5
// door: program
#[test]
fn a_killed_trust_leaves_nothing_in_the_way_of_the_next() {
    let doors = DoorFixture::new("", "");
    let server = doors.stand.file("server.py");
    let added = doors.run(&["mcp", "add", "notes", "--", "python3", server.to_str().unwrap()]);
    assert!(added.status.success(), "{added:?}");
    let mut killed = doors.at_terminal(&["mcp", "trust", "notes"]);
    assert!(killed.asks());
    killed.kill();
    let older = newest_call(&doors);
    assert_eq!(fate(&doors, &older).0, "waiting");
    let mut sitting = doors.at_terminal(&["mcp", "trust", "notes"]);
    let mut questions = 0;
    while sitting.asks() {
        questions += 1;
        sitting.press(KEY_END);
        sitting.choose("y", "yes");
        sitting.await_shown("type “for good”");
        sitting.press("for good\r");
        sitting.await_screen("the question is gone", |screen| !screen.contains("for good"));
    }
    let (code, seen) = sitting.end();
    // One question about the start, and one about the tools.
    assert_eq!((code, questions), (Some(0), 2), "{seen}");
    assert_eq!(fate(&doors, &older), ("settled".into(), "cancelled".into()));
    assert_eq!(doors.stand.json(&["inbox", "--json"]), json!([]));
}

// req: R5, E4
// door: program
#[test]
fn a_question_of_a_killed_terminal_does_not_block_its_session() {
    let doors = DoorFixture::new("", "");
    let touch = args(&bash("touch made"));
    let call = ["call", "bash", "--args", &touch];
    let mut killed = doors.at_terminal(&call);
    assert!(killed.asks());
    killed.kill();
    let older = newest_call(&doors);
    assert_eq!(fate(&doors, &older).0, "waiting");
    // Another session does not touch it.
    let mut other = doors.at_terminal(&[&call[..], &["--session", "other"]].concat());
    assert!(other.asks());
    assert_eq!(fate(&doors, &older).0, "waiting");
    other.press(KEY_END);
    other.choose("n", "no");
    other.await_shown("What should the model do instead?");
    other.press("\r");
    assert_eq!(other.end().0, Some(3));
    let mut sitting = doors.at_terminal(&call);
    assert!(sitting.asks(), "{}", sitting.seen);
    assert_eq!(fate(&doors, &older), ("settled".into(), "cancelled".into()));
    sitting.press(KEY_END);
    sitting.choose("y", "yes");
    let (code, seen) = sitting.end();
    assert_eq!((code, doors.stand.file("made").exists()), (Some(0), true), "{seen}");
    assert!(seen.contains("was cancelled"), "{seen}");
}

// req: R5, E4
// door: program
#[test]
fn a_question_in_the_inbox_is_never_cancelled_by_the_next_call() {
    let doors = DoorFixture::new("", "");
    let touch = args(&bash("touch made"));
    let waits = doors.run(&["call", "bash", "--ask", "inbox", "--args", &touch]);
    assert_eq!(waits.status.code(), Some(4), "{waits:?}");
    let older = newest_call(&doors);
    let (code, seen) = doors.at_terminal(&["call", "bash", "--args", &touch]).end();
    assert_eq!(code, Some(4), "{seen}");
    assert!(seen.contains("must finish first"), "{seen}");
    assert_eq!(fate(&doors, &older).0, "waiting");
}
