//! A call with everything that was found out about it.

use byleave::core::decision::{DecisionReason, PolicyDecision};
use byleave::core::effect::Plan;
use byleave::core::policy::{MatchedRule, Policy, Rule};
use byleave::shell::display_tree::CommandTree;

/// A call, judged.
pub(super) struct CallExplanation<'a> {
    pub(super) plan: &'a Plan,
    pub(super) trees: &'a [CommandTree],
    pub(super) policy: &'a Policy,
    pub(super) ruling: PolicyDecision,
    pub(super) considered: Vec<MatchedRule<'a>>,
    /// Where the person's own rules are, or would be.
    pub(super) own_file: Option<String>,
}

impl CallExplanation<'_> {
    /// What the rules make of one effect: the strictest of the reasons that are about it.
    pub(super) fn reason(&self, effect: u32) -> Option<&DecisionReason> {
        self.ruling.reasons.iter().find(|reason| reason.effects.contains(&effect))
    }

    /// The rule behind a reason.
    pub(super) fn rule(&self, reason: &DecisionReason) -> Option<&Rule> {
        let same = |considered: &&MatchedRule<'_>| {
            considered.decided && Some(&considered.rule.id) == reason.rule.as_ref() && reason.origin.is_some()
        };
        self.considered.iter().find(same).map(|considered| considered.rule)
    }

    /// The reasons that the verdict comes from.
    pub(super) fn winners(&self) -> impl Iterator<Item = &DecisionReason> {
        self.ruling.reasons.iter().filter(|reason| reason.verdict == self.ruling.verdict)
    }
}
