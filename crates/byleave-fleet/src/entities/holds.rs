//! Who holds others up, in a part of the sessions of a tenant: calls that a person was asked about, until they have ended.
//!
//! For many sessions, so that calls that come in together in several of them ask once; and under one name for each session, so that
//! nothing of the others need be read.

use byleave_core::effect::{Effect, Plan};
use byleave_core::id::{CallId, SessionId};
use byleave_gate::ledger::invariants;
use restate_sdk::prelude::*;

use super::broken;
use crate::packing::{pack_text, unpack_text};
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
        let mut waiting = waiting(ctx.get(session.as_str()).await?)?;
        waiting.retain(|(other, _)| *other != call);
        waiting.extend(effects.map(|effects| (call, effects)));
        if waiting.is_empty() {
            ctx.clear(session.as_str());
        } else {
            ctx.set(session.as_str(), pack(&waiting)?);
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
        let asked: Vec<_> = sessions.0.iter().map(|session| ctx.get::<Vec<u8>>(session.as_str())).collect();
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
        let Passing { session, call, effects, passed_over } = passing.into_inner();
        let plan = Plan { effects, ..Plan::default() };
        let waiting = waiting(ctx.get(session.as_str()).await?)?;
        let holds = |(other, holding): &&(CallId, Vec<Effect>)| {
            *other != call && !passed_over.contains(other) && invariants::blocks(holding, &plan)
        };
        Ok(Json(waiting.iter().find(holds).map(|(other, _)| *other)))
    }
}

/// Each is kept for as long as a question is open, so it is packed.
fn pack(waiting: &Waiting) -> Result<Vec<u8>, HandlerError> {
    let cannot = |why: &dyn std::fmt::Display| broken("cannot keep who holds others up", why);
    let text = serde_json::to_string(waiting).map_err(|why| cannot(&why))?;
    pack_text(&text).map_err(|why| cannot(&why))
}

/// Nobody passes because it cannot be read who holds them up.
fn waiting(kept: Option<Vec<u8>>) -> Result<Waiting, HandlerError> {
    let Some(packed) = kept else { return Ok(Waiting::new()) };
    let cannot = |why: &dyn std::fmt::Display| broken("cannot read who holds others up", why);
    let text = unpack_text(&packed).map_err(|why| cannot(&why))?;
    serde_json::from_str(&text).map_err(|why| cannot(&why))
}
