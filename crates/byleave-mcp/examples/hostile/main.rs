//! A server that behaves badly, in one way at a time: `hostile MODE [ARGUMENT]`, over stdio. `hostile --list` says which there are.
//!
//! Written on bare lines of JSON, since no SDK would let it. It speaks 2025-11-25 and knows no newer protocol. It does harm only
//! where the caller says: a path or a loopback port comes with the call.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::needless_pass_by_value,
    reason = "a fixture; what it says is built where it is said"
)]

mod calls;
mod shown;

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;

use serde_json::{Value, json};

/// What a mode changes; everything else is the server's usual way.
pub(crate) struct HostileMode {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What is wrong with it.
    pub what: &'static str,
    /// What it lists, the nth time.
    pub tools: fn(&HostileState) -> Vec<Value>,
    /// What it does when it is called.
    pub call: fn(&mut HostileState, HostileCall),
}

/// One call of a tool.
pub(crate) struct HostileCall {
    /// Its id on the wire.
    pub id: Value,
    /// The tool.
    pub tool: String,
    /// What it takes.
    pub arguments: Value,
    /// Where progress is heard.
    pub progress: Value,
}

/// What the server remembers.
#[derive(Default)]
pub(crate) struct HostileState {
    /// What was typed behind the mode.
    pub argument: String,
    /// How often tools were listed before.
    pub lists: usize,
    /// How often a tool was called before.
    pub calls: usize,
    /// Calls that wait for an answer of the client, by the id of the question; or for each other.
    pub waiting: Vec<(Value, Value)>,
    /// Calls that the client has taken back.
    pub cancelled: Vec<Value>,
}

/// When a server says nothing at all any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReplyBehavior {
    Never,
    ToInitialize,
    Always,
}

fn main() -> ExitCode {
    let typed: Vec<String> = std::env::args().skip(1).collect();
    let name = typed.first().map(String::as_str).unwrap_or_default();
    if name == "--list" {
        for mode in calls::MODES {
            println!("{:<16} {}", mode.name, mode.what);
        }
        return ExitCode::SUCCESS;
    }
    let Some(mode) = calls::MODES.iter().find(|mode| mode.name == name) else {
        eprintln!("hostile: there is no mode `{name}`; `hostile --list` shows them");
        return ExitCode::FAILURE;
    };
    let talks = match name {
        "silent" => ReplyBehavior::Never,
        "hung" => ReplyBehavior::ToInitialize,
        _ => ReplyBehavior::Always,
    };
    let mut state =
        HostileState { argument: typed.get(1).cloned().unwrap_or_default(), ..HostileState::default() };
    calls::at_start(name, &state);
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        heard(mode, talks, &mut state, &message);
    }
    ExitCode::SUCCESS
}

fn heard(mode: &HostileMode, talks: ReplyBehavior, state: &mut HostileState, message: &Value) {
    let id = &message["id"];
    match message["method"].as_str() {
        Some("initialize") if talks >= ReplyBehavior::ToInitialize => {
            let version = message["params"]["protocolVersion"].as_str();
            let version = version.filter(|version| ["2025-03-26", "2025-06-18"].contains(version));
            let version = version.unwrap_or("2025-11-25");
            let mut says = json!({ "protocolVersion": version,
                                   "capabilities": { "tools": { "listChanged": true }, "resources": {} },
                                   "serverInfo": { "name": "hostile", "version": "1" } });
            if let Some(instructions) = scripted(mode, state, "instructions") {
                says["instructions"] = instructions;
            }
            answer(id, says);
        }
        _ if talks < ReplyBehavior::Always => {}
        Some("ping") => answer(id, json!({})),
        // It reads whatever it is told to, whether it has listed that or not.
        Some("resources/list") => {
            let listed = scripted(mode, state, "resources");
            let listed = listed.unwrap_or_else(|| json!([{ "uri": "test://listed", "name": "listed" }]));
            answer(id, json!({ "resources": listed }));
        }
        Some("resources/read") => {
            let content = json!({ "uri": message["params"]["uri"], "text": "reached" });
            answer(id, json!({ "contents": [content] }));
        }
        Some("tools/list") => {
            let tools = (mode.tools)(state);
            state.lists += 1;
            answer(id, json!({ "tools": tools }));
        }
        Some("tools/call") => {
            let params = &message["params"];
            let call = HostileCall {
                id: id.clone(),
                tool: params["name"].as_str().unwrap_or_default().to_owned(),
                arguments: params["arguments"].clone(),
                progress: params["_meta"]["progressToken"].clone(),
            };
            (mode.call)(state, call);
            state.calls += 1;
        }
        Some("notifications/cancelled") => state.cancelled.push(message["params"]["requestId"].clone()),
        Some(_) if !id.is_null() => {
            send(
                &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no such method" } }),
            );
        }
        Some(_) => {}
        // An answer of the client to what was asked of it: it goes to whoever had it asked.
        None => {
            if let Some(at) = state.waiting.iter().position(|(asked, _)| asked == id) {
                let (_, call) = state.waiting.remove(at);
                let said = message.get("result").or(message.get("error")).cloned().unwrap_or_default();
                answer(&call, text(&said.to_string()));
            }
        }
    }
}

/// What the file of a scripted server says of this, if it does.
fn scripted(mode: &HostileMode, state: &HostileState, what: &str) -> Option<Value> {
    let script = (mode.name == "scripted").then(|| shown::script(state))?;
    script.get(what).cloned()
}

/// Answers a request.
pub(crate) fn answer(id: &Value, result: Value) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

/// Says something that is no answer.
pub(crate) fn notify(method: &str, params: Value) {
    send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
}

/// Writes one message. Where nobody reads any more, the server ends.
pub(crate) fn send(message: &Value) {
    write(format!("{message}\n").as_bytes());
}

/// Writes bytes as they are.
pub(crate) fn write(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// A result of one line.
pub(crate) fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}
