//! Who holds others up, in a part of the sessions of a tenant: calls that a person was asked about, until they have ended.
//!
//! For many sessions, so that calls that come in together in several of them ask once; and under one name for each session, so that
//! nothing of the others need be read.

use byleave::ledger::floor;
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::{CallId, SessionId};
use restate_sdk::prelude::*;

use crate::wire::{Hold, Passing};

/// The calls of one session, the first asked about first.
type Waiting = Vec<(CallId, Vec<Effect>)>;

/// A part of those who hold others up.
#[derive(Debug)]
pub(crate) struct HoldsEntity;

#[restate_sdk::object(
    name = "Holds",
    journal_retention = "0s",
    idempotency_retention = "0s",
    lazy_state = true,
    invocation_retry_policy(initial_interval = "20ms", factor = 2.0, max_interval = "500ms")
)]
impl HoldsEntity {
    /// Has a call hold others up, or lets them pass.
    #[handler(ingress_private = true)]
    async fn change(&self, ctx: ObjectContext<'_>, hold: Json<Hold>) -> HandlerResult<()> {
        let Hold { session, call, effects } = hold.into_inner();
        let mut waiting = waiting(ctx.get(session.as_str()).await?);
        waiting.retain(|(other, _)| *other != call);
        waiting.extend(effects.map(|effects| (call, effects)));
        if waiting.is_empty() {
            ctx.clear(session.as_str());
        } else {
            ctx.set(session.as_str(), Json(waiting));
        }
        Ok(())
    }

    /// In which of these sessions there is a call that may hold others up.
    #[handler]
    async fn are_crowded(
        &self,
        ctx: SharedObjectContext<'_>,
        sessions: Json<Vec<SessionId>>,
    ) -> HandlerResult<Json<Vec<bool>>> {
        // All at once: each is a way to the engine and back.
        let asked: Vec<_> =
            sessions.0.iter().map(|session| ctx.get::<Json<Waiting>>(session.as_str())).collect();
        let mut crowded = Vec::new();
        for asked in asked {
            crowded.push(asked.await?.is_some());
        }
        Ok(Json(crowded))
    }

    /// Says which call holds a plan up.
    #[handler]
    async fn held_up_by(
        &self,
        ctx: SharedObjectContext<'_>,
        passing: Json<Passing>,
    ) -> HandlerResult<Json<Option<CallId>>> {
        let Passing { session, call, effects } = passing.into_inner();
        let plan = Plan { effects, ..Plan::default() };
        let waiting = waiting(ctx.get(session.as_str()).await?);
        let holds =
            |(other, holding): &&(CallId, Vec<Effect>)| *other != call && floor::holds_up(holding, &plan);
        Ok(Json(waiting.iter().find(holds).map(|(other, _)| *other)))
    }
}

fn waiting(kept: Option<Json<Waiting>>) -> Waiting {
    kept.map(Json::into_inner).unwrap_or_default()
}
