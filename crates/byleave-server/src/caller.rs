//! The caller of a request: who they are, what they may do, and the tenancy they are in.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use byleave::core::entry::CallHeader;
use byleave::core::id::{AgentId, SessionId};
use byleave::core::question_view::QuestionView;

use crate::principal::{AccessScope, Principal};
use crate::problem::{Problem, ProblemKind};
use crate::state::App;
use crate::tenant::{SESSIONS, Tenant};

/// Who makes a request. Only the door makes one, for a token that counts.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Arc<Principal>,
    pub(crate) tenancy: Arc<Tenant>,
}

impl Caller {
    /// Refuses who has none of these scopes.
    pub(crate) fn may(&self, scopes: &[AccessScope]) -> Result<(), Problem> {
        if scopes.iter().any(|scope| self.has(*scope)) {
            return Ok(());
        }
        let words: Vec<&str> = scopes.iter().map(|scope| scope.word()).collect();
        Err(Problem::new(ProblemKind::Forbidden, format!("this needs the scope {}", words.join(" or "))))
    }

    pub(crate) fn has(&self, scope: AccessScope) -> bool {
        self.principal.scopes.contains(&scope)
    }

    pub(crate) fn name(&self) -> &str {
        self.principal.name.as_str()
    }

    /// The name under which calls are made.
    pub(crate) fn agent(&self) -> Result<AgentId, Problem> {
        AgentId::new(self.name()).map_err(|bad| Problem::fault("the name cannot be used", &bad))
    }

    /// A session of this caller's own: what was left to one principal in a session is not left to another.
    pub(crate) fn session(&self, name: &str) -> Result<SessionId, Problem> {
        SessionId::new(format!("{SESSIONS}{}/{name}", self.name()))
            .map_err(|bad| Problem::new(ProblemKind::Unusable, bad.to_string()))
    }

    /// Whether a call is of this tenant and came in here.
    pub(crate) fn is_ours(&self, heading: &CallHeader) -> bool {
        self.tenancy.took_in(&heading.tenant, &heading.session, &heading.cwd)
    }

    /// Whether the call of a question came in here, so that it is for us to drive on.
    pub(crate) fn is_driven_here(&self, sheet: &QuestionView) -> bool {
        self.tenancy.took_in(self.tenancy.id(), &sheet.session, &sheet.cwd)
    }

    /// Whether a call is the caller's own.
    pub(crate) fn owns(&self, heading: &CallHeader) -> bool {
        let mine = format!("{SESSIONS}{}/", self.name());
        self.is_ours(heading)
            && heading.agent.as_str() == self.name()
            && heading.session.as_str().starts_with(&mine)
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Problem> {
        // Without the door there is nobody.
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::no_token)
    }
}
