//! One tenant: what its administrators did, and the halt that is in force.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::id::{AdminActionId, SessionId, TenantId};
use byleave_core::session::{DEPTH_MAX, SessionNode, opening_action_id};
use byleave_gate::ledger::invariants;
use restate_sdk::prelude::*;

use super::call::CallEntityClient;
use super::leave::LeaveEntityClient;
use super::projector::ProjectorEntityClient;
use super::unsettled::UnsettledEntityClient;
use super::{broken, drop_handle};
use crate::keys::{self, ACTS, short};
use crate::wire::{CallName, Looked, Looking, NewAct};

/// Where the halt is. No act lies under such a name.
const HALT: &str = "halt";

/// The acts of one tenant.
#[derive(Debug)]
pub(crate) struct TenantEntity;

#[restate_sdk::object(
    name = "Tenant",
    journal_retention = "0s",
    idempotency_retention = "0s",
    lazy_state = true,
    invocation_retry_policy(initial_interval = "20ms", factor = 2.0, max_interval = "500ms")
)]
impl TenantEntity {
    /// Carries an act out, once. In force when it returns: what begins later is ordered after it.
    #[handler]
    async fn act(&self, ctx: ObjectContext<'_>, act: Json<NewAct>) -> HandlerResult<Json<Option<String>>> {
        let NewAct { ledger, act, book } = act.into_inner();
        let place = act_place(act.id);
        if let Some(there) = ctx.get::<Json<AdminAction>>(&place).await? {
            return Ok(Json((there.0 != act).then(|| "its id is taken".into())));
        }
        if let AdminActionKind::OpenSession(opening) = &act.kind {
            let parent = match &opening.parent {
                Some(parent) => opened(ctx.get(&opening_place(&act.tenant, parent)).await?),
                None => None,
            };
            if let Err(fault) = invariants::check_opening(&act, opening, parent.is_some()) {
                return Ok(Json(Some(fault.to_string())));
            }
        }
        ctx.set(&place, Json(act.clone()));
        if book {
            owe(&ctx, &ledger, act.clone());
        }
        match &act.kind {
            AdminActionKind::Halt { .. } => {
                ctx.set(HALT, Json(act.clone()));
                tell_all(&ctx, &ledger, act.tenant.clone(), Some(act)).await?;
            }
            AdminActionKind::Lift => {
                ctx.clear(HALT);
                tell_all(&ctx, &ledger, act.tenant, None).await?;
            }
            AdminActionKind::OpenSession(_) | AdminActionKind::Waive { .. } => {}
            AdminActionKind::Revoke { standing_approval: leave } => {
                let key = keys::leave(&ledger, &act.tenant, *leave);
                ctx.object_client::<LeaveEntityClient<'_>>(key).revoke(Json(())).call().await?;
            }
            AdminActionKind::Forget { call } => {
                let key = keys::call(&ledger, *call);
                let forget = Json((CallName { call: *call }, act.tenant));
                ctx.object_client::<CallEntityClient<'_>>(key).forget(forget).call().await?;
            }
        }
        Ok(Json(None))
    }

    /// Sends every act to the book once more. Says how many there are.
    #[handler]
    async fn again(&self, ctx: ObjectContext<'_>, _this: Json<()>) -> HandlerResult<Json<u64>> {
        let ledger = keys::ledger_of(ctx.key()).ok_or_else(|| broken("cannot read a key", ctx.key()))?;
        let mut sent = 0;
        for name in ctx.get_keys().await?.iter().filter(|name| name.starts_with(ACTS)) {
            if let Some(act) = ctx.get::<Json<AdminAction>>(name).await? {
                owe(&ctx, &ledger, act.into_inner());
                sent += 1;
            }
        }
        Ok(Json(sent))
    }

    /// A session and those above it, by the acts that opened them.
    #[handler]
    async fn lineage(
        &self,
        ctx: SharedObjectContext<'_>,
        of: Json<(TenantId, SessionId)>,
    ) -> HandlerResult<Json<Vec<SessionNode>>> {
        let (tenant, session) = of.into_inner();
        Ok(Json(lineage(&ctx, &tenant, session).await?))
    }

    /// The newest halt, and those above some sessions: for calls that come in together.
    #[handler]
    async fn look(&self, ctx: SharedObjectContext<'_>, of: Json<Looking>) -> HandlerResult<Json<Looked>> {
        let Looking { tenant, sessions } = of.into_inner();
        // All at once: each is a way to the engine and back.
        let halt = ctx.get::<Json<AdminAction>>(HALT);
        let places: Vec<String> = sessions.iter().map(|session| opening_place(&tenant, session)).collect();
        let opened: Vec<_> = places.iter().map(|place| ctx.get::<Json<AdminAction>>(place)).collect();
        let halt = halt.await?.map(Json::into_inner);
        let mut lineages = Vec::new();
        for (session, opened) in sessions.into_iter().zip(opened) {
            let is_opened = opened.await?.is_some();
            lineages.push(if is_opened { lineage(&ctx, &tenant, session).await? } else { Vec::new() });
        }
        Ok(Json(Looked { halt, lineages }))
    }

    /// The newest halt, where it has not been lifted.
    #[handler]
    async fn halted(
        &self,
        ctx: SharedObjectContext<'_>,
        _this: Json<()>,
    ) -> HandlerResult<Json<Option<AdminAction>>> {
        Ok(Json(ctx.get::<Json<AdminAction>>(HALT).await?.map(Json::into_inner)))
    }
}

async fn lineage(
    ctx: &SharedObjectContext<'_>,
    tenant: &TenantId,
    session: SessionId,
) -> Result<Vec<SessionNode>, HandlerError> {
    let mut lineage: Vec<SessionNode> = Vec::new();
    let mut at = Some(session);
    while let Some(session) = at {
        match opened(ctx.get(&opening_place(tenant, &session)).await?) {
            Some(opening) if lineage.len() <= DEPTH_MAX => {
                at = opening.parent.clone();
                lineage.push(opening);
            }
            None if lineage.is_empty() => break,
            _ => return Err(broken("cannot tell who is above a session", &session)),
        }
    }
    Ok(lineage)
}

/// Tells every place where something may begin whether the tenant is halted. All at once: none waits for another.
async fn tell_all(
    ctx: &ObjectContext<'_>,
    ledger: &str,
    tenant: TenantId,
    halt: Option<AdminAction>,
) -> Result<(), HandlerError> {
    let told: Vec<_> = (0..keys::SHARDS)
        .map(|shard| {
            let part = ctx.object_client::<UnsettledEntityClient<'_>>(keys::shard(ledger, shard));
            part.halts(Json((tenant.clone(), halt.clone()))).call()
        })
        .collect();
    for told in told {
        told.await?;
    }
    Ok(())
}

/// Has an act brought into the book.
fn owe(ctx: &ObjectContext<'_>, ledger: &str, act: AdminAction) {
    let lane = keys::lane_of(ledger, &act.id.uuid());
    drop_handle(ctx.object_client::<ProjectorEntityClient<'_>>(lane).owes_act(Json(act)).send());
}

fn act_place(act: AdminActionId) -> String {
    format!("{ACTS}{}", short(&act.uuid()))
}

fn opening_place(tenant: &TenantId, session: &SessionId) -> String {
    act_place(opening_action_id(tenant, session))
}

/// The opening that an act is.
fn opened(act: Option<Json<AdminAction>>) -> Option<SessionNode> {
    match act?.into_inner().kind {
        AdminActionKind::OpenSession(opening) => Some(opening),
        _ => None,
    }
}
