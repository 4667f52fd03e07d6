//! Standing approvals: lists and revocation.

use axum::extract::State;
use axum::http::StatusCode;
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::id::StandingApprovalId;

use crate::api_types::{StandingApprovalEntry, StandingApprovalList};
use crate::caller::Caller;
use crate::extract::{JsonResponse, PathId};
use crate::principal::AccessScope;
use crate::problem::Problem;
use crate::record_access;
use crate::state::App;

/// List standing approvals
#[utoipa::path(
    get, path = "/v1/approvals", tag = "standing approvals",
    responses((status = 200, body = StandingApprovalList, description = "All standing approvals, newest first, including expired and revoked ones")),
)]
pub(super) async fn list(
    State(_app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<StandingApprovalList>, Problem> {
    caller.require_scope(&[AccessScope::Read])?;
    let now = SystemClock.now();
    let leaves = caller.tenant.audit_log.list_standing_approvals(caller.tenant.id(), now).await?;
    Ok(JsonResponse(StandingApprovalList {
        standing_approvals: leaves.iter().map(|item| StandingApprovalEntry::from_item(item, now)).collect(),
    }))
}

/// Revoke a standing approval
#[utoipa::path(
    delete, path = "/v1/approvals/{approval}", tag = "standing approvals",
    params(("approval" = uuid::Uuid, Path, description = "The standing approval")),
    responses(
        (status = 204, description = "The standing approval is revoked"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The standing approval does not exist"),
    ),
)]
pub(super) async fn revoke(
    State(_app): State<App>,
    caller: Caller,
    PathId(leave): PathId<StandingApprovalId>,
) -> Result<StatusCode, Problem> {
    record_access::revoke_approval(&caller, leave).await?;
    Ok(StatusCode::NO_CONTENT)
}
