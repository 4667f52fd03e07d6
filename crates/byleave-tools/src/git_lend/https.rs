//! A small HTTPS client for Git's protocol. It knows two requests, follows no redirect, and sends a credential only to the host of the URL.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use byleave_gate::core::git_transport::{GitService, GitUrl};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, crypto};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

use super::outside::PersonsGit;

/// The maximum length of the refs of a server.
const REFS_BYTES_MAX: usize = 64 << 20;
/// The maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Settings that this client does not support. To ignore one could send a request another way than the person wants.
const UNSUPPORTED: [&str; 8] = [
    "proxy",
    "sslcert",
    "sslkey",
    "extraheader",
    "cookiefile",
    "curloptresolve",
    "sslcapath",
    "pinnedpubkey",
];
/// Variables that name a proxy.
const PROXIES: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// A repository on an HTTPS server.
pub(super) struct HttpsRemote {
    url: GitUrl,
    tls: Arc<ClientConfig>,
    authorization: Option<String>,
}

/// The body of a request.
pub(super) enum RequestBody {
    /// All of it.
    Whole(Option<Bytes>),
    /// Parts, which end when the sender is dropped. An error ends the request without its end.
    Parts(mpsc::Receiver<io::Result<Bytes>>),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Parts(parts) => parts.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Parts(_) => SizeHint::default(),
        }
    }
}

impl HttpsRemote {
    /// Prepares the client for a repository, from the person's settings.
    pub(super) async fn new(own: &PersonsGit, url: &GitUrl) -> Result<Self, String> {
        let settings = own.http_settings(url).await?;
        if let Some(key) = UNSUPPORTED.iter().find(|key| settings.contains_key(**key)) {
            return Err(format!(
                "your git settings have `http.{key}`, which a lent transport does not support"
            ));
        }
        if settings
            .get("sslverify")
            .is_some_and(|value| !matches!(value.as_str(), "true" | "yes" | "on" | "1"))
        {
            return Err(
                "your git settings turn `http.sslVerify` off, and a lent transport needs it".to_owned()
            );
        }
        if let Some(name) = PROXIES.into_iter().find(|name| own.variable(name).is_some()) {
            return Err(format!("`{name}` names a proxy, which a lent transport does not support"));
        }
        let tls = tls_config(&settings).map_err(|why| format!("cannot set up TLS: {why}"))?;
        Ok(Self { url: url.clone(), tls, authorization: None })
    }

    /// Requests the refs of a service. The credential helper is asked only if the server wants a credential.
    pub(super) async fn refs(
        &mut self,
        own: &PersonsGit,
        service: GitService,
        version_2: bool,
    ) -> Result<Bytes, String> {
        let path = format!("info/refs?service={}", service.program());
        let request = |remote: &Self| remote.request(Method::GET, &path, version_2);
        let mut response = self.send(request(self), RequestBody::Whole(None)).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            let credential = own.credential(&self.url).await?;
            let pair = format!("{}:{}", credential.user, credential.password);
            self.authorization = Some(format!("Basic {}", STANDARD.encode(pair)));
            response = self.send(request(self), RequestBody::Whole(None)).await?;
        }
        let response = self.accepted(response)?;
        let limited = Limited::new(response.into_body(), REFS_BYTES_MAX).collect().await;
        limited.map(|body| body.to_bytes()).map_err(|error| format!("cannot read the refs: {error}"))
    }

    /// Sends a request to a service.
    pub(super) async fn post(
        &self,
        service: GitService,
        version_2: bool,
        body: RequestBody,
    ) -> Result<Response<Incoming>, String> {
        let request = self.request(Method::POST, service.program(), version_2);
        let kind = format!("application/x-{}-request", service.program());
        let response = self.send(request.header(CONTENT_TYPE, kind), body).await?;
        self.accepted(response)
    }

    fn request(&self, method: Method, path: &str, version_2: bool) -> hyper::http::request::Builder {
        let port = self.url.explicit_port.map(|port| format!(":{port}")).unwrap_or_default();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/{path}", self.url.path.trim_end_matches('/')))
            .header(HOST, format!("{}{port}", self.url.host))
            // Some servers speak Git only to Git.
            .header(USER_AGENT, concat!("git/2.47.0 byleave/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "*/*")
            .header(CONNECTION, "close");
        if version_2 {
            request = request.header("git-protocol", "version=2");
        }
        match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization),
            None => request,
        }
    }

    async fn send(
        &self,
        request: hyper::http::request::Builder,
        body: RequestBody,
    ) -> Result<Response<Incoming>, String> {
        let host = &self.url.host;
        let unable = |why: String| format!("cannot reach `{host}`: {why}");
        let request = request.body(body).map_err(|error| unable(error.to_string()))?;
        let connecting = async {
            let tcp = TcpStream::connect((host.as_str(), self.url.port())).await?;
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            TlsConnector::from(Arc::clone(&self.tls)).connect(name, tcp).await
        };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let stream = connected
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| unable(error.to_string()))?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| unable(error.to_string()))?;
        // It ends with the response. An error of the connection also appears in the response.
        tokio::spawn(async move { connection.await.ok() });
        sender.send_request(request).await.map_err(|error| unable(error.to_string()))
    }

    fn accepted(&self, response: Response<Incoming>) -> Result<Response<Incoming>, String> {
        let host = &self.url.host;
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::UNAUTHORIZED => Err(format!("`{host}` does not accept your credential")),
            status if status.is_redirection() => {
                Err(format!("`{host}` redirects to another URL; use that URL for the remote"))
            }
            status => Err(format!("`{host}` answers {status}")),
        }
    }
}

fn tls_config(settings: &BTreeMap<String, String>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(crypto::ring::default_provider());
    let text = |error: rustls::Error| error.to_string();
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(text)?;
    let mut config = match settings.get("sslcainfo") {
        None => builder.with_platform_verifier().map_err(text)?.with_no_client_auth(),
        Some(path) => {
            let unreadable = |why: String| format!("cannot read `http.sslCAInfo` (`{path}`): {why}");
            let bytes = byleave_files::own::read(path).map_err(|error| unreadable(error.to_string()))?;
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(&bytes) {
                let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
