//! Tools of accepted MCP servers (M3) are in every catalog of the program.

use serde_json::{Value, json};

use super::{DoorFixture, last_message, text};

const DEPLOY: &str = r#"{"version":"v1"}"#;

// req: M1, M3
// door: program
#[test]
fn tools_of_an_accepted_server_are_listed_and_called() {
    let doors = DoorFixture::new("", "");
    let server = doors.stand.file("server.py");
    let added = doors.run(&["mcp", "add", "notes", "--", "python3", server.to_str().unwrap()]);
    assert!(added.status.success(), "{added:?}");
    // Before it is accepted it is not started, and the person reads what to do.
    let unknown = doors.run(&["call", "mcp_notes_deploy", "--args", DEPLOY]);
    assert_eq!(unknown.status.code(), Some(3), "{unknown:?}");
    let why = text(&unknown.stderr);
    assert!(why.contains("not accepted") && why.contains("byleave mcp trust notes"), "{why}");
    doors.run(&["mcp", "remove", "notes"]);
    doors.accept_server();
    let listed = text(&doors.run(&["tools"]).stdout);
    assert!(listed.contains("mcp_notes_read") && !listed.contains("mcp_accept"), "{listed}");
    let schemas = text(&doors.run(&["tools", "schema", "--format", "openai", "mcp_notes_deploy"]).stdout);
    assert!(schemas.contains("\"version\""), "{schemas}");
    // Sensitive by default: a person is asked, and whoever answers starts the server again.
    let refused = doors.run(&["call", "mcp_notes_deploy", "--args", DEPLOY]);
    assert!(text(&refused.stderr).contains("no-approver"), "{refused:?}");
    let waits = doors.run(&["call", "mcp_notes_deploy", "--ask", "inbox", "--args", DEPLOY]);
    assert_eq!(waits.status.code(), Some(4), "{waits:?}");
    let done = doors.run(&["inbox", "answer", &doors.stand.question(), "yes"]);
    assert_eq!((done.status.code(), text(&done.stdout).trim()), (Some(0), "deployed v1"), "{done:?}");
    let invalid = doors.run(&["call", "mcp_notes_deploy", "--args", r#"{"version":7}"#]);
    assert!(text(&invalid.stderr).contains("arguments-invalid"), "{invalid:?}");
}

// req: M2, M3, L3, L9
// door: program
#[test]
fn a_model_is_offered_the_tools_of_accepted_servers() {
    let doors = DoorFixture::new("mode = \"yolo\"\n", "");
    doors.accept_server();
    let says = vec![
        ("I read it.", Some(("mcp_notes_read", json!({"target": "notes.txt"})))),
        ("I read another.", Some(("mcp_notes_read", json!({"target": "nothing.txt"})))),
        ("It says hello.", None),
    ];
    let (said, got) = doors.model(says, &["Read it."]);
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let offered: Vec<&str> = got[0]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool: &Value| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert!(offered.contains(&"mcp_notes_read") && !offered.contains(&"mcp_accept"), "{offered:?}");
    assert!(last_message(&got[..2]).contains("hello"), "{}", last_message(&got[..2]));
    // The error of a server is a result like any other, and the model goes on.
    assert!(last_message(&got).contains("No such file"), "{}", last_message(&got));
}
