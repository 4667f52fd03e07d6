//! Events: every entry is sent once and in order, from the client's last position.

use byleave_server::ServerLimits;
use byleave_server::principal::AccessScope;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::stage::{SOON, ServerFixture, ServerTestSettings};

/// A received event: id, name, data.
type ReceivedEvent = (Option<u32>, String, Value);

fn events(text: &str) -> Vec<ReceivedEvent> {
    let field = |block: &str, name: &str| {
        let found = block.lines().find_map(|line| line.strip_prefix(name));
        found.map(|value| value.trim().to_owned())
    };
    let blocks = text.split("\n\n").filter(|block| block.contains("data:"));
    let event = |block: &str| {
        let data = serde_json::from_str(&field(block, "data:").unwrap()).unwrap();
        (field(block, "id:").map(|id| id.parse().unwrap()), field(block, "event:").unwrap(), data)
    };
    blocks.map(event).collect()
}

/// Opens a stream that stays open.
async fn open(stage: &ServerFixture, token: &str, call: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    let head = format!(
        "GET /v1/calls/{call}/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    BufReader::new(stream)
}

async fn until(stream: &mut BufReader<TcpStream>, text: &str) -> String {
    let mut all = String::new();
    let reading = async {
        while !all.contains(text) {
            let read = stream.read_line(&mut all).await.unwrap();
            assert!(read > 0, "it ended before `{text}`: {all}");
        }
    };
    tokio::time::timeout(SOON, reading).await.expect("it comes");
    all
}

// req: R6
#[tokio::test(flavor = "multi_thread")]
async fn every_entry_comes_once_and_who_comes_back_goes_on_where_they_were() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Answer, AccessScope::Read]));
    let (call, question, digest) = stage.waiting(&bot, "k").await;
    let mut live = open(&stage, &bot, &call).await;
    until(&mut live, "asked").await;
    let yes = json!({"digest": digest, "answer": {"kind": "yes"}});
    stage.ask(&ann, "POST", &format!("/v1/questions/{question}/answer"), Some(&yes)).await;
    let rest = until(&mut live, "settled").await;
    assert!(rest.contains("event: tool_approval"), "{rest}");
    stage.settled(&bot, &call).await;

    let path = format!("/v1/calls/{call}/events");
    let heard = stage.ask(&ann, "GET", &path, None).await;
    assert_eq!(heard.headers["content-type"], "text/event-stream");
    let all = events(&heard.text);
    let ids: Vec<u32> = all.iter().filter_map(|(id, ..)| *id).collect();
    assert_eq!(ids, (0..u32::try_from(ids.len()).unwrap()).collect::<Vec<_>>(), "{}", heard.text);
    let approvals: Vec<&Value> =
        all.iter().filter(|(_, name, _)| name == "tool_approval").map(|(.., data)| data).collect();
    let expected = json!({"call": call, "tool": "note", "parameters": {"text": "k"}, "approved": true});
    assert_eq!(approvals, [&expected]);
    // From the middle, by header and by query.
    let middle = (ids.len() / 2).to_string();
    let later: Vec<u32> = ids[ids.len() / 2 + 1..].to_vec();
    let by_header = stage.ask_with(&ann, "GET", &path, None, &[("last-event-id", &middle)]).await;
    let by_query = stage.ask(&ann, "GET", &format!("{path}?after={middle}"), None).await;
    for heard in [by_header, by_query] {
        assert_eq!(events(&heard.text).iter().filter_map(|(id, ..)| *id).collect::<Vec<_>>(), later);
    }
    // After the last event the server sends 204, so that browsers stop asking.
    let last = (ids.len() - 1).to_string();
    assert_eq!(stage.ask_with(&ann, "GET", &path, None, &[("last-event-id", &last)]).await.status, 204);
    let wrong = stage.ask_with(&ann, "GET", &path, None, &[("last-event-id", "x")]).await;
    wrong.is_problem(400, "malformed");
}

// req: A2
#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded_and_their_seats_are_given_back() {
    let limits =
        ServerLimits { max_streams: 3, max_streams_per_principal: 2, ..ServerTestSettings::default().limits };
    let stage = ServerFixture::with(ServerTestSettings { limits, ..ServerTestSettings::default() }).await;
    let (bot, ann, bob) = (
        stage.agent("bot"),
        stage.person("ann", &[AccessScope::Read]),
        stage.person("bob", &[AccessScope::Read]),
    );
    let (call, ..) = stage.waiting(&bot, "k").await;
    let mut held = Vec::new();
    for token in [&ann, &ann, &bob] {
        let mut stream = open(&stage, token, &call).await;
        until(&mut stream, "asked").await;
        held.push(stream);
    }
    let path = format!("/v1/calls/{call}/events");
    let refused = stage.ask(&ann, "GET", &path, None).await;
    refused.is_problem(429, "too-many");
    assert!(refused.headers.contains_key("retry-after"));
    stage.ask(&bob, "GET", &path, None).await.is_problem(429, "too-many");
    // Other requests still work.
    assert_eq!(stage.ask(&bob, "GET", "/v1/health", None).await.status, 200);
    drop(held);
    let freed = async {
        loop {
            let mut stream = open(&stage, &ann, &call).await;
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            if line.contains("200") {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, freed).await.expect("a seat is free again");
}

// req: A2
#[tokio::test(flavor = "multi_thread")]
async fn streams_end_when_the_server_does() {
    let mut stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let (call, ..) = stage.waiting(&bot, "k").await;
    let mut stream = open(&stage, &bot, &call).await;
    until(&mut stream, "asked").await;
    stage.end.cancel();
    let served = stage.served.take().unwrap();
    tokio::time::timeout(SOON, served).await.expect("it ends").unwrap();
}
