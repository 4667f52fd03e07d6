//! Runs a draft on a copy and evaluates its observed effects with the same rules.

use std::sync::Arc;
use std::time::Duration;

use byleave_core::entry::RecordEvent;
use byleave_core::question::Answer;
use byleave_core::record::QuestionClosure;
use byleave_core::refusal::{Code, Refusal, StageResult};
use byleave_core::rehearsal::{Rehearsal, RehearsalOutcome};

use crate::catalog::CatalogEntry;
use crate::gate::inner::GateInner;
use crate::gate::policy_check::rule;
use crate::gate::run_context::given;
use crate::gate::supervise::{ToolExit, at_work};
use crate::gate::task_outcome::{TaskOutcome, pinned, unreadable};
use crate::gate::working_record::WorkingRecord;
use crate::plugin_guard::message;
use crate::tool::RehearseError;

/// Runs the draft on a copy. A failure to do so is not a refusal, because the question then says so.
pub(crate) async fn rehearse(parts: &GateInner, desk: &mut WorkingRecord) -> TaskOutcome {
    let rehearsed = match ran(parts, desk).await {
        Ok(rehearsed) => rehearsed,
        Err(RehearseError::Elsewhere) => return TaskOutcome::Elsewhere,
        Err(RehearseError::Not(why)) => RehearsalOutcome::Not { why },
    };
    TaskOutcome::Fact(RecordEvent::Rehearsed(rehearsed))
}

async fn ran(parts: &GateInner, desk: &mut WorkingRecord) -> Result<RehearsalOutcome, RehearseError> {
    let not = |refusal: Refusal| RehearseError::Not(refusal.why);
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
    // A run that cannot be evaluated is treated as if it had not happened.
    judged.await.map(RehearsalOutcome::Ran).map_err(not)
}

async fn on_a_copy(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    entry: &CatalogEntry,
) -> Result<Rehearsal, RehearseError> {
    let not = |refusal: Refusal| RehearseError::Not(refusal.why);
    let arguments = desk.arguments(&*parts.ledger).await.map_err(unreadable).map_err(not)?;
    let given = given(parts, desk, None).await.map_err(not)?;
    let tool = entry.tool().clone();
    let timeout = Duration::from_millis(desk.terms().map_or(0, |terms| terms.limits.timeout_ms));
    let ended = at_work(parts, desk.call(), timeout, false, move |stop| async move {
        match tool.rehearser() {
            Some(rehearser) => rehearser.rehearse((*arguments).clone(), given.unheard(stop)).await,
            None => Err(RehearseError::Not("the tool can no longer be rehearsed".into())),
        }
    });
    match ended.await {
        ToolExit::Itself(Ok(rehearsed)) => rehearsed,
        ToolExit::Itself(Err(broken)) => {
            Err(RehearseError::Not(format!("the tool panicked: {}", message(broken))))
        }
        ToolExit::Stopped { why, .. } => Err(RehearseError::Not(format!("on the copy, it {why}"))),
    }
}

/// A rehearsal that was granted.
pub(crate) struct GrantedRehearsal {
    /// The observed run.
    pub(crate) rehearsal: Arc<Rehearsal>,
    /// The paths that a person chose, if only a part was approved.
    pub(crate) only: Option<Vec<String>>,
}

/// Returns the rehearsal of the current draft and the part of it that was granted.
pub(crate) async fn granted(
    parts: &GateInner,
    desk: &mut WorkingRecord,
) -> StageResult<Option<GrantedRehearsal>> {
    let Some(draft) = desk.record.draft() else { return Ok(None) };
    let Some(held) = draft.rehearsal().map(|head| head.rehearsal) else { return Ok(None) };
    let asked = draft.asked().and_then(|step| step.as_ref().ok()).map(|question| question.id);
    let chosen = asked.and_then(|question| match desk.record.closing(question)? {
        QuestionClosure::Answered { answered, .. } => match &answered.answer {
            Answer::Part { paths, .. } => Some(*paths),
            _ => None,
        },
        QuestionClosure::Expired | QuestionClosure::Unasked(_) => None,
    });
    let rehearsal: Arc<Rehearsal> = desk.read(&*parts.ledger, held).await.map_err(unreadable)?;
    let only = match chosen {
        None => None,
        Some(held) => {
            let paths: Arc<Vec<String>> = desk.read(&*parts.ledger, held).await.map_err(unreadable)?;
            Some((*paths).clone())
        }
    };
    Ok(Some(GrantedRehearsal { rehearsal, only }))
}

/// Returns the event that the copy is lost, if it is. The draft is then evaluated and asked about again.
pub(crate) async fn lost(parts: &GateInner, desk: &mut WorkingRecord) -> StageResult<Option<RecordEvent>> {
    let granted = granted(parts, desk).await?;
    let Some(granted) = granted.filter(|granted| granted.rehearsal.stands()) else { return Ok(None) };
    let entry = pinned(parts, desk)?;
    let kept = match entry.tool().rehearser() {
        Some(rehearser) => rehearser.is_kept(desk.call(), &granted.rehearsal).await,
        None => false,
    };
    let head = desk.record.draft().and_then(|draft| draft.rehearsal());
    Ok(head.filter(|_| !kept).map(|head| RecordEvent::RehearsalLost { rehearsal: head.digest() }))
}

/// Drops the copy of a call that ended without a commit.
pub(crate) async fn drop_copy(parts: &GateInner, desk: &WorkingRecord) {
    let ran = desk.record.entries().iter().any(|entry| matches!(entry.fact, RecordEvent::Rehearsing { .. }));
    let committed = desk.record.entries().iter().any(|entry| matches!(entry.fact, RecordEvent::Begun(Ok(_))));
    if !ran || committed {
        return;
    }
    let Ok(entry) = pinned(parts, desk) else { return };
    if let Some(rehearser) = entry.tool().rehearser() {
        rehearser.discard(desk.call()).await;
    }
}
