//! An empty network namespace whose sockets are passed out and served from outside, as the launcher does.
//!
//! Needs unprivileged user namespaces, `unshare`, `ip`, `mount` and `curl`; it fails with a message if one is missing.

use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use byleave_sandbox::net::egress::Egress;
use byleave_sandbox::net::proxy_server::{ProxySockets, serve};
use byleave_sandbox::net::session_router::SessionRouter;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::AsyncWriteExt as _;

use super::world::{FakeHostPolicy, FakeHttpServer, FakeResolver, ProxyFixture, door, text};

const MEETING: &str = "BYLEAVE_TEST_MEETING";
const PORT: &str = "BYLEAVE_TEST_PORT";
/// A user that owns nothing.
const NOBODY: u32 = 61_001;

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn sockets_made_in_an_empty_namespace_are_the_only_way_out_of_it() {
    let server = FakeHttpServer::hello().await;
    let (lines, told) = tokio::task::block_in_place(|| run_inside(&server));
    let got = |what: &str| {
        let begin = format!("[{what}] ");
        lines
            .iter()
            .find_map(|line| line.strip_prefix(&begin))
            .unwrap_or_else(|| panic!("no {what} in {lines:?}"))
    };
    assert_eq!(got("by name"), "0 hello");
    assert_eq!(got("by the proxy"), "0 hello");
    assert_eq!(got("by socks"), "0 hello");
    // curl's exit codes: 6 is a failed lookup, 52 a close without an answer, 7 no route.
    assert_eq!(got("another name"), "6 ");
    assert_eq!(got("another by the proxy").split(':').next(), Some("0 blocked by policy"));
    assert_eq!(got("loopback"), "52 ");
    assert_eq!(got("an address that nobody was given"), "52 ");
    assert_eq!(got("outside"), "7 ");
    assert_eq!(server.connections(), 3);
    for wanted in [
        "transparent a.example true",
        "http a.example true",
        "socks a.example true",
        "lookup b.example false",
        "http b.example false",
        "transparent localhost false",
        "transparent 198.18.9.9 false",
    ] {
        assert!(told.iter().any(|line| line == wanted), "{wanted} {told:?}");
    }
}

/// Returns the output of the commands inside, and the decisions outside.
fn run_inside(server: &FakeHttpServer) -> (Vec<String>, Vec<String>) {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
    let meeting = place.path().join("meeting");
    let listener = UnixListener::bind(&meeting).unwrap();
    std::fs::set_permissions(&meeting, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = in_namespace(place.path(), "net::namespace::inside");
    command.env(MEETING, &meeting).env(PORT, server.port.to_string());
    let mut child = command.spawn().expect("this test needs `unshare`");
    listener.set_nonblocking(true).unwrap();
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) => match child.try_wait().unwrap() {
                Some(status) => {
                    panic!("no network namespace for an unprivileged user on this machine: {status}")
                }
                None => std::thread::yield_now(),
            },
        }
    };
    stream.set_nonblocking(false).unwrap();
    let mut fds = received(&stream).into_iter();
    let sockets = ProxySockets {
        proxy: fds.next().map(TcpListener::from),
        lookups: fds.next().map(UdpSocket::from),
        transparent: fds.map(TcpListener::from).collect(),
        ..ProxySockets::default()
    };
    assert_eq!(sockets.transparent.len(), 2);
    let serving = serve(
        sockets,
        &Arc::default(),
        SessionRouter::single(Arc::new(door(FakeHostPolicy::granting(&["a.example"])))),
    )
    .unwrap();
    stream.write_all(b"!").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    let told =
        serving.decisions().into_iter().map(|one| format!("{} {} {}", one.method, one.host, one.is_allowed));
    (said.lines().map(str::to_owned).collect(), told.collect())
}

/// Starts another test of this binary, as an unprivileged user in its own namespaces.
fn in_namespace(place: &Path, test: &str) -> Command {
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o777)).unwrap();
    // The test binary may be in a place that other users cannot read.
    let own = place.join("inside");
    std::fs::copy(std::env::current_exe().unwrap(), &own).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount"]).arg(&own);
    command.args(["--exact", test, "--ignored", "--nocapture"]).current_dir(place);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn run(program: &str, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
}

// req: E7
#[test]
fn public_addresses_of_this_machine_and_ports_of_the_web_are_guarded() {
    let place = tempfile::tempdir().unwrap();
    let output = in_namespace(place.path(), "net::namespace::inside_with_a_public_address").output();
    let output = output.expect("this test needs `unshare`");
    assert!(output.status.success(), "needs user namespaces for an unprivileged user: {output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

/// In a namespace, the test can use a public address and the ports 80 and 443.
#[tokio::test]
#[ignore = "run by the test above, in a namespace"]
async fn inside_with_a_public_address() {
    run("ip", &["link", "set", "lo", "up"]);
    run("ip", &["address", "add", "11.22.33.44/32", "dev", "lo"]);
    let answers = HashMap::from([("a.example", vec![vec!["11.22.33.44".parse().unwrap()]])]);
    let names = Arc::new(FakeResolver { answers, ..FakeResolver::default() });
    let proxy = ProxyFixture::before(
        Egress::new(Arc::new(FakeHostPolicy::granting(&["a.example"]))).with_resolver(names),
    );
    let listener = tokio::net::TcpListener::bind("0.0.0.0:80").await.unwrap();
    let answer = proxy.told("GET http://a.example/ HTTP/1.1\r\n\r\n").await;
    assert!(answer.contains("x-byleave-refusal: address-of-this-machine"), "{answer}");
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(text(&mut stream).await, "", "connected to, and told nothing");

    // A server with another protocol on a web port receives nothing, even if it speaks first.
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    let secure = tokio::net::TcpListener::bind("127.0.0.1:443").await.unwrap();
    for (port, listener) in [(80, &listener), (443, &secure)] {
        for said in
            [&b"SSH-2.0-x\r\n"[..], b"\x80\x2e\x01\x03\x01", b"\0\0\0\x08\x04\xd2\x16\x2f", b"GET /\r\n"]
        {
            let mut tunnel = proxy.tunnel("a.example", port).await;
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"speaks first").await.unwrap();
            tunnel.write_all(said).await.unwrap();
            let answer = text(&mut tunnel).await;
            assert!(answer.contains("x-byleave-refusal: other-protocol"), "{port} {said:?} {answer}");
            assert!(!answer.contains("speaks first"), "{port} {said:?} {answer}");
            assert_eq!(text(&mut stream).await, "");
        }
    }
}

fn received(stream: &UnixStream) -> Vec<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(stream, &mut [IoSliceMut::new(&mut [0; 1])], &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
    let rights = |message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    ancillary.drain().flat_map(rights).collect()
}

/// The part that runs inside. It fails if it is started alone.
#[test]
#[ignore = "run by the test above, in a namespace"]
fn inside() {
    let meeting = std::env::var_os(MEETING).expect("started by the other test");
    let port: u16 = std::env::var(PORT).unwrap().parse().unwrap();
    run("ip", &["link", "set", "lo", "up"]);
    run("ip", &["route", "add", "local", "198.18.0.0/15", "dev", "lo"]);
    run("mount", &["--bind", "resolv.conf", "/etc/resolv.conf"]);
    let proxy = TcpListener::bind("127.0.0.1:3128").unwrap();
    let lookups = UdpSocket::bind("127.0.0.1:53").unwrap();
    let transparent =
        [TcpListener::bind("0.0.0.0:443").unwrap(), TcpListener::bind(("0.0.0.0", port)).unwrap()];
    let mut stream = UnixStream::connect(Path::new(&meeting)).unwrap();
    {
        let fds = [proxy.as_fd(), lookups.as_fd(), transparent[0].as_fd(), transparent[1].as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&stream, &[IoSlice::new(b"!")], &mut ancillary, SendFlags::empty()).unwrap();
    }
    // From here on only the other side holds them.
    drop((proxy, lookups, transparent));
    stream.read_exact(&mut [0; 1]).unwrap();
    let at = |host: &str| format!("http://{host}:{port}/");
    for (what, arguments) in [
        ("by name", vec![at("a.example")]),
        ("by the proxy", vec!["-x".into(), "http://127.0.0.1:3128".into(), at("a.example")]),
        ("by socks", vec!["-x".into(), "socks5h://127.0.0.1:3128".into(), at("a.example")]),
        ("another name", vec![at("b.example")]),
        ("another by the proxy", vec!["-x".into(), "http://127.0.0.1:3128".into(), at("b.example")]),
        ("loopback", vec![at("127.0.0.1")]),
        ("an address that nobody was given", vec![at("198.18.9.9")]),
        ("outside", vec!["http://192.0.2.1/".to_owned()]),
    ] {
        let mut curl = Command::new("curl");
        curl.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        let output =
            curl.args(["--disable", "--silent", "--max-time", "120"]).args(arguments).output().unwrap();
        let (code, said) =
            (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned());
        writeln!(stream, "[{what}] {code} {}", said.trim_end()).unwrap();
    }
}
