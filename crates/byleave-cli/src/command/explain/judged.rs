//! A call with everything that was found out about it.

use byleave::core::effect::Plan;
use byleave::core::policy::{Considered, Policy, Rule};
use byleave::core::ruling::{Reason, Ruling};
use byleave::shell::tree::Tree;

/// A call, judged.
pub(super) struct Explained<'a> {
    pub(super) plan: &'a Plan,
    pub(super) trees: &'a [Tree],
    pub(super) policy: &'a Policy,
    pub(super) ruling: Ruling,
    pub(super) considered: Vec<Considered<'a>>,
    /// Where the person's own rules are, or would be.
    pub(super) own_file: Option<String>,
}

impl Explained<'_> {
    /// What the rules make of one effect: the strictest of the reasons that are about it.
    pub(super) fn reason(&self, effect: u32) -> Option<&Reason> {
        self.ruling.reasons.iter().find(|reason| reason.effects.contains(&effect))
    }

    /// The rule behind a reason.
    pub(super) fn rule(&self, reason: &Reason) -> Option<&Rule> {
        let same = |considered: &&Considered<'_>| {
            considered.decided && Some(&considered.rule.id) == reason.rule.as_ref() && reason.origin.is_some()
        };
        self.considered.iter().find(same).map(|considered| considered.rule)
    }

    /// The reasons that the verdict comes from.
    pub(super) fn winners(&self) -> impl Iterator<Item = &Reason> {
        self.ruling.reasons.iter().filter(|reason| reason.verdict == self.ruling.verdict)
    }
}
