//! Opens sessions of agents and sub-agents. The starter of a session states its parent once.
//!
//! Opening a session is an admin action in the audit log. It is never derived from the contents of a call, and never changed later.

use byleave_core::admin_action::AdminActionKind;
use byleave_core::decision::Verdict;
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::{SessionId, TenantId};
use byleave_core::manifest::{Manifest, PermissionClass};
use byleave_core::pattern::PatternError;
use byleave_core::policy::PolicyRequest;
use byleave_core::session::{DEPTH_MAX, SessionNode, opening_action_id};

use super::Gate;
use crate::ledger::LedgerError;

/// The reason why a session was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenSessionError {
    /// The parent was never opened.
    #[error("cannot open session `{session}`: its parent `{parent}` was never opened; open the parent first")]
    UnknownParent {
        /// The session.
        session: SessionId,
        /// The parent.
        parent: SessionId,
    },
    /// The session would be its own ancestor.
    #[error("cannot open session `{0}` as a sub-agent of itself; name the session that starts it")]
    CircularParent(SessionId),
    /// The session was opened before with different properties.
    #[error("session `{session}` was already opened {existing}, and this cannot change; choose another name")]
    OpenedDifferently {
        /// The session.
        session: SessionId,
        /// How the session was opened, in words.
        existing: String,
    },
    /// The session has too many ancestors.
    #[error(
        "cannot open session `{0}`: its parent already has the maximum depth of {DEPTH_MAX} sessions; start it from a session further up"
    )]
    TooDeep(SessionId),
    /// The policy denies the use of this agent.
    #[error("cannot open session `{session}`: {reason}")]
    Denied {
        /// The session.
        session: SessionId,
        /// The rule that denies it, in words.
        reason: String,
    },
    /// The ceiling is invalid.
    #[error(transparent)]
    Ceiling(#[from] PatternError),
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Gate {
    /// Opens a session at its place in the tree, before its first call. Opening it again with the same properties has no effect (P8).
    ///
    /// Calls of the session are evaluated for its agent and for every ancestor, and never in a looser mode than theirs. The place is
    /// fixed from then on. A session that was never opened has no ancestors and cannot have sub-agents.
    pub async fn open_session(
        &self,
        tenant: &TenantId,
        by: &str,
        opening: SessionNode,
    ) -> Result<(), OpenSessionError> {
        opening.ceiling.check()?;
        if opening.parent.as_ref() == Some(&opening.session) {
            return Err(OpenSessionError::CircularParent(opening.session));
        }
        if self.is_already_open(tenant, &opening).await? {
            return Ok(());
        }
        let above = match &opening.parent {
            Some(parent) => self.inner.ledger.lineage(tenant, parent).await?,
            None => Vec::new(),
        };
        if let (Some(parent), true) = (&opening.parent, above.is_empty()) {
            let (session, parent) = (opening.session.clone(), parent.clone());
            return Err(OpenSessionError::UnknownParent { session, parent });
        }
        if above.len() >= DEPTH_MAX {
            return Err(OpenSessionError::TooDeep(opening.session));
        }
        self.check_agent_allowed(&opening, &above)?;

        let id = opening_action_id(tenant, &opening.session);
        match self.record_action(id, tenant, by, AdminActionKind::OpenSession(opening.clone())).await {
            Ok(()) => Ok(()),
            // Another process may have opened the same session first.
            Err(fault) => match self.is_already_open(tenant, &opening).await? {
                true => Ok(()),
                false => Err(fault.into()),
            },
        }
    }

    /// Returns the session as it was opened and its ancestors, up to the root. The list is empty if the session was never opened.
    pub async fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> Result<Vec<SessionNode>, LedgerError> {
        self.inner.ledger.lineage(tenant, session).await
    }

    /// Checks whether the session is already open with the same properties. Different properties are an error.
    async fn is_already_open(
        &self,
        tenant: &TenantId,
        opening: &SessionNode,
    ) -> Result<bool, OpenSessionError> {
        let lineage = self.inner.ledger.lineage(tenant, &opening.session).await?;
        let Some(found) = lineage.into_iter().next() else { return Ok(false) };
        if found == *opening {
            return Ok(true);
        }
        let whose = match &found.parent {
            Some(parent) => format!("as a sub-agent of `{parent}`"),
            None => "as a top-level session".to_owned(),
        };
        let before = format!("{whose}, for agent `{}` in mode {}", found.agent, found.ceiling.mode.as_str());
        Err(OpenSessionError::OpenedDifferently { session: found.session, existing: before })
    }

    /// Refuses an agent whose use a rule denies, however it is started.
    fn check_agent_allowed(
        &self,
        opening: &SessionNode,
        above: &[SessionNode],
    ) -> Result<(), OpenSessionError> {
        let tool = format!("agent:{}", opening.agent);
        let mut manifest = Manifest::new(tool.clone(), "", serde_json::Value::Null);
        // Starting an agent changes nothing by itself. The agent's calls are evaluated when it makes them.
        manifest.permission_class = PermissionClass::Readonly;
        let plan = Plan { effects: vec![Effect::Invoke { tool }], read_only: true, ..Plan::default() };
        let starter = above.first().unwrap_or(opening);
        let request = PolicyRequest {
            now: self.inner.now(),
            ..PolicyRequest::new(&manifest, &plan, &starter.session, &starter.agent)
        };
        let ruling = self.inner.policy.load().evaluate_in_session(&request, above);
        if ruling.verdict < Verdict::Deny {
            return Ok(());
        }
        let decisive = ruling.decisive_reason();
        let rule = decisive.and_then(|reason| reason.rule.as_deref()).unwrap_or("none");
        let why = decisive.map_or("the policy denies it", |reason| reason.message.as_str());
        let why = format!("agent `{}` may not be used: {why} (rule `{rule}`)", opening.agent);
        Err(OpenSessionError::Denied { session: opening.session.clone(), reason: why })
    }
}
