//! The sheet: everything a person must see to answer a question, with true contents.
//!
//! A sheet is made from the record and the contents behind it, never from what the model calls it, and is never stored.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::Mode;
use crate::challenge::Challenge;
use crate::decision::PolicyDecision;
use crate::effect::Plan;
use crate::entry::ResolvedTool;
use crate::id::{AgentId, CallId, SessionId};
use crate::outcome::Output;
use crate::question::Question;
use crate::rehearsal::Rehearsal;
use crate::review::ReviewNote;
use crate::session::SessionNode;

/// What was seen of a call before a person was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::large_enum_variant, reason = "there is one on a sheet")]
pub enum RehearsalView {
    /// It ran on a copy.
    Ran {
        /// What came of it.
        rehearsal: Rehearsal,
        /// What the rules say of what it did.
        ruling: Option<PolicyDecision>,
    },
    /// It could not be run on a copy.
    Not {
        /// Why.
        why: String,
    },
}

/// Everything a person must see to answer a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionView {
    /// The question.
    pub question: Question,
    /// The call it is about.
    pub call: CallId,
    /// The session of the call.
    pub session: SessionId,
    /// Who wants it.
    pub agent: AgentId,
    /// The session as it was opened, and those above it; empty where it stands alone.
    #[serde(default)]
    pub lineage: Vec<SessionNode>,
    /// The directory it works in.
    pub cwd: String,
    /// How much is asked.
    pub mode: Mode,
    /// The tool and its terms.
    pub terms: ResolvedTool,
    /// Which draft this is, from 1.
    pub draft: u8,
    /// The arguments, whole.
    pub arguments: Value,
    /// What the model wrote first, where a reviewer or a person has changed it since.
    pub first_arguments: Option<Value>,
    /// The model's own words on why.
    pub reason: Option<String>,
    /// What would be done.
    pub plan: Plan,
    /// What the policy says of it.
    pub ruling: PolicyDecision,
    /// What the reviewers said.
    pub notes: Vec<ReviewNote>,
    /// The case against it.
    pub challenge: Option<Challenge>,
    /// What it really did, on a copy; absent where it is not run on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<RehearsalView>,
    /// The held result, where the question is whether to release it.
    pub output: Option<Output>,
}

impl QuestionView {
    /// A path as it is named in a part of what was rehearsed, seen from the directory of the call; `None` where nothing was changed
    /// there.
    pub fn part(&self, path: &str) -> Option<String> {
        let Some(RehearsalView::Ran { rehearsal, .. }) = &self.seen else { return None };
        let path = Path::new(&self.cwd).join(path).to_str()?.to_owned();
        (!rehearsal.changes.only(std::slice::from_ref(&path)).is_empty()).then_some(path)
    }
}
