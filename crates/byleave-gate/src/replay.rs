//! Replays past calls under another policy.
//!
//! It always uses the recorded plan, and must never compute a new one. The mode, the ancestors, the standing approval that
//! answered and the tool's own approval requirement stay the same. A call that cannot be evaluated is reported with the reason,
//! never guessed.

use std::collections::BTreeMap;
use std::ops::Deref;

use byleave_core::decision::{AskCause, PolicyDecision, Verdict};
use byleave_core::effect::Plan;
use byleave_core::id::CallId;
use byleave_core::manifest::Manifest;
use byleave_core::policy::{EffectStage, Policy, PolicyRequest};
use byleave_core::standing_approval::StandingApprovalMatcher;
use serde_json::Value;

use crate::audit_log::StandingApprovalItem;
use crate::audit_log::export::ExportedRecord;
use crate::catalog::Catalog;
use crate::gate::predicted_stage;
use crate::recorded_calls::{self, PastCall};

/// A past call that can be evaluated again.
#[derive(Clone, Debug)]
pub struct ReplayableCall {
    past_call: PastCall,
    manifest: Manifest,
    /// Whether what it really changed was judged afterwards.
    stage: EffectStage,
    /// The standing approval that answered beforehand.
    standing_approval: Option<StandingApprovalMatcher>,
}

/// A past call that cannot be evaluated again.
#[derive(Clone, Debug)]
pub struct ReplayError {
    /// The id of the call.
    pub call: CallId,
    /// Its tool.
    pub tool: String,
    /// The reason.
    pub reason: String,
}

impl Deref for ReplayableCall {
    type Target = PastCall;

    fn deref(&self) -> &PastCall {
        &self.past_call
    }
}

impl ReplayableCall {
    /// Reads a call of the audit log, with the current tools and the standing approvals of that time.
    pub fn from_exported(
        found: &ExportedRecord,
        catalog: &Catalog,
        leaves: &[StandingApprovalItem],
    ) -> Result<Self, ReplayError> {
        Self::try_from_exported(found, catalog, leaves).map_err(|why| {
            let tool = found.stored.record.header().map_or_else(String::new, |heading| heading.tool.clone());
            ReplayError { call: found.call, tool, reason: why }
        })
    }

    fn try_from_exported(
        found: &ExportedRecord,
        catalog: &Catalog,
        leaves: &[StandingApprovalItem],
    ) -> Result<Self, String> {
        let seen = recorded_calls::read_past_call(found)?;
        let entry = catalog.get(&seen.resolved_tool.tool);
        let entry =
            entry.map_err(|_| format!("the tool `{}` is no longer registered", seen.resolved_tool.tool))?;
        if entry.manifest().digest() != seen.resolved_tool.manifest {
            return Err(format!("the manifest of the tool `{}` has changed", seen.resolved_tool.tool));
        }
        let leave = seen.decision.standing_approval.map(|id| {
            let given = leaves.iter().find(|given| given.standing_approval.id == id);
            given.and_then(|given| StandingApprovalMatcher::new(given.standing_approval.clone()).ok())
        });
        if matches!(leave, Some(None)) {
            return Err("the standing approval that answered it is not in the audit log".to_owned());
        }
        let stage = predicted_stage(&entry, seen.arguments.as_ref().unwrap_or(&Value::Null));
        let manifest = entry.manifest().clone();
        Ok(Self { manifest, stage, standing_approval: leave.flatten(), past_call: seen })
    }

    /// Returns an error for this call with a reason.
    pub fn to_unjudged(&self, why: String) -> ReplayError {
        ReplayError { call: self.call, tool: self.header.tool.clone(), reason: why }
    }

    /// Evaluates the call under a policy, with everything else as it was.
    pub fn evaluate(&self, policy: &Policy) -> PolicyDecision {
        self.evaluate_plan(&self.plan, &self.decision, policy)
    }

    /// Evaluates an earlier plan of the call that a person was asked about.
    pub fn evaluate_plan(&self, plan: &Plan, then: &PolicyDecision, policy: &Policy) -> PolicyDecision {
        let request = PolicyRequest {
            manifest: &self.manifest,
            plan,
            mode: self.header.mode,
            // The tool's requirement for these arguments is in the recorded decision.
            tool_needs_approval: then
                .reasons
                .iter()
                .any(|reason| reason.cause == Some(AskCause::ToolNeedsApproval)),
            session: &self.header.session,
            agent: &self.header.agent,
            standing_approvals: self.standing_approval.as_slice(),
            now: self.at,
            stage: self.stage,
            // The record of a call does not say what its session had read before.
            read_foreign: false,
        };
        policy.evaluate_in_session(&request, &self.header.lineage)
    }
}

/// The result of replaying some calls under another policy.
#[derive(Clone, Debug, Default)]
pub struct PolicyReplay {
    /// How many were evaluated.
    pub evaluated: u64,
    /// The calls with a different verdict, in order of evaluation.
    pub changes: Vec<VerdictChange>,
    /// The calls that could not be evaluated.
    pub skipped: Vec<ReplayError>,
}

/// A call with a different verdict.
#[derive(Clone, Debug)]
pub struct VerdictChange {
    /// The call with its recorded decision.
    pub call: ReplayableCall,
    /// The new decision.
    pub new_decision: PolicyDecision,
}

impl PolicyReplay {
    /// Evaluates one more call.
    pub fn add(&mut self, past: ReplayableCall, policy: &Policy) {
        self.evaluated = self.evaluated.saturating_add(1);
        let now = past.evaluate(policy);
        if now.verdict != past.decision.verdict {
            self.changes.push(VerdictChange { call: past, new_decision: now });
        }
    }

    /// Returns how many have the same verdict.
    pub fn unchanged_count(&self) -> u64 {
        self.evaluated.saturating_sub(self.changes.len() as u64)
    }

    /// Counts the changes by old and new verdict.
    pub fn transition_counts(&self) -> BTreeMap<(Verdict, Verdict), u64> {
        let mut counts = BTreeMap::new();
        for VerdictChange { call: past, new_decision: now } in &self.changes {
            let count: &mut u64 = counts.entry((past.decision.verdict, now.verdict)).or_default();
            *count = count.saturating_add(1);
        }
        counts
    }
}
