//! Standing approvals: permissions that a person gave beforehand. Scope × time × uses × session; listed and revocable.
//!
//! This module defines once what a standing approval must cover to spare a question. The policy uses it to evaluate, and the approver uses
//! it to choose a scope. No standing approval ever answers a call that is dangerous, cannot be undone or was not understood.

mod rule_text;

use serde::{Deserialize, Serialize};

use crate::call::Millis;
use crate::decision::{AskCause, DecisionReason, Verdict};
use crate::effect::{Effect, Plan};
use crate::id::{SessionId, StandingApprovalId};
use crate::pattern::{Pattern, PatternError, PatternMatcher};

pub use rule_text::patterns_to_toml;

/// The tool of a standing approval that covers effects, whichever tool has them. No tool has this name.
pub const ANY_TOOL: &str = "*";

/// A standing approval, as recorded with the answer that gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingApproval {
    /// Its id.
    pub id: StandingApprovalId,
    /// The tool whose calls it covers, or [`ANY_TOOL`]: the effects are covered, whichever tool has them.
    pub tool: String,
    /// The effects it covers.
    pub scope: Vec<Pattern>,
    /// The only session in which it applies, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The time at which it ends, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// The maximum number of uses, if set. A use is consumed when a call begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u32>,
}

impl StandingApproval {
    /// Returns the tool to which a standing approval with this scope is limited, or [`ANY_TOOL`].
    ///
    /// Reading, changing and reaching are the same whichever tool does it. The use of a tool is not, and neither is a question that the
    /// tool itself caused.
    pub fn tool_for_scope(scope: &[Pattern], tool: &str, reasons: &[DecisionReason]) -> String {
        let names_tool = scope.iter().any(|pattern| matches!(pattern, Pattern::Invoke(_)));
        if names_tool || reasons.iter().any(DecisionReason::is_about_tool) { tool } else { ANY_TOOL }
            .to_owned()
    }

    /// Checks whether it covers calls of every tool that have its effects.
    pub fn is_for_any_tool(&self) -> bool {
        self.tool == ANY_TOOL
    }

    /// Returns the tool in words for people.
    pub fn tool_name(&self) -> &str {
        if self.is_for_any_tool() { "any tool" } else { &self.tool }
    }

    /// Checks whether it may be an answer to a question about this tool.
    pub fn is_for_tool(&self, tool: &str) -> bool {
        self.is_for_any_tool() || self.tool == tool
    }
}

/// The reason why no standing approval could spare the next question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCoverableError {
    /// A checkpoint is released once, by a person.
    #[error("a checkpoint must be released by a person every time")]
    Checkpoint,
    /// The question is about a result, not about the effects of a call.
    #[error("the question is about a result, and standing approvals cover only effects")]
    OutputRelease,
    /// A reviewer asks for a person to look.
    #[error("the reviewer `{0}` asks for a person to look, and will ask again")]
    HeldByReviewer(String),
    /// It asks for a cause that no standing approval may answer.
    #[error("{}: {reason}", describe_cause(*.cause))]
    Cause {
        /// The cause.
        cause: AskCause,
        /// The reason for which it asks, in the words of the decision.
        reason: String,
    },
    /// Nothing is known about its effects.
    #[error("the effects of the call are not known, so a standing approval cannot cover them")]
    UnknownEffects,
    /// The scope does not include something that asks.
    #[error("the scope does not cover every effect that is asked about: {0}")]
    NotCovered(String),
    /// A part of it is known only when the call runs, or cannot be written as a pattern.
    #[error("a standing approval cannot describe this call: {0}")]
    NotExpressible(String),
}

const fn describe_cause(cause: AskCause) -> &'static str {
    match cause {
        AskCause::Dangerous => "a call that could do great harm is asked about every time",
        AskCause::Irreversible => "a call that cannot be undone is asked about every time",
        AskCause::NotUnderstood => "a call that was not understood is asked about every time",
        AskCause::Checkpoint => "a checkpoint needs a release every time",
        AskCause::FirmRule => "a firm rule asks every time",
        AskCause::Reviewer => "a reviewer asks for a person every time",
        AskCause::Rule | AskCause::Default | AskCause::OutsideWorkspace => "the policy asks",
        AskCause::Sensitive | AskCause::ToolNeedsApproval | AskCause::Mode => "the policy asks",
    }
}

/// Returns the effects that a standing approval must cover so that none of these reasons asks any more, or why none could.
///
/// If a reason asks about the whole call, these are all effects.
pub fn effects_to_cover<'a>(
    effects: &'a [Effect],
    reasons: &[DecisionReason],
) -> Result<Vec<&'a Effect>, NotCoverableError> {
    let asks = || reasons.iter().filter(|reason| reason.verdict == Verdict::Ask);
    for ask in asks() {
        // An ask without a cause is an unexpected one.
        let cause = ask.cause.unwrap_or(AskCause::NotUnderstood);
        if !cause.allows_standing_approval() {
            return Err(NotCoverableError::Cause { cause, reason: ask.message.clone() });
        }
    }
    let whole = asks().any(|ask| ask.effects.is_empty());
    let mut marked = vec![whole; effects.len()];
    for place in asks().flat_map(|ask| &ask.effects) {
        if let Some(mark) = marked.get_mut(*place as usize) {
            *mark = true;
        }
    }
    let asked: Vec<&Effect> =
        effects.iter().zip(marked).filter_map(|(one, mark)| mark.then_some(one)).collect();
    if asked.is_empty() { Err(NotCoverableError::UnknownEffects) } else { Ok(asked) }
}

/// A standing approval, compiled for matching.
#[derive(Clone, Debug)]
pub struct StandingApprovalMatcher {
    standing_approval: StandingApproval,
    scope: Vec<PatternMatcher>,
    /// For each pattern that ends in `/**`: the pattern itself, and the directory above everything that it matches.
    subtrees: Vec<PatternMatcher>,
}

impl StandingApprovalMatcher {
    /// Compiles a standing approval, or returns the error of the invalid pattern.
    pub fn new(leave: StandingApproval) -> Result<Self, PatternError> {
        let scope = leave.scope.iter().cloned().map(PatternMatcher::new).collect::<Result<_, _>>()?;
        let trees = leave
            .scope
            .iter()
            .flat_map(subtree_patterns)
            .filter_map(|tree| PatternMatcher::new(tree).ok())
            .collect();
        Ok(Self { standing_approval: leave, scope, subtrees: trees })
    }

    /// Returns the standing approval.
    pub fn standing_approval(&self) -> &StandingApproval {
        &self.standing_approval
    }

    /// Checks whether it can answer a call of this tool and session with these reasons, and has not expired.
    pub fn applies_to(
        &self,
        tool: &str,
        session: &SessionId,
        reasons: &[DecisionReason],
        now: Millis,
    ) -> bool {
        self.standing_approval.is_for_tool(tool)
            && !(self.standing_approval.is_for_any_tool()
                && reasons.iter().any(DecisionReason::is_about_tool))
            && self.standing_approval.session.as_ref().is_none_or(|only| only == session)
            && self.standing_approval.expires_at.is_none_or(|until| now < until)
    }

    /// Checks whether it covers each of the effects of this plan that were [`effects_to_cover`] about.
    pub fn covers_all(&self, asked: &[&Effect], plan: &Plan) -> bool {
        self.first_uncovered(asked, plan).is_none()
    }

    /// Returns the first effect that was [`effects_to_cover`] about and that it does not cover.
    pub fn first_uncovered<'e>(&self, asked: &[&'e Effect], plan: &Plan) -> Option<&'e Effect> {
        let is_plan =
            |pattern: &Pattern| matches!(pattern, Pattern::Plan(effects) if *effects == plan.effects);
        if self.standing_approval.scope.iter().any(is_plan) {
            return None;
        }
        // A path alone does not cover anything beneath it.
        let covers = |effect: &Effect| {
            self.covers(effect)
                && (!plan.is_partial(effect) || self.subtrees.iter().any(|tree| tree.matches(effect)))
        };
        asked.iter().copied().find(|effect| !covers(effect))
    }

    /// Checks whether it covers the effect, which must mean its path itself and not something beneath it.
    pub fn covers(&self, effect: &Effect) -> bool {
        self.scope.iter().any(|matcher| matcher.matches(effect))
    }
}

/// Returns the patterns that match the paths beneath which the pattern covers everything.
fn subtree_patterns(pattern: &Pattern) -> Vec<Pattern> {
    let (kind, glob): (fn(String) -> Pattern, &String) = match pattern {
        Pattern::Read(glob) => (Pattern::Read, glob),
        Pattern::Write(glob) => (Pattern::Write, glob),
        Pattern::Delete(glob) => (Pattern::Delete, glob),
        _ => return Vec::new(),
    };
    match glob.strip_suffix("/**") {
        Some("") => vec![kind("/".to_owned()), pattern.clone()],
        Some(directory) => vec![kind(directory.to_owned()), pattern.clone()],
        None => Vec::new(),
    }
}
