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
use byleave_core::policy::{Policy, PolicyRequest};
use byleave_core::standing_approval::StandingApprovalMatcher;

use crate::audit_log::StandingApprovalItem;
use crate::audit_log::export::ExportedRecord;
use crate::catalog::Catalog;
use crate::recorded_calls::{self, PastCall};

/// A past call that can be evaluated again.
#[derive(Clone, Debug)]
pub struct ReplayableCall {
    seen: PastCall,
    manifest: Manifest,
    /// The standing approval that answered beforehand.
    leave: Option<StandingApprovalMatcher>,
}

/// A past call that cannot be evaluated again.
#[derive(Clone, Debug)]
pub struct ReplayError {
    /// The id of the call.
    pub call: CallId,
    /// Its tool.
    pub tool: String,
    /// The reason.
    pub why: String,
}

impl Deref for ReplayableCall {
    type Target = PastCall;

    fn deref(&self) -> &PastCall {
        &self.seen
    }
}

impl ReplayableCall {
    /// Reads a call of the audit log, with the current tools and the standing approvals of that time.
    pub fn read(
        found: &ExportedRecord,
        catalog: &Catalog,
        leaves: &[StandingApprovalItem],
    ) -> Result<Self, ReplayError> {
        Self::try_read(found, catalog, leaves).map_err(|why| {
            let tool = found.kept.record.heading().map_or_else(String::new, |heading| heading.tool.clone());
            ReplayError { call: found.call, tool, why }
        })
    }

    fn try_read(
        found: &ExportedRecord,
        catalog: &Catalog,
        leaves: &[StandingApprovalItem],
    ) -> Result<Self, String> {
        let seen = recorded_calls::read(found)?;
        let entry = catalog.get(&seen.terms.tool);
        let entry = entry.map_err(|_| format!("there is no tool `{}` here any more", seen.terms.tool))?;
        if entry.manifest().digest() != seen.terms.manifest {
            return Err(format!("the tool `{}` says something else of itself by now", seen.terms.tool));
        }
        let leave = seen.ruling.leave.map(|id| {
            let given = leaves.iter().find(|given| given.leave.id == id);
            given.and_then(|given| StandingApprovalMatcher::new(given.leave.clone()).ok())
        });
        if matches!(leave, Some(None)) {
            return Err("the leave that answered it is not in the book".to_owned());
        }
        Ok(Self { manifest: entry.manifest().clone(), leave: leave.flatten(), seen })
    }

    /// Returns an error for this call with a reason.
    pub fn unjudged(&self, why: String) -> ReplayError {
        ReplayError { call: self.call, tool: self.heading.tool.clone(), why }
    }

    /// Evaluates the call under a policy, with everything else as it was.
    pub fn judge(&self, policy: &Policy) -> PolicyDecision {
        self.judge_plan(&self.plan, &self.ruling, policy)
    }

    /// Evaluates an earlier plan of the call that a person was asked about.
    pub fn judge_plan(&self, plan: &Plan, then: &PolicyDecision, policy: &Policy) -> PolicyDecision {
        let request = PolicyRequest {
            manifest: &self.manifest,
            plan,
            mode: self.heading.mode,
            // The tool's requirement for these arguments is in the recorded decision.
            tool_asks: then.reasons.iter().any(|reason| reason.cause == Some(AskCause::ToolAsks)),
            session: &self.heading.session,
            agent: &self.heading.agent,
            leaves: self.leave.as_slice(),
            now: self.at,
        };
        policy.rule_in(&request, &self.heading.lineage)
    }
}

/// The result of replaying some calls under another policy.
#[derive(Clone, Debug, Default)]
pub struct PolicyReplay {
    /// How many were evaluated.
    pub judged: u64,
    /// The calls with a different verdict, in order of evaluation.
    pub changes: Vec<VerdictChange>,
    /// The calls that could not be evaluated.
    pub unjudged: Vec<ReplayError>,
}

/// A call with a different verdict.
#[derive(Clone, Debug)]
pub struct VerdictChange {
    /// The call with its recorded decision.
    pub past: ReplayableCall,
    /// The new decision.
    pub now: PolicyDecision,
}

impl PolicyReplay {
    /// Evaluates one more call.
    pub fn judge(&mut self, past: ReplayableCall, policy: &Policy) {
        self.judged = self.judged.saturating_add(1);
        let now = past.judge(policy);
        if now.verdict != past.ruling.verdict {
            self.changes.push(VerdictChange { past, now });
        }
    }

    /// Returns how many have the same verdict.
    pub fn same(&self) -> u64 {
        self.judged.saturating_sub(self.changes.len() as u64)
    }

    /// Counts the changes by old and new verdict.
    pub fn counts(&self) -> BTreeMap<(Verdict, Verdict), u64> {
        let mut counts = BTreeMap::new();
        for VerdictChange { past, now } in &self.changes {
            let count: &mut u64 = counts.entry((past.ruling.verdict, now.verdict)).or_default();
            *count = count.saturating_add(1);
        }
        counts
    }
}
