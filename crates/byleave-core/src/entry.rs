//! Entries: everything that can be written on a record. Entries are appended and chained, and never change.

use serde::{Deserialize, Serialize};

use crate::call::{Millis, Mode};
use crate::challenge::{ChallengeSummary, ChallengeTiming};
use crate::decision::PolicyDecision;
use crate::digest::{ContentRef, Digest};
use crate::effect::PlanSummary;
use crate::grant::Claim;
use crate::id::{AgentId, AttemptId, QuestionId, SessionId, TenantId};
use crate::outcome::{ExecutionEnd, Outcome};
use crate::question::{Question, RecordedAnswer};
use crate::refusal::{Refusal, StageResult};
use crate::rehearsal::{RehearsalOutcome, RehearsalSettings, RehearsalSummary};
use crate::review::Review;
use crate::session::{SessionNode, describe_caller};

/// One entry: an event and the time at which it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The time, by the clock of the writer.
    pub at: Millis,
    /// The event.
    pub event: RecordEvent,
}

impl Entry {
    /// Returns the entry as it is stored.
    pub(crate) fn to_json(&self) -> Option<String> {
        // Most entries fit, so the buffer is not moved while they are written.
        let mut body = Vec::with_capacity(640);
        serde_json::to_writer(&mut body, self).ok()?;
        body.shrink_to_fit();
        String::from_utf8(body).ok()
    }
}

/// The events that can be recorded for a call, in the order of the pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordEvent {
    /// The call was received.
    Received(CallHeader),
    /// The tool and its terms were resolved.
    Resolved(StageResult<ResolvedTool>),
    /// The draft was checked against the schema.
    Validated(StageResult<ValidDraft>),
    /// The effects of the draft were predicted.
    Planned(StageResult<PlanSummary>),
    /// The policy decided on the draft.
    PolicyEvaluated(StageResult<PolicyDecision>),
    /// The reviewers checked the draft. A change is a new draft.
    Reviewed(StageResult<Review>),
    /// The agent's case against the call was made.
    Challenged(StageResult<ChallengeSummary>),
    /// The call is about to run on a copy, under exactly this binding.
    RehearsalStarted {
        /// The digest of the exact plan.
        binding: Digest,
    },
    /// The run on a copy ended, or was not possible.
    RehearsalFinished(RehearsalOutcome),
    /// The copy is lost. All stages of this draft are repeated.
    RehearsalCopyMissing {
        /// The digest of the lost rehearsal.
        rehearsal: Digest,
    },
    /// A person was asked.
    Asked(StageResult<Question>),
    /// A person answered. An edit is a new draft.
    Answered(RecordedAnswer),
    /// Nobody answered in time.
    Expired {
        /// The question.
        question: QuestionId,
    },
    /// The approver failed, which is treated as a "no".
    ApproverFailed {
        /// The question.
        question: QuestionId,
        /// The failure.
        refusal: Refusal,
    },
    /// The call was cancelled.
    Cancelled {
        /// The person or program that cancelled it.
        actor: String,
    },
    /// An attempt holds the claim to execute.
    Started(StageResult<Claim>),
    /// The owner of the attempt is gone. Nobody can tell how far the attempt got.
    Interrupted {
        /// The attempt.
        attempt: AttemptId,
    },
    /// The attempt ran on a copy. The policy does not allow everything that it changed there, so nothing is committed yet.
    Observed {
        /// The attempt.
        attempt: AttemptId,
        /// The run, and the decision on what it changed.
        run: RehearsalSummary,
    },
    /// The attempt ended.
    Ended {
        /// The attempt.
        attempt: AttemptId,
        /// The end of the execution.
        end: ExecutionEnd,
    },
    /// The reviewers checked the result.
    OutputReviewed(StageResult<Review>),
    /// The call has its outcome.
    Settled(Outcome),
}

impl RecordEvent {
    /// Returns the name of this kind of event.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Received(_) => "received",
            Self::Resolved(_) => "resolved",
            Self::Validated(_) => "validated",
            Self::Planned(_) => "planned",
            Self::PolicyEvaluated(_) => "policy_evaluated",
            Self::Reviewed(_) => "reviewed",
            Self::Challenged(_) => "challenged",
            Self::RehearsalStarted { .. } => "rehearsal_started",
            Self::RehearsalFinished(_) => "rehearsal_finished",
            Self::RehearsalCopyMissing { .. } => "rehearsal_copy_missing",
            Self::Asked(_) => "asked",
            Self::Answered(_) => "answered",
            Self::Expired { .. } => "expired",
            Self::ApproverFailed { .. } => "approver_failed",
            Self::Cancelled { .. } => "cancelled",
            Self::Started(_) => "started",
            Self::Interrupted { .. } => "interrupted",
            Self::Observed { .. } => "observed",
            Self::Ended { .. } => "ended",
            Self::OutputReviewed(_) => "output_reviewed",
            Self::Settled(_) => "settled",
        }
    }
}

/// The mark of a draft that fits the tool's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidDraft {}

/// The recorded form of an incoming call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallHeader {
    /// The version of the pipeline that opened the record. The same version processes it to its end.
    pub record_version: u16,
    /// The tenant whose audit log it belongs to.
    pub tenant: TenantId,
    /// The conversation or task that it is part of.
    pub session: SessionId,
    /// The agent that makes the call.
    pub agent: AgentId,
    /// The session as it was opened, and its ancestors up to the top. Empty if nobody opened it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<SessionNode>,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The first draft.
    pub arguments: ContentRef,
    /// The model's own reason for the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ContentRef>,
    /// The working directory of the call.
    pub cwd: String,
    /// The mode, which says how much is asked.
    pub mode: Mode,
    /// Only predict the effects, and change nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl CallHeader {
    /// Returns the caller in words: an agent, or a sub-agent with its parent.
    pub fn caller(&self) -> String {
        describe_caller(&self.agent, &self.lineage)
    }
}

/// The terms of a call, pinned when its tool is resolved: the parts of the manifest and the settings that the pipeline needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedTool {
    /// The tool's own name.
    pub tool: String,
    /// The digest of its manifest.
    pub manifest: Digest,
    /// The operation that names its calls in the audit log (T7).
    pub operation: String,
    /// The tool declares that it only reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The tool declares that it is destructive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub destructive: bool,
    /// The call may run concurrently with others of its session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub concurrency_safe: bool,
    /// The call may be attempted again after an interruption.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// The call must be released by a checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// How the call is challenged, if the tool or a rule requires it.
    #[serde(default, skip_serializing_if = "ChallengeTerms::is_default")]
    pub challenge: ChallengeTerms,
    /// The call is rehearsed first if a person would be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<RehearsalSettings>,
    /// Limits on numbers, sizes and durations.
    pub limits: Limits,
}

/// The way in which a call is challenged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChallengeTerms {
    /// The tool requires a challenge for every call. A rule may require one for this call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// The time of the challenge: before the question or after the answer.
    #[serde(default)]
    pub when: ChallengeTiming,
    /// The challenge replaces the checkpoint. The operator's settings say so for this tool by name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaces_checkpoint: bool,
}

impl ChallengeTerms {
    /// Returns whether the tool requires no challenge, and a rule's challenge comes at the default time.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Limits on numbers, sizes and durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The maximum number of drafts.
    pub max_drafts: u8,
    /// The maximum number of attempts of a repeatable call.
    pub max_attempts: u8,
    /// The maximum duration of an execution.
    pub timeout_ms: u64,
    /// The maximum size of the output that is returned at once.
    pub max_output_bytes: u64,
    /// The maximum size of the output that is stored, so that the rest can be read later.
    #[serde(default)]
    pub max_stored_bytes: u64,
    /// The time for which a question stays open.
    pub question_timeout_ms: u64,
    /// The time for which an answer stays valid.
    pub grant_lifetime_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const HOUR_MS: u64 = 3_600_000;
        Self {
            max_drafts: 8,
            max_attempts: 3,
            timeout_ms: 30_000,
            max_output_bytes: 102_400,
            max_stored_bytes: 4 * 1_048_576,
            question_timeout_ms: 24 * HOUR_MS,
            grant_lifetime_ms: HOUR_MS,
        }
    }
}
