//! How people learn of questions from the real program: webhooks, and the page to which an MCP client is sent.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp::{self, text};
use crate::serve::{self, token};
use crate::world::CliTestWorld;

/// Long enough for everything that is expected to happen.
const SOON: Duration = Duration::from_secs(120);

/// Starts a fake receiver of webhooks. Returns its address and the received messages.
fn receiver() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/services/T0/secret-path", listener.local_addr().unwrap());
    let (send, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                    break;
                }
                let line = line.to_ascii_lowercase();
                length = line
                    .strip_prefix("content-length: ")
                    .map_or(length, |value| value.trim().parse().unwrap());
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            reader
                .get_mut()
                .write_all(b"HTTP/1.1 200 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
            if send.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (url, told)
}

/// Starts a server and waits until it says that it runs.
fn served(world: &CliTestWorld, words: &[&str]) -> serve::HttpServerProcess {
    let served = serve::HttpServerProcess::start(world, words);
    let until = Instant::now() + SOON;
    let file = world.state().join("serving.json");
    while !fs::read_to_string(&file).is_ok_and(|text| text.contains("http")) {
        assert!(Instant::now() < until, "it never says that it runs");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    served
}

// req: A1
#[test]
fn a_webhook_is_added_tested_told_listed_and_removed_and_its_address_is_not_shown() {
    let world = CliTestWorld::new();
    let (url, told) = receiver();
    let made = world.quietly(&["--json", "serve", "webhook", "add", "-"], &format!("{url}\n"));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert!(secret.starts_with("whsec_"));
    let said = world.quietly(&["serve", "webhook", "test"], "");
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    assert_eq!(told.recv_timeout(SOON).unwrap()["type"], "webhook.test");

    let served = served(&world, &["--public-url", "https://gate.example.org"]);
    // Another process asks the question through the same audit log. It may be open before the server looks.
    let note = |line: &str| json!({"path": "notes.txt", "line": line}).to_string();
    let asks = |line: &str, session: &str| {
        let words = ["call", "append_line", "--ask", "inbox", "--session", session, "--args"];
        assert_eq!(world.quietly(&[&words[..], &[&note(line)]].concat(), "").status.code(), Some(4));
    };
    asks("first", "a");
    told.recv_timeout(SOON).unwrap();
    asks("second", "b");
    let heard = told.recv_timeout(SOON).unwrap();
    assert_eq!(heard["type"], "question.asked", "{heard}");
    let link = heard["data"]["link"].as_str().unwrap();
    assert_eq!(
        link,
        format!("https://gate.example.org/questions/{}", heard["data"]["question"].as_str().unwrap())
    );

    let until = Instant::now() + SOON;
    while world.json(&["--json", "serve", "webhook"])[0]["status"]["delivered"] != 3 {
        assert!(Instant::now() < until, "{}", world.json(&["--json", "serve", "webhook"]));
        std::thread::sleep(Duration::from_millis(20));
    }
    for words in [
        &["serve", "webhook"][..],
        &["--json", "serve", "webhook"],
        &["doctor"],
        &["--json", "doctor"],
        &["serve", "webhook", "remove", id],
    ] {
        let said = world.quietly(words, "");
        let said =
            format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert!(said.contains("127.0.0.1") || words.contains(&"doctor"), "{words:?}: {said}");
        assert!(!said.contains("secret-path") && !said.contains(secret), "{words:?}: {said}");
    }
    served.stop();
    assert!(!world.state().join("serving.json").exists());

    // The receiver does not exist. The test message fails, and the command reports that.
    let gone = world.json(&["--json", "serve", "webhook", "add", "http://127.0.0.1:1/secret-path"]);
    let tried = world.quietly(&["serve", "webhook", "test", gone["id"].as_str().unwrap()], "");
    assert_eq!(tried.status.code(), Some(1));
    for said in [tried, world.quietly(&["serve", "webhook"], ""), world.quietly(&["doctor"], "")] {
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains("cannot reach the webhook") && !said.contains("secret-path"), "{said}");
    }
    let open = world.quietly(&["serve", "webhook", "add", "http://192.0.2.1/secret-path"], "");
    assert_eq!(open.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&open.stderr).contains("https"));
}

fn line() -> Value {
    json!({"name": "write_file", "arguments": {"path": "notes.txt", "content": "first\n"}})
}

/// Answers a question over HTTP, as a person who is asked there.
fn answered(served: &serve::HttpServerProcess, token: &str, question: &str, answer: &Value) {
    let (status, sheet) = served.ask(token, "GET", &format!("/v1/questions/{question}"), &Value::Null);
    assert_eq!(status, 200, "{sheet}");
    let body = json!({"digest": sheet["question"]["digest"], "answer": answer});
    let (status, said) = served.ask(token, "POST", &format!("/v1/questions/{question}/answer"), &body);
    assert!(matches!(status, 200 | 202), "{said}");
}

// req: R5
#[test]
fn a_client_is_sent_to_the_page_and_what_it_says_itself_is_no_answer() {
    let world = CliTestWorld::new();
    let ann = token(&world, &["web-ann", "--person"]);
    let server = served(&world, &[]);
    for (said, name) in [("accept", "one"), ("decline", "two"), ("cancel", "three")] {
        let can = json!({"elicitation": {"form": {}, "url": {}}});
        let mut agent = mcp::McpProcess::begun_by(&world, &[], "2025-11-25", &can);
        let appended = json!({"path": "notes.txt", "content": format!("{name}\n"), "mode": "append"});
        let call = json!({"name": "write_file", "arguments": appended});
        let id = agent.begin("tools/call", &call);
        let asked = agent.until(|value| value["method"] == "elicitation/create");
        let question = world.question();
        let params = &asked["params"];
        assert_eq!((&params["mode"], &params["elicitationId"]), (&json!("url"), &json!(question)), "{asked}");
        assert_eq!(params["url"], format!("http://{}/questions/{question}", server.address));
        let before = fs::read_to_string(world.workspace().join("notes.txt")).unwrap_or_default();
        let lie = json!({"action": said, "content": {"decision": "once"}});
        agent.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": lie}));
        // The server has read the message, and the question is still open.
        assert!(agent.ask("ping", &json!({}))["result"].is_object());
        assert_eq!(world.question(), question);
        assert_eq!(fs::read_to_string(world.workspace().join("notes.txt")).unwrap_or_default(), before);
        answered(&server, &ann, &question, &json!({"kind": "yes"}));
        let closed = agent.until(|value| value["method"] == "notifications/elicitation/complete");
        assert_eq!(closed["params"]["elicitationId"], json!(question));
        let came = agent.until(|value| value["id"] == id);
        assert!(text(&came["result"]).contains("notes.txt"), "{came}");
        assert_eq!(agent.ends(), Some(0));
    }
    assert_eq!(world.file("notes.txt"), "one\ntwo\nthree\n");
    let shown = String::from_utf8(world.quietly(&["log", "show", &world.call()], "").stdout).unwrap();
    assert!(!shown.contains("elicitation"), "{shown}");
    server.stop();
}

// req: R5
#[test]
fn a_client_of_the_newest_protocol_is_sent_to_the_page_too() {
    let world = CliTestWorld::new();
    let ann = token(&world, &["web-ann", "--person"]);
    let server = served(&world, &[]);
    let mut agent = mcp::McpProcess::start(&world, &["--agent", "somebody"]);
    let mut call = line();
    call["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
    });
    let id = agent.begin("tools/call", &call);
    let asks = agent.until(|value| value["id"] == id)["result"].clone();
    let question = world.question();
    let asked = &asks["inputRequests"]["byleave"]["params"];
    assert_eq!(asked["mode"], "url", "{asks}");
    assert_eq!(asked["url"], format!("http://{}/questions/{question}", server.address));
    call["requestState"] = asks["requestState"].clone();
    call["inputResponses"] = json!({"byleave": {"action": "accept", "content": {"decision": "once"}}});
    let id = agent.begin("tools/call", &call);
    answered(&server, &ann, &question, &json!({"kind": "no", "feedback": "not this"}));
    let came = agent.until(|value| value["id"] == id);
    assert!(text(&came["result"]).contains("not this"), "{came}");
    assert!(!world.workspace().join("notes.txt").exists());
    assert_eq!(agent.ends(), Some(0));
    server.stop();
}

// req: R5
#[test]
fn without_a_server_that_runs_everything_is_as_before() {
    let world = CliTestWorld::new();
    let asked = |can: &Value, words: &[&str]| {
        let mut agent = mcp::McpProcess::begun_by(&world, words, "2025-11-25", can);
        let id = agent.begin("tools/call", &line());
        let first = agent.until(|value| value["method"] == "elicitation/create" || value["id"] == id);
        agent.killed();
        first
    };
    let (both, only) = (json!({"elicitation": {"form": {}, "url": {}}}), json!({"elicitation": {"url": {}}}));
    let is_form = |asked: &Value| asked["params"]["requestedSchema"].is_object();
    assert!(is_form(&asked(&both, &[])));
    assert!(asked(&only, &["--deadline", "2"])["result"]["_meta"]["byleave/pending"].is_object());
    // A killed server does not remove its file, and the file is not trusted.
    let server = served(&world, &[]);
    drop(server);
    assert!(world.state().join("serving.json").exists());
    assert!(is_form(&asked(&both, &[])));
    // A client that cannot open pages is not sent to one.
    let server = served(&world, &[]);
    assert!(is_form(&asked(&json!({"elicitation": {}}), &[])));
    server.stop();
}
