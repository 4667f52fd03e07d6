//! The accept loop: accepts connections within limits and serves them. Only loopback addresses are allowed, unless there is
//! TLS.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::limits::ServerLimits;
use crate::server::Server;
use crate::write_timeout::WriteTimeout;

/// The maximum size of the head of a request.
const HEAD_BYTES_MAX: usize = 32 * 1024;
const HEADERS_MAX: usize = 64;
/// The pause when the system cannot accept a connection.
const REST: Duration = Duration::from_millis(50);

/// The reason why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is reachable from other machines without TLS.
    #[error("cannot listen on {0} without TLS; use TLS, or an address of this machine such as 127.0.0.1")]
    TlsRequired(SocketAddr),
    /// The certificate or its key cannot be used.
    #[error("cannot use the certificate in `{path}`: {reason}")]
    Certificate {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A system call failed.
    #[error("{operation}: {source}")]
    Io {
        /// The operation that failed.
        operation: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// Creates a TLS configuration from a certificate and its key, each in a PEM file.
pub fn load_tls(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, ListenError> {
    let bad = |path: &Path, why: &dyn std::fmt::Display| ListenError::Certificate {
        path: path.display().to_string(),
        reason: why.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|why| bad(certificate, &why))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|why| bad(key, &why))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|why| bad(certificate, &why))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Checks whether the server may listen on an address.
pub fn check_address(address: SocketAddr, is_protected: bool) -> Result<(), ListenError> {
    if is_protected || address.ip().is_loopback() { Ok(()) } else { Err(ListenError::TlsRequired(address)) }
}

/// Serves until `end` is cancelled, then waits for running calls for a limited time.
pub async fn serve(
    server: Server,
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    end: CancellationToken,
    grace: Duration,
) -> Result<(), ListenError> {
    let fault = |what: &str, why| ListenError::Io { operation: what.to_owned(), source: why };
    let address =
        listener.local_addr().map_err(|why| fault("cannot read the address of the listener", why))?;
    check_address(address, tls.is_some())?;
    let (scheme, acceptor) = match tls {
        Some(config) => ("https", Some(TlsAcceptor::from(config))),
        None => ("http", None),
    };
    let mut attending = server.start_tenants(&end);
    // Calls that settle during the shutdown are exported, too.
    let last = CancellationToken::new();
    let telling = server.start_export(&last);
    let limits = server.limits().clone();
    let router = server.clone().router(scheme, address.port(), &end);
    let room = Arc::new(Semaphore::new(limits.max_connections));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = end.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // No file descriptors are left, or the peer is gone already. Neither is a reason to stop.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        // Connections beyond the limit are closed immediately, because a queue would also use resources.
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
        let (limits, end) = (limits.clone(), end.clone());
        let connection = HttpConnection { router: router.clone(), from, limits, end };
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            connection.talk(stream, acceptor).await;
            drop(place);
        });
    }
    drop(listener);
    let all = async {
        connections.close();
        connections.wait().await;
        server.wait_until_idle().await;
    };
    if tokio::time::timeout(grace, all).await.is_err() {
        tracing::warn!("some connections or calls did not end in time");
    }
    // The tasks release their resources.
    attending.shutdown().await;
    last.cancel();
    if let Err(error) = telling.await {
        tracing::warn!(%error, "some telemetry was not exported");
    }
    Ok(())
}

struct HttpConnection {
    router: Router,
    from: SocketAddr,
    limits: ServerLimits,
    /// No request is accepted after this is cancelled.
    end: CancellationToken,
}

impl HttpConnection {
    async fn talk(self, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
        // With Nagle's algorithm on, clients wait for every event of a stream.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY; the connection may be slow");
        }
        let stream = WriteTimeout::new(stream, self.limits.write_timeout);
        match acceptor {
            None => self.speak(stream).await,
            Some(acceptor) => {
                match tokio::time::timeout(self.limits.header_timeout, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => self.speak(stream).await,
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake timed out"),
                }
            }
        }
    }

    async fn speak<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (from, inner) = (self.from, TowerToHyperService::new(self.router));
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(from));
            inner.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.end.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended with an error");
        }
    }
}
