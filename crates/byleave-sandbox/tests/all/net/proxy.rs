//! The proxy for a well-behaved program: granted hosts work, and others are refused with a reason.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use byleave_sandbox::net::address::AddressPolicy;
use byleave_sandbox::net::credential::{Credential, CredentialTransport};
use byleave_sandbox::net::decision_log::HostAccessMethod;
use byleave_sandbox::net::egress::{Egress, NetworkLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::world::{
    FakeHostPolicy, FakeHttpServer, FakeResolver, ProxyFixture, curl, door, door_of, said, text,
};

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn curl_reaches_a_granted_host_every_way_and_no_other() {
    let server = FakeHttpServer::hello().await;
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    let (http, socks) = (format!("http://{}", proxy.at), format!("socks5h://{}", proxy.at));
    for (proxy, more) in [(&http, "--http1.1"), (&http, "--proxytunnel"), (&socks, "--http1.1")] {
        let granted = format!("http://A.example:{}/x", server.port);
        assert_eq!(said(&curl(&["-x", proxy, more, &granted]).await), "hello\n", "{proxy} {more}");
        let refused = curl(&["-x", proxy, more, &format!("http://b.example:{}/x", server.port)]).await;
        assert!(!said(&refused).contains("hello"), "{proxy} {more}");
    }
    assert_eq!(server.connections(), 3);
    let lines = proxy.lines();
    let wanted = ["http a", "http b", "connect a", "connect b", "socks a", "socks b"];
    for (line, wanted) in lines.iter().zip(wanted) {
        assert!(
            line.starts_with(wanted)
                && line.ends_with(if wanted.ends_with('a') { "given" } else { "refused" }),
            "{lines:?}"
        );
    }
    assert_eq!(lines.len(), 6);
}

#[tokio::test]
async fn a_refusal_says_what_why_and_its_code() {
    let proxy = ProxyFixture::before(door(FakeHostPolicy::default()));
    for request in ["GET http://b.example/ HTTP/1.1\r\n\r\n", "CONNECT b.example:80 HTTP/1.1\r\n\r\n"] {
        let answer = proxy.told(request).await;
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
        assert!(answer.contains("x-byleave-refusal: host-not-granted\r\n"), "{answer}");
        assert!(
            answer.ends_with("blocked by policy: `b.example:80` is not allowed: no rule allows it\n"),
            "{answer}"
        );
    }
    assert_eq!(proxy.why().await, "`b.example:80` is not allowed: no rule allows it");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_counted_both_ways_and_bodies_arrive_whole() {
    let body = "x".repeat(300_000);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let whole = listener.local_addr().unwrap().port();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n{body}");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut came = Vec::new();
        while came.iter().filter(|byte| **byte == b'x').count() < 100_000 {
            stream.read_buf(&mut came).await.unwrap();
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n\n\r\n0\r\nTrailer: x\r\n\r\n";
    let in_chunks = FakeHttpServer::answering(chunked).await;
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    let at = format!("http://{}", proxy.at);
    let url = |port: u16| format!("http://a.example:{port}/");
    let got = curl(&["-x", &at, "--data-binary", &body[..100_000], &url(whole)]).await;
    assert_eq!(said(&got).len(), 300_000);
    assert_eq!(
        said(
            &curl(&["-x", &at, &url(in_chunks.port), "--next", "-0", "-x", &at, &url(in_chunks.port)]).await
        ),
        "hello\nhello\n"
    );
    let decisions = proxy.serving.close().await;
    let first = &decisions[0];
    assert!(first.is_allowed && first.method == HostAccessMethod::Http);
    assert!((100_000..101_000).contains(&first.sent), "{first:?}");
    assert!((300_000..301_000).contains(&first.received), "{first:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn head_requests_and_uploads_that_wait_for_leave_to_go_on_work() {
    let server = FakeHttpServer::answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n").await;
    let upload = FakeHttpServer::answering(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    )
    .await;
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    let at = format!("http://{}", proxy.at);
    let url = |port: u16| format!("http://a.example:{port}/");
    let head = said(&curl(&["-x", &at, "--head", &url(server.port)]).await);
    assert!(head.contains("content-length: 6"), "{head}");
    let sent =
        curl(&["-x", &at, "-H", "Expect: 100-continue", "--data-binary", "abc", &url(upload.port)]).await;
    assert_eq!(said(&sent), "ok");
    assert!(upload.seen().contains("expect: 100-continue"), "{}", upload.seen());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_asked_once_a_call_and_the_grant_ends_with_it() {
    let server = FakeHttpServer::hello().await;
    let keeper = Arc::new(FakeHostPolicy { asks: vec!["ask.example"], ..FakeHostPolicy::default() });
    let request = format!("GET http://ask.example:{}/ HTTP/1.1\r\nConnection: close\r\n\r\n", server.port);
    for call in 1..=2 {
        let proxy = ProxyFixture::before(door_of(Arc::clone(&keeper)));
        let (first, second) = tokio::join!(proxy.told(&request), proxy.told(&request));
        assert!(first.ends_with("hello\n") && second.ends_with("hello\n"), "{first} {second}");
        assert_eq!(keeper.asked.lock().unwrap().len(), call);
        // Open connections are closed when the call ends.
        let mut tunnel = proxy.tunnel("ask.example", server.port).await;
        proxy.serving.close().await;
        assert_eq!(tunnel.read(&mut [0; 1]).await.unwrap_or(0), 0);
    }
    let unwilling =
        FakeHostPolicy { asks: vec!["ask.example"], says: Some("Ada said no"), ..FakeHostPolicy::default() };
    let proxy = ProxyFixture::before(door(unwilling));
    assert!(proxy.told(&request).await.ends_with("is not allowed: Ada said no\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_added_outside_and_is_nowhere_inside() {
    let server = FakeHttpServer::hello().await;
    let credential = Credential::new(
        "a.example",
        server.port,
        CredentialTransport::Plain,
        "Authorization",
        "Bearer hunter2",
    )
    .unwrap();
    let granting = door(FakeHostPolicy::granting(&["a.example", "b.example"]));
    let proxy = ProxyFixture::before(granting.with_credentials(vec![credential], None).unwrap());
    let ask = |host: &str, method: &str| {
        let port = server.port;
        format!(
            "{method} http://{host}:{port}/ HTTP/1.1\r\nAuthorization: from inside\r\nConnection: close, authorization\r\n\r\n"
        )
    };
    assert!(proxy.told(ask("a.example", "GET")).await.ends_with("hello\n"));
    assert!(
        server.seen().contains("authorization: Bearer hunter2\r\n") && !server.seen().contains("from inside")
    );
    let before = server.seen();
    assert!(proxy.told(ask("b.example", "GET")).await.ends_with("hello\n"));
    assert!(!server.seen()[before.len()..].contains("hunter2"));
    let traced = proxy.told(ask("a.example", "TRACE")).await;
    assert!(traced.contains("trace-refused"), "{traced}");
    let log = format!("{:?}", proxy.serving.decisions());
    assert!(!log.contains("hunter2") && log.contains("credential: true"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_a_host_sends_back_is_covered() {
    let body = "you sent Bearer hunter2";
    let echo = format!("HTTP/1.1 200 OK\r\nX-Seen: hunter2\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let server = FakeHttpServer::answering(echo).await;
    let port = server.port;
    let credential =
        Credential::new("a.example", port, CredentialTransport::Plain, "Authorization", "Bearer hunter2")
            .unwrap();
    let granting = door(FakeHostPolicy::granting(&["a.example"]));
    let proxy = ProxyFixture::before(granting.with_credentials(vec![credential], None).unwrap());
    let by_name = format!(
        "GET http://a.example:{port}/ HTTP/1.1\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
    );
    let answer = proxy.told(by_name).await;
    assert!(
        answer.contains("x-seen: *******\r\n") && answer.ends_with("you sent Bearer *******"),
        "{answer}"
    );
    let mut tunnel = proxy.tunnel("a.example", port).await;
    tunnel.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").await.unwrap();
    let answer = text(&mut tunnel).await;
    assert!(answer.ends_with("you sent Bearer *******"), "{answer}");
    assert!(
        server.seen().matches("authorization: Bearer hunter2").count() == 2
            && !server.seen().contains("gzip")
    );
}

#[tokio::test]
async fn a_credential_for_tls_without_anybody_to_open_it_is_no_door() {
    let credential =
        Credential::new("a.example", 443, CredentialTransport::Tls, "Authorization", "x").unwrap();
    let flaw = door(FakeHostPolicy::default()).with_credentials(vec![credential], None).unwrap_err();
    assert!(flaw.to_string().contains("TLS interception is off"), "{flaw}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protocol_in_which_the_server_speaks_first_passes_on_a_port_of_its_own() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"220 ready\r\n").await.unwrap();
        let said = text(&mut stream).await;
        stream.write_all(said.to_uppercase().as_bytes()).await.unwrap();
    });
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    let mut tunnel = proxy.tunnel("a.example", port).await;
    let mut banner = [0; 11];
    tunnel.read_exact(&mut banner).await.unwrap();
    tunnel.write_all(b"helo there").await.unwrap();
    tunnel.shutdown().await.unwrap();
    assert_eq!(text(&mut tunnel).await, "HELO THERE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_refuses_an_upload_halfway_is_heard() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; 100]).await.unwrap();
        stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        text(&mut stream).await;
    });
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    let mut stream = proxy.connect().await;
    let head = format!("POST http://a.example:{port}/ HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&[b'x'; 100_000]).await.unwrap();
    let answer = text(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413 Too Large\r\n"), "{answer}");
}

#[tokio::test]
async fn what_does_not_answer_is_a_failure_and_no_refusal() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    let answer = proxy.told(format!("GET http://a.example:{unused}/ HTTP/1.1\r\n\r\n")).await;
    assert!(
        answer.starts_with("HTTP/1.1 502") && answer.contains("cannot connect to `a.example:"),
        "{answer}"
    );
    assert!(proxy.serving.decisions()[0].is_allowed);
}

// req: E7
#[tokio::test]
async fn a_granted_name_that_leads_inwards_is_refused_whatever_the_way() {
    let special = [
        "0.0.0.0",
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "100.64.0.1",
        "192.168.0.1",
        "198.18.0.1",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "fe80::1",
        "fd00:ec2::254",
        "2002:7f00:1::",
    ];
    let keeper = Arc::new(FakeHostPolicy::granting(&["a.example"]));
    for address in special {
        let answers = HashMap::from([("a.example", vec![vec![address.parse().unwrap()]])]);
        let names = Arc::new(FakeResolver { answers, ..FakeResolver::default() });
        let proxy =
            ProxyFixture::before(Egress::new(Arc::<FakeHostPolicy>::clone(&keeper)).with_resolver(names));
        let answer = proxy.told("GET http://a.example/ HTTP/1.1\r\n\r\n").await;
        assert!(answer.contains("x-byleave-refusal: address-not-public"), "{address} {answer}");
        let answer = proxy.told("CONNECT a.example:443 HTTP/1.1\r\n\r\n").await;
        assert!(answer.contains("x-byleave-refusal: address-not-public"), "{address} {answer}");
    }
}

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_looked_up_once_a_connection_and_what_was_checked_is_connected_to() {
    let server = FakeHttpServer::hello().await;
    let (good, bad) = ("127.0.0.1".parse().unwrap(), "10.0.0.1".parse().unwrap());
    let answers = HashMap::from([("a.example", vec![vec![good], vec![bad], vec![bad, good]])]);
    let names = Arc::new(FakeResolver { answers, ..FakeResolver::default() });
    let proxy = ProxyFixture::before(
        Egress::new(Arc::new(FakeHostPolicy::granting(&["a.example"])))
            .with_resolver(Arc::<FakeResolver>::clone(&names))
            .with_address_policy(AddressPolicy::with_loopback()),
    );
    let request = format!("GET http://a.example:{}/ HTTP/1.1\r\nConnection: close\r\n\r\n", server.port);
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(proxy.told(&request).await);
    }
    assert!(answers[0].ends_with("hello\n"), "{answers:?}");
    assert!(answers[1].contains("leads to the private address 10.0.0.1"), "{answers:?}");
    assert!(answers[2].ends_with("hello\n"), "the one address that may be reached is: {answers:?}");
    assert_eq!(names.lookups.load(std::sync::atomic::Ordering::SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_may_be_open_wait_for_their_turn() {
    let server = FakeHttpServer::hello().await;
    let bounds = NetworkLimits {
        max_connections: 2,
        idle_timeout: Duration::from_secs(2),
        ..NetworkLimits::default()
    };
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])).with_limits(bounds));
    let (_one, _two) =
        (proxy.tunnel("a.example", server.port).await, proxy.tunnel("a.example", server.port).await);
    let request = format!("GET http://a.example:{}/ HTTP/1.1\r\nConnection: close\r\n\r\n", server.port);
    assert!(proxy.told(&request).await.ends_with("hello\n"));
}
