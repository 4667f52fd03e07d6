//! Reviews: checks of content, before or after the execution, that may change, hold or refuse it.

use serde::{Deserialize, Serialize};

use crate::digest::ContentRef;

/// The outcome of one reviewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReviewOutcome {
    /// The reviewer does not object.
    Pass,
    /// The reviewer changed the content.
    Changed,
    /// The reviewer asks for a person to look.
    Held,
}

/// The note of one reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewNote {
    /// The name of the reviewer.
    pub reviewer: String,
    /// The outcome.
    pub outcome: ReviewOutcome,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The note was made before, on the same digest, and read back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

/// The combined result of all reviewers of an input or an output. A refusal is not among these, because it ends the stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// The note of each reviewer, in order. Reviewers without a remark are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<ReviewNote>,
    /// The content that replaces the reviewed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<ContentRef>,
}

impl Review {
    /// Returns whether a reviewer asks for a person to look.
    pub fn is_held(&self) -> bool {
        self.notes.iter().any(|note| note.outcome == ReviewOutcome::Held)
    }
}
