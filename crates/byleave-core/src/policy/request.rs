//! What is put before the policy.

use crate::call::{Millis, Mode};
use crate::effect::Plan;
use crate::id::{AgentId, SessionId};
use crate::manifest::Manifest;
use crate::standing_approval::StandingApprovalMatcher;

/// What is to be judged, and all that may bear on it.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRequest<'a> {
    /// The tool.
    pub manifest: &'a Manifest,
    /// What the call would do.
    pub plan: &'a Plan,
    /// How much is asked.
    pub mode: Mode,
    /// The tool's own needs-approval says so for these arguments (T8). One that always says so need not be repeated.
    pub tool_asks: bool,
    /// The session of the call.
    pub session: &'a SessionId,
    /// Who makes the call.
    pub agent: &'a AgentId,
    /// The leaves that still have a use.
    pub leaves: &'a [StandingApprovalMatcher],
    /// When.
    pub now: Millis,
}

impl<'a> PolicyRequest<'a> {
    /// A call with nothing more to it: in the default mode, without leaves, by a tool that does not ask.
    pub fn plain(manifest: &'a Manifest, plan: &'a Plan, session: &'a SessionId, agent: &'a AgentId) -> Self {
        let mode = Mode::default();
        Self { manifest, plan, mode, tool_asks: false, session, agent, leaves: &[], now: 0 }
    }
}
