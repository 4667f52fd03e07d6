//! Challengers, which make the case against a call (R9).

use std::sync::Arc;

use byleave_core::challenge::Challenge;
use byleave_core::effect::Plan;
use byleave_core::id::CallId;
use serde_json::Value;

use crate::boxed::BoxFuture;

/// A challenger of calls.
pub trait Challenger: Send + Sync + 'static {
    /// Makes the case against a call. An empty challenge is refused as invalid.
    fn challenge<'a>(
        &'a self,
        subject: ChallengeSubject<'a>,
    ) -> BoxFuture<'a, Result<Challenge, ChallengeError>>;
}

impl<C: Challenger + ?Sized> Challenger for Arc<C> {
    fn challenge<'a>(
        &'a self,
        subject: ChallengeSubject<'a>,
    ) -> BoxFuture<'a, Result<Challenge, ChallengeError>> {
        (**self).challenge(subject)
    }
}

/// The call to challenge.
#[derive(Clone, Copy, Debug)]
pub struct ChallengeSubject<'a> {
    /// The call.
    pub call: CallId,
    /// The tool's own name.
    pub tool: &'a str,
    /// The arguments.
    pub arguments: &'a Value,
    /// The model's stated reason.
    pub reason: Option<&'a str>,
    /// The predicted effects.
    pub plan: &'a Plan,
}

/// The error of a challenger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChallengeError(pub String);
