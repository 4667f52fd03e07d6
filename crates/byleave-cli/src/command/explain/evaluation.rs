//! A call with its plan, its decision and the rules that were considered.

use byleave_gate::core::decision::{DecisionReason, PolicyDecision};
use byleave_gate::core::effect::Plan;
use byleave_gate::core::policy::{MatchedRule, Policy, Rule};
use byleave_gate::shell::display_tree::CommandTree;

/// A call and its evaluation.
pub(super) struct CallExplanation<'a> {
    pub(super) plan: &'a Plan,
    pub(super) trees: &'a [CommandTree],
    pub(super) policy: &'a Policy,
    pub(super) decision: PolicyDecision,
    pub(super) considered: Vec<MatchedRule<'a>>,
    /// The path of the person's own rules, whether the file exists or not.
    pub(super) own_file: Option<String>,
}

impl CallExplanation<'_> {
    /// Returns the strictest reason about one effect.
    pub(super) fn reason(&self, effect: u32) -> Option<&DecisionReason> {
        self.decision.reasons.iter().find(|reason| reason.effects.contains(&effect))
    }

    /// Returns the rule behind a reason.
    pub(super) fn rule(&self, reason: &DecisionReason) -> Option<&Rule> {
        let same = |considered: &&MatchedRule<'_>| {
            considered.decisive
                && Some(&considered.rule.id) == reason.rule.as_ref()
                && reason.origin.is_some()
        };
        self.considered.iter().find(same).map(|considered| considered.rule)
    }

    /// Returns the reasons that led to the verdict.
    pub(super) fn decisive_reasons(&self) -> impl Iterator<Item = &DecisionReason> {
        self.decision.reasons.iter().filter(|reason| reason.verdict == self.decision.verdict)
    }
}
