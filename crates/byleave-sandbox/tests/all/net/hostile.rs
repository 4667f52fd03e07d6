//! Attacks of a hostile program on the proxy, byte by byte. Each case says what must not happen.

use std::time::Duration;

use byleave_sandbox::net::egress::NetworkLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::world::{FakeHostPolicy, FakeHttpServer, ProxyFixture, curl, door, text};

/// A proxy that grants `a.example`, and a server behind it.
async fn granting_a() -> (FakeHttpServer, ProxyFixture) {
    (FakeHttpServer::hello().await, ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"]))))
}

// req: E7
#[tokio::test]
async fn the_second_request_on_a_connection_is_judged_like_the_first() {
    let (server, proxy) = granting_a().await;
    let port = server.port;
    let mut stream = proxy.connect().await;
    let first = format!("GET http://a.example:{port}/1 HTTP/1.1\r\nHost: a.example:{port}\r\n\r\n");
    let second = format!("GET http://b.example:{port}/2 HTTP/1.1\r\nHost: b.example:{port}\r\n\r\n");
    // Both at once: the second request must not pass within the bytes of the first.
    stream.write_all(format!("{first}{first}{second}").as_bytes()).await.unwrap();
    let answer = text(&mut stream).await;
    assert_eq!(answer.matches("hello\n").count(), 2, "{answer}");
    assert!(answer.contains("`b.example:"), "{answer}");
    assert_eq!(
        (server.seen().matches("GET /1").count(), server.seen().contains("/2")),
        (2, false),
        "{}",
        server.seen()
    );
    assert_eq!(server.connections(), 1, "the line to a host is kept for the next request to it");
}

#[tokio::test]
async fn a_request_in_a_tunnel_is_for_the_host_of_the_tunnel() {
    let (server, proxy) = granting_a().await;
    let port = server.port;
    for request in [
        "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nHost: a.example:{}\r\n\r\n", port ^ 1),
        "GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n".to_owned(),
        "GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
        "CONNECT b.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
        "\r\n\r\nGET / HTTP/1.1\r\nHost: b.example\r\n\r\n".to_owned(),
        " GET / HTTP/1.1\r\nHost: b.example\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\nHost: b.example\n\n".to_owned(),
        "GET / HTTP/1.1 \r\nHost: b.example\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a.example\r\nX: y\rHost: b.example\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a.example\r\n Host: b.example\r\n\r\n".to_owned(),
        "\u{b}GET\t/ HTTP/1.1\r\nHost: b.example\r\n\r\n".to_owned(),
        "GET /\u{e9}\u{1}\0 HTTP/1.1\r\nHost: b.example\r\n\r\n".to_owned(),
        format!("GET /{} HTTP/1.1\r\nHost: b.example\r\n\r\n", "x".repeat(9_000)),
        format!("GET /{} HTTP/1.1\r\nHost: b.example\r\n\r\n", "x".repeat(90_000)),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ] {
        let mut tunnel = proxy.tunnel("a.example", port).await;
        tunnel.write_all(request.as_bytes()).await.unwrap();
        tunnel.shutdown().await.unwrap();
        let answer = text(&mut tunnel).await;
        // A request head without an end gets no answer.
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{:.80} {answer}", request);
    }
    assert_eq!(server.seen(), "");
}

#[tokio::test]
async fn a_host_header_that_names_another_is_refused_before_anything_is_sent() {
    let (server, proxy) = granting_a().await;
    let port = server.port;
    let answer =
        proxy.told(format!("GET http://a.example:{port}/ HTTP/1.1\r\nHost: b.example:{port}\r\n\r\n")).await;
    assert!(answer.contains("x-byleave-refusal: other-host"), "{answer}");
    assert_eq!((server.connections(), proxy.lines()), (0, vec!["http a.example refused".to_owned()]));
}

#[tokio::test]
async fn a_request_does_not_hide_in_the_body_of_another() {
    let (server, proxy) = granting_a().await;
    let port = server.port;
    let hidden = "GET /hidden HTTP/1.1\r\nHost: b.example\r\n\r\n";
    let length = hidden.len();
    for framing in [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{hidden}"),
        format!("Content-Length: 0, {length}\r\n\r\n{hidden}"),
        format!("Transfer-Encoding: xchunked\r\n\r\n{hidden}"),
        format!("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("Content-Length: -1\r\n\r\n{hidden}"),
        format!("Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n{hidden}"),
        format!("Transfer-Encoding: chunked\r\n\r\n00000000000000000\r\n\r\n{hidden}"),
        format!("Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n{hidden}"),
        // The bytes after a complete request are parsed as the next one, which lacks an absolute URL.
        format!("\r\n{hidden}"),
    ] {
        let answer = proxy.told(format!("POST http://a.example:{port}/ HTTP/1.1\r\n{framing}")).await;
        assert!(answer.contains("HTTP/1.1 400") || answer.contains("HTTP/1.1 502"), "{framing:?} {answer}");
        assert!(!server.seen().contains("hidden"), "{framing:?} {}", server.seen());
    }
}

#[tokio::test]
async fn a_connection_does_not_leave_http_by_an_upgrade() {
    let (server, proxy) = granting_a().await;
    let port = server.port;
    let asked = "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    let answer = proxy.told(format!("GET http://a.example:{port}/ HTTP/1.1\r\n{asked}\r\n")).await;
    assert!(answer.ends_with("hello\n"), "{answer}");
    assert!(!server.seen().to_lowercase().contains("upgrade"), "{}", server.seen());
    assert!(!server.seen().to_lowercase().contains("http2"), "{}", server.seen());
    let switching =
        FakeHttpServer::answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nraw").await;
    let answer = proxy.told(format!("GET http://a.example:{}/ HTTP/1.1\r\n\r\n", switching.port)).await;
    assert!(answer.starts_with("HTTP/1.1 502") && !answer.contains("raw"), "{answer}");
}

#[tokio::test]
async fn an_address_is_not_a_name_however_it_is_spelled() {
    let (server, proxy) = granting_a().await;
    let port = server.port;
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "0177.0.0.1",
        "017700000001",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "0",
        "localhost",
        "127.0.0.1.",
        "１２７.0.0.1",
        "a.example@127.0.0.1",
        "127.0.0.1#a.example",
        "127.0.0.1%2ea.example",
        "a.example\\@127.0.0.1",
        "a.example%00.b.example",
        "[127.0.0.1]",
        "1.2.3.4.5",
    ] {
        for request in [format!("GET http://{host}:{port}/"), format!("CONNECT {host}:{port}")] {
            let answer = proxy.told(format!("{request} HTTP/1.1\r\n\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 40"), "{request} {answer}");
        }
        let mut socks = proxy.connect().await;
        let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, u8::try_from(host.len()).unwrap()];
        bytes.extend(host.bytes());
        bytes.extend(port.to_be_bytes());
        socks.write_all(&bytes).await.unwrap();
        let mut answer = [0; 4];
        socks.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [5, 0, 5, 2], "{host}");
    }
    // By IP address, in both families.
    for (kind, address) in
        [(1, vec![127, 0, 0, 1]), (4, "::1".parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec())]
    {
        let mut socks = proxy.connect().await;
        socks
            .write_all(&[vec![5, 1, 0, 5, 1, 0, kind], address, port.to_be_bytes().to_vec()].concat())
            .await
            .unwrap();
        let mut answer = [0; 4];
        socks.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [5, 0, 5, 2]);
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_inwards_leads_nowhere() {
    let target = FakeHttpServer::hello().await;
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{}/\r\nContent-Length: 0\r\n\r\n",
        target.port
    );
    let server = FakeHttpServer::answering(redirect).await;
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    let at = format!("http://{}", proxy.at);
    let got = curl(&["-x", &at, "--noproxy", "", "-L", &format!("http://a.example:{}/", server.port)]).await;
    assert!(String::from_utf8_lossy(&got.stdout).contains("`127.0.0.1:"), "{got:?}");
    assert_eq!((server.connections(), target.connections()), (1, 0));
}

#[tokio::test]
async fn a_head_has_an_end_in_bytes_and_in_time() {
    let server = FakeHttpServer::hello().await;
    // Each limit separately, so that a slow machine does not reach another limit first.
    let bounded =
        |bounds| ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])).with_limits(bounds));
    let port = server.port;
    let long = "x".repeat(70_000);
    let answer = bounded(NetworkLimits::default())
        .told(format!("GET http://a.example:{port}/ HTTP/1.1\r\nX: {long}\r\n\r\n"))
        .await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    // Begun, and never completed.
    let proxy =
        bounded(NetworkLimits { head_timeout: Duration::from_millis(150), ..NetworkLimits::default() });
    assert!(proxy.told("GET http://a.example/ HTTP/1.1\r\n").await.starts_with("HTTP/1.1 408"));
    for begun in [&b""[..], &[5], &[5, 1, 0, 5, 1], b"CONNECT a.exam"] {
        let answer = proxy.told(begun).await;
        assert!(!answer.contains("200"), "{begun:?} {answer}");
    }
    // A tunnel that becomes idle after some traffic.
    let proxy = bounded(NetworkLimits { idle_timeout: Duration::from_secs(2), ..NetworkLimits::default() });
    let mut tunnel = proxy.tunnel("a.example", port).await;
    tunnel.write_all(b"\0 not http").await.unwrap();
    assert_eq!(tunnel.read(&mut [0; 1]).await.unwrap_or(0), 0);
    // A body that never arrives.
    let answer =
        proxy.told(format!("POST http://a.example:{port}/never HTTP/1.1\r\nContent-Length: 5\r\n\r\n")).await;
    assert!(!answer.contains("408"), "{answer}");
}

#[tokio::test]
async fn an_answer_of_a_host_is_bounded_too() {
    let endless =
        FakeHttpServer::answering(format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(70_000))).await;
    let folded = FakeHttpServer::answering("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n").await;
    let twice =
        FakeHttpServer::answering("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
            .await;
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    for server in [endless, folded, twice] {
        let answer = proxy.told(format!("GET http://a.example:{}/ HTTP/1.1\r\n\r\n", server.port)).await;
        assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    }
}

#[tokio::test]
async fn a_flood_of_wishes_fills_neither_the_log_nor_a_persons_day() {
    let bounds =
        NetworkLimits { max_questions: 3, max_hosts: 20, max_decisions: 10, ..NetworkLimits::default() };
    let keeper = std::sync::Arc::new(FakeHostPolicy {
        asks: vec!["*"],
        says: Some("no"),
        ..FakeHostPolicy::default()
    });
    let proxy =
        ProxyFixture::before(super::world::door_of(std::sync::Arc::clone(&keeper)).with_limits(bounds));
    for n in 0..40 {
        let answer = proxy.told(format!("GET http://h{n}.example/ HTTP/1.1\r\n\r\n")).await;
        let code = if n < 3 {
            "host-not-granted"
        } else if n < 20 {
            "too-many-questions"
        } else {
            "too-many-hosts"
        };
        assert!(answer.contains(code), "{n} {answer}");
    }
    assert_eq!((keeper.asked.lock().unwrap().len(), proxy.serving.decisions().len()), (3, 10));
    // Repeated decisions are counted, not logged.
    let other = ProxyFixture::before(door(FakeHostPolicy::default()));
    for _ in 0..5 {
        other.told("GET http://b.example/ HTTP/1.1\r\n\r\n").await;
    }
    assert_eq!(other.serving.decisions().iter().map(|one| one.times).collect::<Vec<_>>(), [5]);
}

#[tokio::test]
async fn what_comes_from_inside_cannot_draw_on_a_screen_through_the_log() {
    let proxy = ProxyFixture::before(door(FakeHostPolicy::default()));
    let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, 12];
    bytes.extend(b"\x1b[2J\r\nfake\0\0");
    bytes.extend([0, 80]);
    let mut socks = proxy.connect().await;
    socks.write_all(&bytes).await.unwrap();
    text(&mut socks).await;
    let log = proxy.serving.decisions();
    assert_eq!(log.len(), 1);
    assert!(
        log.iter().all(|one| !format!("{}{}", one.host, one.reason.as_deref().unwrap_or_default())
            .contains(char::is_control)),
        "{log:?}"
    );
}
