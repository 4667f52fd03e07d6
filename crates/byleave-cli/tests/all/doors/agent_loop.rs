//! The loop of the program's own agent, and dry runs through every door that has sessions.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{DoorFixture, SERVER, bash, last_message, text};
use crate::mcp::{self, McpProcess};
use crate::provider::{FakeModel, ScriptedTurn};
use crate::strict_json;

const APPLY: &str = "kubectl apply -f app.yaml";
/// Not even `yolo` runs the command without a release.
const CHECKPOINT: &str = r#"
[[rule]]
id = "production"
verdict = "ask"
run = "kubectl apply"
checkpoint = true
reason = "this changes production"
"#;

fn writes() -> Value {
    json!({"path": "new.txt", "content": "new"})
}

/// Returns the events that `--json` printed.
fn events(printed: &[u8]) -> Vec<Value> {
    text(printed).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

// req: L10, E5, P2, R8
// door: program
#[test]
fn a_dry_run_of_a_whole_task_tells_every_call_and_changes_nothing() {
    let doors = DoorFixture::new("", CHECKPOINT);
    let says: Vec<ScriptedTurn> = vec![
        ("I write.", Some(("write_file", writes()))),
        ("I deploy.", Some(("bash", bash(APPLY)))),
        ("I read.", Some(("read_file", json!({"path": "notes.txt"})))),
        ("I wipe.", Some(("bash", bash("rm -rf /")))),
        ("Done.", None),
    ];
    let model = FakeModel::new(says);
    let done = doors.run_with(&model, &["--dry-run", "--json", "Do it."]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(!doors.stand.file("new.txt").exists() && !doors.deployed());
    let got = model.got();
    for (turn, tool) in [(2, "write_file"), (3, "bash"), (4, "read_file")] {
        let told = last_message(&got[..turn]);
        assert!(told.contains(&format!("[DRY-RUN] {tool}")) && told.contains("[DRY-RUN] would"), "{told}");
        assert!(told.contains(r#"\"success\":true"#), "{told}");
    }
    // A deny is a deny, also in a dry run.
    assert!(last_message(&got).contains("refused:"), "{}", last_message(&got));
    assert_eq!(doors.stand.json(&["inbox", "--json"]), json!([]));
    let events = events(&done.stdout);
    assert_eq!((&events[0]["event"], &events[0]["dry_run"]), (&json!("session"), &json!(true)));
    let called: Vec<&Value> = events.iter().filter(|event| event["event"] == "called").collect();
    let outcomes: Vec<&Value> = called.iter().map(|event| &event["outcome"]).collect();
    assert_eq!(outcomes, ["dry-run", "dry-run", "dry-run", "refused"]);
    assert!(!called[0]["effects"].as_array().unwrap().is_empty(), "{}", called[0]);
    // The turns of the model really ran.
    let log = doors.stand.json(&["log", "--json"]);
    let turns: Vec<&Value> =
        log.as_array().unwrap().iter().filter(|call| call["tool"] == "model_turn").collect();
    assert!(turns.len() == 5 && turns.iter().all(|turn| turn["outcome"] == "completed"), "{log}");

    // A dry run is never continued as a real conversation.
    let session = events[0]["session"].as_str().unwrap();
    let real = doors.run_with(&model, &["--resume", session, "Now really."]);
    let told = text(&real.stderr);
    assert!(real.status.code() == Some(2) && told.contains("continue it with `--dry-run`"), "{told}");
    assert_eq!(model.got().len(), 5);
    let again = doors.run_with(&model, &["--resume", session, "--dry-run", "Again."]);
    assert_eq!((again.status.code(), model.got().len()), (Some(0), 6), "{again:?}");

    // For a person, every call has its lines.
    let says = vec![("I write.", Some(("write_file", writes()))), ("Done.", None)];
    let (done, _) = doors.model(says, &["--dry-run", "Do it."]);
    let told = text(&done.stderr);
    assert!(told.contains("a dry run: nothing is executed"), "{told}");
    assert!(told.contains("[DRY-RUN] write_file {") && told.contains("[DRY-RUN] would write"), "{told}");
}

// req: L10, L5
// door: program
#[test]
fn a_chat_shows_that_it_is_a_dry_run() {
    let doors = DoorFixture::new("", "");
    let model = FakeModel::new(vec![("I deploy.", Some(("bash", bash(APPLY)))), ("Deployed.", None)]);
    let mut sitting = doors.at_terminal_with(&model, &["agent", "chat", "--dry-run"]);
    sitting.await_shown("Byleave chat (dry run)");
    sitting.await_shown("nothing is executed");
    sitting.press("Deploy.\r");
    sitting.await_shown("[DRY-RUN] would");
    sitting.await_shown("Deployed.");
    sitting.await_shown("2 turns");
    sitting.press("\u{4}");
    let (code, seen) = sitting.end();
    assert!(code == Some(0) && seen.contains("byleave agent chat --dry-run --resume"), "{seen}");
    assert!(!doors.deployed() && last_message(&model.got()).contains("[DRY-RUN] bash"));
}

// req: L10, E5
// door: mcp
#[test]
fn a_dry_run_of_the_gateway_runs_nothing_and_picks_up_no_waiting_call() {
    let doors = DoorFixture::new("", "");
    doors.accept_server();
    let version = json!({"version": "v1"});
    // A call of another session was approved, and waits for its client to come back.
    let mut real = doors.gateway(&["--deadline", "2"], &json!({}));
    assert!(real.call("mcp_notes_deploy", &version)["_meta"]["byleave/pending"].is_object());
    assert_eq!(real.ends(), Some(0));
    doors.run(&["inbox", "answer", &doors.stand.question(), "yes"]);

    let mut dry = doors.gateway(&["--dry-run"], &json!({}));
    for (tool, arguments) in
        [("mcp_notes_deploy", version.clone()), ("write_file", writes()), ("bash", bash(APPLY))]
    {
        let told = dry.call(tool, &arguments);
        assert!(mcp::text(&told).starts_with(&format!("[DRY-RUN] {tool} ")), "{told}");
        assert_eq!(told["isError"], false, "{told}");
    }
    assert_eq!(dry.ends(), Some(0));
    assert!(!doors.stand.file("new.txt").exists() && !doors.deployed());
    assert_eq!(doors.stand.json(&["inbox", "--json"]), json!([]));
    let mut real = doors.gateway(&["--deadline", "120"], &json!({}));
    let picked_up = real.call("mcp_notes_deploy", &version);
    assert!(mcp::text(&picked_up).contains("deployed v1"), "{picked_up}");
    assert_eq!(real.ends(), Some(0));
}

// req: L10, E5
// door: mcp
#[test]
fn a_dry_run_in_front_of_one_server_accepts_nothing_for_later() {
    let doors = DoorFixture::new("", "");
    let server = doors.stand.file("server.py");
    let words = ["mcp", "wrap", "--dry-run", "--", "python3", server.to_str().unwrap()];
    let mut wrapped = McpProcess::spawn(doors.command(&words));
    let client = json!({"name": "tester", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    wrapped.ask("initialize", &params);
    wrapped.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let told = wrapped.call("deploy", &json!({"version": "v1"}));
    assert!(mcp::text(&told).starts_with("[DRY-RUN] "), "{told}");
    assert_eq!(wrapped.ends(), Some(0));
    assert!(!doors.deployed() && !doors.stand.desk.world.state().join("mcp-pins.json").exists());
}

// req: R5, L5
// door: program
#[test]
fn a_question_shows_the_words_of_the_model_before_its_call_as_such() {
    let doors = DoorFixture::new("", "");
    let says =
        vec![("The new version is tested, so I deploy it.", Some(("bash", bash(APPLY)))), ("Done.", None)];
    let (waits, _) = doors.model(says, &["--ask", "inbox", "Deploy."]);
    assert_eq!(waits.status.code(), Some(4), "{waits:?}");
    let shown = text(&doors.run(&["inbox", "show", &doors.stand.question()]).stdout);
    let (_, words) = shown.split_once("The model's own explanation (not verified)").unwrap();
    assert!(words.contains("The new version is tested, so I deploy it."), "{shown}");
}

// req: R6, R7
// door: program
#[test]
fn every_approval_is_an_event_before_the_result_of_its_call() {
    let doors = DoorFixture::new("", "");
    let writes = |name: &str| json!({"path": name, "content": "new"});
    let says = vec![
        ("I write.", Some(("write_file", writes("one.txt")))),
        ("I write more.", Some(("write_file", writes("two.txt")))),
        ("I read.", Some(("read_file", json!({"path": "notes.txt"})))),
        ("Done.", None),
    ];
    let model = FakeModel::new(says);
    // The questions are on the terminal, and the events go to a file.
    let file = doors.stand.file("../events.jsonl");
    let line =
        format!("{} agent run --json 'Do it.' > {}", doors.stand.desk.program.display(), file.display());
    let mut sitting = doors.shell_at_terminal(&model, &line);
    assert!(sitting.asks());
    sitting.press("\u{1b}[F");
    sitting.choose("y", "yes");
    sitting.await_screen("the question is gone", |screen| !screen.contains("x abort"));
    assert!(sitting.asks());
    sitting.choose("n", "no");
    sitting.await_shown("What should the model do instead?");
    sitting.press("\r");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    let events = events(&std::fs::read(&file).unwrap());
    let told: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| event["event"] == "tool_approval" || event["event"] == "called")
        .map(|event| (event["event"].as_str().unwrap(), event["tool"].as_str().unwrap()))
        .collect();
    let (approval, called) = ("tool_approval", "called");
    let expected = [
        (approval, "write_file"),
        (called, "write_file"),
        (approval, "write_file"),
        (called, "write_file"),
        (called, "read_file"),
    ];
    assert_eq!(told, expected);
    let approvals: Vec<&Value> = events.iter().filter(|event| event["event"] == approval).collect();
    assert_eq!((&approvals[0]["parameters"], &approvals[0]["approved"]), (&writes("one.txt"), &json!(true)));
    assert_eq!((&approvals[1]["parameters"], &approvals[1]["approved"]), (&writes("two.txt"), &json!(false)));
    let calls: Vec<&Value> = events.iter().filter(|event| event["event"] == "calling").collect();
    assert_eq!((&approvals[0]["call"], &approvals[1]["call"]), (&calls[0]["call"], &calls[1]["call"]));
    assert!(doors.stand.file("one.txt").exists() && !doors.stand.file("two.txt").exists());
}

// req: L9, G3, M3
// door: program
#[test]
fn with_many_tools_a_model_searches_before_it_calls() {
    let doors = DoorFixture::new("mode = \"yolo\"\n", "");
    let many = "TOOLS = [{\"name\": \"task%d\" % n, \"description\": \"Does something.\", \"inputSchema\": {\"type\": \"object\"}} for n in range(60)] + [";
    doors.put("server.py", &SERVER.replacen("TOOLS = [", many, 1));
    doors.accept_server();
    let says = vec![
        ("I look for a tool.", Some(("tool_search", json!({"query": "mcp_notes_deploy", "limit": 1})))),
        ("I deploy.", Some(("mcp_notes_deploy", json!({"version": "v7"})))),
        ("Done.", None),
    ];
    let (said, got) = doors.model(says, &["Deploy."]);
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let offered = |request: usize| -> Vec<&str> {
        let tools = got[request]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
    };
    let mut expected = vec!["bash", "edit", "glob", "grep", "read_file", "tool_search", "write_file"];
    assert_eq!(offered(0), expected);
    expected.insert(4, "mcp_notes_deploy");
    assert_eq!((offered(1), offered(2)), (expected.clone(), expected));
    assert!(last_message(&got).contains("deployed v7"), "{}", last_message(&got));
}

// req: L4
// door: program
#[test]
fn a_persona_is_found_in_any_case_and_near_names_are_suggested() {
    let doors = DoorFixture::new("", "");
    let (done, _) = doors.model(vec![("Done.", None)], &["--persona", "Coder", "Hello."]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    // Rules about the agent `coder` hold, however its name was typed.
    assert_eq!(doors.stand.json(&["log", "--json"])[0]["agent"], "coder");
    let (none, got) = doors.model(vec![("Done.", None)], &["--persona", "Reviwer", "Hello."]);
    let told = text(&none.stderr);
    assert!(none.status.code() == Some(2) && told.contains("did you mean `reviewer`?"), "{told}");
    assert!(got.is_empty(), "the model is not asked");
    let own = "name = \"Mine\"\ndescription = \"Mine.\"\n";
    doors.put("../.config/byleave/personas/Coder.toml", own);
    assert_eq!(doors.stand.json(&["agent", "persona", "show", "coder", "--json"])["name"], "Mine");
    doors.put("../.config/byleave/personas/coder.toml", own);
    let both = doors.run(&["agent", "persona", "show", "coder"]);
    let told = text(&both.stderr);
    assert!(both.status.code() == Some(2) && told.contains("`Coder.toml`, `coder.toml`"), "{told}");
}

/// Returns the keys of an object, sorted.
fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

// req: L6
// door: program
#[test]
fn an_exported_conversation_has_unique_keys_and_ids_and_every_message_is_complete() {
    let doors = DoorFixture::new("mode = \"yolo\"\n", "");
    let read = || Some(("read_file", json!({"path": "notes.txt"})));
    let says = vec![("I read.", read()), ("I read again.", read()), ("Done.", None), ("Done again.", None)];
    let model = FakeModel::new(says);
    let first = doors.run_with(&model, &["--json", "--max-turns", "1", "Read it."]);
    assert_eq!(first.status.code(), Some(1), "it stops at its limit: {first:?}");
    let session = events(&first.stdout)[0]["session"].as_str().unwrap().to_owned();
    // Resumed twice: with the rest of the task, and with another message.
    for words in [["--resume", &session, "Go on."], ["--resume", &session, "Once more."]] {
        let resumed = doors.run_with(&model, &words);
        assert_eq!(resumed.status.code(), Some(0), "{resumed:?}");
    }
    let exported = doors.run(&["agent", "history", "export", &session, "--format", "json"]);
    let history = strict_json::parse(&exported.stdout);
    let top = ["dry_run", "messages", "model", "persona", "session", "started_at", "used"];
    assert_eq!(keys(&history), top);

    let messages = history["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    let expected =
        ["user", "assistant", "tool", "user", "assistant", "tool", "assistant", "user", "assistant"];
    assert_eq!(roles, expected, "{history}");
    let mut ids = HashSet::new();
    let mut calls = HashSet::new();
    for message in messages {
        let all = ["calls", "content", "id", "result", "role", "thoughts", "timestamp"];
        assert_eq!(keys(message), all);
        assert!(ids.insert(message["id"].as_str().unwrap()), "{} is not unique", message["id"]);
        assert!(message["thoughts"].is_array() && message["timestamp"].as_u64().unwrap() > 0, "{message}");
        for call in message["calls"].as_array().unwrap() {
            assert_eq!(keys(call), ["arguments", "call", "provider_id", "reason", "tool"]);
            assert!(calls.insert(call["call"].as_str().unwrap()), "{call}");
        }
        assert_eq!(message["result"].is_object(), message["role"] == "tool", "{message}");
        if message["role"] == "tool" {
            let all =
                ["call", "error", "execution_time_ms", "outcome", "output", "success", "tool", "truncated"];
            assert_eq!(keys(&message["result"]), all);
            // The result belongs to a call before it.
            assert!(calls.contains(message["result"]["call"].as_str().unwrap()), "{message}");
        }
    }
    assert_eq!((ids.len(), calls.len()), (9, 2));
}

// req: L8, L11
// door: program
#[test]
fn a_hosted_persona_gets_no_prompt_and_its_calls_run_here() {
    let doors = DoorFixture::new("mode = \"yolo\"\n", "");
    let persona = "name = \"Helper\"\ndescription = \"Helps.\"\nhosted = \"openai/asst-7f3a\"\ntools = [\"write_file\", \"read_file\"]\nprompt = \"You help.\"\n";
    doors.put("../.config/byleave/personas/helper.toml", persona);
    let block = "I write.\n```tool\n{\"name\": \"write_file\", \"args\": {\"path\": \"new.txt\", \"content\": \"new\"}}\n```\n";
    let says =
        || vec![(block, None), ("I read.", Some(("read_file", json!({"path": "new.txt"})))), ("Done.", None)];
    let model = FakeModel::new(says());
    let done = doors.run_with(&model, &["--persona", "helper", "--json", "Write it."]);
    let got = model.got();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(std::fs::read_to_string(doors.stand.file("new.txt")).unwrap(), "new");
    for request in &got {
        assert_eq!(request["model"], "asst-7f3a");
        let messages = request["messages"].as_array().unwrap();
        assert!(messages.iter().all(|message| message["role"] != "system"), "{request}");
        assert!(!request.to_string().contains("You help."), "{request}");
    }
    let last = |request: usize| got[request]["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last(1)["role"], &last(2)["role"]), (&json!("user"), &json!("tool")), "{got:?}");
    assert!(last(1).to_string().contains(r#"\"success\":true"#) && last(2).to_string().contains("new"));
    // A resumed conversation is hosted as before, whatever the environment says.
    let session = events(&done.stdout)[0]["session"].as_str().unwrap().to_owned();
    let before = got.len();
    let again = doors.run_with(&model, &["--resume", &session, "And?"]);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    let got = model.got().split_off(before);
    assert_eq!(got[0]["model"], "asst-7f3a", "{got:?}");
    assert!(got[0]["messages"].as_array().unwrap().iter().all(|message| message["role"] != "system"));

    let (other, got) = doors.model(says(), &["--persona", "helper", "--model", "openai/other", "Write it."]);
    let told = text(&other.stderr);
    assert!(other.status.code() == Some(2) && told.contains("hosted as `openai/asst-7f3a`"), "{told}");
    assert!(got.is_empty());
    let shown = doors.stand.json(&["agent", "persona", "show", "helper", "--json"]);
    assert_eq!((&shown["hosted"], &shown["prompt"]), (&json!("openai/asst-7f3a"), &Value::Null));
    let exported = text(&doors.run(&["agent", "persona", "export", "helper"]).stdout);
    assert!(exported.contains("You help.") && exported.contains("write_file"), "{exported}");
}
