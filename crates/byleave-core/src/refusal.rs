//! Refusals: the reason why something did not happen, with a stable code and a page that says what to do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)*) => {
        /// A stable code; `docs/refusals/CODE.md` says what it means and what to do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $variant,)*
        }
        impl Code {
            /// Every code there is.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
            /// The code as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
            /// One line on what it means.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+)),* }
            }
        }
    };
}

codes! {
    // Before the evaluation.
    /// The call id was used before for another call.
    CallReused = "call-reused",
    /// No tool has that name or alias.
    ToolUnknown = "tool-unknown",
    /// The arguments do not fit the tool's schema.
    ArgumentsInvalid = "arguments-invalid",
    /// The arguments are larger or deeper than the limit.
    ArgumentsTooLarge = "arguments-too-large",
    /// The effects of the call could not be predicted.
    PlanFailed = "plan-failed",
    // Policy.
    /// A deny rule covers one of the effects.
    Denied = "denied",
    /// A path is outside the workspace, no rule allows it, and the mode does not ask about it.
    OutsideWorkspace = "outside-workspace",
    /// The policy could not evaluate the call.
    PolicyFailed = "policy-failed",
    /// The tool's needs-approval predicate failed.
    PredicateFailed = "predicate-failed",
    // Input review.
    /// A reviewer refused the arguments.
    ReviewDenied = "review-denied",
    /// A reviewer of the arguments failed.
    ReviewFailed = "review-failed",
    /// The arguments were changed more often than the limit allows.
    TooManyDrafts = "too-many-drafts",
    // Challenge.
    /// The call needs a challenge, and nobody is there to make it.
    NoChallenger = "no-challenger",
    /// The challenge ended with the verdict to stop.
    ChallengeStopped = "challenge-stopped",
    /// The challenger failed.
    ChallengeFailed = "challenge-failed",
    // Questions.
    /// The call cannot run here, even with an approval, so nobody is asked.
    CannotRun = "cannot-run",
    /// A person must be asked, but nobody is available.
    NoApprover = "no-approver",
    /// The question cannot be shown in full, so it cannot be approved.
    NotShownInFull = "not-shown-in-full",
    /// The session opened too many questions in a minute.
    TooManyQuestions = "too-many-questions",
    /// The approver failed.
    ApproverFailed = "approver-failed",
    /// The person said no.
    Declined = "declined",
    /// Nobody answered in time.
    Unanswered = "unanswered",
    /// The person aborted this call and the other calls of its turn.
    Aborted = "aborted",
    /// The call was cancelled.
    Cancelled = "cancelled",
    // Checkpoints.
    /// The call needs a checkpoint, and nobody is there to release it.
    NoCheckpoint = "no-checkpoint",
    /// The checkpoint handler did not release the call.
    CheckpointRefused = "checkpoint-refused",
    /// The checkpoint handler failed.
    CheckpointFailed = "checkpoint-failed",
    // Between the answer and the execution.
    /// The stored arguments are not the ones that were approved.
    ArgumentsChanged = "arguments-changed",
    /// The tool is not the one that was approved.
    ManifestChanged = "manifest-changed",
    /// The working directory is not the one that was approved.
    DirectoryChanged = "directory-changed",
    /// A program, script or edited file is not the one that was approved.
    ContentChanged = "content-changed",
    /// The policy has become stricter since the call was permitted.
    PolicyStricter = "policy-stricter",
    /// The approval is too old.
    GrantExpired = "grant-expired",
    /// The approval was already used.
    GrantUsed = "grant-used",
    /// The standing approval has no uses left, or was revoked.
    ApprovalUsedUp = "approval-used-up",
    /// The answer belongs to another question.
    AnswerMismatch = "answer-mismatch",
    /// All calls are halted.
    Halted = "halted",
    // Output review.
    /// A reviewer withheld the result.
    OutputDenied = "output-denied",
    /// A reviewer of the result failed.
    OutputReviewFailed = "output-review-failed",
    /// A person withheld the result.
    OutputDeclined = "output-declined",
    /// A held result was not released in time.
    OutputUnanswered = "output-unanswered",
    // The record.
    /// The request could not be recorded, so it was not carried out.
    NotRecorded = "not-recorded",
    /// The record is damaged.
    RecordBroken = "record-broken",
    /// The record has a version that this program does not know.
    RecordVersionUnknown = "record-version-unknown",
    /// The content of the call was forgotten.
    Forgotten = "forgotten",
    /// The call was interrupted while it ran and may or may not have taken effect.
    Interrupted = "interrupted",
    /// The call ran, but its end could not be recorded.
    EndNotRecorded = "end-not-recorded",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for a text that is not a refusal code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a refusal code")]
pub struct UnknownCodeError(String);

impl FromStr for Code {
    type Err = UnknownCodeError;
    fn from_str(text: &str) -> Result<Self, UnknownCodeError> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str() == text)
            .ok_or_else(|| UnknownCodeError(text.into()))
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How a planner, predicate, reviewer, challenger, approver or checkpoint handler failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureCause {
    /// It returned an error.
    Error,
    /// It panicked.
    Panic,
    /// It took longer than allowed.
    Timeout,
    /// Its response cannot be used.
    InvalidResponse,
}

impl FailureCause {
    /// Returns the name of the cause.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::InvalidResponse => "invalid-response",
        }
    }
}

/// The reason why something did not happen, or why its result is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// The code, for programs.
    pub code: Code,
    /// How a participant failed, if the code says that one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCause>,
    /// The explanation, for people.
    pub message: String,
}

impl Refusal {
    /// The maximum length of an explanation on a record, in characters.
    pub const MAX_MESSAGE_CHARS: usize = 2_000;

    /// Creates a refusal. The explanation is cut to the maximum length.
    pub fn new(code: Code, why: impl Into<String>) -> Self {
        let why: String = why.into();
        let why = match why.char_indices().nth(Self::MAX_MESSAGE_CHARS) {
            None => why,
            Some(_) => why.chars().take(Self::MAX_MESSAGE_CHARS).chain("…".chars()).collect(),
        };
        Self { code, cause: None, message: why }
    }

    /// Adds how the participant failed.
    #[must_use]
    pub const fn with_cause(mut self, cause: FailureCause) -> Self {
        self.cause = Some(cause);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

/// The result of a stage: a value, or a refusal. A stage that failed is a refusal.
pub type StageResult<T> = Result<T, Refusal>;
