//! Challenges: the agent's case against its own call (R9).

use serde::{Deserialize, Serialize};

use crate::digest::ContentRef;

/// How a challenge came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChallengeVerdict {
    /// The call stands.
    Proceed,
    /// The call should not be made.
    Stop,
}

/// The agent's case against its own call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Challenge {
    /// What the call takes for granted.
    pub assumptions: Vec<String>,
    /// How it could go wrong.
    pub failure_scenarios: Vec<String>,
    /// How it came out.
    pub verdict: ChallengeVerdict,
    /// Why it came out so.
    pub why: String,
}

impl Challenge {
    /// Whether it says anything: a challenge without a scenario or a reason is none.
    pub fn makes_sense(&self) -> bool {
        let said = |texts: &[String]| texts.iter().any(|text| !text.trim().is_empty());
        said(&self.assumptions) && said(&self.failure_scenarios) && !self.why.trim().is_empty()
    }
}

/// What the record keeps of a challenge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChallengeSummary {
    /// The whole of it, kept under the record's key.
    pub challenge: ContentRef,
    /// How it came out.
    pub verdict: ChallengeVerdict,
}

/// When a challenge is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChallengeTiming {
    /// Before the question, so that the person reads it. The default.
    #[default]
    BeforeQuestion,
    /// After the answer.
    AfterAnswer,
}
