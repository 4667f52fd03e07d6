//! Sites for tests: real sockets on loopback, with plain HTTP or TLS, and names for them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use byleave_sandbox::net::egress::{BoxFuture, Resolver};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Writes the response to a request, given its head.
pub(crate) type SiteHandler = Arc<dyn Fn(&str, &mut dyn Write) + Send + Sync>;

/// A site that serves until the test ends.
#[derive(Clone)]
pub(crate) struct FakeSite {
    pub(crate) at: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl FakeSite {
    /// A site with this response to every request. Port 0 picks a free one.
    pub(crate) fn new(at: (&str, u16), says: SiteHandler) -> Self {
        Self::serving(at, None, says)
    }

    /// The same with TLS, with a certificate for these names.
    pub(crate) fn secure(
        at: (&str, u16),
        authority: &TestCertificateAuthority,
        names: &[&str],
        says: SiteHandler,
    ) -> Self {
        Self::serving(at, Some(authority.config(names)), says)
    }

    /// The heads of all requests so far. For anything else, the received bytes.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    fn serving(at: (&str, u16), tls: Option<Arc<ServerConfig>>, says: SiteHandler) -> Self {
        let listener =
            TcpListener::bind(at).unwrap_or_else(|error| panic!("cannot listen at {at:?}: {error}"));
        let site = Self { at: listener.local_addr().unwrap(), heads: Arc::default() };
        let serving = site.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (serving, says, tls) = (serving.clone(), Arc::clone(&says), tls.clone());
                std::thread::spawn(move || match tls {
                    None => serving.serve(stream, &says),
                    Some(config) => {
                        let line = ServerConnection::new(config).unwrap();
                        serving.serve(StreamOwned::new(line, stream), &says);
                    }
                });
            }
        });
        site
    }

    fn serve(&self, mut stream: impl Read + Write, says: &SiteHandler) {
        let mut head = Vec::new();
        let mut byte = [0];
        // This byte begins TLS, for which the end is not known.
        while !head.ends_with(b"\r\n\r\n") && head != [0x16] && matches!(stream.read(&mut byte), Ok(1)) {
            head.extend_from_slice(&byte);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        self.heads.lock().unwrap().push(head.clone());
        says(&head, &mut stream);
        stream.flush().ok();
    }
}

/// A complete response.
pub(crate) fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> SiteHandler {
    let body = body.as_ref();
    let mut whole =
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    whole.extend_from_slice(body);
    Arc::new(move |_, stream| {
        stream.write_all(&whole).ok();
    })
}

pub(crate) fn redirect(status: &str, to: &str) -> SiteHandler {
    answer(status, &format!("Location: {to}\r\n"), "moved")
}

/// The path of a request head.
pub(crate) fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// The certificate authority for the sites of a test.
pub(crate) struct TestCertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) root: CertificateDer<'static>,
}

impl TestCertificateAuthority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), root }
    }

    fn config(&self, names: &[&str]) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap())
    }
}

/// Names, with the results of their lookups in order. The last is repeated.
#[derive(Default)]
pub(crate) struct FakeResolver {
    known: BTreeMap<String, Vec<Vec<IpAddr>>>,
    otherwise: Vec<IpAddr>,
    lookups: Mutex<Vec<String>>,
}

impl FakeResolver {
    /// Resolves every name to these.
    pub(crate) fn all(addresses: &[&str]) -> Self {
        Self { otherwise: addresses.iter().map(|one| one.parse().unwrap()).collect(), ..Self::default() }
    }

    /// Resolves this name to these, in order.
    pub(crate) fn with(mut self, name: &str, answers: &[&[&str]]) -> Self {
        let answers = answers.iter().map(|answer| answer.iter().map(|one| one.parse().unwrap()).collect());
        self.known.insert(name.to_owned(), answers.collect());
        self
    }

    pub(crate) fn lookups(&self) -> Vec<String> {
        self.lookups.lock().unwrap().clone()
    }
}

impl Resolver for FakeResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        let mut lookups = self.lookups.lock().unwrap();
        let before = lookups.iter().filter(|other| *other == name).count();
        lookups.push(name.to_owned());
        let found = match self.known.get(name) {
            Some(answers) => answers.get(before).or(answers.last()).cloned().unwrap_or_default(),
            None => self.otherwise.clone(),
        };
        Box::pin(async move { Ok(found) })
    }
}
