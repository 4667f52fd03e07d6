//! Judges what a run on a copy really changed, with the same policy as its plan. What was observed decides.

use std::sync::Arc;
use std::time::Duration;

use byleave_core::decision::{AskCause, DecisionReason, PolicyDecision, Verdict};
use byleave_core::effect::{Effect, Plan, is_at_or_beneath};
use byleave_core::file_change::FileChange;
use byleave_core::grant::{Grant, GrantedBy};
use byleave_core::id::StandingApprovalId;
use byleave_core::outcome::{ExecutionStatus, Output};
use byleave_core::policy::{EffectStage, Policy};
use byleave_core::refusal::{Code, Refusal, StageResult};
use byleave_core::rehearsal::{Rehearsal, RehearsalSummary};
use byleave_core::standing_approval::{StandingApproval, StandingApprovalMatcher};
use serde_json::Value;

use crate::catalog::CatalogEntry;
use crate::gate::inner::GateInner;
use crate::gate::policy_check::{evaluate_policy, standing_approvals_in_force};
use crate::gate::run_context::RunParts;
use crate::gate::supervise::{ToolExit, run_tool};
use crate::gate::task_outcome::content_refusal;
use crate::gate::working_record::WorkingRecord;
use crate::plugin_guard::panic_message;
use crate::tool::RehearseError;

/// The end of a run on a copy.
pub(crate) enum ObservedRun {
    /// The policy allows all changes, so they can be committed.
    Allowed(Box<Rehearsal>, Option<PolicyDecision>),
    /// The policy does not allow all changes. A person is asked, or the call is refused.
    NotAllowed(RehearsalSummary),
    /// There is nothing to commit.
    Ended {
        /// The status.
        status: ExecutionStatus,
        /// The output.
        output: Output,
        /// Whether it reached a host, or nobody knows.
        reached: bool,
    },
}

/// Runs a granted call on a copy, and judges what it changed there.
pub(crate) async fn run_on_copy(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    entry: &CatalogEntry,
    arguments: Arc<Value>,
    given: RunParts,
    grant: &Grant,
) -> ObservedRun {
    let tool = entry.tool().clone();
    let timeout = Duration::from_millis(desk.resolved_tool().map_or(0, |terms| terms.limits.timeout_ms));
    let timeout = tool.job_duration(&arguments).map_or(timeout, |job| job.max(timeout));
    let ended = run_tool(parts, desk.call(), timeout, tool.is_nonblocking(), move |stop| async move {
        match tool.as_rehearsable() {
            Some(rehearser) => {
                rehearser.run_on_copy((*arguments).clone(), given.into_run_context(stop)).await
            }
            None => Err(RehearseError::Unavailable("the tool can no longer run on a copy".into())),
        }
    });
    let failed = |why: String, reached| ObservedRun::Ended {
        status: ExecutionStatus::Failed,
        output: Output::failure(why),
        reached,
    };
    let rehearsal = match ended.await {
        ToolExit::Completed(Ok(Ok(rehearsal))) => rehearsal,
        ToolExit::Completed(Ok(Err(unable))) => return failed(unable.to_string(), false),
        ToolExit::Completed(Err(broken)) => {
            let why = format!("the tool panicked: {}", panic_message(broken));
            let (status, output) = (ExecutionStatus::Panicked, Output::failure(why));
            return ObservedRun::Ended { status, output, reached: false };
        }
        ToolExit::Stopped { status, reason, result } => {
            let result = result.and_then(Result::ok);
            let reached = !matches!(&result, Some(Ok(rehearsal)) if rehearsal.reached_hosts.is_empty());
            return ObservedRun::Ended { status, output: stopped_output(reason, result), reached };
        }
    };
    match judge_granted(parts, desk, entry, &rehearsal, grant).await {
        Err(refusal) => {
            let reached = !rehearsal.reached_hosts.is_empty();
            failed(format!("none of the changes were kept: {refusal}"), reached)
        }
        Ok(decision) if decision.as_ref().is_none_or(|decision| decision.verdict == Verdict::Allow) => {
            ObservedRun::Allowed(Box::new(rehearsal), decision)
        }
        Ok(decision) => {
            let stored = desk.store_content(&rehearsal);
            ObservedRun::NotAllowed(rehearsal.summarize_observed(stored, decision))
        }
    }
}

/// Returns the output of a run that was stopped. Its copy is dropped.
fn stopped_output(reason: String, result: Option<Result<Rehearsal, RehearseError>>) -> Output {
    let mut output = match result {
        None => Output::text("[byleave] the tool does not stop; it may still be running\n"),
        Some(Ok(rehearsal)) => rehearsal.output,
        Some(Err(unable)) => Output::text(format!("[byleave] {unable}\n")),
    };
    if !output.text.is_empty() && !output.text.ends_with('\n') {
        output.text.push('\n');
    }
    output.text.push_str("[byleave] none of its changes were kept\n");
    Output { is_error: true, error: Some(reason), ..output }
}

/// Judges what a granted run changed. A person who approved this call covers changes that were not ruled out. A standing approval covers
/// what it names and what the plan names: it was given for another run.
async fn judge_granted(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    entry: &CatalogEntry,
    rehearsal: &Rehearsal,
    grant: &Grant,
) -> StageResult<Option<PolicyDecision>> {
    let by_person = matches!(grant.granted_by(), GrantedBy::Answer(_) | GrantedBy::StandingApproval(_));
    let mut observed = rehearsal.observed_plan();
    if !by_person {
        observed.effects.extend(rehearsal.leftover_effect());
    }
    let Some(mut decision) = judge(parts, desk, entry, rehearsal, &observed).await? else { return Ok(None) };
    let standing = match grant.granted_by() {
        GrantedBy::StandingApproval(id) => Some(find_standing_approval(parts, desk, entry, id).await?),
        _ => None,
    };
    if by_person && decision.verdict == Verdict::Ask {
        let plan = desk.plan(&*parts.ledger).await.map_err(content_refusal)?;
        let policy = parts.policy.load();
        let cwd = desk.record.header().map(|header| header.cwd.as_str());
        cover_by_approval(&mut decision, &observed, &plan, |effect, path| match &standing {
            Some(approval) => approval.covers(effect),
            None => is_within(path, &policy, cwd),
        });
    }
    Ok(Some(decision))
}

/// Judges what a run changed on a copy. Returns nothing if it changed nothing.
pub(crate) async fn judge_observed(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    entry: &CatalogEntry,
    rehearsal: &Rehearsal,
) -> StageResult<Option<PolicyDecision>> {
    judge(parts, desk, entry, rehearsal, &rehearsal.observed_plan()).await
}

async fn judge(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    entry: &CatalogEntry,
    rehearsal: &Rehearsal,
    observed: &Plan,
) -> StageResult<Option<PolicyDecision>> {
    if observed.effects.is_empty() {
        return Ok(None);
    }
    let undoable = {
        let policy = parts.policy.load();
        policy.workspace().is_some_and(|workspace| rehearsal.is_undoable_work(workspace))
    };
    let stage = EffectStage::Observed { undoable };
    let mut decision = evaluate_policy(parts, desk, entry, observed, stage, false).await?;
    let plan = desk.plan(&*parts.ledger).await.map_err(content_refusal)?;
    keep_asks_about_surprises(&mut decision, observed, &plan, rehearsal);
    // Nobody is asked for a yes that could not be kept.
    if let Some(message) = rehearsal.unusable_git() {
        decision.verdict = Verdict::Deny;
        let (cause, rule, origin, effects) = (None, None, None, Vec::new());
        let reason = DecisionReason { verdict: Verdict::Deny, cause, rule, origin, effects, message };
        decision.reasons.insert(0, reason);
    }
    Ok(Some(decision))
}

/// A mode may let an ask pass for what the plan names. What nobody could foresee is asked about in every mode: a change that a rule asks
/// about, and a file of a kind that no rule can allow. Processes that were left running were ended, so the mode decides about them.
fn keep_asks_about_surprises(
    decision: &mut PolicyDecision,
    observed: &Plan,
    plan: &Plan,
    rehearsal: &Rehearsal,
) {
    let leftover = rehearsal.leftover_effect();
    // A new directory above a planned path is part of the plan.
    let is_planned_directory = |path: &str| {
        let change = rehearsal.changes.list.iter().find(|change| change.path == path);
        change.is_some_and(FileChange::is_new_directory) && is_above_planned(plan, path)
    };
    let is_surprise = |place: &u32| match observed.effects.get(*place as usize) {
        Some(effect @ Effect::Unknown { .. }) => Some(effect) != leftover.as_ref(),
        Some(Effect::Write { path }) => !is_predicted(plan, path) && !is_planned_directory(path),
        Some(effect) => effect.path().is_some_and(|path| !is_predicted(plan, path)),
        None => true,
    };
    let by_rule = [AskCause::Rule, AskCause::FirmRule, AskCause::Dangerous, AskCause::NotUnderstood];
    for reason in &mut decision.reasons {
        let was_ask =
            reason.verdict == Verdict::Allow && reason.cause.is_some_and(|cause| by_rule.contains(&cause));
        if was_ask && reason.effects.iter().any(is_surprise) {
            reason.verdict = Verdict::Ask;
            reason.message.push_str(", but nobody could foresee it");
            decision.verdict = decision.verdict.max(Verdict::Ask);
        }
    }
}

/// Finds the standing approval that granted the run. One that was revoked meanwhile covers nothing but the plan.
async fn find_standing_approval(
    parts: &GateInner,
    desk: &WorkingRecord,
    entry: &CatalogEntry,
    id: StandingApprovalId,
) -> StageResult<StandingApprovalMatcher> {
    let given = standing_approvals_in_force(parts, desk, entry).await?;
    let found = given.iter().find(|approval| approval.id == id).map(|approval| (**approval).clone());
    let none = StandingApproval {
        id,
        tool: entry.manifest().name.clone(),
        scope: Vec::new(),
        session: None,
        expires_at: None,
        max_uses: None,
    };
    StandingApprovalMatcher::new(found.unwrap_or(none))
        .map_err(|bad| Refusal::new(Code::PolicyFailed, bad.to_string()))
}

/// Checks whether a path is in the workspace, in its repository, or in the directory that the question names. Without a workspace there is no boundary.
fn is_within(path: &str, policy: &Policy, cwd: Option<&str>) -> bool {
    policy.workspace().is_none() || policy.is_own(path) || cwd.is_some_and(|cwd| is_at_or_beneath(path, cwd))
}

/// Lets an approval cover changes for which there is no rule: those that the plan names, and those that pass the test.
fn cover_by_approval(
    decision: &mut PolicyDecision,
    observed: &Plan,
    plan: &Plan,
    is_approved: impl Fn(&Effect, &str) -> bool,
) {
    let is_covered = |place: &u32| {
        let Some(effect) = observed.effects.get(*place as usize) else { return false };
        effect.path().is_some_and(|path| is_approved(effect, path) || is_predicted(plan, path))
    };
    for reason in &mut decision.reasons {
        let is_missing_rule =
            matches!(reason.cause, Some(AskCause::Default | AskCause::OutsideWorkspace | AskCause::Mode));
        if reason.verdict == Verdict::Ask && is_missing_rule && reason.effects.iter().all(is_covered) {
            reason.verdict = Verdict::Allow;
            reason.message.push_str("; the call was approved");
        }
    }
    let strictest = decision.reasons.iter().map(|reason| reason.verdict).max();
    decision.verdict = strictest.unwrap_or(Verdict::Ask);
}

/// Checks whether the plan writes something beneath this path.
fn is_above_planned(plan: &Plan, path: &str) -> bool {
    plan.effects
        .iter()
        .any(|effect| matches!(effect, Effect::Write { path: planned } if is_at_or_beneath(planned, path)))
}

/// Checks whether the plan writes or deletes this path or a directory above it.
fn is_predicted(plan: &Plan, path: &str) -> bool {
    plan.effects.iter().any(|effect| match effect {
        Effect::Write { path: planned } | Effect::Delete { path: planned } => is_at_or_beneath(path, planned),
        _ => false,
    })
}
