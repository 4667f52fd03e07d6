//! Sessions: the tree of sub-agents, and the ceiling of each.
//!
//! Sessions form a tree. The process that starts a sub-agent opens its session once, before the first call. The place of a session in the
//! tree never changes, and nothing that a call carries can change it. A session that nobody opened has no parent.

use serde::{Deserialize, Serialize};

use crate::call::Mode;
use crate::digest::Digest;
use crate::id::{AdminActionId, AgentId, SessionId, TenantId};
use crate::pattern::{Pattern, PatternError};

/// The maximum depth of the tree. A deeper tree is a mistake, or an attempt to make evaluation slow.
pub const DEPTH_MAX: usize = 16;

/// A session that was opened: its place in the tree and its ceiling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionNode {
    /// The session.
    pub session: SessionId,
    /// The parent session. `None` for a top-level session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// The agent of the session. Rules are matched against this name, whatever name its calls give.
    pub agent: AgentId,
    /// The ceiling of this session and of all its descendants.
    pub ceiling: Ceiling,
}

/// The limits of a session and of all its descendants. A ceiling can only restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// The loosest mode in which a call is evaluated.
    pub mode: Mode,
    /// Effects that are denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Pattern>,
    /// Effects that are asked about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<Pattern>,
}

impl Ceiling {
    /// Returns a ceiling that consists of a mode only.
    pub const fn from_mode(mode: Mode) -> Self {
        Self { mode, deny: Vec::new(), ask: Vec::new() }
    }

    /// Checks whether every pattern is valid.
    pub fn check(&self) -> Result<(), PatternError> {
        self.deny.iter().chain(&self.ask).try_for_each(Pattern::check)
    }
}

/// The combined mode of a call and of all sessions above it. It asks as much as the strictest of them, and is read-only if one of them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveMode {
    /// The mode that says how much is asked.
    pub mode: Mode,
    /// No call may change anything.
    pub read_only: bool,
}

impl EffectiveMode {
    /// Combines the mode of a call with those of the sessions above it.
    pub fn new(mode: Mode, lineage: &[SessionNode]) -> Self {
        let modes = || lineage.iter().map(|opening| opening.ceiling.mode).chain([mode]);
        let asks_most = |asking: &Mode| modes().any(|mode| mode.question_mode() == *asking);
        Self {
            mode: Mode::ALL.into_iter().find(asks_most).unwrap_or(Mode::ConfirmAll),
            read_only: modes().any(|mode| mode == Mode::ReadOnly),
        }
    }

    /// Returns the mode in words.
    pub fn description(self) -> String {
        match (self.read_only, self.mode) {
            (false, asking) => asking.as_str().to_owned(),
            (true, asking) if asking == Mode::ReadOnly.question_mode() => Mode::ReadOnly.as_str().to_owned(),
            (true, asking) => format!("{}, {}", Mode::ReadOnly.as_str(), asking.as_str()),
        }
    }
}

/// Returns the id of the admin action that opens a session. There is one id for each session, so that it can be opened only once.
pub fn opening_action_id(tenant: &TenantId, session: &SessionId) -> AdminActionId {
    let parts = [tenant.as_str().as_bytes(), session.as_str().as_bytes()];
    let digest = Digest::compute_parts("byleave.session", &parts);
    let mut id = [0; 16];
    id.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
    AdminActionId::new(uuid::Builder::from_custom_bytes(id).into_uuid())
}

/// Returns the caller in words: an agent, or a sub-agent with its parent. The lineage begins with the session itself.
pub fn describe_caller(agent: &AgentId, lineage: &[SessionNode]) -> String {
    let (Some(own), Some(parent)) = (lineage.first(), lineage.get(1)) else { return agent.to_string() };
    // Names of agents say more than sessions, except if both are the same.
    if own.agent == parent.agent {
        return format!("sub-agent `{}` of `{}`", own.session, parent.session);
    }
    format!("sub-agent `{}` of `{}`", own.agent, parent.agent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_has_one_act_for_its_tenant_and_session() {
        let act = |tenant: &str, session: &str| {
            opening_action_id(&TenantId::new(tenant).unwrap(), &SessionId::new(session).unwrap())
        };
        assert_eq!(act("local", "s"), act("local", "s"));
        assert_ne!(act("local", "s"), act("local", "t"));
        assert_ne!(act("local", "s"), act("locals", "s"));
        assert_ne!(act("ab", "c"), act("a", "bc"));
    }
}
