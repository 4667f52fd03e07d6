//! Leaves: each counts its own uses, so that no two calls share the last one; and a list for each tenant and tool.

use byleave_core::id::StandingApprovalId;
use byleave_core::standing_approval::StandingApproval;
use byleave_gate::ledger::invariants;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::wire::{Given, Uses};

const LEAVE: &str = "l";

/// What is known of a leave.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Standing {
    given: Option<Given>,
    used: u32,
    revoked: bool,
}

impl Standing {
    /// Whether there are so many uses left.
    fn has(&self, Uses { more, asked_max }: Uses) -> bool {
        let left = |given: &Given| invariants::has_uses_left(&given.leave, self.used, more, asked_max);
        !self.revoked && self.given.as_ref().is_some_and(left)
    }

    /// Whether it belongs on the list, and which that is.
    fn listed(&self) -> Option<&Given> {
        let given = self.given.as_ref()?;
        (!self.revoked && invariants::has_uses_left(&given.leave, self.used, 1, None)).then_some(given)
    }
}

/// One leave.
#[derive(Debug)]
pub(crate) struct LeaveEntity;

#[restate_sdk::object(
    name = "Leave",
    journal_retention = "0s",
    idempotency_retention = "0s",
    ingress_private = true,
    invocation_retry_policy(initial_interval = "20ms", factor = 2.0, max_interval = "500ms")
)]
impl LeaveEntity {
    /// Brings it into force. Given again under its id, it keeps its uses and its revocation.
    #[handler]
    async fn give(&self, ctx: ObjectContext<'_>, given: Json<Given>) -> HandlerResult<()> {
        let mut standing = standing(&ctx).await?;
        if standing.given.is_some() {
            return Ok(());
        }
        standing.given = Some(given.into_inner());
        keep(&ctx, Standing::default(), standing).await
    }

    /// Uses it, if there are so many uses left.
    #[handler]
    async fn take(&self, ctx: ObjectContext<'_>, uses: Json<Uses>) -> HandlerResult<Json<bool>> {
        let before = standing(&ctx).await?;
        let left = before.has(uses.0);
        if left {
            let used = before.used.saturating_add(uses.0.more);
            keep(&ctx, before.clone(), Standing { used, ..before }).await?;
        }
        Ok(Json(left))
    }

    /// Says whether there are so many uses left.
    #[handler]
    async fn has(&self, ctx: ObjectContext<'_>, uses: Json<Uses>) -> HandlerResult<Json<bool>> {
        Ok(Json(standing(&ctx).await?.has(uses.0)))
    }

    /// Takes uses back of which nothing came.
    #[handler]
    async fn put_back(&self, ctx: ObjectContext<'_>, uses: Json<Uses>) -> HandlerResult<()> {
        let before = standing(&ctx).await?;
        let used = before.used.saturating_sub(uses.0.more);
        keep(&ctx, before.clone(), Standing { used, ..before }).await
    }

    /// It counts no longer, nor will it if it is given later.
    #[handler]
    async fn revoke(&self, ctx: ObjectContext<'_>, _this: Json<()>) -> HandlerResult<()> {
        let before = standing(&ctx).await?;
        keep(&ctx, before.clone(), Standing { revoked: true, ..before }).await
    }
}

async fn standing(ctx: &ObjectContext<'_>) -> Result<Standing, HandlerError> {
    Ok(ctx.get::<Json<Standing>>(LEAVE).await?.map(Json::into_inner).unwrap_or_default())
}

/// Writes what stands now, and has it listed or struck where that has changed.
async fn keep(ctx: &ObjectContext<'_>, before: Standing, after: Standing) -> Result<(), HandlerError> {
    ctx.set(LEAVE, Json(after.clone()));
    match (before.listed(), after.listed()) {
        (None, Some(Given { list, leave })) => {
            let list = ctx.object_client::<LeavesEntityClient<'_>>(list);
            list.add(Json(leave.clone())).call().await?;
        }
        (Some(Given { list, leave }), None) => {
            let list = ctx.object_client::<LeavesEntityClient<'_>>(list);
            list.strike(Json(leave.id)).call().await?;
        }
        _ => {}
    }
    Ok(())
}

/// The leaves of one tenant for one tool that have a use left.
#[derive(Debug)]
pub(crate) struct LeavesEntity;

#[restate_sdk::object(
    name = "Leaves",
    journal_retention = "0s",
    idempotency_retention = "0s",
    invocation_retry_policy(initial_interval = "20ms", factor = 2.0, max_interval = "500ms")
)]
impl LeavesEntity {
    /// Puts one on the list.
    #[handler(ingress_private = true)]
    async fn add(&self, ctx: ObjectContext<'_>, leave: Json<StandingApproval>) -> HandlerResult<()> {
        let mut leaves = leaves(ctx.get(LEAVE).await?);
        leaves.push(leave.into_inner());
        ctx.set(LEAVE, Json(leaves));
        Ok(())
    }

    /// Takes one off the list.
    #[handler(ingress_private = true)]
    async fn strike(&self, ctx: ObjectContext<'_>, leave: Json<StandingApprovalId>) -> HandlerResult<()> {
        let mut leaves = leaves(ctx.get(LEAVE).await?);
        leaves.retain(|other| other.id != leave.0);
        ctx.set(LEAVE, Json(leaves));
        Ok(())
    }

    /// All of them, the first given first.
    #[handler]
    async fn list(
        &self,
        ctx: SharedObjectContext<'_>,
        _this: Json<()>,
    ) -> HandlerResult<Json<Vec<StandingApproval>>> {
        Ok(Json(leaves(ctx.get(LEAVE).await?)))
    }
}

fn leaves(kept: Option<Json<Vec<StandingApproval>>>) -> Vec<StandingApproval> {
    kept.map(Json::into_inner).unwrap_or_default()
}
