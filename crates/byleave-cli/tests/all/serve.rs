//! `byleave serve` and `byleave serve token`, the real program: a token is made and used for a call, which leads to a question and an answer.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::CliTestWorld;

/// Longer than anything here takes, on any slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program as a server.
pub(crate) struct HttpServerProcess {
    child: Child,
    pub(crate) address: String,
}

impl HttpServerProcess {
    pub(crate) fn start(world: &CliTestWorld, words: &[&str]) -> Self {
        Self::start_with(world, words, &[])
    }

    /// Starts a server with these environment variables.
    pub(crate) fn start_with(world: &CliTestWorld, words: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_at(world, "127.0.0.1:0", words, environment)
    }

    /// Starts a server at this address.
    pub(crate) fn start_at(
        world: &CliTestWorld,
        address: &str,
        words: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
        command.args(["serve", "--listen", address]).args(words).envs(environment.iter().copied());
        Self::spawn(command)
    }

    /// Starts a server with this command, and waits until it listens.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = lines.next().unwrap().unwrap();
        while said.starts_with("waiting for the engine") {
            said = lines.next().unwrap().unwrap();
        }
        let address = said.strip_prefix("listening on http://").and_then(|said| said.strip_suffix("/v1"));
        let address = address.unwrap_or_else(|| panic!("{said}")).to_owned();
        let pages = lines.next().unwrap().unwrap();
        assert!(pages.starts_with("people sign in at http") && pages.ends_with('/'), "{pages}");
        Self { child, address }
    }

    /// Sends a request. Returns the status and the body of the response.
    pub(crate) fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        request(&self.address, token, "k", method, path, body).unwrap()
    }

    /// Makes a call that leads to a question. Returns its status once the question is open.
    pub(crate) fn asked_about(&self, token: &str, key: &str, call: &Value) -> Value {
        let mut path = "/v1/calls?wait=0".to_owned();
        let (mut method, mut body) = ("POST", call);
        let end = Instant::now() + PATIENCE;
        loop {
            let (status, standing) = request(&self.address, token, key, method, &path, body).unwrap();
            if standing["state"] == "waiting" {
                assert_eq!(status, 202, "{standing}");
                return standing;
            }
            assert!(standing["state"] == "running" && Instant::now() < end, "nobody is asked: {standing}");
            std::thread::sleep(Duration::from_millis(10));
            path = format!("/v1/calls/{}?wait=0", standing["call"].as_str().unwrap());
            (method, body) = ("GET", &Value::Null);
        }
    }

    /// Kills the server without a warning. Uses the child's own handle, so that no other process is hit.
    pub(crate) fn kill(&mut self) {
        // The server may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Sends a signal that stops or continues the server.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until the server ends by itself.
    #[cfg(feature = "fleet")]
    pub(crate) fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Stops the server as a user would, and waits.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for HttpServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a request to this address. Returns an error if the response is incomplete.
pub(crate) fn request(
    address: &str,
    token: &str,
    key: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> std::io::Result<(u16, Value)> {
    let headers = [("authorization", &*format!("Bearer {token}")), ("idempotency-key", key)];
    let (status, said) = said(address, &headers, method, path, body)?;
    Ok((status, serde_json::from_str(&said).unwrap_or_default()))
}

/// Sends a request with any headers. Returns the raw response.
pub(crate) fn said(
    address: &str,
    headers: &[(&str, &str)],
    method: &str,
    path: &str,
    body: &Value,
) -> std::io::Result<(u16, String)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut heard = String::new();
    stream.read_to_string(&mut heard)?;
    let (head, body) = heard.split_once("\r\n\r\n").ok_or(ErrorKind::UnexpectedEof)?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    if length.is_some_and(|length| length != body.len()) {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok((head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned()))
}

pub(crate) fn token(world: &CliTestWorld, words: &[&str]) -> String {
    let mut all = vec!["--json", "serve", "token", "add"];
    all.extend(words);
    world.json(&all)["token"].as_str().unwrap().to_owned()
}

// req: R5
#[test]
fn a_call_over_http_is_asked_about_and_answered_there_or_in_the_inbox() {
    let world = CliTestWorld::new();
    let (bot, ann) = (token(&world, &["bot"]), token(&world, &["web-ann", "--person"]));
    let served = HttpServerProcess::start(&world, &[]);
    let note = json!({"tool": "append_line", "arguments": {"path": "notes.txt", "line": "first"}});
    let standing = served.asked_about(&bot, "k", &note);
    let (id, digest) = (standing["question"]["id"].as_str().unwrap(), &standing["question"]["digest"]);
    // The inbox has the same question.
    assert_eq!(world.question(), id);
    let answer = json!({"digest": digest, "answer": {"kind": "yes"}});
    let (status, said) = served.ask(&ann, "POST", &format!("/v1/questions/{id}/answer"), &answer);
    assert!(matches!(status, 200 | 202), "{said}");
    let path = format!("/v1/calls/{}?wait=60", standing["call"].as_str().unwrap());
    let (_, standing) = served.ask(&bot, "GET", &path, &Value::Null);
    assert_eq!(standing["result"]["outcome"], "completed", "{standing}");
    assert_eq!(world.file("notes.txt"), "first\n");
    // Protected files, such as the tokens, cannot be read.
    let tokens = world.state().join("tokens.json");
    let spy = json!({"tool": "read_file", "arguments": {"path": tokens}});
    let explained = served.ask(&bot, "POST", "/v1/policy/explain", &spy).1;
    assert_eq!(explained["verdict"], "deny", "{explained}");
    // A removed token is not valid any more. A request without a token never was.
    let removed = world.json(&["--json", "serve", "token"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(world.quietly(&["serve", "token", "remove", &removed], "").status.code(), Some(0));
    assert_eq!(served.ask(&bot, "GET", "/v1/health", &Value::Null).0, 401);
    assert_eq!(served.ask("", "GET", "/v1/health", &Value::Null).0, 401);
    served.stop();
}

// req: R5
#[test]
fn a_tenant_has_a_book_of_its_own() {
    let world = CliTestWorld::new();
    let admin = ["--person", "--scope", "submit,read,administer"];
    let ours = token(&world, &[&["ann"][..], &admin].concat());
    let theirs = token(&world, &[&["ann", "--tenant", "acme"][..], &admin].concat());
    let unserved = token(&world, &["ann", "--tenant", "nobody", "--person"]);
    let served = HttpServerProcess::start(&world, &["--tenant", "acme"]);
    let call = json!({"tool": "echo", "arguments": {"text": "hi"}});
    let (_, made) = served.ask(&theirs, "POST", "/v1/calls?wait=60", &call);
    assert_eq!(made["result"]["outcome"], "completed", "{made}");
    assert_eq!(
        served.ask(&theirs, "GET", "/v1/log/calls", &Value::Null).1["calls"].as_array().unwrap().len(),
        1
    );
    assert_eq!(served.ask(&ours, "GET", "/v1/log/calls", &Value::Null).1["calls"], json!([]));
    assert!(world.state().join("tenants/acme/audit.sqlite").exists());
    assert_eq!(served.ask(&unserved, "GET", "/v1/health", &Value::Null).0, 401);
    // The other tenant cannot read the tokens either.
    let spy = json!({"tool": "read_file", "arguments": {"path": world.state().join("tokens.json")}});
    assert_eq!(served.ask(&theirs, "POST", "/v1/policy/explain", &spy).1["verdict"], "deny");
    assert_eq!(served.ask(&ours, "GET", "/v1/metrics", &Value::Null).0, 200);
    assert_eq!(served.ask(&theirs, "GET", "/v1/metrics", &Value::Null).0, 403);
    served.stop();
}

// req: P8, R5
#[test]
fn other_rules_are_tried_on_past_calls() {
    let world = CliTestWorld::new();
    let admin = token(&world, &["ann", "--person", "--scope", "submit,read,administer"]);
    let served = HttpServerProcess::start(&world, &[]);
    let echo = json!({"tool": "echo", "arguments": {"text": "hi"}});
    let made = request(&served.address, &admin, "a", "POST", "/v1/calls?wait=30", &echo).unwrap().1;
    assert_eq!(made["result"]["outcome"], "completed", "{made}");
    let note = json!({"tool": "append_line", "arguments": {"path": "notes.txt", "line": "x"}});
    let waiting = served.asked_about(&admin, "b", &note);
    let replay = |rules: &str| served.ask(&admin, "POST", "/v1/policy/replay", &json!({ "policy": rules }));

    let (status, same) = replay("");
    assert_eq!((status, &same["evaluated"], &same["same"]), (200, &json!(2), &json!(2)), "{same}");
    let rules = r#"
        [[rule]]
        id = "no-notes"
        verdict = "deny"
        write = "notes.txt"
        reason = "notes are kept elsewhere"
    "#;
    let (status, tried) = replay(rules);
    assert_eq!(status, 200, "{tried}");
    assert_eq!(tried["counts"], json!([{"before": "ask", "after": "deny", "calls": 1}]), "{tried}");
    let changed = &tried["changed"][0];
    assert_eq!(
        (&changed["call"], &changed["rule"], &changed["message"]),
        (&waiting["call"], &json!("no-notes"), &json!("notes are kept elsewhere"))
    );
    // An error is reported with its line, and no rule came into force.
    let (status, wrong) = replay("[[rule]]\nid = 3\n");
    assert_eq!((status, &wrong["code"]), (422, &json!("unusable")), "{wrong}");
    assert!(wrong["detail"].as_str().unwrap().contains("line 2"), "{wrong}");
    let explained = served.ask(&admin, "POST", "/v1/policy/explain", &note).1;
    assert_eq!(explained["verdict"], "ask", "{explained}");
    served.stop();
}
