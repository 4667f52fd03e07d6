//! Calls that share a namespace and its proxy port: each with its own token and its own egress.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use byleave_sandbox::net::egress::NetworkLimits;
use byleave_sandbox::net::proxy_server::{ProxyServer, ProxySockets, serve};
use byleave_sandbox::net::session_router::{ProxyToken, SessionRouter};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::world::{FakeHostPolicy, FakeHttpServer, curl, door, said, text};

/// A proxy with an egress for each of two calls, and none for clients without a token.
fn shared() -> (SocketAddr, ProxyServer, ProxyToken, ProxyToken) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let doors = SessionRouter::by_pass(None);
    let sockets = ProxySockets { proxy: Some(listener), ..ProxySockets::default() };
    let serving = serve(sockets, &Arc::default(), Arc::clone(&doors)).unwrap();
    let one = doors.register_call(door(FakeHostPolicy::granting(&["a.example"]))).unwrap();
    let two = doors.register_call(door(FakeHostPolicy::granting(&["b.example"]))).unwrap();
    (at, serving, one, two)
}

/// The same proxy with SOCKS.
fn socks(url: &str) -> String {
    url.replace("http://", "socks5h://")
}

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn each_call_goes_through_its_own_door_and_nobody_through_none() {
    let server = FakeHttpServer::hello().await;
    let (at, _serving, one, two) = shared();
    let (first, second) = (one.proxy_url(at), two.proxy_url(at));
    let url = |host: &str| format!("http://{host}.example:{}/", server.port);
    for (proxy, host, reached) in [
        (first.clone(), "a", true),
        (first.clone(), "b", false),
        (second.clone(), "a", false),
        (second.clone(), "b", true),
        (socks(&first), "a", true),
        (socks(&first), "b", false),
        (format!("http://{at}"), "a", false),
        (format!("socks5h://{at}"), "a", false),
        (format!("http://call:0123@{at}"), "a", false),
        (format!("socks5h://call:@{at}"), "a", false),
    ] {
        for tunnel in ["--proxytunnel", "--http1.1"] {
            // `git` connects without a token first, and sends it when it is requested.
            let got = curl(&["-x", &proxy, "--proxy-anyauth", tunnel, &url(host)]).await;
            assert_eq!(said(&got) == "hello\n", reached, "{proxy} {host} {got:?}");
            let got = curl(&["-x", &proxy, tunnel, &url(host)]).await;
            assert_eq!(said(&got) == "hello\n", reached, "{proxy} {host} {got:?}");
        }
    }
    assert!(!server.seen().to_lowercase().contains("proxy-authorization"), "{}", server.seen());
    let hosts = |pass: &ProxyToken, given| {
        pass.decisions()
            .iter()
            .filter(|one| one.is_allowed == given)
            .map(|one| one.host.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (hosts(&one, true), hosts(&two, true)),
        (vec!["a.example".to_owned(); 8], vec!["b.example".to_owned(); 4])
    );
    assert!(hosts(&one, false).iter().all(|host| host == "b.example"));
    assert!(
        !format!("{one:?}").contains(first.split(['@', ':']).nth(2).unwrap()),
        "a pass does not print itself"
    );
}

/// Opens a tunnel to `a.example` or `b.example`. Returns the stream and the answer.
async fn tunnel(at: SocketAddr, pass: &str, host: &str, port: u16) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let coded = base64(&format!("call:{pass}"));
    let head = format!("CONNECT {host}:{port} HTTP/1.1\r\nProxy-Authorization: Basic {coded}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    (stream, String::from_utf8_lossy(&status).into_owned())
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn text_of(pass: &ProxyToken, at: SocketAddr) -> String {
    pass.proxy_url(at).split(['@', ':']).nth(2).unwrap().to_owned()
}

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn when_a_call_is_over_its_pass_opens_nothing_and_its_connections_end() {
    let server = FakeHttpServer::hello().await;
    let (at, _serving, one, two) = shared();
    let (first, second) = (text_of(&one, at), text_of(&two, at));
    let (mut of_one, status) = tunnel(at, &first, "a.example", server.port).await;
    assert_eq!(status, "HTTP/1.1 200");
    let (mut of_two, _) = tunnel(at, &second, "b.example", server.port).await;
    let decisions = one.close();
    assert_eq!(decisions.len(), 1);
    text(&mut of_one).await;
    assert_eq!(tunnel(at, &first, "a.example", server.port).await.1, "HTTP/1.1 407");
    // The other call continues.
    of_two.write_all(b"GET / HTTP/1.1\r\nHost: b.example\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(text(&mut of_two).await.ends_with("hello\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_does_not_change_its_call() {
    let server = FakeHttpServer::hello().await;
    let (at, _serving, one, two) = shared();
    let (first, second) = (text_of(&one, at), text_of(&two, at));
    let request = |host: &str, pass: &str| {
        let coded = base64(&format!("call:{pass}"));
        format!("GET http://{host}:{}/ HTTP/1.1\r\nProxy-Authorization: Basic {coded}\r\n\r\n", server.port)
    };
    let mut stream = TcpStream::connect(at).await.unwrap();
    let both = request("a.example", &first) + &request("b.example", &second);
    stream.write_all(both.as_bytes()).await.unwrap();
    let answer = text(&mut stream).await;
    assert_eq!(answer.matches("hello\n").count(), 1, "{answer}");
    assert!(answer.contains("HTTP/1.1 407"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_every_connection_takes_only_its_own() {
    let server = FakeHttpServer::hello().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let doors = SessionRouter::by_pass(None);
    let sockets = ProxySockets { proxy: Some(listener), ..ProxySockets::default() };
    let _serving = serve(sockets, &Arc::default(), Arc::clone(&doors)).unwrap();
    let few = NetworkLimits { max_connections: 3, ..NetworkLimits::default() };
    let greedy =
        doors.register_call(door(FakeHostPolicy::granting(&["a.example"])).with_limits(few)).unwrap();
    let other = doors.register_call(door(FakeHostPolicy::granting(&["b.example"]))).unwrap();
    let mut held = Vec::new();
    for _ in 0..3 {
        let (stream, status) = tunnel(at, &text_of(&greedy, at), "a.example", server.port).await;
        assert_eq!(status, "HTTP/1.1 200");
        held.push(stream);
    }
    let got = curl(&["-x", &greedy.proxy_url(at), &format!("http://a.example:{}/", server.port)]).await;
    assert!(!got.status.success(), "{got:?}");
    let got = curl(&["-x", &other.proxy_url(at), &format!("http://b.example:{}/", server.port)]).await;
    assert_eq!(said(&got), "hello\n");
}

// req: E7
#[tokio::test(flavor = "current_thread")]
async fn who_cannot_show_a_pass_is_known_while_one_call_runs_and_what_it_leaves_is_not_the_next_ones() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let doors = SessionRouter::by_running_call();
    let sockets = ProxySockets { transparent: vec![listener], ..ProxySockets::default() };
    let _serving = serve(sockets, &Arc::default(), Arc::clone(&doors)).unwrap();
    let open = || doors.register_call(door(FakeHostPolicy::granting(&["a.example"]))).unwrap();
    let wanted = |pass: &ProxyToken| pass.decisions().iter().map(|one| one.times).sum::<u64>();
    // Nothing is served before this waits, so the connection of the first call is accepted after that call has
    // ended.
    let one = open();
    let left = std::net::TcpStream::connect(at).unwrap();
    drop(one);
    let two = open();
    let mut own = TcpStream::connect(at).await.unwrap();
    text(&mut own).await;
    assert_eq!(wanted(&two), 1, "its own alone");
    drop(left);
    // While two run, it is logged for both and belongs to neither.
    let three = open();
    let mut either = TcpStream::connect(at).await.unwrap();
    text(&mut either).await;
    assert_eq!((wanted(&two), wanted(&three)), (2, 1));
    assert!(three.decisions()[0].reason.as_deref().unwrap().contains("it is unknown which of them"));
    drop(two);
    let mut own = TcpStream::connect(at).await.unwrap();
    text(&mut own).await;
    assert_eq!(three.decisions().len(), 2);
    // While none runs, it is closed.
    drop(three);
    let mut nobodys = TcpStream::connect(at).await.unwrap();
    assert_eq!(text(&mut nobodys).await, "");
}
