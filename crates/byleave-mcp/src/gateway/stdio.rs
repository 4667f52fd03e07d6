//! The gateway on standard input and output, for the one client that started it.

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use tokio_util::sync::CancellationToken;

use super::{Gateway, GatewayError, TransportKind};

/// The reason why a client could not be served.
#[derive(Debug, thiserror::Error)]
pub enum PipeError {
    /// The connection could not be created.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// The client violated the protocol during initialization.
    #[error("the client did not start according to the protocol: {0}")]
    Handshake(String),
    /// The serving task failed.
    #[error("the task that served the client failed: {0}")]
    Task(String),
}

/// Serves the client until it disconnects or `end` is cancelled.
pub async fn serve_stdio(gateway: &Gateway, end: CancellationToken) -> Result<(), PipeError> {
    let connection = gateway.new_connection(TransportKind::Pipe)?;
    let begun = tokio::select! {
        begun = connection.serve_with_ct(stdio_pipes(), end.clone()) => begun,
        () = end.cancelled() => return Ok(()),
    };
    let serving = match begun {
        Ok(serving) => serving,
        // A client that only checked whether the gateway starts.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(PipeError::Handshake(error.to_string())),
    };
    serving.waiting().await.map(drop).map_err(|error| PipeError::Task(error.to_string()))
}
