//! Rulings: a verdict with its reasons. A ruling is a value; judging never fails.

use serde::{Deserialize, Serialize};

use crate::call::Mode;
use crate::digest::Digest;
use crate::id::StandingApprovalId;

/// Strictness rises to the right, so verdicts combine by `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Goes ahead.
    Allow,
    /// A person says.
    Ask,
    /// Does not happen.
    Deny,
}

impl Verdict {
    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Why a call asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskCause {
    /// A rule says so.
    Rule,
    /// A rule says so and no leave may answer it.
    FirmRule,
    /// No rule covers it.
    Default,
    /// It lies outside the workspace, and no rule allows that place.
    Outside,
    /// The tool is sensitive, or did not say that it is not.
    Sensitive,
    /// The tool's own needs-approval says so.
    ToolAsks,
    /// A reviewer wants a person to look.
    Reviewer,
    /// Could do great harm.
    Dangerous,
    /// Cannot be taken back.
    Irreversible,
    /// Could not be worked out.
    NotUnderstood,
    /// The mode asks for everything.
    Mode,
}

impl AskCause {
    /// In words, for a list of what asked.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Rule | Self::FirmRule => "a rule without a name",
            Self::Default => "no rule covers it",
            Self::Outside => "outside the workspace",
            Self::Sensitive => "the tool is sensitive",
            Self::ToolAsks => "the tool asks",
            Self::Reviewer => "a reviewer",
            Self::Dangerous => "dangerous",
            Self::Irreversible => "cannot be taken back",
            Self::NotUnderstood => "not understood",
            Self::Mode => "the mode",
        }
    }

    /// Every cause there is.
    pub const ALL: [Self; 11] = [
        Self::Rule,
        Self::FirmRule,
        Self::Default,
        Self::Outside,
        Self::Sensitive,
        Self::ToolAsks,
        Self::Reviewer,
        Self::Dangerous,
        Self::Irreversible,
        Self::NotUnderstood,
        Self::Mode,
    ];

    /// What a mode makes of an ask with this cause: the one table over causes (P2).
    ///
    /// Only asks pass through here. A deny and a checkpoint are never looked up. The workspace boundary is not a
    /// preference: a mode that would not ask a person about it denies (P4).
    pub const fn under(self, mode: Mode) -> Verdict {
        use AskCause::{
            Dangerous, Default, FirmRule, Irreversible, NotUnderstood, Outside, Reviewer, Rule, Sensitive,
            ToolAsks,
        };
        use Verdict::{Allow, Ask, Deny};
        match mode {
            Mode::ConfirmAll => Ask,
            Mode::ConfirmSensitive | Mode::ReadOnly => match self {
                Self::Mode => Allow,
                Rule | FirmRule | Default | Outside | Sensitive | ToolAsks | Reviewer => Ask,
                Dangerous | Irreversible | NotUnderstood => Ask,
            },
            Mode::ConfirmDangerous => match self {
                Self::Mode | Rule | Default | Sensitive | ToolAsks => Allow,
                Outside => Deny,
                FirmRule | Reviewer | Dangerous | Irreversible | NotUnderstood => Ask,
            },
            // A reviewer that holds a call is a check, not a preference: it is not switched off by asking less.
            Mode::Yolo => match self {
                Reviewer => Ask,
                Outside => Deny,
                _ => Allow,
            },
        }
    }

    /// Whether it asks because no rule says anything about the effect, so that an allow rule answers it.
    pub const fn is_uncovered(self) -> bool {
        matches!(self, Self::Default | Self::Outside)
    }

    /// Whether a standing leave may answer an ask with this cause.
    pub const fn leave_may_answer(self) -> bool {
        match self {
            Self::Rule | Self::Default | Self::Outside => true,
            Self::Sensitive | Self::ToolAsks | Self::Mode => true,
            Self::FirmRule | Self::Reviewer | Self::Dangerous | Self::Irreversible | Self::NotUnderstood => {
                false
            }
        }
    }
}

/// One reason of a ruling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionReason {
    /// What it asks for.
    pub verdict: Verdict,
    /// Why it asks, or would have asked had the mode not let it pass; absent on what a rule denies or allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<AskCause>,
    /// The rule that decided, by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Where the rule stands: layer, file and line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The places in the plan of the effects it is about; empty: the call as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<u32>,
    /// In words.
    pub why: String,
}

/// A verdict with its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyDecision {
    /// The strictest of the reasons; only where a leave answered, it is an allow above reasons that ask.
    pub verdict: Verdict,
    /// Why. Never empty.
    pub reasons: Vec<DecisionReason>,
    /// The policy that ruled.
    pub policy: Digest,
    /// The leave that answered the question beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave: Option<StandingApprovalId>,
    /// What must be guaranteed for the allow to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guarantees: Vec<String>,
    /// It was ruled before, on the same digest, and read back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

impl PolicyDecision {
    /// The causes for which this ruling asks, sorted.
    pub fn causes(&self) -> Vec<AskCause> {
        let asks = self.reasons.iter().filter(|reason| reason.verdict == Verdict::Ask);
        let mut causes: Vec<AskCause> = asks.filter_map(|reason| reason.cause).collect();
        causes.sort_unstable();
        causes.dedup();
        causes
    }

    /// The reason that decided: the first of the strictest.
    pub fn decisive(&self) -> Option<&DecisionReason> {
        self.reasons.iter().find(|reason| reason.verdict == self.verdict).or_else(|| self.reasons.first())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: P2
    #[test]
    fn modes_only_ever_ask_less_from_left_to_right() {
        for cause in AskCause::ALL.into_iter().filter(|cause| *cause != AskCause::Outside) {
            let row: Vec<Verdict> = Mode::ALL.iter().map(|mode| cause.under(*mode)).collect();
            assert!(row.is_sorted_by(|a, b| a >= b), "{cause:?}: {row:?}");
            assert!(row.iter().all(|verdict| *verdict != Verdict::Deny));
        }
    }

    // req: P2, P4
    #[test]
    fn no_mode_lets_the_workspace_boundary_pass() {
        let row = Mode::ALL.map(|mode| AskCause::Outside.under(mode));
        assert_eq!(row, [Verdict::Ask, Verdict::Ask, Verdict::Deny, Verdict::Deny]);
        assert_eq!(AskCause::Outside.under(Mode::ReadOnly), Verdict::Ask);
    }
}
