//! The visitor: somebody who is signed in, as the pages see them.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::wrong::Wrong;
use crate::app::App;
use crate::caller::Caller;
use crate::principal::Scope;
use crate::problem::{Problem, Trouble};
use crate::visits::Visit;

/// Who looks at a page. Only the door makes one.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) caller: Caller,
    pub(super) visit: Arc<Visit>,
    /// What the cookie says.
    pub(super) secret: String,
}

impl Visitor {
    pub(super) fn may(&self, scopes: &[Scope]) -> Result<(), Wrong> {
        Ok(self.caller.may(scopes)?)
    }

    pub(super) fn has(&self, scope: Scope) -> bool {
        self.caller.has(scope)
    }
}

impl FromRequestParts<App> for Visitor {
    type Rejection = Wrong;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Wrong> {
        // Without the door there is nobody.
        let unknown = || Wrong(Problem::new(Trouble::Unauthenticated, "you are not signed in"));
        parts.extensions.get::<Self>().cloned().ok_or_else(unknown)
    }
}
