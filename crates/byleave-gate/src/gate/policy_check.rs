//! Evaluates a plan with the policy, the standing approvals and the tool's own request for approval.

use std::sync::Arc;

use byleave_core::decision::PolicyDecision;
use byleave_core::digest::Digest;
use byleave_core::effect::Plan;
use byleave_core::policy::{EffectStage, PolicyRequest};
use byleave_core::refusal::{Code, Refusal, StageResult};
use byleave_core::standing_approval::{StandingApproval, StandingApprovalMatcher};
use serde_json::Value;

use crate::catalog::CatalogEntry;
use crate::gate::inner::GateInner;
use crate::gate::task_outcome::fresh_session_context;
use crate::gate::working_record::WorkingRecord;
use crate::plugin_guard::guard;
use crate::tool::Tool;

/// Asks the tool whether this call needs an approval (T8).
pub(crate) async fn needs_approval(
    parts: &GateInner,
    tool: Arc<dyn Tool>,
    arguments: Arc<Value>,
) -> StageResult<bool> {
    let limit = parts.settings.plugin_timeout;
    let answer = guard(limit, move || async move { tool.needs_approval(&arguments).await }).await;
    answer.map_err(|broken| {
        Refusal::new(
            Code::PredicateFailed,
            format!("cannot find out whether the call needs an approval: {broken}"),
        )
        .with_cause(broken.cause())
    })
}

/// Returns the stage of a plan of this tool: whether what the call really changes is judged afterwards.
pub(crate) fn predicted_stage(entry: &CatalogEntry, arguments: &Value) -> EffectStage {
    let on_copy = entry.tool().as_rehearsable().is_some_and(|tool| tool.runs_on_copy(arguments));
    if on_copy { EffectStage::PredictedOnCopy } else { EffectStage::Predicted }
}

/// Checks whether the session of a call has read text of strangers, or a session above it. Nothing is looked up unless a rule depends on it.
pub(crate) async fn has_read_foreign(parts: &GateInner, desk: &WorkingRecord) -> StageResult<bool> {
    let policy = parts.policy.load_full();
    let Some(heading) = desk.record.header().filter(|_| policy.depends_on_foreign_text()) else {
        return Ok(false);
    };
    let above = heading.lineage.iter().map(|node| &node.session);
    for session in std::iter::once(&heading.session).chain(above) {
        let found = parts.ledger.has_read_foreign(&heading.tenant, session).await;
        if found.map_err(|fault| Refusal::new(Code::PolicyFailed, fault.to_string()))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the standing approvals that may apply to a call of this tool now.
pub(crate) async fn standing_approvals_in_force(
    parts: &GateInner,
    desk: &WorkingRecord,
    entry: &CatalogEntry,
) -> StageResult<Vec<Arc<StandingApproval>>> {
    let heading =
        desk.record.header().ok_or_else(|| Refusal::new(Code::RecordBroken, "the record has no header"))?;
    let given = match fresh_session_context(parts, desk) {
        Some(seen) => Ok(seen.standing_approvals.clone()),
        None => parts.ledger.standing_approvals(&heading.tenant, &entry.manifest().name, parts.now()).await,
    };
    given.map_err(|fault| Refusal::new(Code::PolicyFailed, fault.to_string()))
}

/// Evaluates a plan with the policy and the standing approvals in force.
pub(crate) async fn evaluate_policy(
    parts: &GateInner,
    desk: &WorkingRecord,
    entry: &CatalogEntry,
    plan: &Plan,
    stage: EffectStage,
    tool_asks: bool,
) -> StageResult<PolicyDecision> {
    let heading =
        desk.record.header().ok_or_else(|| Refusal::new(Code::RecordBroken, "the record has no header"))?;
    let now = parts.now();
    let policy = parts.policy.load_full();
    let mut given = standing_approvals_in_force(parts, desk, entry).await?;
    if matches!(stage, EffectStage::Observed { .. }) {
        // A use is counted when the call begins. An approval with limited uses that the call did not begin with must not be used now.
        let begun_with =
            desk.record.draft().and_then(|draft| draft.decision()?.as_ref().ok()?.standing_approval);
        given.retain(|approval| approval.max_uses.is_none() || Some(approval.id) == begun_with);
    }
    let leaves: Result<Vec<StandingApprovalMatcher>, _> =
        given.iter().map(|leave| StandingApprovalMatcher::new((**leave).clone())).collect();
    let leaves = leaves.map_err(|bad| Refusal::new(Code::PolicyFailed, bad.to_string()))?;
    let request = PolicyRequest {
        manifest: entry.manifest(),
        plan,
        mode: heading.mode,
        tool_needs_approval: tool_asks,
        session: &heading.session,
        agent: &heading.agent,
        standing_approvals: &leaves,
        now,
        stage,
        read_foreign: has_read_foreign(parts, desk).await?,
    };
    // A standing approval expires and has limited uses, so decisions that may depend on one are never cached. Neither are decisions
    // for sub-agents.
    if !leaves.is_empty() || !parts.decision_cache.is_enabled() || !heading.lineage.is_empty() {
        return Ok(policy.evaluate_in_session(&request, &heading.lineage));
    }
    let Ok(plan_bytes) = serde_json::to_vec(plan) else { return Ok(policy.evaluate(&request)) };
    let (version, manifest) = (policy.digest(), entry.digest());
    let stage = match stage {
        EffectStage::Predicted => 0,
        EffectStage::PredictedOnCopy => 1,
        EffectStage::Observed { undoable } => 2 + u8::from(undoable),
    };
    let flags = [heading.mode as u8, u8::from(tool_asks), stage, u8::from(request.read_foreign)];
    // The caller is part of the key only if a rule depends on it. Otherwise, sessions share decisions.
    let caller = if policy.depends_on_caller() {
        [heading.session.as_str().as_bytes(), heading.agent.as_str().as_bytes()]
    } else {
        [&[][..], &[]]
    };
    let [session, agent] = caller;
    let parts_of_key: [&[u8]; 6] =
        [version.as_bytes(), manifest.as_bytes(), &flags, &plan_bytes, session, agent];
    let key = Digest::compute_parts("byleave.decision", &parts_of_key);
    if let Some(ruling) = parts.decision_cache.get(&key) {
        return Ok(ruling);
    }
    let ruling = policy.evaluate(&request);
    parts.decision_cache.put(key, &ruling);
    Ok(ruling)
}
