//! Leaves: listed and revoked.

use axum::extract::State;
use axum::http::StatusCode;
use byleave::clock::{Clock as _, SystemClock};
use byleave::core::id::LeaveId;

use crate::app::App;
use crate::body::{Id, Said};
use crate::caller::Caller;
use crate::principal::Scope;
use crate::problem::Problem;
use crate::shelf;
use crate::wire::{LeaveEntry, LeaveList};

/// List the leaves that were given
#[utoipa::path(
    get, path = "/v1/leaves", tag = "leaves",
    responses((status = 200, body = LeaveList, description = "The leaves, the newest first, also those that no longer count")),
)]
pub(super) async fn list(State(_app): State<App>, caller: Caller) -> Result<Said<LeaveList>, Problem> {
    caller.may(&[Scope::Read])?;
    let now = SystemClock.now();
    let leaves = caller.tenancy.book.leaves_given(caller.tenancy.id(), now).await?;
    Ok(Said(LeaveList { leaves: leaves.iter().map(|item| LeaveEntry::of(item, now)).collect() }))
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
    Id(leave): Id<LeaveId>,
) -> Result<StatusCode, Problem> {
    shelf::revoke(&caller, leave).await?;
    Ok(StatusCode::NO_CONTENT)
}
