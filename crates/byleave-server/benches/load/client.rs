//! Clients: connections that are kept, one request after the other on each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::{self, FuturesUnordered};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::sides::ServerProcess;

/// How many come at once to follow a call.
const AT_ONCE: usize = 100;
/// Longer than anything takes that happens at all.
const SOON: Duration = Duration::from_secs(120);

/// Who knows a server.
#[derive(Clone)]
pub(crate) struct LoadClient {
    address: Arc<str>,
    token: Arc<str>,
}

/// What came of following.
pub(crate) struct FollowTiming {
    pub(crate) first: Duration,
    pub(crate) last: Duration,
    /// The server's, while all followed and nothing happened.
    pub(crate) resident_kb: usize,
}

impl LoadClient {
    pub(crate) fn new(serving: &ServerProcess) -> Self {
        Self { address: serving.address.as_str().into(), token: serving.token.as_str().into() }
    }

    /// Makes so many calls on each of so many connections, which are there before the first of them; how long each took, and all.
    pub(crate) async fn calls(&self, connections: usize, each: usize) -> (Vec<Duration>, Duration) {
        let mut tasks = JoinSet::new();
        let connecting = stream::iter(0..connections).map(|_| self.connect());
        let wires: Vec<HttpWire> = connecting.buffered(AT_ONCE).collect().await;
        let began = Instant::now();
        for (connection, mut wire) in wires.into_iter().enumerate() {
            let client = self.clone();
            tasks.spawn(async move {
                let body = json!({"tool": "look", "arguments": {"path": "src/lib.rs"}, "session": format!("c{connection}")});
                let mut took = Vec::with_capacity(each);
                for _ in 0..each {
                    let key = uuid::Uuid::now_v7().to_string();
                    let request = client.request("POST", "/v1/calls?wait=30", &key, Some(&body));
                    let started = Instant::now();
                    let heard = wire.ask(&request).await;
                    took.push(started.elapsed());
                    assert_eq!(heard["result"]["outcome"], "completed", "{heard}");
                }
                took
            });
        }
        let took = tasks.join_all().await.concat();
        (took, began.elapsed())
    }

    /// Has so many follow a call that waits; then it is called off, and each must hear of its end.
    pub(crate) async fn followed(&self, many: usize, resident_kb: impl Fn() -> usize) -> FollowTiming {
        let mut wire = self.connect().await;
        let body = json!({"tool": "note", "arguments": {"path": "x"}, "session": "followed"});
        let call = wire.ask(&self.request("POST", "/v1/calls?wait=1", "followed", Some(&body))).await;
        assert_eq!(call["state"], "waiting", "{call}");
        let call = call["call"].as_str().unwrap().to_owned();
        let events = format!("/v1/calls/{call}/events");
        let follow = || async {
            let mut wire = self.connect().await;
            wire.say(&self.request("GET", &events, "-", None)).await;
            wire.until(b"\"asked\"").await;
            wire
        };
        let following: Vec<HttpWire> =
            stream::iter(0..many).map(|_| follow()).buffer_unordered(AT_ONCE).collect().await;
        let resident_kb = resident_kb();
        let mut hearing = FuturesUnordered::new();
        for mut wire in following {
            hearing.push(tokio::spawn(async move {
                wire.until(b"\"settled\"").await;
                Instant::now()
            }));
        }
        let started = Instant::now();
        let ended = wire.ask(&self.request("POST", &format!("/v1/calls/{call}/cancel"), "-", None)).await;
        assert!(ended["call"].is_string(), "{ended}");
        let mut heard = Vec::new();
        while let Some(at) = hearing.next().await {
            heard.push(at.unwrap().duration_since(started));
        }
        assert_eq!(heard.len(), many);
        heard.sort_unstable();
        FollowTiming { first: heard[0], last: heard[many - 1], resident_kb }
    }

    async fn connect(&self) -> HttpWire {
        let stream = TcpStream::connect(&*self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        HttpWire { stream, heard: Vec::new() }
    }

    fn request(&self, method: &str, path: &str, key: &str, body: Option<&Value>) -> String {
        let body = body.map(ToString::to_string).unwrap_or_default();
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nidempotency-key: {key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
    }
}

/// A connection.
struct HttpWire {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl HttpWire {
    async fn say(&mut self, request: &str) {
        self.stream.write_all(request.as_bytes()).await.unwrap();
    }

    /// Asks, and reads the whole answer.
    async fn ask(&mut self, request: &str) -> Value {
        self.say(request).await;
        self.heard.clear();
        loop {
            self.more().await;
            let Some(head) = find(&self.heard, b"\r\n\r\n") else { continue };
            let text = std::str::from_utf8(&self.heard[..head]).unwrap();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.expect("a length").parse().unwrap();
            while self.heard.len() < head + 4 + length {
                self.more().await;
            }
            return serde_json::from_slice(&self.heard[head + 4..]).unwrap();
        }
    }

    /// Reads until this was said, and forgets it.
    async fn until(&mut self, said: &[u8]) {
        while find(&self.heard, said).is_none() {
            self.more().await;
        }
        self.heard = Vec::new();
    }

    async fn more(&mut self) {
        let read = tokio::time::timeout(SOON, self.stream.read_buf(&mut self.heard)).await;
        assert_ne!(read.expect("it is said in time").unwrap(), 0, "it ended early");
    }
}

fn find(heard: &[u8], said: &[u8]) -> Option<usize> {
    heard.windows(said.len()).position(|window| window == said)
}
