//! Outcomes: the final result of a call. There are seven, and no error besides them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decision::PolicyDecision;
use crate::digest::ContentRef;
use crate::refusal::Refusal;

/// The output of a tool (T4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Output {
    /// The text for the model.
    pub text: String,
    /// The tool reports a failure.
    pub is_error: bool,
    /// The error, separate from the output before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Structured data for later tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// A part of the output was cut off.
    pub truncated: bool,
    /// The duration of the execution.
    pub execution_time_ms: u64,
    /// The data needed to undo the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<Value>,
    /// The end of the run was not reported, so its effects are not known. A tool sets this for its gate. It is stored as
    /// [`ExecutionStatus::Unknown`].
    #[serde(skip)]
    pub outcome_unknown: bool,
}

impl Output {
    /// Returns a success with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Returns a failure that the model can read.
    pub fn failure(error: impl Into<String>) -> Self {
        Self { is_error: true, error: Some(error.into()), ..Self::default() }
    }

    /// Returns the output of a run whose end was not reported.
    pub fn unknown_outcome(why: impl Into<String>) -> Self {
        Self { outcome_unknown: true, ..Self::failure(why) }
    }

    /// Adds structured data.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

/// The way in which an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExecutionStatus {
    /// The tool reports success.
    Succeeded,
    /// The tool reports a failure.
    Failed,
    /// The tool panicked.
    Panicked,
    /// It exceeded its time limit and was stopped.
    TimedOut,
    /// It was cancelled and was stopped.
    Cancelled,
    /// The end of the run was not reported.
    Unknown,
}

/// The end of an execution, as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionEnd {
    /// The status in a word.
    pub status: ExecutionStatus,
    /// The complete [`Output`], stored under the record's key.
    pub output: ContentRef,
    /// The duration of the execution.
    pub duration_ms: u64,
    /// A part of the output was cut off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The call can be undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undoable: bool,
    /// The run reached a host, or used a tool of an MCP server. So its output may hold text that strangers wrote.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_foreign: bool,
    /// The decision on what it changed, with the rule that covered each change. Absent if it changed nothing, or if a person had approved
    /// exactly these changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Box<PolicyDecision>>,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The call ran, and the tool reports success.
    Completed {
        /// The output that is released to the model.
        output: ContentRef,
    },
    /// The call ran, and the tool reports a failure.
    Failed {
        /// The output that is released to the model.
        output: ContentRef,
    },
    /// The call ran, and its output is not released.
    Withheld(Refusal),
    /// The call did not run.
    Refused(Refusal),
    /// The call did not run. The plan says what it would have done.
    DryRun {
        /// The plan.
        plan: ContentRef,
    },
    /// The call may have run. Nobody can tell.
    Unknown(Refusal),
    /// The call did not run. A person gave the result in the place of the tool.
    Answered {
        /// The text that is released to the model.
        output: ContentRef,
    },
}

impl Outcome {
    /// Returns the outcome in a word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Withheld(_) => "withheld",
            Self::Refused(_) => "refused",
            Self::DryRun { .. } => "dry-run",
            Self::Unknown(_) => "unknown",
            Self::Answered { .. } => "answered",
        }
    }

    /// Returns the refusal, if there is no result.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Withheld(refusal) | Self::Refused(refusal) | Self::Unknown(refusal) => Some(refusal),
            Self::Completed { .. } | Self::Failed { .. } | Self::DryRun { .. } | Self::Answered { .. } => {
                None
            }
        }
    }
}
