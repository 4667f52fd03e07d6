//! Sessions: who is whose sub-agent, and how far each of them may go at most.
//!
//! Sessions form a tree. A place in it is taken once, before the first call, by who starts the sub-agent, and never
//! changes; nothing that a call carries can say another. A session that nobody opened stands alone.

use serde::{Deserialize, Serialize};

use crate::call::Mode;
use crate::digest::Digest;
use crate::id::{AdminActionId, AgentId, SessionId, TenantId};
use crate::pattern::{Pattern, PatternError};

/// How many there may be above one another: more is a mistake, or a way to make judging slow.
pub const DEPTH_MAX: usize = 16;

/// A session that was opened: its place in the tree, and how far it may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionNode {
    /// The session.
    pub session: SessionId,
    /// Whose sub-agent it is; none at the top of a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Who works in it. Rules are held against this name, whatever name its calls give.
    pub agent: AgentId,
    /// How far it may go at most, and so may everyone beneath it.
    pub ceiling: Ceiling,
}

/// How far a session and everyone beneath it may go at most. It only ever takes away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// No call is judged in a looser mode.
    pub mode: Mode,
    /// Effects that are denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Pattern>,
    /// Effects that are asked about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<Pattern>,
}

impl Ceiling {
    /// A ceiling that is a mode and nothing more.
    pub const fn of(mode: Mode) -> Self {
        Self { mode, deny: Vec::new(), ask: Vec::new() }
    }

    /// Whether every pattern can be used.
    pub fn check(&self) -> Result<(), PatternError> {
        self.deny.iter().chain(&self.ask).try_for_each(Pattern::check)
    }
}

/// The modes of a call and of everyone above it, met: asks as much as the one that asks most, and reads only if one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveMode {
    /// How much is asked.
    pub asking: Mode,
    /// Nothing may be changed.
    pub read_only: bool,
}

impl EffectiveMode {
    /// The mode of a call, met with those above it.
    pub fn new(mode: Mode, lineage: &[SessionNode]) -> Self {
        let modes = || lineage.iter().map(|opening| opening.ceiling.mode).chain([mode]);
        let asks_most = |asking: &Mode| modes().any(|mode| mode.asking() == *asking);
        Self {
            asking: Mode::ALL.into_iter().find(asks_most).unwrap_or(Mode::ConfirmAll),
            read_only: modes().any(|mode| mode == Mode::ReadOnly),
        }
    }

    /// In words.
    pub fn words(self) -> String {
        match (self.read_only, self.asking) {
            (false, asking) => asking.word().to_owned(),
            (true, asking) if asking == Mode::ReadOnly.asking() => Mode::ReadOnly.word().to_owned(),
            (true, asking) => format!("{}, {}", Mode::ReadOnly.word(), asking.word()),
        }
    }
}

/// The act with which a session is opened. There is one id for each, so that there can be one opening only.
pub fn act_of(tenant: &TenantId, session: &SessionId) -> AdminActionId {
    let parts = [tenant.as_str().as_bytes(), session.as_str().as_bytes()];
    let digest = Digest::of_parts("byleave.session", &parts);
    let mut id = [0; 16];
    id.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
    AdminActionId::new(uuid::Builder::from_custom_bytes(id).into_uuid())
}

/// Who makes a call, in words: an agent, or whose sub-agent it is. The lineage begins with the session itself.
pub fn caller(agent: &AgentId, lineage: &[SessionNode]) -> String {
    let (Some(own), Some(parent)) = (lineage.first(), lineage.get(1)) else { return agent.to_string() };
    // Names of agents say more, but not where both have the same.
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
            act_of(&TenantId::new(tenant).unwrap(), &SessionId::new(session).unwrap())
        };
        assert_eq!(act("local", "s"), act("local", "s"));
        assert_ne!(act("local", "s"), act("local", "t"));
        assert_ne!(act("local", "s"), act("locals", "s"));
        assert_ne!(act("ab", "c"), act("a", "bc"));
    }
}
