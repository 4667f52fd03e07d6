//! What a call owes its book, and to whom it says so.
//!
//! A record that owes lines has told a projector once, and is told in turn when they are taken: it must never have lines that the
//! book has not acknowledged, and nobody who knows of it.

use byleave_core::hash_chain::GENESIS;
use byleave_core::id::CallId;
use byleave_core::record::Record;
use restate_sdk::prelude::*;

use super::projector::ProjectorEntityClient;
use super::{broken, drop_handle};
use crate::keys;
use crate::packing::{Kept, contents_name};
use crate::wire::{Blob, Owed, Owing};

/// No more than that is owed at once, but for one append that is larger by itself.
const OWED_BYTES_MAX: usize = 1024 * 1024;

/// What the book has not acknowledged, or the first part of it; `None` where that is nothing.
pub(super) async fn owed(ctx: &SharedObjectContext<'_>, kept: &Kept) -> Result<Option<Owed>, HandlerError> {
    let Some(projected) = kept.projected.as_ref().filter(|book| book.acknowledged < kept.len()) else {
        return Ok(None);
    };
    let (_, call) = keys::of_call(ctx.key()).ok_or_else(|| broken("cannot read a key", ctx.key()))?;
    let lines = kept.lines(call);
    let record = Record::from_stored_entries(call, &lines);
    let heading = record.header().ok_or_else(|| broken("cannot project a record", "it has no heading"))?;
    let from = projected.acknowledged;
    let before = usize::try_from(from).ok().and_then(|from| from.checked_sub(1));
    let mut owed = Owed {
        from,
        before: before.and_then(|place| lines.get(place)).map_or(GENESIS, |line| line.link()),
        key: kept.key.clone().filter(|_| from == 0).map(Blob),
        appends: Vec::new(),
        tenant: heading.tenant.clone(),
        session: heading.session.clone(),
        agent: projected.noted.agent.clone().unwrap_or_else(|| heading.caller()),
        noted: projected.noted.clone(),
        settles: None,
    };
    let (mut seq, mut bytes) = (0_u32, 0_usize);
    for cut in &projected.cuts {
        let end = seq.saturating_add(*cut);
        if seq >= from {
            if bytes >= OWED_BYTES_MAX {
                return Ok(Some(owed));
            }
            let bodies = kept.bodies.iter().skip(seq as usize).take(*cut as usize).cloned().collect();
            let contents = ctx.get::<Vec<u8>>(&contents_name(seq)).await?;
            owed.appends.push((bodies, Blob(contents.unwrap_or_default())));
            bytes = owed.bytes();
        }
        seq = end;
    }
    owed.settles = record.outcome().is_some().then_some((kept.len(), kept.head));
    Ok(Some(owed))
}

/// Tells a projector that lines are owed, unless it was told and has not brought everything yet: then it will be told once it
/// has. `at_len` is how long the record was before, and `record` what it is now.
pub(super) fn tell(
    ctx: &ObjectContext<'_>,
    ledger: &str,
    call: CallId,
    kept: &Kept,
    at_len: u32,
    record: &Record,
) {
    if kept.projected.as_ref().is_some_and(|projected| projected.acknowledged == at_len) {
        owe(ctx, ledger, call, at_len, record);
    }
}

/// Tells a projector that lines are owed from this place on.
pub(super) fn tell_from(ctx: &ObjectContext<'_>, kept: &Kept, from: u32) -> Result<(), HandlerError> {
    let (ledger, call) = keys::of_call(ctx.key()).ok_or_else(|| broken("cannot read a key", ctx.key()))?;
    owe(ctx, &ledger, call, from, &Record::from_stored_entries(call, &kept.lines(call)));
    Ok(())
}

fn owe(ctx: &ObjectContext<'_>, ledger: &str, call: CallId, from: u32, record: &Record) {
    let since = record.entries().get(from as usize).map_or(0, |entry| entry.at);
    let lane = keys::lane_of(ledger, &call.uuid());
    let owing = Json(Owing { call, since });
    drop_handle(ctx.object_client::<ProjectorEntityClient<'_>>(lane).owes(owing).send());
}
