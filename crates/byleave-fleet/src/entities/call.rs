//! One call: its record, and everything that moves when lines are added to it.
//!
//! The order within an append is what makes it safe. Is the record still as it was taken to be? Is the batch what every
//! ledger accepts, and does the walk admit it? Does anything hinder it (and if so, what was taken is put back)? Only then
//! is it written, and only then do the lists learn of it, but for what begins: that is listed where halts are looked at, before it
//! is written, so that nothing runs that nobody would take up. The engine carries every handler to its end, so nothing stops
//! half-way; and one call has one writer at a time, so nothing comes in between.
//!
//! Where there is a book, a record that owes it lines has said so to a projector, once, and has not been told yet that they
//! are taken. A record must never be cleared before it is settled and the book has given all of it back; then a tombstone
//! stays, so that nobody opens the same call anew.

use std::time::Duration;

use byleave_core::call::Millis;
use byleave_core::effect::Effect;
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::hash_chain::GENESIS;
use byleave_core::id::{CallId, QuestionId, SessionId, StandingApprovalId, TenantId};
use byleave_core::pipeline::{NextStep, next_step};
use byleave_core::record::Record;
use byleave_gate::ledger::invariants::{self, BatchEffects};
use byleave_gate::ledger::{Interruption, PendingQuestion, StartBlockedError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use restate_sdk::prelude::*;

use super::checked::{Checked, runs_alone};
use super::holds::HoldsEntityClient;
use super::leave::LeaveEntityClient;
use super::question::QuestionEntityClient;
use super::session::SessionEntityClient;
use super::unsettled::UnsettledEntityClient;
use super::{broken, drop_handle, owing};
use crate::keys;
use crate::packing::{CONTENTS, Kept, RECORD, Tombstone, contents_name};
use crate::wire::{
    self, Acknowledged, Append, Appended, Begin, Blob, Contents, Found, Given, Hold, Owed, Relist, Seat, Uses,
};

/// Where the tombstone is, in place of the record and the contents beside it.
const TOMBSTONE: &str = "t";

/// Something that another entity was told, and that must have come of it.
type Told<'ctx> = BoxFuture<'ctx, Result<(), TerminalError>>;

/// The record of one call.
#[derive(Debug)]
pub(crate) struct CallEntity;

#[restate_sdk::object(
    name = "Call",
    journal_retention = "0s",
    idempotency_retention = "0s",
    invocation_retry_policy(initial_interval = "20ms", factor = 2.0, max_interval = "500ms")
)]
impl CallEntity {
    /// Adds lines, if the record is still as it was taken to be and nothing hinders them.
    #[handler]
    async fn append(&self, ctx: ObjectContext<'_>, append: Json<Append>) -> HandlerResult<Json<Appended>> {
        let append = append.into_inner();
        let kept = kept(ctx.get(RECORD).await?)?;
        // Never beside a record.
        if kept.is_none()
            && let Some(tombstone) = tombstone(ctx.get(TOMBSTONE).await?)?
        {
            let is_same = tombstone.token == append.token;
            return Ok(Json(if is_same { Appended::Taken } else { Appended::Stale }));
        }
        if kept.as_ref().is_some_and(|kept| kept.token == append.token) {
            return Ok(Json(Appended::Taken));
        }
        let place = kept.as_ref().map_or((0, GENESIS), |kept| (kept.len(), kept.head));
        if place != (append.at_len, append.before) {
            return Ok(Json(Appended::Stale));
        }
        let checked = match Checked::new(kept, &append) {
            Ok(checked) => checked,
            Err(why) => return Ok(Json(Appended::Refused { why })),
        };
        let moves = match invariants::check_batch(&checked.batch, append.owner) {
            Ok(moves) => moves,
            Err(fault) => return Ok(Json(Appended::Refused { why: fault.reason })),
        };
        if let Some(hindered) = take_what_it_needs(&ctx, &append, &checked, &moves).await? {
            return Ok(Json(hindered));
        }
        ctx.set(RECORD, pack(&checked.kept)?);
        owing::tell(&ctx, &append.ledger, append.call, &checked.kept, append.at_len, &checked.after);
        // What is said to a forgotten record is forgotten at once.
        if !append.contents.0.is_empty() && checked.kept.key.is_some() {
            ctx.set(&contents_name(append.at_len), append.contents.0.clone());
        }
        project(&ctx, &append, &checked, &moves).await?;
        Ok(Json(Appended::Taken))
    }

    /// Reads the record.
    #[handler]
    async fn load(
        &self,
        ctx: SharedObjectContext<'_>,
        _all: Json<()>,
    ) -> HandlerResult<Json<Found<wire::Kept>>> {
        let Some(kept) = kept(ctx.get(RECORD).await?)? else {
            return Ok(Json(not_here(ctx.get(TOMBSTONE).await?)?));
        };
        Ok(Json(Found::Here(wire::Kept { key: kept.key.map(Blob), bodies: kept.bodies, head: kept.head })))
    }

    /// Reads the sealed contents.
    #[handler]
    async fn contents(
        &self,
        ctx: SharedObjectContext<'_>,
        _all: Json<()>,
    ) -> HandlerResult<Json<Found<Contents>>> {
        let Some(kept) = kept(ctx.get(RECORD).await?)? else {
            return Ok(Json(not_here(ctx.get(TOMBSTONE).await?)?));
        };
        let mut sealed = Vec::new();
        for name in ctx.get_keys().await? {
            let Some(seq) = name.strip_prefix(CONTENTS).and_then(|seq| seq.parse().ok()) else { continue };
            sealed.extend(ctx.get::<Vec<u8>>(&name).await?.map(|bytes| (seq, Blob(bytes))));
        }
        sealed.sort_unstable_by_key(|(seq, _)| *seq);
        Ok(Json(Found::Here(Contents { key: kept.key.map(Blob), sealed })))
    }

    /// Writes that an open attempt was interrupted. Whoever asks has seen that its owner is gone.
    #[handler]
    async fn interrupt(
        &self,
        ctx: ObjectContext<'_>,
        interrupt: Json<wire::Interrupt>,
    ) -> HandlerResult<Json<bool>> {
        let wire::Interrupt { ledger, call, attempt, at } = interrupt.into_inner();
        let Some(mut kept) = kept(ctx.get(RECORD).await?)? else { return Ok(Json(false)) };
        let mut record = Record::from_stored_entries(call, &kept.lines(call));
        let open = invariants::open_attempt(&record);
        let owner = open.map(|(_, owner)| owner);
        let not = owner.map_or(Some(Interruption::NotOpen), |owner| {
            invariants::check_interruptible(open, attempt, owner, |_| false)
        });
        if not.is_some() {
            return Ok(Json(false));
        }
        let before = record.clone();
        let (line, _) = invariants::interruption_entry(&mut record, attempt, at)
            .map_err(|fault| broken(&fault.operation, &fault.reason))?;
        let at_len = kept.len();
        kept.push(line);
        ctx.set(RECORD, pack(&kept)?);
        owing::tell(&ctx, &ledger, call, &kept, at_len, &record);
        if let Some(heading) = record.header() {
            for told in pass(&ctx, &ledger, (&heading.tenant, &heading.session), &before) {
                told.await?;
            }
        }
        Ok(Json(true))
    }

    /// Writes that nobody answered in time, if the question is still open. Sent by the record to itself, for later.
    #[handler(ingress_private = true)]
    async fn expire(&self, ctx: ObjectContext<'_>, question: Vec<u8>) -> HandlerResult<()> {
        // It waits in the engine for as long as the question does, so it says nothing that the key does not.
        let question = uuid::Uuid::from_slice(&question).map(QuestionId::new);
        let question = question.map_err(|error| broken("cannot expire a question", error))?;
        let (ledger, call) =
            keys::of_call(ctx.key()).ok_or_else(|| broken("cannot read a key", ctx.key()))?;
        let Some(mut kept) = kept(ctx.get(RECORD).await?)? else { return Ok(()) };
        let mut record = Record::from_stored_entries(call, &kept.lines(call));
        let before = listed(&record);
        let NextStep::Wait(open) = next_step(&record) else { return Ok(()) };
        if open.id != question {
            return Ok(());
        }
        let entry = Entry { at: open.expires_at, event: RecordEvent::Expired { question } };
        let line = record.push(entry).map_err(|misplaced| broken("cannot expire a question", misplaced))?;
        let at_len = kept.len();
        kept.push(line);
        ctx.set(RECORD, pack(&kept)?);
        owing::tell(&ctx, &ledger, call, &kept, at_len, &record);
        let relist = Relist { drop: before, add: listed(&record) };
        let key = keys::shard_of(&ledger, call);
        ctx.object_client::<UnsettledEntityClient<'_>>(key).relist(Json(relist)).call().await?;
        Ok(())
    }

    /// Destroys the key and the contents, for the tenant whose call it is.
    #[handler(ingress_private = true)]
    async fn forget(
        &self,
        ctx: ObjectContext<'_>,
        forget: Json<(wire::CallName, TenantId)>,
    ) -> HandlerResult<()> {
        let (wire::CallName { call }, tenant) = forget.into_inner();
        let Some(mut kept) = kept(ctx.get(RECORD).await?)? else { return Ok(()) };
        let record = Record::from_stored_entries(call, &kept.lines(call));
        if record.header().is_none_or(|heading| heading.tenant != tenant) {
            return Ok(());
        }
        kept.key = None;
        if let Some(projected) = &mut kept.projected {
            projected.noted.summary.clear();
        }
        ctx.set(RECORD, pack(&kept)?);
        for name in ctx.get_keys().await? {
            if name.starts_with(CONTENTS) {
                ctx.clear(&name);
            }
        }
        Ok(())
    }

    /// What the book has not acknowledged, or the first part of it; `None` where that is nothing.
    #[handler(ingress_private = true)]
    async fn owed(&self, ctx: SharedObjectContext<'_>, _all: Json<()>) -> HandlerResult<Json<Option<Owed>>> {
        let Some(kept) = kept(ctx.get(RECORD).await?)? else { return Ok(Json(None)) };
        Ok(Json(owing::owed(&ctx, &kept).await?))
    }

    /// The book has lines of this call: says what is still owed, or gives everything up that it has whole.
    #[handler(ingress_private = true)]
    async fn acknowledged(&self, ctx: ObjectContext<'_>, these: Json<Acknowledged>) -> HandlerResult<()> {
        let Acknowledged { from, upto, whole } = these.into_inner();
        let Some(mut kept) = kept(ctx.get(RECORD).await?)? else { return Ok(()) };
        let len = kept.len();
        let Some(projected) = &mut kept.projected else { return Ok(()) };
        // What comes before them must have been acknowledged as well: since then it may have been sent for once more.
        if from > projected.acknowledged || upto > len {
            return Ok(());
        }
        projected.acknowledged = projected.acknowledged.max(upto);
        if whole && projected.acknowledged == len {
            ctx.clear_all();
            ctx.set(TOMBSTONE, Tombstone { token: kept.token }.pack());
            return Ok(());
        }
        let is_more = projected.acknowledged < len;
        ctx.set(RECORD, pack(&kept)?);
        if is_more {
            owing::tell_from(&ctx, &kept, upto)?;
        }
        Ok(())
    }

    /// Sends everything that is here to the book once more. Says whether there is anything.
    #[handler]
    async fn again(&self, ctx: ObjectContext<'_>, _all: Json<()>) -> HandlerResult<Json<bool>> {
        let Some(mut kept) = kept(ctx.get(RECORD).await?)? else { return Ok(Json(false)) };
        let Some(projected) = &mut kept.projected else { return Ok(Json(false)) };
        projected.acknowledged = 0;
        ctx.set(RECORD, pack(&kept)?);
        owing::tell_from(&ctx, &kept, 0)?;
        Ok(Json(true))
    }
}

/// What to say of a call whose record is not here.
fn not_here<T>(packed: Option<Vec<u8>>) -> Result<Found<T>, HandlerError> {
    Ok(tombstone(packed)?.map_or(Found::Nowhere, |_| Found::InBook))
}

/// Takes what an attempt needs to begin, the gravest hindrance first; puts back what it took if it does not get it all.
async fn take_what_it_needs(
    ctx: &ObjectContext<'_>,
    append: &Append,
    checked: &Checked,
    moves: &BatchEffects<'_>,
) -> Result<Option<Appended>, HandlerError> {
    if append.begins.is_some() {
        let relist = Relist { drop: listed(&checked.before), add: listed(&checked.after) };
        let (ledger, tenant) = (append.ledger.clone(), append.tenant.clone());
        let begin = Json(Begin { ledger, tenant, relist });
        let halted = unsettled(ctx, append).begin(begin).call().await?;
        let standing = invariants::StartConditions {
            halt: halted.0.as_ref(),
            approval_usable: true,
            exclusive_attempt: None,
        };
        if let Some(StartBlockedError::Halted { why }) =
            invariants::start_blocked(append.call, checked.batch.attempt_start.as_ref(), standing)
        {
            return Ok(Some(Appended::Halted { why }));
        }
    }
    let mut uses: Vec<(StandingApprovalId, Uses)> = Vec::new();
    for leave in &moves.approvals_used {
        if uses.iter().any(|(other, _)| other == leave) {
            continue;
        }
        let more = moves.approvals_used.iter().filter(|other| *other == leave).count();
        let asked = append.begins.and_then(|begins| begins.leave).filter(|(other, _)| other == leave);
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        uses.push((*leave, Uses { more, asked_max: asked.and_then(|(_, max)| max) }));
    }
    // Before any leave: a use that is taken and put back looks spent meanwhile, and somebody would be asked for nothing.
    let sits = append.begins.filter(|begins| begins.exclusive);
    if let Some(begins) = sits {
        let seat = Seat { call: append.call, attempt: begins.attempt };
        let busy = session(ctx, append).sit(Json(seat)).call().await?;
        if let Some(Seat { call, attempt }) = busy.0 {
            put_back(ctx, append, checked, Vec::new()).await?;
            // The graver of the two is said.
            for (id, uses) in uses {
                if !leave(ctx, append, id).has(Json(uses)).call().await?.0 {
                    return Ok(Some(Appended::LeaveSpent));
                }
            }
            return Ok(Some(Appended::SessionBusy { call, attempt }));
        }
    }
    let mut taken: Vec<(StandingApprovalId, Uses)> = Vec::new();
    for (id, uses) in uses {
        if !leave(ctx, append, id).take(Json(uses)).call().await?.0 {
            put_back(ctx, append, checked, taken).await?;
            if sits.is_some() {
                session(ctx, append).rise(Json(append.call)).call().await?;
            }
            return Ok(Some(Appended::LeaveSpent));
        }
        taken.push((id, uses));
    }
    Ok(None)
}

async fn put_back(
    ctx: &ObjectContext<'_>,
    append: &Append,
    checked: &Checked,
    taken: Vec<(StandingApprovalId, Uses)>,
) -> Result<(), HandlerError> {
    if append.begins.is_some() {
        let relist = Relist { drop: listed(&checked.after), add: listed(&checked.before) };
        unsettled(ctx, append).relist(Json(relist)).call().await?;
    }
    for (id, uses) in taken {
        leave(ctx, append, id).put_back(Json(uses)).call().await?;
    }
    Ok(())
}

/// Tells everyone who must know before the append returns. All at once: none waits for another.
async fn project(
    ctx: &ObjectContext<'_>,
    append: &Append,
    checked: &Checked,
    moves: &BatchEffects<'_>,
) -> Result<(), HandlerError> {
    let (ledger, call) = (&append.ledger, append.call);
    let asks: Vec<_> = moves
        .questions
        .iter()
        .map(|question| {
            let key = keys::question(ledger, *question);
            ctx.object_client::<QuestionEntityClient<'_>>(key).asked(Json(call)).call()
        })
        .collect();
    let gives: Vec<_> = moves
        .approvals_granted
        .iter()
        .map(|leave| {
            let key = keys::leave(ledger, &append.tenant, leave.id);
            let list = keys::leaves(ledger, &append.tenant, &leave.tool);
            let given = Given { list, leave: (*leave).clone() };
            ctx.object_client::<LeaveEntityClient<'_>>(key).give(Json(given)).call()
        })
        .collect();
    let whose = (&append.tenant, &append.session);
    let mut others = Vec::new();
    if moves.frees_session {
        others = pass(ctx, ledger, whose, &checked.before);
    }
    if let Some(PendingQuestion { effects, .. }) =
        checked.batch.pending_question.as_ref().filter(|waits| !waits.effects.is_empty())
    {
        others.push(hold(ctx, ledger, whose, call, Some(effects.clone())));
    }
    let (drop, add) = (listed(&checked.before), listed(&checked.after));
    // What begins was listed before.
    let relist = (drop != add && append.begins.is_none())
        .then(|| unsettled(ctx, append).relist(Json(Relist { drop, add })).call());
    if let Some(PendingQuestion { question, .. }) = &checked.batch.pending_question {
        let asked_at = checked.after.entries().last().map_or(0, |entry| entry.at);
        let expire = question.id.as_bytes().to_vec();
        // A late expiry does nothing.
        let delay = Duration::from_millis(question.expires_at.saturating_sub(asked_at));
        drop_handle(ctx.object_client::<CallEntityClient<'_>>(ctx.key()).expire(expire).send_after(delay));
    }
    for told in asks {
        told.await?;
    }
    for told in gives {
        told.await?;
    }
    for told in others {
        told.await?;
    }
    if let Some(told) = relist {
        told.await?;
    }
    Ok(())
}

/// A leave of the same tenant.
fn leave<'ctx>(
    ctx: &'ctx ObjectContext<'_>,
    append: &Append,
    leave: StandingApprovalId,
) -> LeaveEntityClient<'ctx> {
    ctx.object_client(keys::leave(&append.ledger, &append.tenant, leave))
}

/// The session of a call.
fn session<'ctx>(ctx: &'ctx ObjectContext<'_>, append: &Append) -> SessionEntityClient<'ctx> {
    ctx.object_client(keys::session(&append.ledger, &append.tenant, &append.session))
}

/// The part of the unsettled calls that this one is listed in.
fn unsettled<'ctx>(ctx: &'ctx ObjectContext<'_>, append: &Append) -> UnsettledEntityClient<'ctx> {
    ctx.object_client::<UnsettledEntityClient<'_>>(keys::shard_of(&append.ledger, append.call))
}

/// Tells those who must know that a call runs no more and holds nobody up; nobody, for one that neither sat nor was asked about.
/// `record` is what it was before.
fn pass<'ctx>(
    ctx: &'ctx ObjectContext<'_>,
    ledger: &str,
    (tenant, session): (&TenantId, &SessionId),
    record: &Record,
) -> Vec<Told<'ctx>> {
    let mut told = Vec::new();
    if invariants::open_attempt(record).is_some() && runs_alone(record) {
        let key = keys::session(ledger, tenant, session);
        told.push(ctx.object_client::<SessionEntityClient<'_>>(key).rise(Json(record.call())).call().boxed());
    }
    if record.entries().iter().any(|entry| matches!(entry.event, RecordEvent::Asked(Ok(_)))) {
        told.push(hold(ctx, ledger, (tenant, session), record.call(), None));
    }
    told
}

/// Tells those who must know whom a call holds up from now on.
fn hold<'ctx>(
    ctx: &'ctx ObjectContext<'_>,
    ledger: &str,
    (tenant, session): (&TenantId, &SessionId),
    call: CallId,
    effects: Option<Vec<Effect>>,
) -> Told<'ctx> {
    let key = keys::holds(ledger, tenant, session);
    let hold = Json(Hold { session: session.clone(), call, effects });
    ctx.object_client::<HoldsEntityClient<'_>>(key).change(hold).call().boxed()
}

/// How an unsettled call is listed: by when it came in, and from when on it can be driven.
fn listed(record: &Record) -> Option<String> {
    let opened_at: Millis = record.entries().first()?.at;
    if record.outcome().is_some() {
        return None;
    }
    let due = match next_step(record) {
        NextStep::Wait(question) => question.expires_at,
        NextStep::Do(_) | NextStep::Settle(_) => 0,
    };
    Some(super::unsettled::name(opened_at, due, record.call()))
}

fn kept(packed: Option<Vec<u8>>) -> Result<Option<Kept>, HandlerError> {
    packed
        .map(|packed| Kept::unpack(&packed).map_err(|fault| broken("cannot read a record", fault)))
        .transpose()
}

fn tombstone(packed: Option<Vec<u8>>) -> Result<Option<Tombstone>, HandlerError> {
    let read = |packed: Vec<u8>| {
        Tombstone::unpack(&packed).map_err(|fault| broken("cannot read a tombstone", fault))
    };
    packed.map(read).transpose()
}

fn pack(kept: &Kept) -> Result<Vec<u8>, HandlerError> {
    kept.pack().map_err(|fault| broken("cannot pack a record", fault))
}
