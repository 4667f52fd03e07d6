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
use crate::gate::observe::judge_observed;
use crate::gate::run_context::run_parts;
use crate::gate::supervise::{ToolExit, run_tool};
use crate::gate::task_outcome::{TaskOutcome, content_refusal, resolve_pinned};
use crate::gate::working_record::WorkingRecord;
use crate::plugin_guard::panic_message;
use crate::tool::RehearseError;

/// Runs the draft on a copy. A failure to do so is not a refusal, because the question then says so.
pub(crate) async fn rehearse(parts: &GateInner, desk: &mut WorkingRecord) -> TaskOutcome {
    let rehearsed = match try_rehearse(parts, desk).await {
        Ok(rehearsed) => rehearsed,
        Err(RehearseError::RunningElsewhere) => return TaskOutcome::RunningElsewhere,
        Err(RehearseError::Unavailable(why)) => RehearsalOutcome::Unavailable { reason: why },
    };
    TaskOutcome::Event(RecordEvent::RehearsalFinished(rehearsed))
}

async fn try_rehearse(
    parts: &GateInner,
    desk: &mut WorkingRecord,
) -> Result<RehearsalOutcome, RehearseError> {
    let not = |refusal: Refusal| RehearseError::Unavailable(refusal.message);
    let entry = resolve_pinned(parts, desk).map_err(not)?;
    let rehearsal = run_on_copy(parts, desk, &entry).await?;
    let judged = async {
        let plan = desk.plan(&*parts.ledger).await.map_err(content_refusal)?;
        let ruling = judge_observed(parts, desk, &entry, &rehearsal).await?;
        let asked =
            desk.record.draft().and_then(|draft| draft.decision()).and_then(|step| step.as_ref().ok());
        let asked = asked
            .cloned()
            .ok_or_else(|| Refusal::new(Code::RecordBroken, "the record has no policy decision"))?;
        let held = desk.store_content(&rehearsal);
        Ok(rehearsal.summarize(held, &plan, &asked, ruling))
    };
    // A run that cannot be evaluated is treated as if it had not happened.
    judged.await.map(RehearsalOutcome::Ran).map_err(not)
}

async fn run_on_copy(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    entry: &CatalogEntry,
) -> Result<Rehearsal, RehearseError> {
    let not = |refusal: Refusal| RehearseError::Unavailable(refusal.message);
    let arguments = desk.arguments(&*parts.ledger).await.map_err(content_refusal).map_err(not)?;
    let given = run_parts(parts, desk, None).await.map_err(not)?;
    let tool = entry.tool().clone();
    let timeout = Duration::from_millis(desk.resolved_tool().map_or(0, |terms| terms.limits.timeout_ms));
    let ended = run_tool(parts, desk.call(), timeout, false, move |stop| async move {
        match tool.as_rehearsable() {
            Some(rehearser) => {
                rehearser.rehearse((*arguments).clone(), given.into_rehearsal_context(stop)).await
            }
            None => Err(RehearseError::Unavailable("the tool can no longer be rehearsed".into())),
        }
    });
    match ended.await {
        ToolExit::Completed(Ok(rehearsed)) => rehearsed,
        ToolExit::Completed(Err(broken)) => {
            Err(RehearseError::Unavailable(format!("the tool panicked: {}", panic_message(broken))))
        }
        ToolExit::Stopped { reason: why, .. } => {
            Err(RehearseError::Unavailable(format!("on the copy, the tool {why}")))
        }
    }
}

/// A rehearsal that was granted.
pub(crate) struct GrantedRehearsal {
    /// The observed run.
    pub(crate) rehearsal: Arc<Rehearsal>,
    /// The paths that a person chose, if only a part was approved.
    pub(crate) paths: Option<Vec<String>>,
}

/// Returns the rehearsal of the current draft and the part of it that was granted.
pub(crate) async fn granted_rehearsal(
    parts: &GateInner,
    desk: &mut WorkingRecord,
) -> StageResult<Option<GrantedRehearsal>> {
    let Some(draft) = desk.record.draft() else { return Ok(None) };
    let Some(held) = draft.rehearsal_summary().map(|head| head.rehearsal) else { return Ok(None) };
    let asked = draft.question().and_then(|step| step.as_ref().ok()).map(|question| question.id);
    let chosen = asked.and_then(|question| match desk.record.question_closure(question)? {
        QuestionClosure::Answered { answer: answered, .. } => match &answered.answer {
            Answer::Partial { paths, .. } => Some(*paths),
            _ => None,
        },
        QuestionClosure::Expired | QuestionClosure::ApproverFailed(_) => None,
    });
    let rehearsal: Arc<Rehearsal> = desk.read_content(&*parts.ledger, held).await.map_err(content_refusal)?;
    let only = match chosen {
        None => None,
        Some(held) => {
            let paths: Arc<Vec<String>> =
                desk.read_content(&*parts.ledger, held).await.map_err(content_refusal)?;
            Some((*paths).clone())
        }
    };
    Ok(Some(GrantedRehearsal { rehearsal, paths: only }))
}

/// Returns the event that the copy is lost, if it is. The draft is then evaluated and asked about again.
pub(crate) async fn check_copy_missing(
    parts: &GateInner,
    desk: &mut WorkingRecord,
) -> StageResult<Option<RecordEvent>> {
    let granted = granted_rehearsal(parts, desk).await?;
    let Some(granted) = granted.filter(|granted| granted.rehearsal.is_committable()) else { return Ok(None) };
    let entry = resolve_pinned(parts, desk)?;
    let kept = match entry.tool().as_rehearsable() {
        Some(rehearser) => rehearser.has_copy(desk.call(), &granted.rehearsal).await,
        None => false,
    };
    if !kept && desk.record.draft().is_some_and(|draft| draft.observed_run().is_some()) {
        // Running it again would repeat what it did elsewhere.
        let why = "the copy with the changes that were approved no longer exists; make the call again";
        return Err(Refusal::new(Code::GrantExpired, why));
    }
    let head = desk.record.draft().and_then(|draft| draft.rehearsal_summary());
    Ok(head.filter(|_| !kept).map(|head| RecordEvent::RehearsalCopyMissing { rehearsal: head.digest() }))
}

/// Drops the copy of a call that ended without a commit.
pub(crate) async fn drop_copy(parts: &GateInner, desk: &WorkingRecord) {
    let ran = desk.record.entries().iter().any(|entry| {
        matches!(entry.event, RecordEvent::RehearsalStarted { .. } | RecordEvent::Observed { .. })
    });
    if !ran || desk.record.attempts() > 0 {
        return;
    }
    let Ok(entry) = resolve_pinned(parts, desk) else { return };
    if let Some(rehearser) = entry.tool().as_rehearsable() {
        rehearser.discard(desk.call()).await;
    }
}
