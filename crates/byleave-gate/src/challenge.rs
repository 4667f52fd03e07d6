//! Challengers, which make the case against a call (R9).

use std::sync::Arc;

use byleave_core::challenge::Challenge;
use byleave_core::effect::Plan;
use byleave_core::id::CallId;
use serde_json::Value;

use crate::boxed::BoxFuture;

/// A challenger of calls.
pub trait Challenger: Send + Sync + 'static {
    /// Returns whether it can make the case against this call. If it cannot, the person who answers makes it.
    fn is_available(&self, _call: CallId) -> bool {
        true
    }

    /// Makes the case against a call. An empty challenge is refused as invalid.
    fn challenge<'a>(
        &'a self,
        subject: ChallengeSubject<'a>,
    ) -> BoxFuture<'a, Result<Challenge, ChallengeError>>;
}

impl<C: Challenger + ?Sized> Challenger for Arc<C> {
    fn is_available(&self, call: CallId) -> bool {
        (**self).is_available(call)
    }

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

/// Returns the request to a model for the case against a call. [`parse_challenge`] reads its answer.
pub fn challenge_prompt(subject: &ChallengeSubject<'_>) -> String {
    let effects: Vec<String> = subject.plan.effects.iter().map(|effect| format!("- {effect}")).collect();
    let reason = subject.reason.unwrap_or("none was given");
    format!(
        "Make the case against the following tool call before it runs. Do not call any tool.\n\n\
         Tool: {}\nArguments: {}\nStated reason: {reason}\nPredicted effects:\n{}\n\n\
         Answer with one JSON object and nothing else:\n\
         {{\"assumptions\": [\"what must be true for this call to be right\"], \
         \"failure_scenarios\": [\"how it could fail or do harm\"], \
         \"verdict\": \"proceed\" or \"stop\", \"reason\": \"why\"}}",
        subject.tool,
        subject.arguments,
        effects.join("\n"),
    )
}

/// Reads the case against a call from the answer of a model: the only JSON object in its text.
pub fn parse_challenge(text: &str) -> Result<Challenge, ChallengeError> {
    let object = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to));
    let object =
        object.ok_or_else(|| ChallengeError("the model did not answer with a JSON object".into()))?;
    serde_json::from_str(object)
        .map_err(|error| ChallengeError(format!("the model's answer is not a challenge: {error}")))
}

/// The error of a challenger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChallengeError(pub String);
