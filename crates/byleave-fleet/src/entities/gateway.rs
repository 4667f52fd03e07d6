//! Which gateway a fleet has: one at a time. It says again and again that it is there; who wants its place watches that.

use restate_sdk::prelude::*;
use uuid::Uuid;

use crate::wire::{Candidate, Holder};

const HOLDER: &str = "h";

/// The place of the gateway.
#[derive(Debug)]
pub(crate) struct GatewayEntity;

#[restate_sdk::object(
    name = "Gateway",
    journal_retention = "0s",
    idempotency_retention = "0s",
    invocation_retry_policy(initial_interval = "20ms", factor = 2.0, max_interval = "500ms")
)]
impl GatewayEntity {
    /// Holds the place, where it is free, one's own, or that of the very one who was watched; says whose it is now.
    #[handler]
    async fn hold(&self, ctx: ObjectContext<'_>, hold: Json<Candidate>) -> HandlerResult<Json<Holder>> {
        let Candidate { id, place, over } = hold.into_inner();
        let held = ctx.get::<Json<Holder>>(HOLDER).await?.map(Json::into_inner);
        let beat = match held {
            Some(held) if held.id != id && over.as_ref() != Some(&held) => return Ok(Json(held)),
            Some(held) => held.beat.wrapping_add(1),
            None => 0,
        };
        let holder = Holder { id, place, beat };
        ctx.set(HOLDER, Json(holder.clone()));
        Ok(Json(holder))
    }

    /// Gives the place up, where it is one's own.
    #[handler]
    async fn leave(&self, ctx: ObjectContext<'_>, id: Json<Uuid>) -> HandlerResult<Json<()>> {
        if ctx.get::<Json<Holder>>(HOLDER).await?.is_some_and(|held| held.0.id == id.0) {
            ctx.clear(HOLDER);
        }
        Ok(Json(()))
    }

    /// Whose the place is.
    #[handler]
    async fn look(
        &self,
        ctx: SharedObjectContext<'_>,
        _this: Json<()>,
    ) -> HandlerResult<Json<Option<Holder>>> {
        Ok(Json(ctx.get::<Json<Holder>>(HOLDER).await?.map(Json::into_inner)))
    }
}
