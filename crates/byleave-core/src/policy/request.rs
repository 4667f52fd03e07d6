//! The input of an evaluation.

use crate::call::{Millis, Mode};
use crate::effect::Plan;
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
        }
    }
}
