//! Challengers: who makes the case against a call (R9).

use byleave_core::challenge::Challenge;
use byleave_core::effect::Plan;
use byleave_core::id::CallId;
use serde_json::Value;

use crate::boxed::BoxFuture;

/// Makes the case against a call.
pub trait Challenger: Send + Sync + 'static {
    /// The case. One that says nothing is refused as nonsense.
    fn challenge<'a>(
        &'a self,
        subject: ChallengeSubject<'a>,
    ) -> BoxFuture<'a, Result<Challenge, ChallengeError>>;
}

/// The call to make a case against.
#[derive(Clone, Copy, Debug)]
pub struct ChallengeSubject<'a> {
    /// The call.
    pub call: CallId,
    /// The tool's own name.
    pub tool: &'a str,
    /// The arguments.
    pub arguments: &'a Value,
    /// The model's own words on why.
    pub reason: Option<&'a str>,
    /// What it would do.
    pub plan: &'a Plan,
}

/// A challenger could not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChallengeError(pub String);
