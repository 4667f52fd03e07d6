//! The model behind an MCP client makes the case against its own calls (R9), by sampling.

#![expect(deprecated, reason = "sampling is, and installed clients use it")]

use byleave_gate::boxed::BoxFuture;
use byleave_gate::challenge::{
    ChallengeError, ChallengeSubject, Challenger, challenge_prompt, parse_challenge,
};
use byleave_gate::core::challenge::Challenge;
use byleave_gate::core::id::CallId;
use rmcp::model::{CreateMessageRequestParams, SamplingMessage};

use crate::active_callers::ActiveCallers;

/// The maximum length of the answer, in tokens.
const MAX_TOKENS: u32 = 1_000;

/// A challenger that asks the client of a call, if the client offers its model.
#[derive(Clone, Debug)]
pub struct SamplingChallenger {
    callers: ActiveCallers,
}

impl SamplingChallenger {
    /// Creates a challenger that finds clients here.
    pub const fn new(callers: ActiveCallers) -> Self {
        Self { callers }
    }
}

impl Challenger for SamplingChallenger {
    fn is_available(&self, call: CallId) -> bool {
        let capabilities = self.callers.caller(call).and_then(|caller| caller.capabilities.clone());
        capabilities.is_some_and(|capabilities| capabilities.sampling.is_some())
    }

    fn challenge<'a>(
        &'a self,
        subject: ChallengeSubject<'a>,
    ) -> BoxFuture<'a, Result<Challenge, ChallengeError>> {
        Box::pin(async move {
            let gone = || ChallengeError("the client of the call is gone".into());
            let caller = self.callers.caller(subject.call).ok_or_else(gone)?;
            let messages = vec![SamplingMessage::user_text(challenge_prompt(&subject))];
            let params = CreateMessageRequestParams::new(messages, MAX_TOKENS);
            let said = caller.peer.create_message(params).await;
            let said =
                said.map_err(|error| ChallengeError(format!("the client's model did not answer: {error}")))?;
            let text = said
                .message
                .content
                .iter()
                .filter_map(|content| content.as_text())
                .map(|text| text.text.as_str());
            parse_challenge(&text.collect::<Vec<_>>().join("\n"))
        })
    }
}
