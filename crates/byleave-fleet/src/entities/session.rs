//! One session: who runs alone in it. Nothing is held here while a tool runs but one small value.

use byleave_core::id::CallId;
use restate_sdk::prelude::*;

use crate::wire::Seat;

/// Where the seat is.
const SEAT: &str = "seat";

/// The order within one session.
#[derive(Debug)]
pub(crate) struct SessionEntity;

#[restate_sdk::object(
    name = "Session",
    journal_retention = "0s",
    idempotency_retention = "0s",
    ingress_private = true,
    invocation_retry_policy(initial_interval = "20ms", factor = 2.0, max_interval = "500ms")
)]
impl SessionEntity {
    /// Takes the seat for a call that runs alone; says who has it where another does.
    #[handler]
    async fn sit(&self, ctx: ObjectContext<'_>, seat: Json<Seat>) -> HandlerResult<Json<Option<Seat>>> {
        let taken = ctx.get::<Json<Seat>>(SEAT).await?.map(Json::into_inner);
        if let Some(taken) = taken.filter(|taken| taken.call != seat.0.call) {
            return Ok(Json(Some(taken)));
        }
        ctx.set(SEAT, seat);
        Ok(Json(None))
    }

    /// Frees the seat, if this call has it.
    #[handler]
    async fn rise(&self, ctx: ObjectContext<'_>, call: Json<CallId>) -> HandlerResult<()> {
        if ctx.get::<Json<Seat>>(SEAT).await?.is_some_and(|seat| seat.0.call == call.0) {
            ctx.clear(SEAT);
        }
        Ok(())
    }
}
