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

pub use rule_text::keys;

/// A standing approval, as recorded with the answer that gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingApproval {
    /// Its id.
    pub id: StandingApprovalId,
    /// The tool whose calls it covers.
    pub tool: String,
    /// The effects it covers.
    pub scope: Vec<Pattern>,
    /// The only session in which it applies, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The time at which it ends, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// The maximum number of uses, if set. A use is consumed when a call begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_max: Option<u32>,
}

/// The reason why no standing approval could spare the next question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCoverableError {
    /// A checkpoint is released once, by a person.
    #[error("it is a checkpoint, and every one is passed by a person")]
    Checkpoint,
    /// The question is about a result, not about the effects of a call.
    #[error("it is about a result, and a leave is about what calls do")]
    Result,
    /// A reviewer wants a person to look.
    #[error("the reviewer `{0}` wants a person to look, and will again")]
    Held(String),
    /// It asks for a cause that no standing approval may answer.
    #[error("{}: {why}", cause_words(*.cause))]
    Cause {
        /// The cause.
        cause: AskCause,
        /// The reason for which it asks, in the words of the decision.
        why: String,
    },
    /// Nothing is known about its effects.
    #[error("nothing is known of what it would do, so there is nothing that a leave could cover")]
    NothingKnown,
    /// The scope does not include something that asks.
    #[error("it does not cover everything that asks: {0}")]
    Uncovered(String),
    /// A part of it is known only when it runs, or cannot be written as a pattern.
    #[error("a leave cannot say what this is: {0}")]
    NotSayable(String),
}

const fn cause_words(cause: AskCause) -> &'static str {
    match cause {
        AskCause::Dangerous => "what could do great harm is asked about every time",
        AskCause::Irreversible => "what cannot be taken back is asked about every time",
        AskCause::NotUnderstood => "what was not understood is asked about every time",
        AskCause::FirmRule => "a firm rule asks every time",
        AskCause::Reviewer => "a reviewer wants a person to look every time",
        AskCause::Rule | AskCause::Default | AskCause::Outside => "it asks",
        AskCause::Sensitive | AskCause::ToolAsks | AskCause::Mode => "it asks",
    }
}

/// Returns the effects that a standing approval must cover so that none of these reasons asks any more, or why none could.
///
/// If a reason asks about the whole call, these are all effects.
pub fn asked<'a>(
    effects: &'a [Effect],
    reasons: &[DecisionReason],
) -> Result<Vec<&'a Effect>, NotCoverableError> {
    let asks = || reasons.iter().filter(|reason| reason.verdict == Verdict::Ask);
    for ask in asks() {
        // An ask without a cause is an unexpected one.
        let cause = ask.cause.unwrap_or(AskCause::NotUnderstood);
        if !cause.leave_may_answer() {
            return Err(NotCoverableError::Cause { cause, why: ask.why.clone() });
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
    if asked.is_empty() { Err(NotCoverableError::NothingKnown) } else { Ok(asked) }
}

/// A standing approval, compiled for matching.
#[derive(Clone, Debug)]
pub struct StandingApprovalMatcher {
    leave: StandingApproval,
    scope: Vec<PatternMatcher>,
    /// For each pattern that ends in `/**`: the pattern itself, and the directory above everything that it matches.
    trees: Vec<PatternMatcher>,
}

impl StandingApprovalMatcher {
    /// Compiles a standing approval, or returns the error of the invalid pattern.
    pub fn new(leave: StandingApproval) -> Result<Self, PatternError> {
        let scope = leave.scope.iter().cloned().map(PatternMatcher::new).collect::<Result<_, _>>()?;
        let trees =
            leave.scope.iter().flat_map(trees).filter_map(|tree| PatternMatcher::new(tree).ok()).collect();
        Ok(Self { leave, scope, trees })
    }

    /// Returns the standing approval.
    pub fn leave(&self) -> &StandingApproval {
        &self.leave
    }

    /// Checks whether it is for this tool and session, and has not expired.
    pub fn applies(&self, tool: &str, session: &SessionId, now: Millis) -> bool {
        self.leave.tool == tool
            && self.leave.session.as_ref().is_none_or(|only| only == session)
            && self.leave.until.is_none_or(|until| now < until)
    }

    /// Checks whether it covers each of the effects of this plan that were [`asked`] about.
    pub fn answers(&self, asked: &[&Effect], plan: &Plan) -> bool {
        self.uncovered(asked, plan).is_none()
    }

    /// Returns the first effect that was [`asked`] about and that it does not cover.
    pub fn uncovered<'e>(&self, asked: &[&'e Effect], plan: &Plan) -> Option<&'e Effect> {
        let is_plan =
            |pattern: &Pattern| matches!(pattern, Pattern::Plan(effects) if *effects == plan.effects);
        if self.leave.scope.iter().any(is_plan) {
            return None;
        }
        // A path alone does not cover anything beneath it.
        let covers = |effect: &Effect| {
            self.covers(effect)
                && (!plan.is_beneath(effect) || self.trees.iter().any(|tree| tree.fits(effect)))
        };
        asked.iter().copied().find(|effect| !covers(effect))
    }

    /// Checks whether it covers the effect, which must mean its path itself and not something beneath it.
    pub fn covers(&self, effect: &Effect) -> bool {
        self.scope.iter().any(|matcher| matcher.fits(effect))
    }
}

/// Returns the patterns that match the paths beneath which the pattern covers everything.
fn trees(pattern: &Pattern) -> Vec<Pattern> {
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
