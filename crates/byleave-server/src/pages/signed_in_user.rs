//! The signed-in user, as the pages see them.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::error_page::ErrorPage;
use crate::browser_sessions::BrowserSession;
use crate::caller::Caller;
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;

/// The user of a page. Only the authentication creates one.
#[derive(Clone)]
pub(super) struct SignedInUser {
    pub(super) caller: Caller,
    pub(super) session: Arc<BrowserSession>,
    /// The value of the cookie.
    pub(super) secret: String,
}

impl SignedInUser {
    pub(super) fn require_scope(&self, scopes: &[AccessScope]) -> Result<(), ErrorPage> {
        Ok(self.caller.require_scope(scopes)?)
    }

    pub(super) fn has(&self, scope: AccessScope) -> bool {
        self.caller.has(scope)
    }
}

impl FromRequestParts<App> for SignedInUser {
    type Rejection = ErrorPage;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ErrorPage> {
        // Without the authentication layer there is no user.
        let unknown = || ErrorPage(Problem::new(ProblemKind::Unauthenticated, "you are not signed in"));
        parts.extensions.get::<Self>().cloned().ok_or_else(unknown)
    }
}
