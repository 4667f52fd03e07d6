//! One session: who runs alone in it, and whose effects hold others up. A pure queue: nothing here is held while a tool
//! runs but two small values.

use byleave::ledger::floor;
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::CallId;
use restate_sdk::prelude::*;

use crate::keys::{short, unshort};
use crate::wire::{Passing, Seat, SessionChange};

/// Where the seat is. What holds others up lies under `h` and the call.
const SEAT: &str = "seat";
const HOLD: char = 'h';

/// The order within one session.
#[derive(Debug)]
pub(crate) struct SessionEntity;

#[restate_sdk::object(
    name = "Session",
    journal_retention = "0s",
    idempotency_retention = "0s",
    invocation_retry_policy(initial_interval = "20ms", factor = 2.0, max_interval = "500ms")
)]
impl SessionEntity {
    /// Takes the seat for a call that runs alone; says who has it where another does.
    #[handler(ingress_private = true)]
    async fn sit(&self, ctx: ObjectContext<'_>, seat: Json<Seat>) -> HandlerResult<Json<Option<Seat>>> {
        let taken = ctx.get::<Json<Seat>>(SEAT).await?.map(Json::into_inner);
        if let Some(taken) = taken.filter(|taken| taken.call != seat.0.call) {
            return Ok(Json(Some(taken)));
        }
        ctx.set(SEAT, seat);
        Ok(Json(None))
    }

    /// Lets others pass a call, or holds them up.
    #[handler(ingress_private = true)]
    async fn change(&self, ctx: ObjectContext<'_>, change: Json<SessionChange>) -> HandlerResult<()> {
        let SessionChange { call, passes, holds } = change.into_inner();
        let hold = format!("{HOLD}{}", short(&call.uuid()));
        if passes {
            if ctx.get::<Json<Seat>>(SEAT).await?.is_some_and(|seat| seat.0.call == call) {
                ctx.clear(SEAT);
            }
            ctx.clear(&hold);
        }
        if let Some(effects) = holds {
            ctx.set(&hold, Json(effects));
        }
        Ok(())
    }

    /// Says which call holds a plan up.
    #[handler]
    async fn held_up_by(
        &self,
        ctx: SharedObjectContext<'_>,
        passing: Json<Passing>,
    ) -> HandlerResult<Json<Option<CallId>>> {
        let Passing { call, effects } = passing.into_inner();
        let plan = Plan { effects, ..Plan::default() };
        for name in ctx.get_keys().await? {
            let holder = name.strip_prefix(HOLD).and_then(unshort).map(CallId::new);
            let Some(holder) = holder.filter(|holder| *holder != call) else { continue };
            let holding = ctx.get::<Json<Vec<Effect>>>(&name).await?;
            if holding.is_some_and(|effects| floor::holds_up(&effects.0, &plan)) {
                return Ok(Json(Some(holder)));
            }
        }
        Ok(Json(None))
    }
}
