//! Rehearses: has a draft run on a copy, has what it did judged by the same rules, and says what of it stands.

use std::sync::Arc;
use std::time::Duration;

use byleave_core::entry::Fact;
use byleave_core::question::Answer;
use byleave_core::record::Closing;
use byleave_core::refusal::{Code, Refusal, Step};
use byleave_core::rehearsal::{Rehearsal, Rehearsed};

use crate::catalog::Entry as CatalogEntry;
use crate::gate::desk::Desk;
use crate::gate::footing::{Performed, pinned, unreadable};
use crate::gate::given::given;
use crate::gate::judge::rule;
use crate::gate::leash::{Ended, at_work};
use crate::gate::parts::Parts;
use crate::guard::message;
use crate::tool::Unrehearsed;

/// Runs the draft on a copy. That it cannot be is no refusal: the question says so.
pub(crate) async fn rehearse(parts: &Parts, desk: &mut Desk) -> Performed {
    let rehearsed = match ran(parts, desk).await {
        Ok(rehearsed) => rehearsed,
        Err(Unrehearsed::Elsewhere) => return Performed::Elsewhere,
        Err(Unrehearsed::Not(why)) => Rehearsed::Not { why },
    };
    Performed::Fact(Fact::Rehearsed(rehearsed))
}

async fn ran(parts: &Parts, desk: &mut Desk) -> Result<Rehearsed, Unrehearsed> {
    let not = |refusal: Refusal| Unrehearsed::Not(refusal.why);
    let entry = pinned(parts, desk).map_err(not)?;
    let rehearsal = on_a_copy(parts, desk, &entry).await?;
    let judged = async {
        let plan = desk.plan(&*parts.ledger).await.map_err(unreadable)?;
        let observed = rehearsal.observed();
        let ruling = match observed.effects.is_empty() {
            true => None,
            false => Some(rule(parts, desk, &entry, &observed, false).await?),
        };
        let asked =
            desk.record.draft().and_then(|draft| draft.permitted()).and_then(|step| step.as_ref().ok());
        let asked =
            asked.cloned().ok_or_else(|| Refusal::new(Code::RecordBroken, "the call was not ruled"))?;
        let held = desk.hold(&rehearsal);
        Ok(rehearsal.head(held, &plan, &asked, ruling))
    };
    // What cannot be judged was not seen.
    judged.await.map(Rehearsed::Ran).map_err(not)
}

async fn on_a_copy(parts: &Parts, desk: &mut Desk, entry: &CatalogEntry) -> Result<Rehearsal, Unrehearsed> {
    let not = |refusal: Refusal| Unrehearsed::Not(refusal.why);
    let arguments = desk.arguments(&*parts.ledger).await.map_err(unreadable).map_err(not)?;
    let given = given(parts, desk, None).await.map_err(not)?;
    let tool = entry.tool().clone();
    let timeout = Duration::from_millis(desk.terms().map_or(0, |terms| terms.limits.timeout_ms));
    let ended = at_work(parts, desk.call(), timeout, false, move |stop| async move {
        match tool.rehearser() {
            Some(rehearser) => rehearser.rehearse((*arguments).clone(), given.unheard(stop)).await,
            None => Err(Unrehearsed::Not("the tool can no longer be rehearsed".into())),
        }
    });
    match ended.await {
        Ended::Itself(Ok(rehearsed)) => rehearsed,
        Ended::Itself(Err(broken)) => {
            Err(Unrehearsed::Not(format!("the tool panicked: {}", message(broken))))
        }
        Ended::Stopped { why, .. } => Err(Unrehearsed::Not(format!("on the copy, it {why}"))),
    }
}

/// A rehearsal that was granted.
pub(crate) struct Granted {
    /// What was seen.
    pub(crate) rehearsal: Arc<Rehearsal>,
    /// The part of it that a person chose.
    pub(crate) only: Option<Vec<String>>,
}

/// The rehearsal of the draft that counts, and the part of it that was granted.
pub(crate) async fn granted(parts: &Parts, desk: &mut Desk) -> Step<Option<Granted>> {
    let Some(draft) = desk.record.draft() else { return Ok(None) };
    let Some(held) = draft.rehearsal().map(|head| head.rehearsal) else { return Ok(None) };
    let asked = draft.asked().and_then(|step| step.as_ref().ok()).map(|question| question.id);
    let chosen = asked.and_then(|question| match desk.record.closing(question)? {
        Closing::Answered { answered, .. } => match &answered.answer {
            Answer::Part { paths, .. } => Some(*paths),
            _ => None,
        },
        Closing::Expired | Closing::Unasked(_) => None,
    });
    let rehearsal: Arc<Rehearsal> = desk.read(&*parts.ledger, held).await.map_err(unreadable)?;
    let only = match chosen {
        None => None,
        Some(held) => {
            let paths: Arc<Vec<String>> = desk.read(&*parts.ledger, held).await.map_err(unreadable)?;
            Some((*paths).clone())
        }
    };
    Ok(Some(Granted { rehearsal, only }))
}

/// The fact that the copy is gone, if it is: then everything about the draft is found out again, and asked again.
pub(crate) async fn lost(parts: &Parts, desk: &mut Desk) -> Step<Option<Fact>> {
    let granted = granted(parts, desk).await?;
    let Some(granted) = granted.filter(|granted| granted.rehearsal.stands()) else { return Ok(None) };
    let entry = pinned(parts, desk)?;
    let kept = match entry.tool().rehearser() {
        Some(rehearser) => rehearser.is_kept(desk.call(), &granted.rehearsal).await,
        None => false,
    };
    let head = desk.record.draft().and_then(|draft| draft.rehearsal());
    Ok(head.filter(|_| !kept).map(|head| Fact::RehearsalLost { rehearsal: head.digest() }))
}

/// Drops the copy of a call that came to its end without a commit.
pub(crate) async fn drop_copy(parts: &Parts, desk: &Desk) {
    let ran = desk.record.entries().iter().any(|entry| matches!(entry.fact, Fact::Rehearsing { .. }));
    let committed = desk.record.entries().iter().any(|entry| matches!(entry.fact, Fact::Begun(Ok(_))));
    if !ran || committed {
        return;
    }
    let Ok(entry) = pinned(parts, desk) else { return };
    if let Some(rehearser) = entry.tool().rehearser() {
        rehearser.discard(desk.call()).await;
    }
}
