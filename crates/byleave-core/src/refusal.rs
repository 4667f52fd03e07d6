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
    /// The effects of the call could not be worked out.
    PlanFailed = "plan-failed",
    /// Working out the effects of the call panicked.
    PlanPanicked = "plan-panicked",
    /// Working out the effects of the call took too long.
    PlanTimedOut = "plan-timed-out",
    // Policy.
    /// A deny rule covers one of the effects.
    Denied = "denied",
    /// A path lies outside the workspace, no rule allows it, and the mode asks nobody about it.
    OutsideWorkspace = "outside-workspace",
    /// The policy could not judge the call.
    JudgeFailed = "judge-failed",
    /// The tool's needs-approval predicate failed.
    PredicateFailed = "predicate-failed",
    /// The tool's needs-approval predicate panicked.
    PredicatePanicked = "predicate-panicked",
    /// The tool's needs-approval predicate took too long.
    PredicateTimedOut = "predicate-timed-out",
    // Input review.
    /// A reviewer refused the arguments.
    ReviewDenied = "review-denied",
    /// A reviewer of the arguments failed.
    ReviewFailed = "review-failed",
    /// A reviewer of the arguments panicked.
    ReviewPanicked = "review-panicked",
    /// A reviewer of the arguments took too long.
    ReviewTimedOut = "review-timed-out",
    /// A reviewer of the arguments answered something that makes no sense.
    ReviewInvalid = "review-invalid",
    /// The arguments were changed more often than is allowed.
    TooManyDrafts = "too-many-drafts",
    // Challenge.
    /// The tool asks for a challenge and nobody can make one.
    NoChallenger = "no-challenger",
    /// The challenge came out against the call.
    ChallengeStopped = "challenge-stopped",
    /// The challenger failed.
    ChallengeFailed = "challenge-failed",
    /// The challenger panicked.
    ChallengePanicked = "challenge-panicked",
    /// The challenger took too long.
    ChallengeTimedOut = "challenge-timed-out",
    /// The challenger answered something that makes no sense.
    ChallengeInvalid = "challenge-invalid",
    // Questions.
    /// The call cannot run here, whatever a person answers, so nobody is asked.
    CannotRun = "cannot-run",
    /// A person must be asked and nobody is there.
    NoApprover = "no-approver",
    /// The question cannot be shown in full, so it cannot be approved.
    NotShownInFull = "not-shown-in-full",
    /// Too many questions are open.
    TooManyQuestions = "too-many-questions",
    /// The approver failed.
    ApproverFailed = "approver-failed",
    /// The approver panicked.
    ApproverPanicked = "approver-panicked",
    /// The approver answered something that makes no sense.
    ApproverInvalid = "approver-invalid",
    /// The approver took too long.
    ApproverTimedOut = "approver-timed-out",
    /// The person said no.
    Declined = "declined",
    /// Nobody answered in time.
    Unanswered = "unanswered",
    /// The person stopped everything.
    Aborted = "aborted",
    /// The call was cancelled.
    Cancelled = "cancelled",
    // Checkpoints.
    /// The tool requires a checkpoint and no handler is registered.
    NoCheckpoint = "no-checkpoint",
    /// The checkpoint handler did not release the call.
    CheckpointRefused = "checkpoint-refused",
    /// The checkpoint handler failed.
    CheckpointFailed = "checkpoint-failed",
    /// The checkpoint handler panicked.
    CheckpointPanicked = "checkpoint-panicked",
    /// The checkpoint handler took too long.
    CheckpointTimedOut = "checkpoint-timed-out",
    /// The checkpoint handler answered something that makes no sense.
    CheckpointInvalid = "checkpoint-invalid",
    // Between the answer and the execution.
    /// The stored arguments are not the ones that were approved.
    ArgumentsChanged = "arguments-changed",
    /// The tool is not the one that was approved.
    ManifestChanged = "manifest-changed",
    /// The working directory is not the one that was approved.
    DirectoryChanged = "directory-changed",
    /// A program, script or edited file is not the one that was approved.
    ContentChanged = "content-changed",
    /// The policy has become stricter since.
    PolicyStricter = "policy-stricter",
    /// The approval is too old.
    GrantExpired = "grant-expired",
    /// The approval was used already.
    GrantUsed = "grant-used",
    /// The standing leave has no use left, or was revoked.
    ApprovalUsedUp = "leave-spent",
    /// The answer belongs to another question.
    AnswerMismatch = "answer-mismatch",
    /// Everything is halted.
    Halted = "halted",
    // Output review.
    /// A reviewer withheld the result.
    OutputDenied = "output-denied",
    /// A reviewer of the result failed.
    OutputReviewFailed = "output-review-failed",
    /// A reviewer of the result panicked.
    OutputReviewPanicked = "output-review-panicked",
    /// A reviewer of the result took too long.
    OutputReviewTimedOut = "output-review-timed-out",
    /// A reviewer of the result answered something that makes no sense.
    OutputReviewInvalid = "output-review-invalid",
    /// A person withheld the result.
    OutputDeclined = "output-declined",
    /// A held result was not released in time.
    OutputUnanswered = "output-unanswered",
    // The record.
    /// It could not be recorded, so it did not happen.
    NotRecorded = "not-recorded",
    /// The record is damaged.
    RecordBroken = "record-broken",
    /// The record was opened by a walk that this program does not know.
    RecordVersionUnknown = "walk-unknown",
    /// The content of the call was forgotten.
    Forgotten = "forgotten",
    /// The call was interrupted in the middle and may or may not have taken effect.
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

/// The reason why something did not happen, or why its result is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// The code, for programs.
    pub code: Code,
    /// The explanation, for people.
    pub why: String,
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
        Self { code, why }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.why, self.code)
    }
}

/// The result of a stage: a value, or a refusal. A stage that failed is a refusal.
pub type StageResult<T> = Result<T, Refusal>;
