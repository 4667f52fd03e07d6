//! Statistics on the calls of agents and the questions to people, counted from records.
//!
//! It is a pure fold over records that keeps only the numbers. Only records that verify are counted, and the filter is also
//! applied to the record. A list may find a call, but must never determine its outcome.

mod accumulate;
mod collect;
mod durations;

use std::collections::BTreeMap;

use byleave_core::call::Millis;
use byleave_core::decision::AskCause;
use byleave_core::id::{AgentId, SessionId, TenantId};
use byleave_core::record::Record;
use serde::Serialize;

pub use self::accumulate::StatsAccumulator;
pub use self::collect::collect;
pub use self::durations::DurationStats;

/// A filter for calls to count. Every field that is set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsFilter {
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// Of this session.
    pub session: Option<SessionId>,
    /// Of this agent.
    pub agent: Option<AgentId>,
    /// Of this tool, by its own name.
    pub tool: Option<String>,
    /// Received at this time or later.
    pub since: Option<Millis>,
    /// Received before this time.
    pub until: Option<Millis>,
}

/// Statistics of calls and questions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// How many calls were received.
    pub calls: u64,
    /// Their outcomes.
    pub outcomes: OutcomeCounts,
    /// How often calls were refused, withheld or left unknown, by code.
    pub codes: BTreeMap<&'static str, u64>,
    /// Destructive calls: their tool says so, or they are dangerous or irreversible.
    pub destructive: DestructiveCounts,
    /// The questions to people.
    pub questions: QuestionStats,
    /// By tool, the most used first.
    pub tools: Vec<ToolCount>,
    /// By the rule or cause that asked, the most frequent first. A question that several rules asked for is counted for each.
    pub rules: Vec<RuleCount>,
    /// By day, the oldest first. Days without a call are left out.
    pub days: Vec<DayCount>,
    /// Calls that are in the sums but in no list, because there are too many distinct keys.
    pub unlisted: u64,
    /// Records that do not verify. They are not included in any other number.
    pub damaged: u64,
}

/// The number of calls by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OutcomeCounts {
    /// Ran and reported success.
    pub completed: u64,
    /// Ran and reported failure.
    pub failed: u64,
    /// Ran, but the output is not released.
    pub withheld: u64,
    /// Did not run.
    pub refused: u64,
    /// Did not run, but the plan was shown.
    pub dry_run: u64,
    /// May have run. The outcome is unknown.
    pub unknown: u64,
    /// Did not run, because a person answered in the place of the tool.
    pub answered: u64,
    /// Wait for a person.
    pub waiting: u64,
    /// Are in progress.
    pub open: u64,
}

impl OutcomeCounts {
    /// Returns each number with its word, in display order.
    pub const fn counts(&self) -> [(&'static str, u64); 9] {
        [
            ("completed", self.completed),
            ("failed", self.failed),
            ("refused", self.refused),
            ("withheld", self.withheld),
            ("dry-run", self.dry_run),
            ("unknown", self.unknown),
            ("answered", self.answered),
            ("waiting", self.waiting),
            ("open", self.open),
        ]
    }
}

/// The number of destructive calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DestructiveCounts {
    /// How many were received.
    pub calls: u64,
    /// How many of them began to run.
    pub executed: u64,
}

/// Statistics of questions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QuestionStats {
    /// How many questions.
    pub count: u64,
    /// Their answers.
    pub answers: AnswerCounts,
    /// How long questions stayed open that a person answered or that expired.
    pub open_durations: DurationStats,
}

/// The number of questions by answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswerCounts {
    /// Approved.
    pub yes: u64,
    /// Declined.
    pub no: u64,
    /// Approved with an edit.
    pub edit: u64,
    /// Approved in part.
    pub partial: u64,
    /// Approved, with a standing approval for the future.
    pub standing_approval: u64,
    /// Answered in the place of the tool.
    pub result: u64,
    /// Stopped everything.
    pub abort: u64,
    /// Not answered in time.
    pub expired: u64,
    /// The call was cancelled before an answer.
    pub cancelled: u64,
    /// The approver failed.
    pub approver_failed: u64,
    /// Not answered yet.
    pub open: u64,
}

impl AnswerCounts {
    /// Returns each number with its word, in display order.
    pub const fn counts(&self) -> [(&'static str, u64); 11] {
        [
            ("yes", self.yes),
            ("no", self.no),
            ("edit", self.edit),
            ("partial", self.partial),
            ("standing-approval", self.standing_approval),
            ("result", self.result),
            ("abort", self.abort),
            ("expired", self.expired),
            ("cancelled", self.cancelled),
            ("approver-failed", self.approver_failed),
            ("open", self.open),
        ]
    }
}

/// The calls of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolCount {
    /// The tool's own name, or the name that the model used if there is none.
    pub tool: String,
    /// How many calls.
    pub calls: u64,
    /// Their outcomes.
    pub outcomes: OutcomeCounts,
    /// How many questions about them.
    pub questions: u64,
    /// How many of them are destructive.
    pub destructive: u64,
}

/// The questions caused by one rule, or by a cause that is not a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleCount {
    /// The id of the rule, or `None` if no rule decided.
    pub rule: Option<String>,
    /// The layer, file and line of the rule.
    pub origin: Option<String>,
    /// The cause. It is `None` for a checkpoint and for a held result.
    pub cause: Option<AskCause>,
    /// The origin of the question if it is neither a rule nor a cause: `checkpoint` or `release`.
    pub question_kind: Option<&'static str>,
    /// How many questions.
    pub questions: u64,
    /// Their answers.
    pub answers: AnswerCounts,
    /// How many of them a standing approval or a rule could have answered.
    pub avoidable: u64,
}

impl RuleCount {
    /// Returns the name of the rule or cause.
    pub fn label(&self) -> String {
        match (&self.rule, self.question_kind, self.cause) {
            (Some(rule), _, _) => rule.clone(),
            (None, Some("release"), _) => "(held result)".into(),
            (None, Some(ceremony), _) => format!("({ceremony})"),
            (None, None, Some(cause)) => format!("({})", cause.description()),
            (None, None, None) => "(no reason)".into(),
        }
    }

    /// Checks whether the question could be avoided: asked repeatedly, always approved, and nothing in it requires a person.
    pub const fn is_always_yes(&self) -> bool {
        let AnswerCounts { yes, standing_approval: leave, open, .. } = self.answers;
        self.avoidable >= 2
            && self.avoidable == self.questions
            && yes >= 2
            && yes + leave + open == self.questions
    }
}

/// The calls of one day, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DayCount {
    /// Days since 1970-01-01.
    pub day: u64,
    /// How many calls were received.
    pub calls: u64,
    /// How many questions were asked about them, at any time.
    pub questions: u64,
}

impl StatsFilter {
    /// Checks whether a record matches the filter.
    pub fn matches(&self, record: &Record) -> bool {
        let Some(heading) = record.header() else { return false };
        let received = record.entries().first().map_or(0, |entry| entry.at);
        self.tenant.as_ref().is_none_or(|tenant| *tenant == heading.tenant)
            && self.session.as_ref().is_none_or(|session| *session == heading.session)
            && self.agent.as_ref().is_none_or(|agent| *agent == heading.agent)
            && self.tool.as_ref().is_none_or(|tool| tool == tool_name(record))
            && self.since.is_none_or(|since| received >= since)
            && self.until.is_none_or(|until| received < until)
    }
}

/// Returns the tool's own name, or the name that the model used if no such tool exists.
fn tool_name(record: &Record) -> &str {
    match (record.resolved_tool(), record.header()) {
        (Some(Ok(terms)), _) => &terms.tool,
        (_, Some(heading)) => &heading.tool,
        (_, None) => "",
    }
}
