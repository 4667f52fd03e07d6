//! The service: the endpoint that the engine calls, and the loop that accepts its connections.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use restate_sdk::hyper::HyperEndpoint;
use restate_sdk::prelude::Endpoint;
use tokio::net::{TcpListener, TcpStream};

use crate::books::Books;
use crate::entities::call::CallEntity;
use crate::entities::gateway::GatewayEntity;
use crate::entities::holds::HoldsEntity;
use crate::entities::leave::{LeaveEntity, LeavesEntity};
use crate::entities::projector::ProjectorEntity;
use crate::entities::question::QuestionEntity;
use crate::entities::session::SessionEntity;
use crate::entities::tenant::TenantEntity;
use crate::entities::unsettled::UnsettledEntity;
use crate::identity::Identity;

/// How many handlers may run at once on one connection.
const STREAMS_MAX: u32 = 1024;

/// Everything that the engine holds for a ledger, for the engine with this key and nobody else.
fn endpoint(identity: &Identity, books: Option<Arc<Books>>) -> io::Result<Endpoint> {
    let builder = Endpoint::builder().identity_key(identity.as_str()).map_err(io::Error::other)?;
    let endpoint = builder
        .bind(CallEntity)
        .bind(SessionEntity)
        .bind(HoldsEntity)
        .bind(TenantEntity)
        .bind(LeaveEntity)
        .bind(LeavesEntity)
        .bind(QuestionEntity)
        .bind(UnsettledEntity)
        .bind(GatewayEntity)
        .bind(ProjectorEntity::new(books))
        .build();
    Ok(endpoint)
}

/// Serves the engine until the process ends. Without books, what ledgers owe to theirs waits in the engine.
///
/// Our own loop rather than the SDK's: that one leaves Nagle's algorithm on, and each step of a handler then waits for a
/// delayed acknowledgement.
pub async fn serve(
    listener: TcpListener,
    identity: &Identity,
    books: Option<Arc<Books>>,
) -> io::Result<Infallible> {
    let service = HyperEndpoint::new(endpoint(identity, books)?);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // One connection that failed, or too many open files: neither is a reason to stop serving the others.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let service = service.clone();
        tokio::spawn(async move {
            if let Err(error) = converse(stream, service).await {
                tracing::debug!(error, "a connection of the engine ended");
            }
        });
    }
}

async fn converse(stream: TcpStream, service: HyperEndpoint) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(STREAMS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(|error| error.to_string())
}
