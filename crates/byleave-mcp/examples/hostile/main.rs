//! A server that behaves badly, in one way at a time: `hostile MODE [ARGUMENT]`, over stdio. `hostile --list` prints the modes.
//!
//! It writes plain lines of JSON, because no SDK would allow this. It speaks 2025-11-25 and no newer protocol. It does harm only at
//! the path or loopback port that the caller passes.
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

/// The differences of a mode from a well-behaved server.
pub(crate) struct HostileMode {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its misbehaviour.
    pub what: &'static str,
    /// The tools that it lists, which may depend on how often they were listed.
    pub tools: fn(&HostileState) -> Vec<Value>,
    /// Its behaviour when a tool is called.
    pub call: fn(&mut HostileState, HostileCall),
}

/// One call of a tool.
pub(crate) struct HostileCall {
    /// The JSON-RPC id.
    pub id: Value,
    pub tool: String,
    pub arguments: Value,
    /// The progress token.
    pub progress: Value,
}

/// The state of the server.
#[derive(Default)]
pub(crate) struct HostileState {
    /// The argument after the mode.
    pub argument: String,
    /// How many times tools were listed before.
    pub lists: usize,
    /// How many times a tool was called before.
    pub calls: usize,
    /// Calls that wait for a response of the client, by the id of the request, or for each other.
    pub waiting: Vec<(Value, Value)>,
    /// Calls that the client has cancelled.
    pub cancelled: Vec<Value>,
}

/// When a server stops responding.
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
        // It reads any resource, listed or not.
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
        // A response of the client to a request: it goes to the call that made the request.
        None => {
            if let Some(at) = state.waiting.iter().position(|(asked, _)| asked == id) {
                let (_, call) = state.waiting.remove(at);
                let said = message.get("result").or(message.get("error")).cloned().unwrap_or_default();
                answer(&call, text(&said.to_string()));
            }
        }
    }
}

/// The value of this key in the file of a scripted server, if there is one.
fn scripted(mode: &HostileMode, state: &HostileState, what: &str) -> Option<Value> {
    let script = (mode.name == "scripted").then(|| shown::script(state))?;
    script.get(what).cloned()
}

pub(crate) fn answer(id: &Value, result: Value) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

/// Sends a notification.
pub(crate) fn notify(method: &str, params: Value) {
    send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
}

/// Writes one message. Ends the server if nobody reads any more.
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

/// A result with one line of text.
pub(crate) fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}
