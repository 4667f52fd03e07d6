//! Outcomes: what came of a call. There are six, and no error beside them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::ContentRef;
use crate::refusal::Refusal;

/// What a tool returns (T4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Output {
    /// For the model to read.
    pub text: String,
    /// The tool says that it failed.
    pub is_error: bool,
    /// What failed, beside what was put out until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// For later tools to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Something was cut away.
    pub truncated: bool,
    /// How long it took.
    pub execution_time_ms: u64,
    /// How to take it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<Value>,
    /// Whoever ran it did not say how it ended: nobody knows what came of it. Said by a tool to its gate, and kept as the end's status.
    #[serde(skip)]
    pub lost: bool,
}

impl Output {
    /// A success with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A failure that the model can read.
    pub fn failure(error: impl Into<String>) -> Self {
        Self { is_error: true, error: Some(error.into()), ..Self::default() }
    }

    /// Nobody knows what came of it.
    pub fn lost(why: impl Into<String>) -> Self {
        Self { lost: true, ..Self::failure(why) }
    }

    /// The same with structured data.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExecutionStatus {
    /// The tool says that it worked.
    Done,
    /// The tool says that it failed.
    Failed,
    /// It panicked.
    Panicked,
    /// It took too long and was stopped.
    TimedOut,
    /// It was cancelled and was stopped.
    Stopped,
    /// Whoever ran it did not say how it ended.
    Lost,
}

/// How an execution ended, on the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionEnd {
    /// In a word.
    pub status: ExecutionStatus,
    /// The whole [`Output`], kept under the record's key.
    pub output: ContentRef,
    /// How long it took.
    pub ran_ms: u64,
    /// Something was cut away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// It can be taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undoable: bool,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Ran and says that it worked.
    Completed {
        /// What is released to the model.
        output: ContentRef,
    },
    /// Ran and says that it did not work.
    Failed {
        /// What is released to the model.
        output: ContentRef,
    },
    /// Ran; its output is not released.
    Withheld(Refusal),
    /// Did not run.
    Refused(Refusal),
    /// Did not run; this is what would have.
    Rehearsed {
        /// The plan.
        plan: ContentRef,
    },
    /// May have run; nobody can say.
    Unknown(Refusal),
}

impl Outcome {
    /// The outcome in a word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Withheld(_) => "withheld",
            Self::Refused(_) => "refused",
            Self::Rehearsed { .. } => "rehearsed",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Why there is no result, where there is none.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Withheld(refusal) | Self::Refused(refusal) | Self::Unknown(refusal) => Some(refusal),
            Self::Completed { .. } | Self::Failed { .. } | Self::Rehearsed { .. } => None,
        }
    }
}
