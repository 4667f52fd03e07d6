//! Hosts that may be read, and to which nothing may be sent.
//!
//! Needs curl, git, python3 and wget.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use byleave_sandbox::launch::NetworkBridge;
use byleave_sandbox::net::egress::Egress;
use byleave_sandbox::net::tls_intercept::TlsInterceptor;
use byleave_testkit::user::unprivileged;
use tokio::io::AsyncWriteExt as _;

use super::git_server::GitServer;
use super::tls::FakeHttpsServer;
use super::world::{FakeHostPolicy, FakeHttpServer, ProxyFixture, curl, door, said, text};
use crate::launch;
use crate::online::{ALL, NetworkedSandbox, runtime};

/// The content of the file that must not leave.
const CANARY: &str = "CANARY-7f3a";

fn reading() -> Egress {
    door(FakeHostPolicy::for_reading(&["a.example"]))
}

/// A file with the canary, a header that holds it, and its path as curl takes it.
fn canary(directory: &Path) -> (String, String) {
    let (file, header) = (directory.join("canary"), directory.join("header"));
    std::fs::write(&file, CANARY).unwrap();
    std::fs::write(&header, format!("X-Data: {CANARY}\n")).unwrap();
    (format!("{}", file.display()), format!("@{}", header.display()))
}

/// The ways in which curl sends a file.
fn uploads(file: &str) -> Vec<Vec<String>> {
    let data = format!("@{file}");
    let form = format!("f=@{file}");
    [
        &["-d", &data][..],
        &["--data-binary", &data, "-X", "PUT"],
        &["-T", file],
        &["-F", &form],
        &["-X", "GET", "-d", &data],
        &["-X", "GET", "-H", "Transfer-Encoding: chunked", "-d", &data],
        &["-X", "DELETE"],
        &["-X", "PROPFIND", "-d", &data],
        &["-d", &data, "-H", "Content-Type: application/x-git-upload-pack-request"],
    ]
    .iter()
    .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
    .collect()
}

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_may_only_be_read_gets_no_body_over_plain_http() {
    let (server, directory) = (FakeHttpServer::hello().await, tempfile::tempdir().unwrap());
    let (file, header) = canary(directory.path());
    let proxy = ProxyFixture::before(reading());
    let url = format!("http://a.example:{}/r/git-upload-pack", server.port);
    for way in [&["-x"][..], &["-p", "-x"], &["--socks5-hostname"]] {
        let at =
            if way[0] == "--socks5-hostname" { proxy.at.to_string() } else { format!("http://{}", proxy.at) };
        let through = [way, &[&at]].concat();
        let run = |more: &[&str]| {
            [&through, more, &[url.as_str()]]
                .concat()
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<String>>()
        };
        let read = run(&["-H", &header, "-b", CANARY, "-e", CANARY]);
        let got = curl(&read.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!(said(&got), "hello\n", "{way:?} {got:?}");
        for upload in uploads(&file) {
            let words = run(&upload.iter().map(String::as_str).collect::<Vec<_>>());
            let got = curl(&words.iter().map(String::as_str).collect::<Vec<_>>()).await;
            assert!(said(&got).contains("may only be read"), "{upload:?} {got:?}");
        }
    }
    assert!(!server.seen().contains(CANARY), "{}", server.seen());
    assert!(proxy.serving.decisions().iter().filter(|one| !one.is_allowed).all(|one| one.is_send_refused));
}

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_may_only_be_read_gets_no_body_over_tls_and_no_other_protocol() {
    let (server, directory) = (FakeHttpsServer::start().await, tempfile::tempdir().unwrap());
    let (file, header) = canary(directory.path());
    let interception = Arc::new(TlsInterceptor::towards(server.trusting()).unwrap());
    let ours = directory.path().join("authority.pem");
    std::fs::write(&ours, interception.certificate()).unwrap();
    let ours = ours.display().to_string();
    let proxy = ProxyFixture::before(reading().with_credentials(Vec::new(), Some(interception)).unwrap());
    let (at, url) = (format!("http://{}", proxy.at), format!("https://a.example:{}/x", server.port));
    let got = curl(&["-x", &at, "--cacert", &ours, "-H", &header, &url]).await;
    assert_eq!(said(&got), "hello\n", "{got:?}");
    for upload in uploads(&file) {
        let words: Vec<&str> = upload.iter().map(String::as_str).collect();
        let got = curl(&[&["-x", &at, "--cacert", &ours][..], &words, &[&url]].concat()).await;
        assert!(said(&got).contains("may only be read"), "{upload:?} {got:?}");
    }
    // Other protocols, in a tunnel to the same host.
    for bytes in [format!("{CANARY}\r\n\r\n"), format!("SSH-2.0-{CANARY}\r\n"), format!("\0\0{CANARY}")] {
        let mut tunnel = proxy.tunnel("a.example", server.port).await;
        tunnel.write_all(bytes.as_bytes()).await.unwrap();
        assert!(text(&mut tunnel).await.contains("may only be read"), "{bytes:?}");
    }
    assert!(!server.seen.lock().unwrap().contains(CANARY));
    // A program that does not trust the certificate of the proxy sends nothing, and the log names the rule.
    let before = server.seen.lock().unwrap().len();
    let got = curl(&["-x", &at, &url]).await;
    assert!(!got.status.success() && server.seen.lock().unwrap().len() == before, "{got:?}");
    let last = proxy.serving.decisions().into_iter().filter_map(|one| one.reason).next_back().unwrap();
    assert!(
        last.contains("does not trust the certificate") && last.contains("`send = [\"a.example\"]`"),
        "{last}"
    );
    // Without an interceptor, no TLS passes.
    let blind = ProxyFixture::before(reading());
    let got = curl(&["-x", &format!("http://{}", blind.at), "--insecure", &url]).await;
    assert!(!got.status.success() && server.seen.lock().unwrap().len() == before, "{got:?}");
}

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn the_address_and_the_headers_of_a_read_are_bounded() {
    let server = FakeHttpServer::hello().await;
    let bounds = byleave_sandbox::net::egress::NetworkLimits {
        max_read_request_bytes: 1_000,
        ..byleave_sandbox::net::egress::NetworkLimits::default()
    };
    let proxy = ProxyFixture::before(reading().with_limits(bounds));
    let port = server.port;
    let get = |path: &str, header: &str| {
        format!(
            "GET http://a.example:{port}/{path} HTTP/1.1\r\nHost: a.example:{port}\r\n{header}Connection: close\r\n\r\n"
        )
    };
    let long = CANARY.repeat(100_000);
    for request in [
        get("", &format!("X-Data: {long}\r\n")),
        get("", &format!("User-Agent: {}\r\n", &long[..2_000])),
        get(&long[..5_000], ""),
    ] {
        let told = proxy.told(&request).await;
        assert!(told.starts_with("HTTP/1.1 4"), "{told}");
    }
    assert_eq!(server.seen(), "");
    for path in [&"x".repeat(400), &"y".repeat(400)] {
        assert!(proxy.told(get(path, "")).await.ends_with("hello\n"));
    }
    assert!(proxy.told(get(&"z".repeat(400), "")).await.contains("limited in total"));
    assert!(!server.seen().contains('z'));
}

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn git_clones_and_fetches_from_a_host_that_may_only_be_read_and_cannot_push() {
    let server = GitServer::start().await;
    let proxy = ProxyFixture::before(reading());
    let home = tempfile::tempdir().unwrap();
    let git = |directory: &Path, words: &[&str]| {
        let mut command = Command::new("git");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home.path());
        command.env("http_proxy", format!("http://{}", proxy.at)).env("GIT_TERMINAL_PROMPT", "0");
        command.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(words).current_dir(directory);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let (url, work) = (format!("http://a.example:{}/r.git", server.port), home.path().join("work"));
    let got = git(home.path(), &["clone", "-q", &url, "work"]);
    assert!(got.status.success() && work.join("a.txt").exists(), "{got:?}");
    // So many commits that git compresses its request, and asks several times.
    let script = "for i in $(seq 60); do git commit -q --allow-empty -m c$i; done";
    let mut shell = Command::new("sh");
    shell.env("GIT_AUTHOR_NAME", "t").env("GIT_AUTHOR_EMAIL", "t@t").env("GIT_COMMITTER_NAME", "t");
    shell.env("GIT_COMMITTER_EMAIL", "t@t").args(["-c", script]).current_dir(&work);
    assert!(shell.status().unwrap().success());
    server.commit();
    let got = git(&work, &["fetch", "-q"]);
    assert!(got.status.success(), "{got:?}");
    for version in ["0", "1"] {
        server.commit();
        let protocol = format!("protocol.version={version}");
        let got = git(&work, &["-c", &protocol, "fetch", "-q"]);
        assert!(got.status.success(), "{got:?}");
    }
    assert!(server.fetches.load(Ordering::SeqCst) > 3);
    let got = git(&work, &["push", "-q", "origin", "HEAD:refs/heads/other"]);
    assert!(!got.status.success() && !server.has_branch("other"), "{got:?}");
    assert!(proxy.serving.decisions().iter().any(|one| one.is_send_refused));
}

// req: E7
#[test]
fn a_command_reads_a_host_and_cannot_send_to_it() {
    if !unprivileged("net::read_only::a_command_reads_a_host_and_cannot_send_to_it") {
        return;
    }
    let runtime = runtime();
    let server = runtime.block_on(FakeHttpsServer::start());
    let interception = Arc::new(TlsInterceptor::towards(server.trusting()).unwrap());
    let port = server.port;
    for means in ALL {
        let uplink =
            NetworkBridge::new().unwrap().with_ports([port]).with_interceptor(Arc::clone(&interception));
        let online = NetworkedSandbox::new(means, uplink);
        std::fs::write(online.path().join("canary"), CANARY).unwrap();
        let url = format!("https://a.example:{port}/");
        let script = format!(
            "curl -sS {url} && curl -sS --noproxy '*' {url} &&
            python3 -c 'import urllib.request as u; print(u.urlopen(\"{url}\").read().decode(), end=\"\")'
            wget -qO- {url}
            curl -sS -d @canary {url}; wget -qO- --post-file=canary {url}; curl -sS -T canary {url}; curl -sS --noproxy '*' -d @canary {url}
            python3 -c 'import urllib.request as u; u.urlopen(\"{url}\", data=open(\"canary\", \"rb\").read())'
            python3 -c '
import http.client, ssl
c = http.client.HTTPSConnection(\"a.example\", {port}); c.request(\"POST\", \"/\", open(\"canary\")); print(c.getresponse().status)'
            python3 -c '
import socket
s = socket.create_connection((\"a.example\", {port})); s.sendall(open(\"canary\", \"rb\").read() + b\"\\r\\n\"); print(s.recv(9))'"
        );
        let outcome = online.run(&script, reading());
        let told = launch::text(&outcome.stdout) + &launch::text(&outcome.stderr);
        assert!(told.starts_with("hello\nhello\nhello\nhello\n"), "{means:?} {told}");
        assert!(told.matches("may only be read").count() >= 3 && told.contains("403"), "{means:?} {told}");
        assert!(!server.seen.lock().unwrap().contains(CANARY), "{means:?}");
    }
}
