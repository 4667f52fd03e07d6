//! The input of an evaluation.

use crate::call::{Millis, Mode};
use crate::effect::{Effect, Plan};
use crate::id::{AgentId, SessionId};
use crate::manifest::Manifest;
use crate::standing_approval::StandingApprovalMatcher;

/// A call to evaluate, with everything that may influence the decision.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRequest<'a> {
    /// The tool.
    pub manifest: &'a Manifest,
    /// The predicted effects of the call.
    pub plan: &'a Plan,
    /// The mode, which says how much is asked.
    pub mode: Mode,
    /// The tool's own needs-approval predicate asks for these arguments (T8). If the manifest says "always", this flag is not needed.
    pub tool_needs_approval: bool,
    /// The session of the call.
    pub session: &'a SessionId,
    /// The agent that makes the call.
    pub agent: &'a AgentId,
    /// The standing approvals that still have a use.
    pub standing_approvals: &'a [StandingApprovalMatcher],
    /// The current time.
    pub now: Millis,
    /// Whether the effects are predicted or were observed.
    pub stage: EffectStage,
    /// Whether the session has read text from the web or from an MCP server. It comes from the record, never from the agent.
    pub read_foreign: bool,
}

/// Whether the effects of a plan are predicted or were observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EffectStage {
    /// They are predicted, and nobody judges afterwards what really happened.
    #[default]
    Predicted,
    /// They are predicted. The call runs on a copy, and what it really changed is judged before it is committed.
    PredictedOnCopy,
    /// They happened on a copy.
    Observed {
        /// They are undoable work: everything can be taken back, and nothing was reached or left running.
        undoable: bool,
    },
}

impl EffectStage {
    /// Returns whether the default about undoable work decides on an effect that no rule covers. The effect is in the workspace.
    pub(super) const fn uses_undoable_default(self, effect: &Effect) -> bool {
        match (self, effect) {
            (Self::PredictedOnCopy, Effect::Run { .. } | Effect::Unknown { .. }) => true,
            (Self::PredictedOnCopy, Effect::Write { .. } | Effect::Delete { .. }) => true,
            (Self::Observed { undoable }, Effect::Write { .. } | Effect::Delete { .. }) => undoable,
            _ => false,
        }
    }
}

impl<'a> PolicyRequest<'a> {
    /// Creates a plain request: in the default mode, without standing approvals, for a tool that does not ask.
    pub fn new(manifest: &'a Manifest, plan: &'a Plan, session: &'a SessionId, agent: &'a AgentId) -> Self {
        let mode = Mode::default();
        Self {
            manifest,
            plan,
            mode,
            tool_needs_approval: false,
            session,
            agent,
            standing_approvals: &[],
            now: 0,
            stage: EffectStage::Predicted,
            read_foreign: false,
        }
    }
}
