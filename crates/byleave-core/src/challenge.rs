//! Challenges: the agent's case against its own call (R9).

use serde::{Deserialize, Serialize};

use crate::digest::ContentRef;

/// The verdict of a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChallengeVerdict {
    /// The call may proceed.
    Proceed,
    /// The call should not be made.
    Stop,
}

/// The agent's case against its own call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Challenge {
    /// The assumptions of the call.
    pub assumptions: Vec<String>,
    /// The ways in which the call could fail.
    pub failure_scenarios: Vec<String>,
    /// The verdict.
    pub verdict: ChallengeVerdict,
    /// The reason for the verdict.
    pub reason: String,
}

impl Challenge {
    /// Returns whether the challenge is complete: it needs an assumption, a failure scenario and a reason.
    pub fn is_complete(&self) -> bool {
        let said = |texts: &[String]| texts.iter().any(|text| !text.trim().is_empty());
        said(&self.assumptions) && said(&self.failure_scenarios) && !self.reason.trim().is_empty()
    }
}

/// The recorded form of a challenge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChallengeSummary {
    /// The complete challenge, stored under the record's key.
    pub challenge: ContentRef,
    /// The verdict.
    pub verdict: ChallengeVerdict,
}

/// Who makes the case against a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChallengeBy {
    /// The registered challenger, such as the model of the agent.
    Challenger,
    /// The person who answers the question, together with the answer.
    Person,
}

/// The time at which a challenge is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChallengeTiming {
    /// Before the question, so that the person reads it. The default.
    #[default]
    BeforeQuestion,
    /// After the answer.
    AfterAnswer,
}
