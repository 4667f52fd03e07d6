//! Standing approvals: lists and revocation.

use axum::extract::State;
use axum::http::StatusCode;
use byleave::clock::{Clock as _, SystemClock};
use byleave::core::id::StandingApprovalId;

use crate::api_types::{StandingApprovalEntry, StandingApprovalList};
use crate::caller::Caller;
use crate::extract::{JsonResponse, PathId};
use crate::principal::AccessScope;
use crate::problem::Problem;
use crate::record_access;
use crate::state::App;

/// List the leaves that were given
#[utoipa::path(
    get, path = "/v1/leaves", tag = "leaves",
    responses((status = 200, body = StandingApprovalList, description = "The leaves, the newest first, also those that no longer count")),
)]
pub(super) async fn list(
    State(_app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<StandingApprovalList>, Problem> {
    caller.require_scope(&[AccessScope::Read])?;
    let now = SystemClock.now();
    let leaves = caller.tenant.audit_log.list_standing_approvals(caller.tenant.id(), now).await?;
    Ok(JsonResponse(StandingApprovalList {
        leaves: leaves.iter().map(|item| StandingApprovalEntry::from_item(item, now)).collect(),
    }))
}

/// Revoke a leave
#[utoipa::path(
    delete, path = "/v1/leaves/{leave}", tag = "leaves",
    params(("leave" = uuid::Uuid, Path, description = "The leave")),
    responses(
        (status = 204, description = "It counts no longer"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such leave"),
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
