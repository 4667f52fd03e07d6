//! The last check before an attempt begins: nothing may have changed since the grant.

use byleave_core::decision::PolicyDecision;
use byleave_core::entry::RecordEvent;
use byleave_core::grant::{Claim, Grant, GrantedBy};
use byleave_core::manifest::ApprovalRequirement;
use byleave_core::pipeline::{Task, must_persist_before};
use byleave_core::policy::is_stricter;
use byleave_core::refusal::{Code, Refusal, StageResult};

use crate::catalog::CatalogEntry;
use crate::gate::earlier_data::read_data;
use crate::gate::inner::{GateInner, new_attempt_id};
use crate::gate::observe::judge_observed;
use crate::gate::policy_check::{evaluate_policy, predicted_stage};
use crate::gate::rehearse::{self, GrantedRehearsal};
use crate::gate::task_outcome::{content_refusal, fresh_session_context, resolve_pinned};
use crate::gate::working_record::WorkingRecord;
use crate::plan_bindings::check_bindings;

/// Claims an attempt under a grant if the tool, the arguments, the bound files and the policy are still as granted.
///
/// Returns the loss of the copy as an event if the granted copy is gone.
pub(crate) async fn start_attempt(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    grant: &Grant,
) -> StageResult<RecordEvent> {
    // A commit that was begun is always finished, because half a commit is never better, whatever has changed since.
    if desk.record.attempts() > 0 && is_commit(desk) {
        return Ok(RecordEvent::Started(Ok(make_claim(parts, desk, grant))));
    }
    if grant.is_expired(parts.now()) {
        return Err(Refusal::new(Code::GrantExpired, "the approval has expired; make the call again"));
    }
    let entry = resolve_pinned(parts, desk)?;
    // Reading the arguments checks them against the approved ones.
    let arguments = desk.arguments(&*parts.ledger).await.map_err(content_refusal)?;
    let plan = desk.plan(&*parts.ledger).await.map_err(content_refusal)?;
    check_bindings(&plan)?;
    if !is_commit(desk) {
        read_data(parts, desk, &plan).await?;
    }
    if let Some(lost) = rehearse::check_copy_missing(parts, desk).await? {
        return Ok(lost);
    }

    let then = recorded_decision(desk)?;
    if grant.granted_by() != GrantedBy::Rule || then.policy != parts.policy.load().digest() {
        let asks = entry.manifest().needs_approval != ApprovalRequirement::Never
            && then
                .reasons
                .iter()
                .any(|reason| reason.cause == Some(byleave_core::decision::AskCause::ToolNeedsApproval));
        let stage = predicted_stage(&entry, &arguments);
        let now = evaluate_policy(parts, desk, &entry, &plan, stage, asks).await?;
        if is_stricter(&now, &then) {
            return Err(stricter_refusal(grant, &now));
        }
        recheck_observed(parts, desk, grant, &entry).await?;
    }

    let claim = make_claim(parts, desk, grant);
    let attempt = claim.attempt;
    // If the claim is recorded first, the ledger checks for a halt in the same transaction. Otherwise the check is made here.
    if !must_persist_before(&desk.record, &Task::Execute { attempt, grant: grant.clone() }) {
        check_not_halted(parts, desk).await?;
    }
    Ok(RecordEvent::Started(Ok(claim)))
}

fn make_claim(parts: &GateInner, desk: &mut WorkingRecord, grant: &Grant) -> Claim {
    let claim = grant.claim(new_attempt_id(), parts.ledger.owner());
    desk.claimed_attempt = Some(claim.attempt);
    claim
}

fn is_commit(desk: &WorkingRecord) -> bool {
    desk.record.draft().and_then(|draft| draft.rehearsal_summary()).is_some_and(|head| head.committable)
}

/// Evaluates the observed effects, or the part that a person chose, once more before they are committed.
async fn recheck_observed(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    grant: &Grant,
    entry: &CatalogEntry,
) -> StageResult<()> {
    let Some(GrantedRehearsal { rehearsal, paths: only }) = rehearse::granted_rehearsal(parts, desk).await?
    else {
        return Ok(());
    };
    let then = desk
        .record
        .draft()
        .and_then(|draft| draft.rehearsal_summary())
        .and_then(|head| head.decision.clone());
    let mut chosen = (*rehearsal).clone();
    if let Some(paths) = only {
        chosen.changes = chosen.changes.only_paths(&paths);
    }
    let Some(then) = then else { return Ok(()) };
    let Some(now) = judge_observed(parts, desk, entry, &chosen).await? else { return Ok(()) };
    if is_stricter(&now, &then) { Err(stricter_refusal(grant, &now)) } else { Ok(()) }
}

fn recorded_decision(desk: &WorkingRecord) -> StageResult<PolicyDecision> {
    match desk.record.draft().and_then(|draft| draft.decision()) {
        Some(Ok(ruling)) => Ok(ruling.clone()),
        _ => Err(Refusal::new(Code::RecordBroken, "the record has no policy decision")),
    }
}

fn stricter_refusal(grant: &Grant, now: &PolicyDecision) -> Refusal {
    if let GrantedBy::StandingApproval(_) = grant.granted_by() {
        return approval_used_up_refusal();
    }
    let why = now.decisive_reason().map(|reason| reason.message.clone()).unwrap_or_default();
    Refusal::new(Code::PolicyStricter, format!("the policy has become stricter since the decision: {why}"))
}

async fn check_not_halted(parts: &GateInner, desk: &WorkingRecord) -> StageResult<()> {
    let Some(heading) = desk.record.header() else { return Ok(()) };
    let halt = match fresh_session_context(parts, desk) {
        Some(seen) => Ok(seen.halt.clone()),
        None => parts.ledger.active_halt(&heading.tenant).await,
    };
    match halt {
        Ok(None) => Ok(()),
        Ok(Some(act)) => Err(halted_refusal(&match act.kind {
            byleave_core::admin_action::AdminActionKind::Halt { reason: why } => why,
            other => other.as_str().to_owned(),
        })),
        Err(fault) => Err(Refusal::new(Code::NotRecorded, fault.to_string())),
    }
}

/// Builds the refusal for a halt.
pub(crate) fn halted_refusal(why: &str) -> Refusal {
    Refusal::new(
        Code::Halted,
        format!("everything is halted ({why}); lift the halt with `byleave halt --lift`"),
    )
}

/// Builds the refusal for a standing approval that is used up or revoked.
pub(crate) fn approval_used_up_refusal() -> Refusal {
    Refusal::new(Code::ApprovalUsedUp, "the standing approval for this call has no uses left, or was revoked")
}
