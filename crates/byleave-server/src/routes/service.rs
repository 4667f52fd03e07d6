//! The server itself: halts, health, metrics and the OpenAPI document.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use byleave_gate::audit_log::{CallFilter, PageRequest};

use crate::api_types::{HaltBody, HaltStatus, Health, check_length};
use crate::caller::Caller;
use crate::extract::{JsonResponse, StrictJson};
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;

/// Show whether a halt is active
#[utoipa::path(
    get, path = "/v1/halt", tag = "service",
    responses((status = 200, body = HaltStatus, description = "Whether a halt is active")),
)]
pub(super) async fn halted(
    State(_app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<HaltStatus>, Problem> {
    caller.require_scope(&AccessScope::ALL)?;
    let found = caller.tenant.ledger.active_halt(caller.tenant.id()).await?;
    let why = found.as_ref().and_then(|act| match &act.kind {
        byleave_gate::core::admin_action::AdminActionKind::Halt { reason: why } => Some(why.clone()),
        _ => None,
    });
    Ok(JsonResponse(HaltStatus { halted: found.is_some(), reason: why, actor: found.map(|act| act.actor) }))
}

/// Halt all calls
///
/// Refuses every call that would begin, until the halt is lifted. Calls that already run continue to their end.
#[utoipa::path(
    put, path = "/v1/halt", tag = "service",
    request_body = HaltBody,
    responses(
        (status = 204, description = "All calls are halted"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body did not arrive in time"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The reason is missing or too long"),
    ),
)]
pub(super) async fn halt(
    State(_app): State<App>,
    caller: Caller,
    StrictJson(body): StrictJson<HaltBody>,
) -> Result<StatusCode, Problem> {
    caller.require_scope(&[AccessScope::Administer])?;
    check_length("reason", &body.reason, 1, 1_000)?;
    caller.tenant.gate.halt(caller.tenant.id(), caller.name(), &body.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lift a halt
#[utoipa::path(
    delete, path = "/v1/halt", tag = "service",
    responses((status = 204, description = "No halt is active")),
)]
pub(super) async fn lift(State(_app): State<App>, caller: Caller) -> Result<StatusCode, Problem> {
    caller.require_scope(&[AccessScope::Administer])?;
    caller.tenant.gate.lift(caller.tenant.id(), caller.name()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Check the health of the server
#[utoipa::path(
    get, path = "/v1/health", tag = "service",
    responses((status = 200, body = Health, description = "The server is healthy, and its audit log can be read")),
)]
pub(super) async fn health(State(_app): State<App>, caller: Caller) -> Result<JsonResponse<Health>, Problem> {
    caller.require_scope(&AccessScope::ALL)?;
    caller.tenant.ledger.active_halt(caller.tenant.id()).await?;
    caller.tenant.audit_log.calls(CallFilter::default(), PageRequest::with_limit(1)).await?;
    Ok(JsonResponse(Health { status: "ok".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }))
}

/// Show metrics
///
/// In Prometheus format, for the whole process. Only for administrators of the operator's own tenant.
#[utoipa::path(
    get, path = "/v1/metrics", tag = "service",
    responses((status = 200, body = String, content_type = "text/plain", description = "The metrics")),
)]
pub(super) async fn metrics(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    caller.require_scope(&[AccessScope::Administer])?;
    let refused = || {
        Problem::new(
            ProblemKind::Forbidden,
            "only administrators of the operator's own tenant can read metrics",
        )
    };
    let text = app.metrics(caller.tenant.id()).ok_or_else(refused)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// This document
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "service",
    responses((status = 200, body = Object, description = "The OpenAPI document")),
)]
pub(super) async fn document(
    State(app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<utoipa::openapi::OpenApi>, Problem> {
    caller.require_scope(&AccessScope::ALL)?;
    Ok(JsonResponse((*app.document).clone()))
}
