//! The gateway over HTTP: on this machine only, for clients with the token, and not for web pages.
//!
//! Every request must have the token and name this machine as its host. It must not come from a page of another origin. The
//! token is in a file that only its owner can read, and is never printed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::serve::ListenerExt as _;
use byleave_files::own;
use byleave_gate::core::digest::Digest;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Gateway, TransportKind};

/// The path of the endpoint.
pub const PATH: &str = "/mcp";

/// The maximum size of a request body.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long an idle session lasts. It is longer than a person is away.
const IDLE: Duration = Duration::from_secs(24 * 3_600);

/// The number of random bytes in a token.
const TOKEN_BYTES: usize = 32;

/// The token that a client must send. It cannot be printed.
#[derive(Clone)]
pub struct GatewayToken(Arc<Digest>);

/// The reason why the gateway cannot be served over HTTP.
#[derive(Debug, thiserror::Error)]
pub enum HttpServeError {
    /// The address is reachable from other machines.
    #[error("cannot listen on {0}: only loopback addresses are allowed, such as 127.0.0.1")]
    NotLoopback(SocketAddr),
    /// Other users can read the token file.
    #[error("cannot use the token in `{0}`: other users may have read it; remove the file to get a new one")]
    Exposed(String),
    /// The token file contains no token.
    #[error("cannot use `{0}`: the file contains no token; remove the file to get a new one")]
    NoToken(String),
    /// A system call failed.
    #[error("{operation}: {source}")]
    Io {
        /// The operation that failed.
        operation: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl GatewayToken {
    /// Reads the token from a file, which is created if it is missing.
    pub fn load_or_create(path: &Path) -> Result<Self, HttpServeError> {
        let fault = |why: io::Error| HttpServeError::Io {
            operation: format!("cannot use the token in `{}`", path.display()),
            source: why,
        };
        match make(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fault(error)),
        }
        let mode = fs::symlink_metadata(path).map_err(fault)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(HttpServeError::Exposed(path.display().to_string()));
        }
        let text = own::read_text(path).map_err(fault)?;
        let text = text.trim();
        if text.len() < TOKEN_BYTES {
            return Err(HttpServeError::NoToken(path.display().to_string()));
        }
        Ok(Self(Arc::new(Digest::compute(text.as_bytes()))))
    }

    /// Checks in constant time whether a request has the token.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|given| given.split_once(' '));
        let given =
            given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        let Some(given) = given else { return false };
        let given = Digest::compute(given.as_bytes());
        let differ =
            given.as_bytes().iter().zip(self.0.as_bytes()).fold(0_u8, |differ, (a, b)| differ | (a ^ b));
        differ == 0
    }
}

/// Checks that an address is a loopback address, which other machines cannot reach.
pub fn check_loopback(address: SocketAddr) -> Result<(), HttpServeError> {
    if address.ip().is_loopback() { Ok(()) } else { Err(HttpServeError::NotLoopback(address)) }
}

/// Serves clients until it is cancelled.
pub async fn serve(
    gateway: Gateway,
    listener: TcpListener,
    token: GatewayToken,
    end: CancellationToken,
) -> Result<(), HttpServeError> {
    let fault = |what: &str, why| HttpServeError::Io { operation: what.to_owned(), source: why };
    let address = listener.local_addr().map_err(|why| fault("cannot get the listening address", why))?;
    check_loopback(address)?;
    let app = router(gateway, token, address.port(), end.clone());
    // With Nagle's algorithm on, clients wait for every event of a stream.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY; the connection will be slow");
        }
    });
    let served = axum::serve(listener, app).with_graceful_shutdown(async move { end.cancelled().await });
    served.await.map_err(|why| fault("cannot continue listening", why))
}

fn router(gateway: Gateway, token: GatewayToken, port: u16, end: CancellationToken) -> Router {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(IDLE);
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(["localhost", "127.0.0.1", "::1"])
        .with_allowed_origins(["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:{port}")))
        .enforce_origin_validation()
        .with_legacy_session_mode(true)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_cancellation_token(end);
    let connection = move || gateway.new_connection(TransportKind::Http).map_err(io::Error::other);
    let service = StreamableHttpService::new(connection, Arc::new(sessions), config);
    Router::new().nest_service(PATH, service).layer(middleware::from_fn_with_state(token, known))
}

/// Rejects requests without the token.
async fn known(State(token): State<GatewayToken>, request: Request, next: Next) -> Response {
    if token.is_in(request.headers()) {
        return next.run(request).await;
    }
    let wanted = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, wanted, "a bearer token is needed").into_response()
}

fn make(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut bytes = [0_u8; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: M1
    #[test]
    fn a_token_is_made_once_and_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp-token");
        let token = GatewayToken::load_or_create(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.len(), 64);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let with = |value: String| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            headers
        };
        assert!(token.is_in(&with(format!("Bearer {text}"))));
        assert!(
            GatewayToken::load_or_create(&path).unwrap().is_in(&with(format!("bearer {text}"))),
            "the same the next time"
        );
        for wrong in [
            String::new(),
            text.clone(),
            format!("Basic {text}"),
            "Bearer ".into(),
            format!("Bearer {text}0"),
        ] {
            assert!(!token.is_in(&with(wrong.clone())), "{wrong}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(GatewayToken::load_or_create(&path), Err(HttpServeError::Exposed(_))));
    }
}
