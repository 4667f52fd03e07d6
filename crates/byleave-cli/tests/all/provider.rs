//! A fake provider with OpenAI's API, over HTTP and SSE on loopback. The real ones cost money and need the public network. It decides only
//! by the messages that it receives, so a lost reply is sent again.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// A reply of the model: a text, and optionally a call.
pub(crate) type ScriptedTurn = (&'static str, Option<(&'static str, Value)>);
/// Chooses the reply to these messages.
type TurnScript = dyn Fn(&[Value]) -> ScriptedTurn + Send + Sync;

pub(crate) struct FakeModel {
    pub(crate) url: String,
    got: Arc<Mutex<Vec<Value>>>,
}

impl FakeModel {
    /// Chooses the next reply by the number of the model's messages so far. Repeats the last reply forever.
    pub(crate) fn new(says: Vec<ScriptedTurn>) -> Self {
        Self::deciding(move |messages| {
            let spoken = messages.iter().filter(|message| message["role"] == "assistant").count();
            says[spoken.min(says.len() - 1)].clone()
        })
    }

    /// Chooses each reply with this function.
    pub(crate) fn deciding(decide: impl Fn(&[Value]) -> ScriptedTurn + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let got: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (decide, keeps): (Arc<TurnScript>, _) = (Arc::new(decide), Arc::clone(&got));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (decide, keeps) = (Arc::clone(&decide), Arc::clone(&keeps));
                // A client that is killed in the middle hangs up. The next connection is served as usual.
                std::thread::spawn(move || answer(connection.unwrap(), &*decide, &keeps).unwrap_or_default());
            }
        });
        Self { url, got }
    }

    /// Returns all requests.
    pub(crate) fn got(&self) -> Vec<Value> {
        self.got.lock().unwrap().clone()
    }
}

fn answer(connection: TcpStream, decide: &TurnScript, got: &Mutex<Vec<Value>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body: Value = serde_json::from_slice(&body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let (id, (text, call)) = (format!("id-{}", messages.len()), decide(messages));
    got.lock().unwrap().push(body);
    let mut connection = reader.into_inner();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    connection.write_all(head.as_bytes())?;
    let mut event = |value: Value| connection.write_all(format!("data: {value}\n\n").as_bytes());
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    for piece in text.split_inclusive(' ') {
        event(delta(json!({"content": piece})))?;
    }
    if let Some((name, arguments)) = &call {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let call = json!({"index": 0, "id": id, "type": "function", "function": function});
        event(delta(json!({"tool_calls": [call]})))?;
    }
    let reason = if call.is_some() { "tool_calls" } else { "stop" };
    event(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))?;
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    event(json!({"choices": [], "usage": usage}))?;
    connection.write_all(b"data: [DONE]\n\n")
}
