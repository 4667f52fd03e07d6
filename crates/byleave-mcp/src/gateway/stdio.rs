//! The gateway on standard input and output, for the one client that started it.

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use tokio_util::sync::CancellationToken;

use super::{Gateway, GatewayError, TransportKind};

/// Why a client could not be served.
#[derive(Debug, thiserror::Error)]
pub enum PipeError {
    /// There is no connection to be had.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// The client did not begin as the protocol says.
    #[error("the client did not begin as the protocol says: {0}")]
    Beginning(String),
    /// What served it broke.
    #[error("what served the client broke: {0}")]
    Broke(String),
}

/// Serves the client until it is gone, or until it is told to end.
pub async fn serve(gateway: &Gateway, end: CancellationToken) -> Result<(), PipeError> {
    let connection = gateway.connection(TransportKind::Pipe)?;
    let begun = tokio::select! {
        begun = connection.serve_with_ct(stdio_pipes(), end.clone()) => begun,
        () = end.cancelled() => return Ok(()),
    };
    let serving = match begun {
        Ok(serving) => serving,
        // One that only looked whether we start, and left.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(PipeError::Beginning(error.to_string())),
    };
    serving.waiting().await.map(drop).map_err(|error| PipeError::Broke(error.to_string()))
}
