//! One HTTP request over one connection to an evaluated address, with TLS if the address says so. Nothing is kept for the next request.
//!
//! The connection comes from the [`Egress`], which is the only part that dials. There is no proxy, no cookie, no credential and no body.

use std::fmt;
use std::sync::Arc;

use byleave_sandbox::net::egress::Egress;
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, HOST, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, crypto};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use url::Url;

use super::error::FetchError;
use super::limits::{MAX_HEAD_BYTES, MAX_HEADERS};

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FetchTarget {
    /// The normalized host, as it was evaluated. This host is dialled and sent to the server, not the one in the address.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) url: Url,
}

/// A response whose body has not been read.
pub(super) struct PendingResponse {
    pub(super) response: Response<Incoming>,
    /// The task that ends the connection with the response.
    pub(super) connection: HttpConnectionTask,
}

/// The task that drives a connection. It is aborted when dropped.
pub(super) struct HttpConnectionTask(JoinHandle<()>);

impl Drop for HttpConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

trait AsyncStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> AsyncStream for S {}

/// Creates a TLS configuration with the machine's own certificates and these.
pub(super) fn tls_config(
    roots: &[rustls::pki_types::CertificateDer<'static>],
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(roots.iter().cloned(), provider)?;
    let verified = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = verified.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Sends the request, and reads the head of the response.
pub(super) async fn send_get(
    door: &Egress,
    tls: &Arc<ClientConfig>,
    target: &FetchTarget,
) -> Result<PendingResponse, FetchError> {
    let tcp = door.connect_host(&target.host, target.port).await?;
    let stream: Box<dyn AsyncStream> = if target.url.scheme() == "https" {
        let broken = |error: &dyn fmt::Display| FetchError::Tls {
            host: target.host.clone(),
            reason: error.to_string(),
        };
        let name = ServerName::try_from(target.host.clone()).map_err(|error| broken(&error))?;
        let secure = TlsConnector::from(Arc::clone(tls)).connect(name, tcp).await;
        Box::new(secure.map_err(|error| broken(&error))?)
    } else {
        Box::new(tcp)
    };
    let broken = |error: hyper::Error| match error.is_parse_too_large() {
        true => FetchError::HeadTooLarge { host: target.host.clone() },
        false => FetchError::Http { host: target.host.clone(), reason: told(&error) },
    };
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let line = HttpConnectionTask(tokio::spawn(async move {
        // An error of the connection also appears in the response.
        connection.await.ok();
    }));
    let response = sender.send_request(request(target)?).await.map_err(broken)?;
    Ok(PendingResponse { response, connection: line })
}

fn request(target: &FetchTarget) -> Result<Request<Empty<Bytes>>, FetchError> {
    let FetchTarget { host, port, url: address } = target;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let host = match address.port() {
        Some(_) => format!("{host}:{port}"),
        None => host,
    };
    let path = match address.query() {
        Some(query) => format!("{}?{query}", address.path()),
        None => address.path().to_owned(),
    };
    let request = Request::get(path)
        .header(HOST, host)
        .header(USER_AGENT, concat!("byleave/", env!("CARGO_PKG_VERSION"), " (web_fetch)"))
        .header(ACCEPT, "text/markdown, text/html;q=0.9, text/plain;q=0.9, */*;q=0.5")
        .header(ACCEPT_ENCODING, "gzip")
        .header(CONNECTION, "close")
        .body(Empty::new());
    request.map_err(|error| FetchError::Http { host: target.host.clone(), reason: error.to_string() })
}

/// Returns an error with its causes, because hyper's own message says little.
fn told(error: &hyper::Error) -> String {
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        told.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    told
}
