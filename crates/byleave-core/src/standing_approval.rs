//! Leaves: standing permissions that a person gave. Scope × time × count × session; listed and revocable.
//!
//! What a leave must cover to spare a question is said here once: for the policy, which judges, and for the person, who is
//! offered leaves. No leave ever answers what is dangerous, cannot be taken back or was not understood.

mod rule_text;

use serde::{Deserialize, Serialize};

use crate::call::Millis;
use crate::decision::{AskCause, DecisionReason, Verdict};
use crate::effect::{Effect, Plan};
use crate::id::{SessionId, StandingApprovalId};
use crate::pattern::{Pattern, PatternError, PatternMatcher};

pub use rule_text::keys;

/// A standing permission, as the answer that gave it stands on the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingApproval {
    /// Its id.
    pub id: StandingApprovalId,
    /// The tool whose calls it covers.
    pub tool: String,
    /// The effects it covers.
    pub scope: Vec<Pattern>,
    /// Only in this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// So many times. Consumed when a call begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_max: Option<u32>,
}

/// Why no leave could spare the next question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCoverable {
    /// A checkpoint is passed once, by a person.
    #[error("it is a checkpoint, and every one is passed by a person")]
    Checkpoint,
    /// A result is looked at, whatever the call was.
    #[error("it is about a result, and a leave is about what calls do")]
    Result,
    /// A reviewer wants a person to look.
    #[error("the reviewer `{0}` wants a person to look, and will again")]
    Held(String),
    /// It asks for a cause that no leave may answer.
    #[error("{}: {why}", cause_words(*.cause))]
    Cause {
        /// The cause.
        cause: AskCause,
        /// Why it asks, in the words of the ruling.
        why: String,
    },
    /// Nothing is known of what it would do.
    #[error("nothing is known of what it would do, so there is nothing that a leave could cover")]
    NothingKnown,
    /// The scope leaves out something that asks.
    #[error("it does not cover everything that asks: {0}")]
    Uncovered(String),
    /// Something about it is known only when it runs, or cannot be written as a pattern.
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

/// The effects that a leave must cover so that none of these reasons asks any more, or why none could.
///
/// Where something asks about the call as a whole, that is every effect.
pub fn asked<'a>(effects: &'a [Effect], reasons: &[DecisionReason]) -> Result<Vec<&'a Effect>, NotCoverable> {
    let asks = || reasons.iter().filter(|reason| reason.verdict == Verdict::Ask);
    for ask in asks() {
        // An ask that names no cause is one that nobody thought of.
        let cause = ask.cause.unwrap_or(AskCause::NotUnderstood);
        if !cause.leave_may_answer() {
            return Err(NotCoverable::Cause { cause, why: ask.why.clone() });
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
    if asked.is_empty() { Err(NotCoverable::NothingKnown) } else { Ok(asked) }
}

/// A leave made ready to match.
#[derive(Clone, Debug)]
pub struct StandingApprovalMatcher {
    leave: StandingApproval,
    scope: Vec<PatternMatcher>,
    /// For each pattern that ends in `/**`: itself, and the directory that it is about everything beneath.
    trees: Vec<PatternMatcher>,
}

impl StandingApprovalMatcher {
    /// Makes a leave ready, or says which pattern is wrong.
    pub fn new(leave: StandingApproval) -> Result<Self, PatternError> {
        let scope = leave.scope.iter().cloned().map(PatternMatcher::new).collect::<Result<_, _>>()?;
        let trees =
            leave.scope.iter().flat_map(trees).filter_map(|tree| PatternMatcher::new(tree).ok()).collect();
        Ok(Self { leave, scope, trees })
    }

    /// The leave.
    pub fn leave(&self) -> &StandingApproval {
        &self.leave
    }

    /// Whether it is about this tool and session, and has not run out of time.
    pub fn applies(&self, tool: &str, session: &SessionId, now: Millis) -> bool {
        self.leave.tool == tool
            && self.leave.session.as_ref().is_none_or(|only| only == session)
            && self.leave.until.is_none_or(|until| now < until)
    }

    /// Whether it covers each of the effects of this plan that were [`asked`] about.
    pub fn answers(&self, asked: &[&Effect], plan: &Plan) -> bool {
        self.uncovered(asked, plan).is_none()
    }

    /// The first of the effects that were [`asked`] about which it does not cover.
    pub fn uncovered<'e>(&self, asked: &[&'e Effect], plan: &Plan) -> Option<&'e Effect> {
        let is_plan =
            |pattern: &Pattern| matches!(pattern, Pattern::Plan(effects) if *effects == plan.effects);
        if self.leave.scope.iter().any(is_plan) {
            return None;
        }
        // A path alone says nothing of what lies beneath it.
        let covers = |effect: &Effect| {
            self.covers(effect)
                && (!plan.is_beneath(effect) || self.trees.iter().any(|tree| tree.fits(effect)))
        };
        asked.iter().copied().find(|effect| !covers(effect))
    }

    /// Whether it covers the effect, which stands for itself and not for something beneath its path.
    pub fn covers(&self, effect: &Effect) -> bool {
        self.scope.iter().any(|matcher| matcher.fits(effect))
    }
}

/// The patterns that paths fit if the pattern covers everything beneath them.
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
