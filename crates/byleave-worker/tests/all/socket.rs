//! Connections over real sockets, in plain text on this machine and over TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use byleave_conformance::ledger::LedgerHarness;
use byleave_core::id::CallId;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::{Ledger, LedgerError};
use byleave_gate::secret::Secret;
use byleave_worker::websocket::{SocketConnector, channel_over_socket, websocket_config};
use byleave_worker::{Connector as _, Permissions, server};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::accept_hdr_async_with_config;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;

use crate::stage::RegistryFixture;

const TOKEN: &str = "byl_worker";

/// Admits clients that present the token.
#[expect(clippy::result_large_err, reason = "as the library wants it")]
fn admit(request: &Request, response: Response) -> Result<Response, ErrorResponse> {
    let shown = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    if shown == Some(&format!("Bearer {TOKEN}")) {
        return Ok(response);
    }
    let mut no = ErrorResponse::new(None);
    *no.status_mut() = StatusCode::UNAUTHORIZED;
    Err(no)
}

async fn talk(office: &RegistryFixture, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let roster = office.roster.clone();
    if let Ok(socket) = accept_hdr_async_with_config(stream, admit, Some(websocket_config())).await {
        server::serve_worker(&roster, Permissions::All, channel_over_socket(socket)).await;
    }
}

/// A server that listens.
struct ListeningServer {
    office: Arc<RegistryFixture>,
    address: SocketAddr,
    roots: RootCertStore,
}

impl ListeningServer {
    async fn new(safe: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, office) = (listener.local_addr().unwrap(), Arc::new(RegistryFixture::new()));
        let mut roots = RootCertStore::empty();
        let acceptor = safe.then(|| {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
            roots.add(made.cert.der().clone()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            let config =
                config.unwrap().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
            TlsAcceptor::from(Arc::new(config.unwrap()))
        });
        let serving = Arc::clone(&office);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (office, acceptor) = (Arc::clone(&serving), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => talk(&office, stream).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                talk(&office, stream).await;
                            }
                        }
                    }
                });
            }
        });
        Self { office, address, roots }
    }

    fn dial(&self, scheme: &str, token: &str) -> SocketConnector {
        let address = format!("{scheme}://localhost:{}/v1/workers", self.address.port());
        SocketConnector::new(&address, Secret::new(token), Arc::new(trusting(self.roots.clone()))).unwrap()
    }
}

/// The same for the conformance suite, started when it is first used.
struct SocketFixture(tokio::sync::OnceCell<ListeningServer>);

impl SocketFixture {
    async fn listening(&self) -> &ListeningServer {
        self.0.get_or_init(|| ListeningServer::new(false)).await
    }
}

impl LedgerHarness for SocketFixture {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Ledger>, LedgerError>> {
        Box::pin(async {
            let listening = self.listening().await;
            Ok(Arc::new(listening.office.worker_by(listening.dial("http", TOKEN))) as Arc<dyn Ledger>)
        })
    }

    fn kill(&self, ledger: Arc<dyn Ledger>) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { self.listening().await.office.kill(ledger).await })
    }

    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}

// req: A1, E4
byleave_conformance::ledger_conformance!(SocketFixture(tokio::sync::OnceCell::new()));

// req: R4
#[tokio::test(flavor = "multi_thread")]
async fn over_tls_it_is_the_same_and_who_has_no_token_or_trusts_nobody_gets_no_wire() {
    let listening = ListeningServer::new(true).await;
    let worker = listening.office.worker_by(listening.dial("https", TOKEN));
    assert!(worker.load(CallId::new(byleave_gate::clock::fresh_id())).await.unwrap().is_none());
    let refused = listening.dial("https", "byl_other").connect().await.unwrap_err();
    assert!(refused.0.contains("401"), "{refused:?}");
    assert!(listening.dial("http", TOKEN).connect().await.is_err(), "nothing is said in the clear");
    let stranger = ListeningServer {
        office: Arc::new(RegistryFixture::new()),
        address: listening.address,
        roots: RootCertStore::empty(),
    };
    let untrusted = stranger.dial("https", TOKEN).connect().await.unwrap_err();
    assert!(untrusted.0.contains("certificate"), "{untrusted:?}");
    let trusts = Arc::new(trusting(RootCertStore::empty()));
    let elsewhere = SocketConnector::new("http://gate.example.org/", Secret::new(TOKEN), trusts);
    assert!(elsewhere.is_err(), "in the clear only on this machine");
}

fn trusting(roots: RootCertStore) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    config.unwrap().with_root_certificates(roots).with_no_client_auth()
}
