//! Workers: their list, and the upgrade request that connects a worker to its tenant.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::Response;
use byleave_worker::{Permissions, server, websocket};
use hyper_util::rt::TokioIo;

use crate::api_types::WorkerList;
use crate::auth::is_still_authenticated;
use crate::caller::Caller;
use crate::extract::JsonResponse;
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;

/// How often to check whether a token is still valid.
const LOOK: Duration = Duration::from_secs(5);

/// List workers
#[utoipa::path(
    get, path = "/v1/workers", tag = "service",
    responses((status = 200, body = WorkerList, description = "The workers of the tenant")),
)]
pub(super) async fn list(
    State(_app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<WorkerList>, Problem> {
    caller.require_scope(&[AccessScope::Read])?;
    let crew = caller.tenant.workers.as_ref();
    let workers = crew.map(|crew| crew.workers().into_iter().map(Into::into).collect());
    Ok(JsonResponse(WorkerList { executes_locally: crew.is_none(), workers: workers.unwrap_or_default() }))
}

/// Opens the connection of a worker.
pub(crate) async fn connect(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    caller.require_scope(&[AccessScope::Work])?;
    let none = || {
        Problem::new(
            ProblemKind::NotFound,
            "this server executes calls itself and accepts no workers; start it with `--workers`",
        )
    };
    let crew = caller.tenant.workers.clone().ok_or_else(none)?;
    let answer =
        websocket::upgrade_response(&request).map_err(|why| Problem::new(ProblemKind::Malformed, why))?;
    let rights =
        Permissions::Worker { tenant: caller.principal.tenant.clone(), name: caller.name().to_owned() };
    let many = || Problem::too_many("this worker has too many connections; a worker needs only one", 10);
    let seat = caller.tenant.worker_connections.try_acquire(caller.name()).ok_or_else(many)?;
    let shown = request.headers().get(header::AUTHORIZATION).cloned();
    let upgrading = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let _seat = seat;
        let upgraded = match upgrading.await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!(%error, "a worker did not complete its connection"),
        };
        let wire = websocket::channel_over_upgraded(TokioIo::new(upgraded)).await;
        let until_unknown = async {
            loop {
                tokio::time::sleep(LOOK).await;
                if !is_still_authenticated(&app, shown.as_ref(), &caller) {
                    return;
                }
            }
        };
        // Whichever ends first, the connection is dropped.
        tokio::select! {
            () = server::serve_worker(&crew, rights, wire) => {}
            () = until_unknown => tracing::warn!(worker = caller.name(), "disconnecting a worker: its token is no longer valid"),
            () = app.shutdown.cancelled() => {}
        }
    });
    Ok(answer.map(|()| Body::empty()))
}
