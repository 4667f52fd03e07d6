//! The last check before an attempt begins: nothing may have changed since the grant.

use byleave_core::decision::PolicyDecision;
use byleave_core::entry::RecordEvent;
use byleave_core::grant::{Claim, Grant, GrantedBy};
use byleave_core::manifest::ApprovalRequirement;
use byleave_core::pipeline::{Task, durable_before};
use byleave_core::policy::is_stricter;
use byleave_core::refusal::{Code, Refusal, StageResult};

use crate::catalog::CatalogEntry;
use crate::gate::inner::{GateInner, fresh_attempt};
use crate::gate::policy_check::rule;
use crate::gate::rehearse::{self, GrantedRehearsal};
use crate::gate::task_outcome::{just_seen, pinned, unreadable};
use crate::gate::working_record::WorkingRecord;
use crate::plan_bindings::still_bound;

/// Claims an attempt under a grant if the tool, the arguments, the bound files and the policy are still as granted.
///
/// Returns the loss of the copy as an event if the granted copy is gone.
pub(crate) async fn begin(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    grant: &Grant,
) -> StageResult<RecordEvent> {
    // A commit that was begun is always finished, because half a commit is never better, whatever has changed since.
    if desk.record.attempts() > 0 && is_commit(desk) {
        return Ok(RecordEvent::Begun(Ok(claimed(parts, desk, grant))));
    }
    if grant.is_expired(parts.now()) {
        return Err(Refusal::new(Code::GrantExpired, "the approval is too old; make the call again"));
    }
    let entry = pinned(parts, desk)?;
    // Reading the arguments checks them against the approved ones.
    desk.arguments(&*parts.ledger).await.map_err(unreadable)?;
    let plan = desk.plan(&*parts.ledger).await.map_err(unreadable)?;
    still_bound(&plan)?;
    if let Some(lost) = rehearse::lost(parts, desk).await? {
        return Ok(lost);
    }

    let then = ruled(desk)?;
    if grant.by() != GrantedBy::Rule || then.policy != parts.policy.load().digest() {
        let asks = entry.manifest().needs_approval != ApprovalRequirement::Never
            && then
                .reasons
                .iter()
                .any(|reason| reason.cause == Some(byleave_core::decision::AskCause::ToolAsks));
        let now = rule(parts, desk, &entry, &plan, asks).await?;
        if is_stricter(&now, &then) {
            return Err(stricter(grant, &now));
        }
        observed_again(parts, desk, grant, &entry).await?;
    }

    let claim = claimed(parts, desk, grant);
    let attempt = claim.attempt;
    // If the claim is recorded first, the ledger checks for a halt in the same transaction. Otherwise the check is made here.
    if !durable_before(&desk.record, &Task::Execute { attempt, grant: grant.clone() }) {
        not_halted(parts, desk).await?;
    }
    Ok(RecordEvent::Begun(Ok(claim)))
}

fn claimed(parts: &GateInner, desk: &mut WorkingRecord, grant: &Grant) -> Claim {
    let claim = grant.claim(fresh_attempt(), parts.ledger.owner());
    desk.mine = Some(claim.attempt);
    claim
}

fn is_commit(desk: &WorkingRecord) -> bool {
    desk.record.draft().and_then(|draft| draft.rehearsal()).is_some_and(|head| head.stands)
}

/// Evaluates the observed effects, or the part that a person chose, once more before they are committed.
async fn observed_again(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    grant: &Grant,
    entry: &CatalogEntry,
) -> StageResult<()> {
    let Some(GrantedRehearsal { rehearsal, only }) = rehearse::granted(parts, desk).await? else {
        return Ok(());
    };
    let then = desk.record.draft().and_then(|draft| draft.rehearsal()).and_then(|head| head.ruling.clone());
    let mut chosen = (*rehearsal).clone();
    if let Some(paths) = only {
        chosen.changes = chosen.changes.only(&paths);
    }
    let observed = chosen.observed();
    let Some(then) = then.filter(|_| !observed.effects.is_empty()) else { return Ok(()) };
    let now = rule(parts, desk, entry, &observed, false).await?;
    if is_stricter(&now, &then) { Err(stricter(grant, &now)) } else { Ok(()) }
}

fn ruled(desk: &WorkingRecord) -> StageResult<PolicyDecision> {
    match desk.record.draft().and_then(|draft| draft.permitted()) {
        Some(Ok(ruling)) => Ok(ruling.clone()),
        _ => Err(Refusal::new(Code::RecordBroken, "the call was not ruled")),
    }
}

fn stricter(grant: &Grant, now: &PolicyDecision) -> Refusal {
    if let GrantedBy::Leave(_) = grant.by() {
        return leave_spent();
    }
    let why = now.decisive().map(|reason| reason.why.clone()).unwrap_or_default();
    Refusal::new(Code::PolicyStricter, format!("the policy has become stricter since: {why}"))
}

async fn not_halted(parts: &GateInner, desk: &WorkingRecord) -> StageResult<()> {
    let Some(heading) = desk.record.heading() else { return Ok(()) };
    let halt = match just_seen(parts, desk) {
        Some(seen) => Ok(seen.halt.clone()),
        None => parts.ledger.halted(&heading.tenant).await,
    };
    match halt {
        Ok(None) => Ok(()),
        Ok(Some(act)) => Err(halted(&match act.deed {
            byleave_core::admin_action::AdminActionKind::Halt { why } => why,
            other => other.word().to_owned(),
        })),
        Err(fault) => Err(Refusal::new(Code::NotRecorded, fault.to_string())),
    }
}

/// Builds the refusal for a halt.
pub(crate) fn halted(why: &str) -> Refusal {
    Refusal::new(Code::Halted, format!("everything is halted ({why}); lift it with `byleave halt --lift`"))
}

/// Builds the refusal for a standing approval that is used up or revoked.
pub(crate) fn leave_spent() -> Refusal {
    Refusal::new(Code::LeaveSpent, "the leave that covered this call has no use left, or was revoked")
}
