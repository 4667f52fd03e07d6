//! Connections over WebSocket, one text per frame. Between machines they use TLS only.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::boxed::BoxFuture;
use byleave_gate::endpoint::Endpoint;
use byleave_gate::secret::Secret;
use futures::{SinkExt as _, StreamExt as _};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Request, Response, Uri};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as Refused, Message, client::ClientRequestBuilder};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::connection::{ConnectError, Connector};
use crate::protocol::FrameChannel;

/// The maximum size of a message: an append with its contents, as text.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The timeout for opening a connection.
const OPENING: Duration = Duration::from_secs(15);

/// Returns the WebSocket settings of both ends.
pub fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
}

/// Creates a connection over an open socket.
pub fn channel_over_socket<S>(socket: WebSocketStream<S>) -> FrameChannel
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (near, FrameChannel { sender: say, receiver: mut hear }) = FrameChannel::pair();
    let (mut sink, mut stream) = socket.split();
    // If either half is dropped, both end.
    tokio::spawn(async move {
        let saying = async {
            while let Some(text) = hear.recv().await {
                if sink.send(Message::text(text)).await.is_err() {
                    return;
                }
            }
            // If this fails, the peer still sees the end of the stream.
            drop(sink.close().await);
        };
        let hearing = async {
            while let Some(Ok(message)) = stream.next().await {
                match message {
                    Message::Text(text) => {
                        if say.send(text.as_str().to_owned()).await.is_err() {
                            return;
                        }
                    }
                    Message::Ping(_) | Message::Pong(_) => {}
                    Message::Binary(_) | Message::Close(_) | Message::Frame(_) => return,
                }
            }
        };
        tokio::select! {
            () = saying => {}
            () = hearing => {}
        }
    });
    near
}

/// Returns the answer to an upgrade request, or the reason why the request is invalid.
pub fn upgrade_response<B>(request: &Request<B>) -> Result<Response<()>, String> {
    create_response_with_body(request, || ()).map_err(|error| error.to_string())
}

/// Creates a connection over the stream of an upgraded request.
pub async fn channel_over_upgraded<S>(stream: S) -> FrameChannel
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    channel_over_socket(
        WebSocketStream::from_raw_socket(stream, Role::Server, Some(websocket_config())).await,
    )
}

/// Opens connections to a server by its address.
#[derive(Clone)]
pub struct SocketConnector {
    uri: Uri,
    token: Secret,
    tls: Arc<ClientConfig>,
}

/// Creates a TLS configuration that trusts the certificates of this machine, and those in a PEM file.
pub fn tls_config(more: Option<&Path>) -> Result<Arc<ClientConfig>, TrustRootsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = match more {
        Some(path) => {
            let bad =
                |why: rustls::pki_types::pem::Error| TrustRootsError(format!("`{}`: {why}", path.display()));
            let roots = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let roots = roots.map_err(bad)?;
            if roots.is_empty() {
                return Err(TrustRootsError(format!("`{}` contains no certificate", path.display())));
            }
            roots
        }
        None => Vec::new(),
    };
    let bad = |error: rustls::Error| TrustRootsError(error.to_string());
    let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider)).map_err(bad)?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(bad)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(Arc::new(builder.with_no_client_auth()))
}

/// The reason why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot load trusted certificates: {0}")]
pub struct TrustRootsError(String);

/// The reason why an address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to `{0}`: {1}")]
pub struct ServerAddressError(String, String);

impl SocketConnector {
    /// Creates a connector for this address: https, or http on this machine. The token identifies the worker.
    pub fn new(address: &str, token: Secret, tls: Arc<ClientConfig>) -> Result<Self, ServerAddressError> {
        let bad = |why: String| ServerAddressError(address.to_owned(), why);
        // `Endpoint` is the only place that decides which addresses are allowed.
        Endpoint::new(address).map_err(|why| bad(why.to_string()))?;
        let spoken = address.replacen("http", "ws", 1);
        let uri = spoken.parse().map_err(|why| bad(format!("{why}")))?;
        Ok(Self { uri, token, tls })
    }

    async fn open(&self) -> Result<FrameChannel, String> {
        let host = self.uri.host().ok_or("the address has no host")?;
        let safe = self.uri.scheme_str() == Some("wss");
        let port = self.uri.port_u16().unwrap_or(if safe { 443 } else { 80 });
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, port)).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut request = ClientRequestBuilder::new(self.uri.clone())
            .into_client_request()
            .map_err(|error| error.to_string())?;
        let token = String::from_utf8_lossy(self.token.expose());
        let mut token =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|error| error.to_string())?;
        token.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, token);
        let refused = |error: Refused| words(&error);
        if safe {
            let name = ServerName::try_from(bare.to_owned()).map_err(|error| error.to_string())?;
            let connector = TlsConnector::from(Arc::clone(&self.tls));
            let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
            let (socket, _) =
                client_async_with_config(request, stream, Some(websocket_config())).await.map_err(refused)?;
            return Ok(channel_over_socket(socket));
        }
        let (socket, _) =
            client_async_with_config(request, stream, Some(websocket_config())).await.map_err(refused)?;
        Ok(channel_over_socket(socket))
    }
}

/// Describes why there is no connection and what to do.
fn words(error: &Refused) -> String {
    let Refused::Http(response) = error else { return error.to_string() };
    let why = match response.status().as_u16() {
        401 => {
            "the token of the worker is wrong, expired or removed (create one with `byleave serve token add NAME --scope work`)"
        }
        403 => {
            "the token of the worker does not have the scope `work` (create one with `byleave serve token add NAME --scope work`)"
        }
        404 => {
            "the server does not accept workers: it was started without `--workers`, or the address is not that of the server"
        }
        429 => "too many connections with this token; give each worker its own token",
        _ => return error.to_string(),
    };
    format!("{why} [{}]", response.status().as_u16())
}

impl Connector for SocketConnector {
    fn connect(&self) -> BoxFuture<'_, Result<FrameChannel, ConnectError>> {
        Box::pin(async move {
            let opened = tokio::time::timeout(OPENING, self.open()).await;
            opened.unwrap_or_else(|_| Err("the connection timed out".to_owned())).map_err(ConnectError)
        })
    }
}
