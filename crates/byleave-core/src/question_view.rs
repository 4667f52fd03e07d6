//! The question view: everything that a person must see to answer a question, with the true contents.
//!
//! A question view is made from the record and the contents behind it, never from the model's description. It is never stored.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::Mode;
use crate::challenge::{Challenge, ChallengeBy};
use crate::decision::PolicyDecision;
use crate::effect::Plan;
use crate::entry::ResolvedTool;
use crate::id::{AgentId, CallId, SessionId};
use crate::outcome::Output;
use crate::question::{Question, QuestionKind};
use crate::rehearsal::Rehearsal;
use crate::review::ReviewNote;
use crate::session::SessionNode;

/// The result of the rehearsal that preceded a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::large_enum_variant, reason = "a question view has at most one")]
pub enum RehearsalView {
    /// The call ran on a copy.
    Ran {
        /// The result of the run.
        rehearsal: Rehearsal,
        /// The decision of the policy on the real effects of the run.
        decision: Option<PolicyDecision>,
    },
    /// The call could not run on a copy.
    Unavailable {
        /// The reason.
        reason: String,
    },
}

/// Everything that a person must see to answer a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionView {
    /// The question.
    pub question: Question,
    /// The call that the question is about.
    pub call: CallId,
    /// The session of the call.
    pub session: SessionId,
    /// The agent that makes the call.
    pub agent: AgentId,
    /// The session as it was opened, and its ancestors. Empty if nobody opened it.
    #[serde(default)]
    pub lineage: Vec<SessionNode>,
    /// The working directory of the call.
    pub cwd: String,
    /// The mode, which says how much is asked.
    pub mode: Mode,
    /// The tool and its terms.
    pub resolved_tool: ResolvedTool,
    /// The number of the draft, from 1.
    pub draft: u8,
    /// The complete arguments.
    pub arguments: Value,
    /// The model's first arguments, if a reviewer or a person has changed them since.
    pub first_arguments: Option<Value>,
    /// The model's own reason for the call.
    pub reason: Option<String>,
    /// The predicted effects.
    pub plan: Plan,
    /// The decision of the policy.
    pub decision: PolicyDecision,
    /// The notes of the reviewers.
    pub notes: Vec<ReviewNote>,
    /// The agent's case against the call.
    pub challenge: Option<Challenge>,
    /// The result of the rehearsal. Absent if the call is not rehearsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<RehearsalView>,
    /// The held result, if the question is whether to release it.
    pub output: Option<Output>,
}

impl QuestionView {
    /// Returns whether a yes needs the case against the call, made by the person who answers (R9).
    pub fn needs_challenge(&self) -> bool {
        self.question.kind != QuestionKind::Release && self.decision.challenge == Some(ChallengeBy::Person)
    }

    /// Returns a path in the form in which a part of the rehearsal names it, resolved against the working directory of the call. Returns
    /// `None` if nothing was changed there.
    pub fn rehearsed_path(&self, path: &str) -> Option<String> {
        let Some(RehearsalView::Ran { rehearsal, .. }) = &self.rehearsal else { return None };
        let path = Path::new(&self.cwd).join(path).to_str()?.to_owned();
        (!rehearsal.changes.only_paths(std::slice::from_ref(&path)).is_empty()).then_some(path)
    }
}
