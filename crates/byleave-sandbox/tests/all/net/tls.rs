//! TLS through the proxy: bound to the granted name, and intercepted only to add a credential.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use byleave_sandbox::net::credential::{Credential, CredentialTransport};
use byleave_sandbox::net::tls_intercept::TlsInterceptor;
use rcgen::{CertificateParams, CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::world::{FakeHostPolicy, ProxyFixture, curl, door, said, serve_one};

/// An HTTPS server for `a.example` that records requests.
pub(crate) struct FakeHttpsServer {
    pub(crate) port: u16,
    certificate: rcgen::Certificate,
    pem: tempfile::NamedTempFile,
    pub(crate) seen: Arc<Mutex<String>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl FakeHttpsServer {
    pub(crate) async fn start() -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["a.example".to_owned(), "b.example".to_owned()]).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, connections) = (Arc::<Mutex<String>>::default(), Arc::<AtomicUsize>::default());
        let (remembered, counted) = (Arc::clone(&seen), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                counted.fetch_add(1, Ordering::SeqCst);
                let answer: Arc<[u8]> = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"[..].into();
                tokio::spawn(serve_one(stream, answer, Arc::clone(&remembered)));
            }
        });
        let pem = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(pem.path(), cert.pem()).unwrap();
        Self { port, certificate: cert, pem, seen, connections }
    }

    pub(crate) fn trusting(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        trusting(roots)
    }
}

fn trusting(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn tls_passes_untouched_and_only_by_the_name_that_was_granted() {
    let server = FakeHttpsServer::start().await;
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    let trusted = server.pem.path().to_str().unwrap();
    let port = server.port;
    for at in [format!("http://{}", proxy.at), format!("socks5h://{}", proxy.at)] {
        let arguments = ["-x", &at, "--cacert", trusted];
        let url = format!("https://a.example:{port}/");
        assert_eq!(said(&curl(&[&arguments[..], &[&url]].concat()).await), "hello\n", "{at}");
        // The tunnel goes to one host, and the ClientHello names another. The certificate is valid for both.
        let fronted = format!("b.example:{port}:a.example:{port}");
        let url = format!("https://b.example:{port}/");
        let got = curl(&[&arguments[..], &["--connect-to", &fronted, &url]].concat()).await;
        assert_eq!((said(&got).as_str(), got.status.success()), ("", false));
        assert!(String::from_utf8_lossy(&got.stderr).contains("alert access denied"), "{got:?}");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
    let why = "the connection was allowed for `a.example`, but the TLS inside it asks for `b.example`";
    assert_eq!(proxy.why().await, why);
    let decisions = proxy.serving.decisions();
    assert_eq!(decisions.iter().map(|one| one.is_allowed).collect::<Vec<_>>(), [true, false, true, false]);
    assert!(decisions.iter().filter(|one| !one.is_allowed).all(|one| one.sent == 0), "{decisions:?}");
    assert!(
        decisions.iter().filter(|one| one.is_allowed).all(|one| one.sent > 300 && one.received > 300),
        "{decisions:?}"
    );
}

/// A ClientHello with these extensions, cut into records of this many bytes.
fn hello(extensions: &[(u16, Vec<u8>)], cut: usize) -> Vec<u8> {
    let sized = |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
    let listed: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, content)| [kind.to_be_bytes().to_vec(), sized(content)].concat())
        .collect();
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 0x01, 1, 0], &sized(&listed)].concat();
    let message = [&[1, 0][..], &sized(&body)].concat();
    message.chunks(cut).flat_map(|part| [&[22, 3, 1][..], &sized(part)].concat()).collect()
}

fn named(name: &str) -> (u16, Vec<u8>) {
    let length = u8::try_from(name.len()).unwrap();
    (0, [&[0, length + 3, 0, 0, length][..], name.as_bytes()].concat())
}

/// Sends these parts through a tunnel for `a.example` to a recording server. Returns what the server and the
/// client received.
async fn sent_through(parts: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>, ProxyFixture) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let arrived = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.ok();
        all
    });
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    let mut tunnel = proxy.tunnel("a.example", port).await;
    for part in parts {
        tunnel.write_all(part).await.unwrap();
    }
    tunnel.shutdown().await.unwrap();
    let mut answer = Vec::new();
    tunnel.read_to_end(&mut answer).await.ok();
    (arrived.await.unwrap(), answer, proxy)
}

const DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

// req: E7
#[tokio::test]
async fn a_hello_that_hides_its_name_does_not_pass() {
    let (a, b) = (named("a.example"), named("b.example"));
    let two_names = (0, [&[0, 24, 0, 0, 9][..], b"a.example", &[0, 0, 9], b"b.example"].concat());
    for (what, bytes, code) in [
        ("no name", hello(&[], 9_999), "names no server"),
        ("another name", hello(std::slice::from_ref(&b), 9_999), "asks for `b.example`"),
        (
            "an encrypted second hello",
            hello(&[a.clone(), (0xfe0d, vec![0, 1])], 9_999),
            "hides a second name",
        ),
        ("two names in two extensions", hello(&[a.clone(), b.clone()], 9_999), "cannot be read"),
        ("two names in one", hello(&[two_names], 9_999), "cannot be read"),
        ("another name, byte by byte", hello(std::slice::from_ref(&b), 1), "asks for `b.example`"),
        (
            "a name with a NUL",
            hello(&[named("a.example\0.b.example")], 9_999),
            "asks for `a.example\\u{0}.b.example`",
        ),
        (
            "an empty record before it",
            [vec![22, 3, 1, 0, 0], hello(std::slice::from_ref(&a), 9_999)].concat(),
            "cannot be read",
        ),
        ("no hello at all", vec![22, 3, 1, 0, 4, 2, 0, 0, 0], "cannot be read"),
        ("half of one", hello(std::slice::from_ref(&a), 9_999)[..40].to_vec(), "is incomplete"),
    ] {
        let (arrived, answer, proxy) = sent_through(&[bytes]).await;
        assert!(arrived.is_empty(), "{what} {arrived:?}");
        assert_eq!(answer, DENIED, "{what}");
        let why = proxy.why().await;
        assert!(why.contains(code), "{what} {why}");
    }
    // In chunks, with the right name, it passes unchanged.
    let pieces: Vec<Vec<u8>> = hello(&[a], 3).chunks(2).map(<[u8]>::to_vec).collect();
    assert_eq!(sent_through(&pieces).await.0, pieces.concat());
}

// req: E7
#[tokio::test]
async fn the_second_hello_of_a_handshake_names_the_same_server() {
    let first = hello(&[named("a.example")], 9_999);
    let between = vec![20, 3, 3, 0, 1, 1];
    let early = [&[23, 3, 3, 0, 3][..], b"abc"].concat();
    for before in
        [vec![], between.clone(), early.clone(), [between.clone(), early.clone(), early.clone()].concat()]
    {
        for cut in [9_999, 1] {
            let second = hello(&[named("b.example")], cut);
            let (arrived, answer, proxy) = sent_through(&[first.clone(), before.clone(), second]).await;
            assert_eq!(arrived, [first.clone(), before.clone()].concat());
            assert_eq!(answer, DENIED);
            let why = proxy.why().await;
            assert!(why.contains("asks for `b.example`"), "{why}");
        }
    }
    let again = [first.clone(), between, first.clone(), early].concat();
    assert_eq!(sent_through(std::slice::from_ref(&again)).await.0, again);
}

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_added_in_tls_that_the_proxy_opened_and_the_host_is_checked() {
    let server = FakeHttpsServer::start().await;
    let port = server.port;
    let credential = || {
        Credential::new("a.example", port, CredentialTransport::Tls, "Authorization", "Bearer hunter2")
            .unwrap()
    };
    let interception = Arc::new(TlsInterceptor::towards(server.trusting()).unwrap());
    let ours = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ours.path(), interception.certificate()).unwrap();
    let ours = ours.path().to_str().unwrap().to_owned();
    let ours_file = ours.as_str();
    let inside = door(FakeHostPolicy::granting(&["a.example", "b.example"]));
    let proxy =
        ProxyFixture::before(inside.with_credentials(vec![credential()], Some(interception)).unwrap());
    let at = format!("http://{}", proxy.at);
    let url = |host: &str| format!("https://{host}:{port}/");
    let got =
        curl(&["-x", &at, "--cacert", ours_file, "-H", "Authorization: from inside", &url("a.example")])
            .await;
    assert_eq!(said(&got), "hello\n", "{got:?}");
    let seen = server.seen.lock().unwrap().clone();
    assert!(seen.contains("authorization: Bearer hunter2\r\n") && !seen.contains("from inside"), "{seen}");
    // Inside intercepted TLS too, a request must be for the granted host.
    let got = curl(&["-x", &at, "--cacert", ours_file, "-H", "Host: b.example", &url("a.example")]).await;
    assert!(said(&got).contains("the request inside it is for `b.example`"), "{got:?}");
    // A host without a credential is not intercepted: it shows its own certificate.
    let own = server.pem.path().to_str().unwrap();
    assert_eq!(said(&curl(&["-x", &at, "--cacert", own, &url("b.example")]).await), "hello\n");
    let log = format!("{:?}", proxy.serving.decisions());
    assert!(!log.contains("hunter2") && log.contains("credential: true"), "{log}");

    // A host with an untrusted certificate does not get the credential.
    let seen = server.seen.lock().unwrap().len();
    let mut others = RootCertStore::empty();
    let other = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    others.add(other.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()).unwrap();
    let strict = Arc::new(TlsInterceptor::towards(trusting(others)).unwrap());
    let inside = door(FakeHostPolicy::granting(&["a.example"]));
    let proxy = ProxyFixture::before(inside.with_credentials(vec![credential()], Some(strict)).unwrap());
    let got = curl(&["-x", &format!("http://{}", proxy.at), "--insecure", &url("a.example")]).await;
    assert!(!got.status.success() && server.seen.lock().unwrap().len() == seen, "{got:?}");
    let why = proxy.why().await;
    assert!(why.contains("certificate"), "{why}");
}
