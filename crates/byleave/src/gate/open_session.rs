//! Opening sessions: who is whose sub-agent, said once, by who starts it.
//!
//! An opening is an act in the book. It is never made from what a call carries, and never changed afterwards.

use byleave_core::admin_action::AdminActionKind;
use byleave_core::decision::Verdict;
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::{SessionId, TenantId};
use byleave_core::manifest::{Manifest, PermissionClass};
use byleave_core::pattern::PatternError;
use byleave_core::policy::PolicyRequest;
use byleave_core::session::{DEPTH_MAX, SessionNode, act_of};

use super::Gate;
use crate::ledger::LedgerError;

/// Why a session was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenSessionError {
    /// Its parent is not there.
    #[error("cannot open session `{session}`: its parent `{parent}` was never opened; open that first")]
    UnknownParent {
        /// The session.
        session: SessionId,
        /// The parent.
        parent: SessionId,
    },
    /// It would be above itself.
    #[error("cannot open session `{0}` as a sub-agent of itself; name the session that starts it")]
    OwnParent(SessionId),
    /// It was opened before, and otherwise.
    #[error("session `{session}` was opened before {before}, and that never changes; choose another name")]
    OpenedOtherwise {
        /// The session.
        session: SessionId,
        /// How it was opened, in words.
        before: String,
    },
    /// There are too many above it.
    #[error("cannot open session `{0}`: there are {DEPTH_MAX} above it already; let one further up start it")]
    TooDeep(SessionId),
    /// The policy does not let this agent be used.
    #[error("cannot open session `{session}`: {why}")]
    Denied {
        /// The session.
        session: SessionId,
        /// Which rule says so, in words.
        why: String,
    },
    /// The ceiling cannot be used.
    #[error(transparent)]
    Ceiling(#[from] PatternError),
    /// The ledger broke.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Gate {
    /// Gives a session its place in the tree, before its first call; the same again is no news (P8).
    ///
    /// Whoever works in it is judged as itself and as everyone above it, and never in a looser mode than theirs. The
    /// place is fixed from then on. A session that nobody opened stands alone, and nobody can be beneath it.
    pub async fn open_session(
        &self,
        tenant: &TenantId,
        by: &str,
        opening: SessionNode,
    ) -> Result<(), OpenSessionError> {
        opening.ceiling.check()?;
        if opening.parent.as_ref() == Some(&opening.session) {
            return Err(OpenSessionError::OwnParent(opening.session));
        }
        if self.is_open(tenant, &opening).await? {
            return Ok(());
        }
        let above = match &opening.parent {
            Some(parent) => self.parts.ledger.lineage(tenant, parent).await?,
            None => Vec::new(),
        };
        if let (Some(parent), true) = (&opening.parent, above.is_empty()) {
            let (session, parent) = (opening.session.clone(), parent.clone());
            return Err(OpenSessionError::UnknownParent { session, parent });
        }
        if above.len() >= DEPTH_MAX {
            return Err(OpenSessionError::TooDeep(opening.session));
        }
        self.may_be_used(&opening, &above)?;

        let id = act_of(tenant, &opening.session);
        match self.act(id, tenant, by, AdminActionKind::Open(opening.clone())).await {
            Ok(()) => Ok(()),
            // Someone else may have been quicker, with the same in mind.
            Err(fault) => match self.is_open(tenant, &opening).await? {
                true => Ok(()),
                false => Err(fault.into()),
            },
        }
    }

    /// The session as it was opened, and those above it, up to the top; empty where nobody opened it.
    pub async fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> Result<Vec<SessionNode>, LedgerError> {
        self.parts.ledger.lineage(tenant, session).await
    }

    /// Whether it was opened just so; an error where it was opened otherwise.
    async fn is_open(&self, tenant: &TenantId, opening: &SessionNode) -> Result<bool, OpenSessionError> {
        let lineage = self.parts.ledger.lineage(tenant, &opening.session).await?;
        let Some(found) = lineage.into_iter().next() else { return Ok(false) };
        if found == *opening {
            return Ok(true);
        }
        let whose = match &found.parent {
            Some(parent) => format!("as a sub-agent of `{parent}`"),
            None => "at the top of a tree".to_owned(),
        };
        let before = format!("{whose}, for agent `{}` in mode {}", found.agent, found.ceiling.mode.word());
        Err(OpenSessionError::OpenedOtherwise { session: found.session, before })
    }

    /// Refuses an agent that a rule denies the use of, by whichever way it is started.
    fn may_be_used(&self, opening: &SessionNode, above: &[SessionNode]) -> Result<(), OpenSessionError> {
        let tool = format!("agent:{}", opening.agent);
        let mut manifest = Manifest::new(tool.clone(), "", serde_json::Value::Null);
        // To start someone changes nothing by itself: what they do is judged when they do it.
        manifest.permission_class = PermissionClass::Readonly;
        let plan = Plan { effects: vec![Effect::Invoke { tool }], reads_only: true, ..Plan::default() };
        let starter = above.first().unwrap_or(opening);
        let request = PolicyRequest {
            now: self.parts.now(),
            ..PolicyRequest::plain(&manifest, &plan, &starter.session, &starter.agent)
        };
        let ruling = self.parts.policy.load().rule_in(&request, above);
        if ruling.verdict < Verdict::Deny {
            return Ok(());
        }
        let decisive = ruling.decisive();
        let rule = decisive.and_then(|reason| reason.rule.as_deref()).unwrap_or("none");
        let why = decisive.map_or("it is denied", |reason| reason.why.as_str());
        let why = format!("agent `{}` may not be used: {why} (rule `{rule}`)", opening.agent);
        Err(OpenSessionError::Denied { session: opening.session.clone(), why })
    }
}
