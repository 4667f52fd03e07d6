//! Overload: requests that are too many, too slow or too large. They are rejected, and everybody else is served.

use std::sync::Arc;
use std::time::Duration;

use byleave_server::ServerLimits;
use byleave_server::listen::{self, ListenError};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::stage::{SOON, ServerFixture, ServerTestSettings, TestResponse};

const SHORT: Duration = Duration::from_millis(300);

/// Sends this and nothing more, and reads until the server closes the connection.
async fn stall(stage: &ServerFixture, said: &str) -> String {
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    stream.write_all(said.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    let ended = tokio::time::timeout(SOON, stream.read_to_end(&mut heard)).await;
    drop(ended.expect("it is given up"));
    String::from_utf8_lossy(&heard).into_owned()
}

// req: E2
#[tokio::test(flavor = "multi_thread")]
async fn who_is_slow_is_given_up() {
    let limits =
        ServerLimits { header_timeout: SHORT, body_timeout: SHORT, ..ServerTestSettings::default().limits };
    let stage = ServerFixture::with(ServerTestSettings { limits, ..ServerTestSettings::default() }).await;
    let bot = stage.agent("bot");
    // Sends nothing, half a head, and half a body.
    stall(&stage, "").await;
    stall(&stage, "GET /v1/health HTTP/1.1\r\nhost: loc").await;
    let head = format!(
        "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {bot}\r\nidempotency-key: k\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"tool\":"
    );
    let heard = stall(&stage, &head).await;
    assert!(heard.starts_with("HTTP/1.1 408") && heard.contains("too-slow"), "{heard}");
    assert_eq!(stage.ask(&bot, "GET", "/v1/health", None).await.status, 200);
}

// req: E3
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused_however_it_is_sent() {
    let limits = ServerLimits { max_body_bytes: 10_000, ..ServerTestSettings::default().limits };
    let stage = ServerFixture::with(ServerTestSettings { limits, ..ServerTestSettings::default() }).await;
    let bot = stage.agent("bot");
    let body = json!({"tool": "echo", "arguments": {"text": "x".repeat(20_000)}});
    stage.call(&bot, "k", 0, &body).await.is_problem(413, "too-large");
    // In chunks, without a declared length.
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    let chunked = format!(
        "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {bot}\r\nidempotency-key: k\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n{}",
        chunk.repeat(4)
    );
    stage.say(chunked.as_bytes()).await.is_problem(413, "too-large");
    // A head that is too long.
    let head = format!("GET /v1/health HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    let heard = stall(&stage, &head).await;
    assert!(heard.is_empty() || heard.starts_with("HTTP/1.1 431"), "{heard}");
    assert_eq!(stage.ask(&bot, "GET", "/v1/health", None).await.status, 200);
}

// req: A2
#[tokio::test(flavor = "multi_thread")]
async fn who_asks_too_often_waits_and_others_do_not() {
    let limits = ServerLimits {
        requests_per_second: 1,
        burst: 5,
        unauthenticated_per_second: 1,
        ..ServerLimits::default()
    };
    let stage = ServerFixture::with(ServerTestSettings { limits, ..ServerTestSettings::default() }).await;
    let (bot, other) = (stage.agent("bot"), stage.agent("other"));
    let mut refused = 0;
    for _ in 0..20 {
        let heard = stage.ask(&bot, "GET", "/v1/health", None).await;
        if heard.status == 429 {
            heard.is_problem(429, "too-many");
            assert_eq!(heard.headers["retry-after"], "1");
            refused += 1;
        }
    }
    assert!(refused > 5, "{refused}");
    // Guessing tokens is rate-limited. Requests with a valid token are not.
    let mut guesses = 0;
    for _ in 0..30 {
        guesses += u32::from(stage.ask("byl_guess", "GET", "/v1/health", None).await.status == 429);
    }
    assert!(guesses > 5, "{guesses}");
    assert_eq!(stage.ask(&other, "GET", "/v1/health", None).await.status, 200);
}

// req: A2
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded() {
    let limits =
        ServerLimits { max_connections: 2, header_timeout: SHORT, ..ServerTestSettings::default().limits };
    let stage = ServerFixture::with(ServerTestSettings { limits, ..ServerTestSettings::default() }).await;
    let bot = stage.agent("bot");
    let held =
        [TcpStream::connect(stage.address).await.unwrap(), TcpStream::connect(stage.address).await.unwrap()];
    // The third connection is closed without a response.
    let mut third = TcpStream::connect(stage.address).await.unwrap();
    let mut heard = Vec::new();
    let read = tokio::time::timeout(SOON, third.read_to_end(&mut heard)).await.expect("it is turned away");
    drop(read);
    assert!(heard.is_empty());
    // Silent connections are closed, and new ones are accepted again.
    let served = async {
        loop {
            let mut stream = TcpStream::connect(stage.address).await.unwrap();
            let head = format!(
                "GET /v1/health HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {bot}\r\nconnection: close\r\n\r\n"
            );
            let mut heard = String::new();
            if stream.write_all(head.as_bytes()).await.is_ok()
                && stream.read_to_string(&mut heard).await.is_ok()
                && heard.starts_with("HTTP/1.1 200")
            {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, served).await.expect("there is room again");
    drop(held);
}

// req: E7
#[test]
fn beyond_this_machine_only_with_tls() {
    for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "10.0.0.1:1"] {
        let address = address.parse().unwrap();
        assert!(matches!(listen::check_address(address, false), Err(ListenError::TlsRequired(_))));
        assert!(listen::check_address(address, true).is_ok());
    }
    for address in ["127.0.0.1:1", "[::1]:1"] {
        assert!(listen::check_address(address.parse().unwrap(), false).is_ok());
    }
}

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn over_tls_it_is_the_same_and_in_the_clear_nothing_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    assert!(listen::load_tls(&key, &certificate).is_err());
    assert!(listen::load_tls(&dir.path().join("none"), &key).is_err());
    let tls = Some(listen::load_tls(&certificate, &key).unwrap());
    let stage = ServerFixture::with(ServerTestSettings { tls, ..ServerTestSettings::default() }).await;
    let bot = stage.agent("bot");

    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(stage.address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut stream = TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap();
    let port = stage.address.port();
    let head = format!(
        "GET /v1/health HTTP/1.1\r\nhost: localhost:{port}\r\norigin: https://localhost:{port}\r\n\
         authorization: Bearer {bot}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    tokio::time::timeout(SOON, stream.read_to_end(&mut heard)).await.expect("it ends").unwrap();
    assert_eq!(TestResponse::new(&heard).json["status"], "ok");
    // A plaintext request gets no HTTP response.
    let heard = stall(&stage, &head).await;
    assert!(!heard.contains("HTTP/"), "{heard}");
}
