//! Decisions: a verdict with its reasons. A decision is a value, and evaluation never fails.

use serde::{Deserialize, Serialize};

use crate::call::Mode;
use crate::challenge::ChallengeBy;
use crate::digest::Digest;
use crate::id::StandingApprovalId;

/// The verdict on a call or an effect. Strictness rises in this order, so verdicts combine by `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The call goes ahead.
    Allow,
    /// A person decides.
    Ask,
    /// The call does not run.
    Deny,
}

impl Verdict {
    /// Returns the verdict in a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// The cause for which a call asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskCause {
    /// A rule asks.
    Rule,
    /// A rule asks, and no standing approval may answer it.
    FirmRule,
    /// No rule covers the effect.
    Default,
    /// A rule requires a checkpoint: a person must release the call in every mode (R8).
    Checkpoint,
    /// The effect is outside the workspace, and no rule allows that place.
    OutsideWorkspace,
    /// The tool is sensitive, or does not declare that it is not.
    Sensitive,
    /// The tool's own needs-approval setting asks.
    ToolNeedsApproval,
    /// A reviewer asks for a person to look.
    Reviewer,
    /// The call could do great harm.
    Dangerous,
    /// The call cannot be undone.
    Irreversible,
    /// The effects could not be predicted.
    NotUnderstood,
    /// The mode asks for everything.
    Mode,
}

impl AskCause {
    /// Returns the cause in words, for a list of causes.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Rule | Self::FirmRule => "a rule without a name",
            Self::Checkpoint => "a checkpoint",
            Self::Default => "no rule matches",
            Self::OutsideWorkspace => "outside the workspace",
            Self::Sensitive => "the tool is sensitive",
            Self::ToolNeedsApproval => "the tool requires it",
            Self::Reviewer => "a reviewer",
            Self::Dangerous => "dangerous",
            Self::Irreversible => "cannot be undone",
            Self::NotUnderstood => "not understood",
            Self::Mode => "the mode",
        }
    }

    /// All causes.
    pub const ALL: [Self; 12] = [
        Self::Rule,
        Self::FirmRule,
        Self::Default,
        Self::Checkpoint,
        Self::OutsideWorkspace,
        Self::Sensitive,
        Self::ToolNeedsApproval,
        Self::Reviewer,
        Self::Dangerous,
        Self::Irreversible,
        Self::NotUnderstood,
        Self::Mode,
    ];

    /// Returns the verdict that a mode gives to an ask with this cause. This is the only table over causes (P2).
    ///
    /// Only asks are looked up here, never a deny. No mode lets a checkpoint pass. The workspace boundary is not a preference: a mode that would not ask a
    /// person about it denies (P4).
    pub const fn verdict_in_mode(self, mode: Mode) -> Verdict {
        use AskCause::{
            Checkpoint, Dangerous, Default, FirmRule, Irreversible, NotUnderstood, OutsideWorkspace,
            Reviewer, Rule, Sensitive, ToolNeedsApproval,
        };
        use Verdict::{Allow, Ask, Deny};
        match mode {
            Mode::ConfirmAll => Ask,
            Mode::ConfirmSensitive | Mode::ReadOnly => match self {
                Self::Mode => Allow,
                Rule | FirmRule | Default | OutsideWorkspace | Sensitive | ToolNeedsApproval | Reviewer => {
                    Ask
                }
                Checkpoint | Dangerous | Irreversible | NotUnderstood => Ask,
            },
            Mode::ConfirmDangerous => match self {
                Self::Mode | Rule | Default | Sensitive | ToolNeedsApproval => Allow,
                OutsideWorkspace => Deny,
                FirmRule | Checkpoint | Reviewer | Dangerous | Irreversible | NotUnderstood => Ask,
            },
            // A reviewer that holds a call is a check, not a preference. Asking less does not switch it off.
            Mode::Yolo => match self {
                Reviewer | Checkpoint => Ask,
                OutsideWorkspace => Deny,
                _ => Allow,
            },
        }
    }

    /// Returns whether it asks because no rule covers the effect, so that an allow rule answers it.
    pub const fn is_no_rule(self) -> bool {
        matches!(self, Self::Default | Self::OutsideWorkspace)
    }

    /// Returns whether a standing approval may answer an ask with this cause.
    pub const fn allows_standing_approval(self) -> bool {
        match self {
            Self::Rule | Self::Default | Self::OutsideWorkspace => true,
            Self::Sensitive | Self::ToolNeedsApproval | Self::Mode => true,
            Self::FirmRule | Self::Checkpoint | Self::Reviewer => false,
            Self::Dangerous | Self::Irreversible | Self::NotUnderstood => false,
        }
    }
}

/// One reason of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionReason {
    /// The verdict that this reason calls for.
    pub verdict: Verdict,
    /// The cause for which it asks, or would have asked if the mode had not let it pass. Absent if a rule denies or allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<AskCause>,
    /// The id of the rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The location of the rule: layer, file and line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The positions in the plan of the effects that it is about. Empty if it is about the whole call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<u32>,
    /// The explanation in words.
    pub message: String,
}

impl DecisionReason {
    /// Checks whether it asks because of the tool itself, whatever its effects are.
    pub fn is_about_tool(&self) -> bool {
        self.verdict == Verdict::Ask
            && matches!(self.cause, Some(AskCause::Sensitive | AskCause::ToolNeedsApproval))
    }
}

/// A verdict with its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyDecision {
    /// The strictest verdict of the reasons. If a standing approval answered, it is an allow above reasons that ask.
    pub verdict: Verdict,
    /// The reasons. Never empty.
    pub reasons: Vec<DecisionReason>,
    /// The digest of the policy that decided.
    pub policy: Digest,
    /// The standing approval that answered the question beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing_approval: Option<StandingApprovalId>,
    /// The guarantees that must hold for the allow to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guarantees: Vec<String>,
    /// Who must make the case against the call, if a rule or the tool requires that (R9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<ChallengeBy>,
    /// The decision was made before, on the same digest, and read back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

impl PolicyDecision {
    /// Returns the causes for which this decision asks, sorted.
    pub fn causes(&self) -> Vec<AskCause> {
        let asks = self.reasons.iter().filter(|reason| reason.verdict == Verdict::Ask);
        let mut causes: Vec<AskCause> = asks.filter_map(|reason| reason.cause).collect();
        causes.sort_unstable();
        causes.dedup();
        causes
    }

    /// Returns whether a rule requires a checkpoint.
    pub fn requires_checkpoint(&self) -> bool {
        self.causes().contains(&AskCause::Checkpoint)
    }

    /// Returns the reason that decided: the first of the strictest.
    pub fn decisive_reason(&self) -> Option<&DecisionReason> {
        self.reasons.iter().find(|reason| reason.verdict == self.verdict).or_else(|| self.reasons.first())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: P2
    #[test]
    fn modes_only_ever_ask_less_from_left_to_right() {
        for cause in AskCause::ALL.into_iter().filter(|cause| *cause != AskCause::OutsideWorkspace) {
            let row: Vec<Verdict> = Mode::ALL.iter().map(|mode| cause.verdict_in_mode(*mode)).collect();
            assert!(row.is_sorted_by(|a, b| a >= b), "{cause:?}: {row:?}");
            assert!(row.iter().all(|verdict| *verdict != Verdict::Deny));
        }
    }

    // req: P2, P4
    #[test]
    fn no_mode_lets_the_workspace_boundary_pass() {
        let row = Mode::ALL.map(|mode| AskCause::OutsideWorkspace.verdict_in_mode(mode));
        assert_eq!(row, [Verdict::Ask, Verdict::Ask, Verdict::Deny, Verdict::Deny]);
        assert_eq!(AskCause::OutsideWorkspace.verdict_in_mode(Mode::ReadOnly), Verdict::Ask);
    }
}
