//! Entries: everything that can be written on a record. Appended, chained, never changed.

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
use crate::rehearsal::{RehearsalOutcome, RehearsalSettings};
use crate::review::Review;
use crate::session::{SessionNode, caller};

/// One entry: a fact and when it was written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// When, by the clock of who wrote it.
    pub at: Millis,
    /// What.
    pub fact: RecordEvent,
}

impl Entry {
    /// The entry as it is stored.
    pub(crate) fn to_json(&self) -> Option<String> {
        // Most entries fit, so that nothing is moved while they are written.
        let mut body = Vec::with_capacity(640);
        serde_json::to_writer(&mut body, self).ok()?;
        body.shrink_to_fit();
        String::from_utf8(body).ok()
    }
}

/// What can be written down of a call, in the order in which it comes up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordEvent {
    /// The call came in.
    Received(CallHeader),
    /// Which tool, and under which terms.
    Resolved(StageResult<ResolvedTool>),
    /// The draft fits the schema.
    Validated(StageResult<ValidDraft>),
    /// What the draft would do.
    Planned(StageResult<PlanSummary>),
    /// What the policy says of it.
    Permitted(StageResult<PolicyDecision>),
    /// What the reviewers say of it; a change is a new draft.
    Reviewed(StageResult<Review>),
    /// The case against it.
    Challenged(StageResult<ChallengeSummary>),
    /// It is about to run on a copy, under this binding and no other.
    Rehearsing {
        /// The exact plan.
        binding: Digest,
    },
    /// What came of the run on a copy.
    Rehearsed(RehearsalOutcome),
    /// The copy is gone: everything about this draft is found out again.
    RehearsalLost {
        /// The rehearsal that it was.
        rehearsal: Digest,
    },
    /// A person is asked.
    Asked(StageResult<Question>),
    /// A person answered; an edit is a new draft.
    Answered(RecordedAnswer),
    /// Nobody answered in time.
    Expired {
        /// The question.
        question: QuestionId,
    },
    /// The approver broke, which counts as no.
    Unasked {
        /// The question.
        question: QuestionId,
        /// How it broke.
        refusal: Refusal,
    },
    /// Someone called it off.
    Cancelled {
        /// Who.
        by: String,
    },
    /// An attempt holds the claim to execute.
    Begun(StageResult<Claim>),
    /// The attempt's owner is gone; nobody can say how far it came.
    Interrupted {
        /// The attempt.
        attempt: AttemptId,
    },
    /// The attempt ended.
    Ended {
        /// The attempt.
        attempt: AttemptId,
        /// How.
        end: ExecutionEnd,
    },
    /// What the reviewers say of the result.
    OutputReviewed(StageResult<Review>),
    /// What came of it.
    Settled(Outcome),
}

impl RecordEvent {
    /// The word for this kind of fact.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Received(_) => "received",
            Self::Resolved(_) => "resolved",
            Self::Validated(_) => "validated",
            Self::Planned(_) => "planned",
            Self::Permitted(_) => "permitted",
            Self::Reviewed(_) => "reviewed",
            Self::Challenged(_) => "challenged",
            Self::Rehearsing { .. } => "rehearsing",
            Self::Rehearsed(_) => "rehearsed",
            Self::RehearsalLost { .. } => "rehearsal_lost",
            Self::Asked(_) => "asked",
            Self::Answered(_) => "answered",
            Self::Expired { .. } => "expired",
            Self::Unasked { .. } => "unasked",
            Self::Cancelled { .. } => "cancelled",
            Self::Begun(_) => "begun",
            Self::Interrupted { .. } => "interrupted",
            Self::Ended { .. } => "ended",
            Self::OutputReviewed(_) => "output_reviewed",
            Self::Settled(_) => "settled",
        }
    }
}

/// The draft fits the tool's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidDraft {}

/// What the record keeps of a call as it came in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallHeader {
    /// The walk that opened the record; it is walked by that one to its end.
    pub walk: u16,
    /// Whose book it belongs to.
    pub tenant: TenantId,
    /// The conversation or task it is part of.
    pub session: SessionId,
    /// Who asks.
    pub agent: AgentId,
    /// The session as it was opened, and those above it, up to the top; empty where nobody opened it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<SessionNode>,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The first draft.
    pub arguments: ContentRef,
    /// The model's own words on why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ContentRef>,
    /// The directory it works in.
    pub cwd: String,
    /// How much is asked.
    pub mode: Mode,
    /// Say what would happen, and change nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl CallHeader {
    /// Who asks, in words: an agent, or whose sub-agent it is.
    pub fn caller(&self) -> String {
        caller(&self.agent, &self.lineage)
    }
}

/// The terms of a call, pinned when its tool is resolved: what the walk needs to know of the manifest and the settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedTool {
    /// The tool's own name.
    pub tool: String,
    /// The digest of its manifest.
    pub manifest: Digest,
    /// The word for its calls in the book (T7).
    pub operation: String,
    /// Says that it only reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Says that it destroys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub destructive: bool,
    /// May run beside others of its session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub concurrency_safe: bool,
    /// May be begun again after an interruption.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeatable: bool,
    /// Must be released by a checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// Must be challenged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<ChallengeRequirement>,
    /// Is run on a copy first, where a person would be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<RehearsalSettings>,
    /// Bounds on how often and how long.
    pub limits: Limits,
}

/// How a call is challenged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChallengeRequirement {
    /// Before the question or after the answer.
    pub when: ChallengeTiming,
    /// The operator's settings say, by this tool's name, that it stands in for the checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stands_in: bool,
}

/// Bounds on how often and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// How many drafts there may be.
    pub drafts: u8,
    /// How often a repeatable call may be begun.
    pub attempts: u8,
    /// How long an execution may take.
    pub timeout_ms: u64,
    /// How much of what it puts out is handed over at once.
    pub output_bytes: u64,
    /// How much of it is kept, to be read on from there.
    #[serde(default)]
    pub kept_bytes: u64,
    /// How long a question stays open.
    pub question_ms: u64,
    /// How long an answer stays good.
    pub grant_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const HOUR_MS: u64 = 3_600_000;
        Self {
            drafts: 8,
            attempts: 3,
            timeout_ms: 30_000,
            output_bytes: 102_400,
            kept_bytes: 4 * 1_048_576,
            question_ms: 24 * HOUR_MS,
            grant_ms: HOUR_MS,
        }
    }
}
