//! `byleave acp` with a fake agent: a shell script that asks for permission once, in the real protocol, and stores the answer.

use std::fs;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::CliTestWorld;

const AGENT: &str =
    r#"printf '%s\n' "$(cat ask.json)"; read -r answer; printf '%s\n' "$answer" > answer.json; exit 7"#;

fn asking(world: &CliTestWorld, raw_input: &Value) {
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
    let options = [option("Y", "allow_always"), option("y", "allow_once"), option("n", "reject_once")];
    let call = json!({ "toolCallId": "t", "title": "x", "kind": "other", "rawInput": raw_input });
    let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
    let asked =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params });
    fs::write(world.workspace().join("ask.json"), asked.to_string()).unwrap();
}

/// Starts the program with an editor that sends nothing and stays until the agent has ended.
fn editor(world: &CliTestWorld, words: &[&str]) -> (Child, Option<ChildStdin>) {
    let mut command = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // Waiting for a child closes its standard input. The test keeps it open, because an editor that has gone cannot answer.
    let stays = child.stdin.take();
    (child, stays)
}

fn chosen(world: &CliTestWorld) -> Value {
    let answer: Value = serde_json::from_str(&world.file("answer.json")).unwrap();
    answer["result"]["outcome"]["optionId"].clone()
}

// req: M2
#[test]
fn what_an_agent_asks_leave_for_waits_in_the_inbox() {
    let world = CliTestWorld::new();
    asking(&world, &json!({ "command": "git status" }));
    let (proxy, _stays) = editor(&world, &["acp", "--", "sh", "-c", AGENT]);
    let told = proxy.wait_with_output().unwrap();
    assert_eq!(told.status.code(), Some(7), "{told:?}");
    assert_eq!(chosen(&world), "y");
    assert!(told.stdout.is_empty(), "{told:?}");
    asking(&world, &json!({ "payload": "odd" }));
    let (mut proxy, _stays) = editor(&world, &["acp", "--ask", "none", "--", "sh", "-c", AGENT]);
    assert_eq!(proxy.wait().unwrap().code(), Some(7));
    assert_eq!(chosen(&world), "n");

    asking(&world, &json!({ "payload": "another" }));
    let (mut proxy, _stays) = editor(&world, &["acp", "--", "sh", "-c", AGENT]);
    let until = Instant::now() + Duration::from_secs(120);
    while world.json(&["inbox", "--json"]).as_array().is_none_or(Vec::is_empty) {
        assert!(Instant::now() < until, "no question came");
    }
    let told = world.quietly(&["inbox", "answer", &world.question(), "yes"], "");
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    assert_eq!(proxy.wait().unwrap().code(), Some(7));
    assert_eq!(chosen(&world), "y");
    let last = world.json(&["log", "show", &world.call(), "--json"]).to_string();
    assert!(last.contains("evaluated, not enforced"), "{last}");
}

// req: R2, R12
#[test]
fn a_request_that_a_reviewer_changes_is_refused() {
    let world = CliTestWorld::new();
    let dir = world.workspace().parent().unwrap().join(".config/byleave");
    fs::create_dir_all(&dir).unwrap();
    let settings = "[[reviewer]]\nname = \"tidy\"\nkind = \"strip\"\ntools = [\"acp_*\"]\nargument = \"title\"\nremove = [\"x\"]\n";
    fs::write(dir.join("config.toml"), settings).unwrap();
    asking(&world, &json!({ "command": "git status" }));
    let (mut proxy, _stays) = editor(&world, &["acp", "--", "sh", "-c", AGENT]);
    assert_eq!(proxy.wait().unwrap().code(), Some(7));
    assert_eq!(chosen(&world), "n");
    assert!(
        world.file("answer.json").contains("cannot run a modified call"),
        "{}",
        world.file("answer.json")
    );
}

/// Checks whether a process runs.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z")
}

#[test]
fn an_agent_ends_with_its_proxy_and_so_does_everything_that_it_started() {
    let stays = "sleep 1000 & echo $! > child.new; echo $$ > agent.pid; mv child.new child.pid; while :; do wait; sleep 1000; done";
    for (script, is_signalled) in [
        (stays.to_owned(), true),
        (format!("trap '' TERM HUP INT; {stays}"), true),
        (stays.to_owned(), false),
    ] {
        let world = CliTestWorld::new();
        let (mut proxy, editor) = editor(&world, &["acp", "--", "sh", "-c", &script]);
        let until = Instant::now() + Duration::from_secs(120);
        while !world.workspace().join("child.pid").exists() {
            assert!(Instant::now() < until, "the agent does not start");
            std::thread::yield_now();
        }
        if is_signalled {
            let pid = rustix::process::Pid::from_raw(i32::try_from(proxy.id()).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            assert_eq!(proxy.wait().unwrap().code(), Some(128 + 15), "{script}");
            drop(editor);
        } else {
            drop(editor);
            proxy.wait().unwrap();
        }
        for name in ["agent.pid", "child.pid"] {
            let pid = world.file(name);
            // A process that was killed is gone a moment later.
            while runs(&pid) {
                assert!(Instant::now() < until, "{name} is still there: {script}");
                std::thread::yield_now();
            }
        }
    }
}
