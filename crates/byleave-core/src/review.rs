//! Reviews: looks at content, before or after, that may change, hold or refuse it.

use serde::{Deserialize, Serialize};

use crate::digest::ContentRef;

/// What one reviewer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReviewOutcome {
    /// Nothing to object.
    Pass,
    /// Changed it.
    Changed,
    /// Wants a person to look.
    Held,
}

/// One reviewer's part in a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewNote {
    /// Who.
    pub reviewer: String,
    /// What.
    pub said: ReviewOutcome,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// It was said before, on the same digest, and read back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

/// What all reviewers together made of an input or an output. A refusal is not among these: it ends the stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// Each reviewer's part, in order. Those that had nothing to say are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<ReviewNote>,
    /// The content in place of the one reviewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<ContentRef>,
}

impl Review {
    /// Whether some reviewer wants a person to look.
    pub fn holds(&self) -> bool {
        self.notes.iter().any(|note| note.said == ReviewOutcome::Held)
    }
}
