//! Fixtures for the network tests: a host policy, a resolver, recording servers, and a proxy.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use byleave_sandbox::net::address::AddressPolicy;
use byleave_sandbox::net::egress::{BoxFuture, Egress, HostDecision, HostPolicy, Resolver};
use byleave_sandbox::net::proxy_server::{ProxyServer, ProxySockets, serve};
use byleave_sandbox::net::session_router::SessionRouter;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Grants and asks about the given hosts, on every port.
#[derive(Default)]
pub(crate) struct FakeHostPolicy {
    pub(crate) granted: Vec<&'static str>,
    pub(crate) asks: Vec<&'static str>,
    /// A person's answer to a question.
    pub(crate) says: Option<&'static str>,
    pub(crate) asked: Mutex<Vec<String>>,
    /// Hosts that may be read, and to which nothing may be sent.
    pub(crate) read_only: Vec<&'static str>,
}

impl FakeHostPolicy {
    pub(crate) fn granting(granted: &[&'static str]) -> Self {
        Self { granted: granted.to_vec(), ..Self::default() }
    }

    pub(crate) fn for_reading(granted: &[&'static str]) -> Self {
        Self { read_only: granted.to_vec(), ..Self::granting(granted) }
    }
}

impl HostPolicy for FakeHostPolicy {
    fn decide(&self, host: &str, _port: u16) -> HostDecision {
        if self.granted.contains(&host) {
            HostDecision::Granted
        } else if self.asks.contains(&"*") || self.asks.contains(&host) {
            HostDecision::Ask
        } else {
            HostDecision::Refused("no rule allows it".to_owned())
        }
    }

    fn decide_send(&self, host: &str, _port: u16) -> Result<(), String> {
        if self.read_only.contains(&host) { Err("no rule allows sending".to_owned()) } else { Ok(()) }
    }

    fn ask_user<'a>(&'a self, host: &'a str, _port: u16) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(host.to_owned());
            self.says.map_or(Ok(()), |why| Err(why.to_owned()))
        })
    }
}

/// Resolves every name to 127.0.0.1, unless there are other answers. Those are used in order, one per lookup.
#[derive(Default)]
pub(crate) struct FakeResolver {
    pub(crate) answers: HashMap<&'static str, Vec<Vec<IpAddr>>>,
    pub(crate) lookups: AtomicUsize,
}

impl Resolver for FakeResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let nth = self.lookups.fetch_add(1, Ordering::SeqCst);
        let found = match self.answers.get(name) {
            Some(answers) => answers[nth % answers.len()].clone(),
            None => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        };
        Box::pin(async move { Ok(found) })
    }
}

/// An egress for tests: names resolve to loopback, and loopback is allowed.
pub(crate) fn door(keeper: FakeHostPolicy) -> Egress {
    door_of(Arc::new(keeper))
}

pub(crate) fn door_of(keeper: Arc<FakeHostPolicy>) -> Egress {
    Egress::new(keeper)
        .with_resolver(Arc::new(FakeResolver::default()))
        .with_address_policy(AddressPolicy::with_loopback())
}

/// A running proxy.
pub(crate) struct ProxyFixture {
    pub(crate) at: SocketAddr,
    pub(crate) serving: ProxyServer,
}

impl ProxyFixture {
    pub(crate) fn before(door: Egress) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let sockets = ProxySockets { proxy: Some(listener), ..ProxySockets::default() };
        let serving = serve(sockets, &Arc::default(), SessionRouter::single(Arc::new(door))).unwrap();
        Self { at, serving }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }

    /// Sends these bytes and reads until the end.
    pub(crate) async fn told(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_ref()).await.unwrap();
        text(&mut stream).await
    }

    /// Opens a tunnel to this host and port.
    pub(crate) async fn tunnel(&self, host: &str, port: u16) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let wanted = b"HTTP/1.1 200 Connection established\r\n\r\n";
        let mut answer = vec![0; wanted.len()];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, wanted);
        stream
    }

    /// The decisions, one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |one: byleave_sandbox::net::decision_log::HostAccessRecord| {
            let given = if one.is_allowed { "given" } else { "refused" };
            format!("{} {} {given}", one.method, one.host)
        };
        self.serving.decisions().into_iter().map(line).collect()
    }

    /// The first reason for a refusal. It is logged after the connection has ended.
    pub(crate) async fn why(&self) -> String {
        for _ in 0..3_000 {
            if let Some(why) = self.serving.decisions().into_iter().find_map(|one| one.reason) {
                return why;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        String::new()
    }
}

/// Reads until the other end closes or resets.
pub(crate) async fn text(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut part = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut part).await {
        all.extend_from_slice(&part[..read]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// An HTTP server that records requests.
pub(crate) struct FakeHttpServer {
    pub(crate) port: u16,
    seen: Arc<Mutex<String>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl FakeHttpServer {
    /// Answers every request with these bytes.
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, connections) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicUsize::new(0)));
        let (remembered, counted) = (Arc::clone(&seen), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve_one(stream, Arc::clone(&answer), Arc::clone(&remembered)));
            }
        });
        Self { port, seen, connections }
    }

    pub(crate) async fn hello() -> Self {
        Self::answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n").await
    }

    /// Everything that it received.
    pub(crate) fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Answers each empty line that ends a request head. This is enough for a server, and is what a smuggled request would
/// exploit.
pub(crate) async fn serve_one<S>(mut stream: S, answer: Arc<[u8]>, seen: Arc<Mutex<String>>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut pending = String::new();
    let mut part = [0; 65_536];
    while let Ok(read @ 1..) = stream.read(&mut part).await {
        let came = String::from_utf8_lossy(&part[..read]).into_owned();
        seen.lock().unwrap().push_str(&came);
        pending.push_str(&came);
        while let Some(end) = pending.find("\r\n\r\n") {
            pending.drain(..end + 4);
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }
}

/// Runs `curl` without any user settings.
pub(crate) async fn curl(arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new("curl");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).stdin(Stdio::null());
    command.args(["--disable", "--silent", "--show-error", "--max-time", "120"]).args(arguments);
    tokio::task::spawn_blocking(move || command.output().expect("these tests need curl")).await.unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
