//! One tenant: what its administrators did, and the halt that is in force.

use byleave_core::act::{Act, Deed};
use restate_sdk::prelude::*;

use super::call::CallEntityClient;
use super::leave::LeaveEntityClient;
use crate::keys::{self, short};
use crate::wire::CallName;

/// Where the halt is. Acts lie under `a` and their id, for the book to take.
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
    async fn act(
        &self,
        ctx: ObjectContext<'_>,
        act: Json<(String, Act)>,
    ) -> HandlerResult<Json<Option<String>>> {
        let (ledger, act) = act.into_inner();
        let place = format!("a{}", short(&act.id.uuid()));
        if let Some(there) = ctx.get::<Json<Act>>(&place).await? {
            return Ok(Json((there.0 != act).then(|| "its id is taken".into())));
        }
        ctx.set(&place, Json(act.clone()));
        match &act.deed {
            Deed::Halt { .. } => ctx.set(HALT, Json(act)),
            Deed::Lift => ctx.clear(HALT),
            Deed::Revoke { leave } => {
                let key = keys::leave(&ledger, &act.tenant, *leave);
                ctx.object_client::<LeaveEntityClient<'_>>(key).revoke(Json(())).call().await?;
            }
            Deed::Forget { call } => {
                let key = keys::call(&ledger, *call);
                let forget = Json((CallName { call: *call }, act.tenant));
                ctx.object_client::<CallEntityClient<'_>>(key).forget(forget).call().await?;
            }
        }
        Ok(Json(None))
    }

    /// The newest halt, where it has not been lifted.
    #[handler]
    async fn halted(
        &self,
        ctx: SharedObjectContext<'_>,
        _this: Json<()>,
    ) -> HandlerResult<Json<Option<Act>>> {
        Ok(Json(ctx.get::<Json<Act>>(HALT).await?.map(Json::into_inner)))
    }
}
