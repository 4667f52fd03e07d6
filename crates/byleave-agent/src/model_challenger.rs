//! The model of a conversation makes the case against its own calls (R9).

use std::sync::Arc;

use byleave_gate::boxed::BoxFuture;
use byleave_gate::challenge::{
    ChallengeError, ChallengeSubject, Challenger, challenge_prompt, parse_challenge,
};
use byleave_gate::core::challenge::Challenge;

use crate::model::{ChatMessage, Model, TurnRequest};

/// A challenger that asks a model in a request of its own, without the conversation and without tools.
pub struct ModelChallenger {
    model: Arc<dyn Model>,
}

impl ModelChallenger {
    /// Creates a challenger that asks this model.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self { model }
    }
}

impl Challenger for ModelChallenger {
    fn challenge<'a>(
        &'a self,
        subject: ChallengeSubject<'a>,
    ) -> BoxFuture<'a, Result<Challenge, ChallengeError>> {
        Box::pin(async move {
            let messages = [ChatMessage::User(challenge_prompt(&subject))];
            let turn = TurnRequest { system: "", messages: &messages, tools: &[] };
            let said = self.model.take_turn(turn, &mut |_| {}).await;
            let said = said.map_err(|fault| ChallengeError(fault.to_string()))?;
            parse_challenge(&said.text)
        })
    }
}
