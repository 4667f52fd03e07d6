//! Replaying: what another policy would have made of past calls.
//!
//! Always of the plan that was recorded then, never of one made anew, with all else as it was: the mode, who is above, the leave that
//! answered, what the tool said of its arguments. What cannot be judged so is told with the reason, never guessed at.

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

/// A past call that can be judged again.
#[derive(Clone, Debug)]
pub struct ReplayableCall {
    seen: PastCall,
    manifest: Manifest,
    /// The leave that answered beforehand.
    leave: Option<StandingApprovalMatcher>,
}

/// A past call that cannot be judged again.
#[derive(Clone, Debug)]
pub struct ReplayError {
    /// Which.
    pub call: CallId,
    /// Its tool.
    pub tool: String,
    /// Why not.
    pub why: String,
}

impl Deref for ReplayableCall {
    type Target = PastCall;

    fn deref(&self) -> &PastCall {
        &self.seen
    }
}

impl ReplayableCall {
    /// A call of the book, with the tools that there are and the leaves that there were.
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

    /// Why it cannot be judged after all.
    pub fn unjudged(&self, why: String) -> ReplayError {
        ReplayError { call: self.call, tool: self.heading.tool.clone(), why }
    }

    /// What a policy says of it now, all else being as it was then.
    pub fn judge(&self, policy: &Policy) -> PolicyDecision {
        self.judge_plan(&self.plan, &self.ruling, policy)
    }

    /// The same of a plan that was asked about on the way.
    pub fn judge_plan(&self, plan: &Plan, then: &PolicyDecision, policy: &Policy) -> PolicyDecision {
        let request = PolicyRequest {
            manifest: &self.manifest,
            plan,
            mode: self.heading.mode,
            // What the tool said of these arguments stands in the ruling of then.
            tool_asks: then.reasons.iter().any(|reason| reason.cause == Some(AskCause::ToolAsks)),
            session: &self.heading.session,
            agent: &self.heading.agent,
            leaves: self.leave.as_slice(),
            now: self.at,
        };
        policy.rule_in(&request, &self.heading.lineage)
    }
}

/// What another policy would have made of some calls.
#[derive(Clone, Debug, Default)]
pub struct PolicyReplay {
    /// So many were judged again.
    pub judged: u64,
    /// Those that would get another verdict, in the order in which they were judged.
    pub changes: Vec<VerdictChange>,
    /// Those that could not be judged.
    pub unjudged: Vec<ReplayError>,
}

/// A call that would get another verdict.
#[derive(Clone, Debug)]
pub struct VerdictChange {
    /// The call, with what was said of it then.
    pub past: ReplayableCall,
    /// What would be said of it now.
    pub now: PolicyDecision,
}

impl PolicyReplay {
    /// Judges one more.
    pub fn judge(&mut self, past: ReplayableCall, policy: &Policy) {
        self.judged = self.judged.saturating_add(1);
        let now = past.judge(policy);
        if now.verdict != past.ruling.verdict {
            self.changes.push(VerdictChange { past, now });
        }
    }

    /// How many would get the same verdict.
    pub fn same(&self) -> u64 {
        self.judged.saturating_sub(self.changes.len() as u64)
    }

    /// How many would go from which verdict to which.
    pub fn counts(&self) -> BTreeMap<(Verdict, Verdict), u64> {
        let mut counts = BTreeMap::new();
        for VerdictChange { past, now } in &self.changes {
            let count: &mut u64 = counts.entry((past.ruling.verdict, now.verdict)).or_default();
            *count = count.saturating_add(1);
        }
        counts
    }
}
