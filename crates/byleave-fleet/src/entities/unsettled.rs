//! A part of the calls that are not settled, for whoever starts anew and takes up what was left. Nothing begins without being
//! listed here, so this is also where it is seen that a tenant is halted: one look for both.
//!
//! Everything that is known of a call stands in the name under which it is listed, so that nothing need be read to list
//! them, and nothing of the others need be read to change one.

use byleave_core::admin_action::AdminAction;
use byleave_core::call::Millis;
use byleave_core::id::{CallId, TenantId};
use byleave_gate::ledger::invariants;
use restate_sdk::prelude::*;

use super::tenant::TenantEntityClient;
use crate::keys::{self, short, unshort};
use crate::wire::{Begin, Due, Relist};

/// A part of the unsettled calls.
#[derive(Debug)]
pub(crate) struct UnsettledEntity;

#[restate_sdk::object(
    name = "Unsettled",
    journal_retention = "0s",
    idempotency_retention = "0s",
    lazy_state = true,
    invocation_retry_policy(initial_interval = "20ms", factor = 2.0, max_interval = "500ms")
)]
impl UnsettledEntity {
    /// Lists a call otherwise.
    #[handler(ingress_private = true)]
    async fn relist(&self, ctx: ObjectContext<'_>, relist: Json<Relist>) -> HandlerResult<()> {
        let Relist { drop, add } = relist.into_inner();
        list(&ctx, drop, add);
        Ok(())
    }

    /// Lists a call that begins something, unless its tenant is halted: then it says so, and lists nothing.
    ///
    /// A halt returns only after every part knows of it, so whatever is listed before that was begun before it.
    #[handler(ingress_private = true)]
    async fn begin(
        &self,
        ctx: ObjectContext<'_>,
        begin: Json<Begin>,
    ) -> HandlerResult<Json<Option<AdminAction>>> {
        let Begin { ledger, tenant, relist: Relist { drop, add } } = begin.into_inner();
        let halt = match ctx.get::<Json<Option<AdminAction>>>(&halt_name(&tenant)).await? {
            Some(known) => known.into_inner(),
            // Asked without waiting for the tenant's writer, who may be waiting for this part.
            None => {
                let key = keys::tenant(&ledger, &tenant);
                let halt = ctx.object_client::<TenantEntityClient<'_>>(key).halted(Json(())).call().await?;
                ctx.set(&halt_name(&tenant), Json(halt.0.clone()));
                halt.into_inner()
            }
        };
        if halt.is_none() {
            list(&ctx, drop, add);
        }
        Ok(Json(halt))
    }

    /// Knows from now on that a tenant is halted, or that it is not.
    #[handler(ingress_private = true)]
    async fn halts(
        &self,
        ctx: ObjectContext<'_>,
        halt: Json<(TenantId, Option<AdminAction>)>,
    ) -> HandlerResult<()> {
        let (tenant, halt) = halt.into_inner();
        ctx.set(&halt_name(&tenant), Json(halt));
        Ok(())
    }

    /// Those that can be driven on, with when they came in, the oldest first.
    #[handler]
    async fn list(
        &self,
        ctx: SharedObjectContext<'_>,
        due: Json<Due>,
    ) -> HandlerResult<Json<Vec<(Millis, CallId)>>> {
        let mut calls: Vec<(Millis, CallId)> = ctx
            .get_keys()
            .await?
            .iter()
            .filter_map(|name| read(name))
            .filter(|(_, until, _)| invariants::is_overdue(*until, due.0.now))
            .map(|(opened_at, _, call)| (opened_at, call))
            .collect();
        calls.sort_unstable();
        calls.truncate(due.0.limit);
        Ok(Json(calls))
    }
}

fn list(ctx: &ObjectContext<'_>, drop: Option<String>, add: Option<String>) {
    if drop == add {
        return;
    }
    if let Some(name) = drop {
        ctx.clear(&name);
    }
    if let Some(name) = add {
        ctx.set(&name, Vec::<u8>::new());
    }
}

/// The name under which it is known whether a tenant is halted. No call is listed like this.
fn halt_name(tenant: &TenantId) -> String {
    format!("halt {tenant}")
}

/// The name under which a call is listed.
pub(crate) fn name(opened_at: Millis, due: Millis, call: CallId) -> String {
    format!("{opened_at:x}.{due:x}.{}", short(&call.uuid()))
}

fn read(name: &str) -> Option<(Millis, Millis, CallId)> {
    let mut parts = name.splitn(3, '.');
    let opened_at = Millis::from_str_radix(parts.next()?, 16).ok()?;
    let due = Millis::from_str_radix(parts.next()?, 16).ok()?;
    Some((opened_at, due, CallId::new(unshort(parts.next()?)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_everything() {
        let call = CallId::new(uuid::Uuid::from_u128(9));
        assert_eq!(read(&name(1_700_000_000_000, 0, call)), Some((1_700_000_000_000, 0, call)));
        assert_eq!(read("nonsense"), None);
        assert_eq!(read(&halt_name(&TenantId::new("1.2").unwrap())), None);
    }
}
