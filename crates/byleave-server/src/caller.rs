//! The caller of a request: the principal, its permissions and its tenant.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use byleave_gate::core::entry::CallHeader;
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::core::question_view::QuestionView;

use crate::principal::{AccessScope, Principal};
use crate::problem::{Problem, ProblemKind};
use crate::state::App;
use crate::tenant::{SESSION_PREFIX, Tenant};

/// The caller of a request. Only the authentication creates one, for a valid token.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Arc<Principal>,
    pub(crate) tenant: Arc<Tenant>,
}

impl Caller {
    /// Rejects a caller that has none of these scopes.
    pub(crate) fn require_scope(&self, scopes: &[AccessScope]) -> Result<(), Problem> {
        if scopes.iter().any(|scope| self.has(*scope)) {
            return Ok(());
        }
        let words: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        Err(Problem::new(
            ProblemKind::Forbidden,
            format!("this request needs the scope {}", words.join(" or ")),
        ))
    }

    pub(crate) fn has(&self, scope: AccessScope) -> bool {
        self.principal.scopes.contains(&scope)
    }

    pub(crate) fn name(&self) -> &str {
        self.principal.name.as_str()
    }

    /// Returns the agent name for calls.
    pub(crate) fn agent(&self) -> Result<AgentId, Problem> {
        AgentId::new(self.name()).map_err(|bad| {
            Problem::internal_error("the name of the principal is not a valid agent name", &bad)
        })
    }

    /// Returns a session of this caller's own. A standing approval for one principal's session is thus not valid for
    /// another's.
    pub(crate) fn session(&self, name: &str) -> Result<SessionId, Problem> {
        SessionId::new(format!("{SESSION_PREFIX}{}/{name}", self.name()))
            .map_err(|bad| Problem::new(ProblemKind::Unusable, bad.to_string()))
    }

    /// Checks whether a call belongs to this tenant and was accepted here.
    pub(crate) fn is_local_call(&self, heading: &CallHeader) -> bool {
        self.tenant.accepted(&heading.tenant, &heading.session, &heading.cwd)
    }

    /// Checks whether the call of a question was accepted here, so that this server must continue it.
    pub(crate) fn is_driven_here(&self, sheet: &QuestionView) -> bool {
        self.tenant.accepted(self.tenant.id(), &sheet.session, &sheet.cwd)
    }

    /// Checks whether the caller made a call.
    pub(crate) fn owns(&self, heading: &CallHeader) -> bool {
        let mine = format!("{SESSION_PREFIX}{}/", self.name());
        self.is_local_call(heading)
            && heading.agent.as_str() == self.name()
            && heading.session.as_str().starts_with(&mine)
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Problem> {
        // Without the authentication layer there is no caller.
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::no_token)
    }
}
