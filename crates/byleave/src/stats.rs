//! Statistics: what agents did and what people were asked, counted from records.
//!
//! A pure fold: records go in one at a time, numbers come out, and no more is kept in between than the numbers. Only records that
//! verify are counted, and what is wanted of them is read off the record as well: a list may find a call, but never says what
//! came of it.

mod accumulate;
mod collect;
mod durations;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use byleave_core::call::Millis;
use byleave_core::decision::AskCause;
use byleave_core::id::{AgentId, SessionId, TenantId};
use byleave_core::record::Record;
use serde::Serialize;

pub use self::accumulate::StatsAccumulator;
pub use self::collect::of;
pub use self::durations::DurationStats;

/// Which calls count. Everything that is set must fit.
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
    /// Received then or later.
    pub since: Option<Millis>,
    /// Received before then.
    pub until: Option<Millis>,
}

/// The numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// How many calls came in.
    pub calls: u64,
    /// What came of them.
    pub outcomes: OutcomeCounts,
    /// Why calls were refused, withheld or left unknown: how often by code.
    pub codes: BTreeMap<&'static str, u64>,
    /// Calls that destroy: their tool says so, or they are dangerous or cannot be taken back.
    pub destructive: DestructiveCounts,
    /// What people were asked.
    pub questions: QuestionStats,
    /// By tool, the most used first.
    pub tools: Vec<ToolCount>,
    /// By what asked, the most frequent first. A question that several rules asked for counts for each of them.
    pub rules: Vec<RuleCount>,
    /// By day, the oldest first; days without a call are not there.
    pub days: Vec<DayCount>,
    /// Calls that are in the sums and in no list, because there are too many different ones.
    pub unlisted: u64,
    /// Records that do not verify. Nothing else is counted of them.
    pub damaged: u64,
}

/// What came of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OutcomeCounts {
    /// Ran and say that it worked.
    pub completed: u64,
    /// Ran and say that it did not work.
    pub failed: u64,
    /// Ran; their output is not released.
    pub withheld: u64,
    /// Did not run.
    pub refused: u64,
    /// Did not run; what would have is shown.
    pub rehearsed: u64,
    /// May have run; nobody can say.
    pub unknown: u64,
    /// Wait for a person.
    pub waiting: u64,
    /// Are on their way.
    pub open: u64,
}

impl OutcomeCounts {
    /// Each with its word, in the order in which people read them.
    pub const fn all(&self) -> [(&'static str, u64); 8] {
        [
            ("completed", self.completed),
            ("failed", self.failed),
            ("refused", self.refused),
            ("withheld", self.withheld),
            ("rehearsed", self.rehearsed),
            ("unknown", self.unknown),
            ("waiting", self.waiting),
            ("open", self.open),
        ]
    }
}

/// Calls that destroy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DestructiveCounts {
    /// How many came in.
    pub calls: u64,
    /// How many of them began to run.
    pub ran: u64,
}

/// What people were asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QuestionStats {
    /// How many questions.
    pub asked: u64,
    /// What was said to them.
    pub answers: AnswerCounts,
    /// How long questions stayed open that a person answered, or that nobody did in time.
    pub waited: DurationStats,
}

/// What was said to questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswerCounts {
    /// Go ahead.
    pub yes: u64,
    /// Do not.
    pub no: u64,
    /// With something else instead.
    pub edit: u64,
    /// With a part of it.
    pub part: u64,
    /// Go ahead, and in future without asking.
    pub leave: u64,
    /// Stop everything.
    pub abort: u64,
    /// Nothing in time.
    pub expired: u64,
    /// The call was called off before anyone answered.
    pub cancelled: u64,
    /// Whoever should have asked broke.
    pub broken: u64,
    /// Nothing yet.
    pub open: u64,
}

impl AnswerCounts {
    /// Each with its word, in the order in which people read them.
    pub const fn all(&self) -> [(&'static str, u64); 10] {
        [
            ("yes", self.yes),
            ("no", self.no),
            ("edit", self.edit),
            ("part", self.part),
            ("leave", self.leave),
            ("abort", self.abort),
            ("expired", self.expired),
            ("cancelled", self.cancelled),
            ("broken", self.broken),
            ("open", self.open),
        ]
    }
}

/// The calls of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolCount {
    /// The tool, by its own name; as the model wrote it, where there is none.
    pub tool: String,
    /// How many calls.
    pub calls: u64,
    /// What came of them.
    pub outcomes: OutcomeCounts,
    /// How many questions about them.
    pub asked: u64,
    /// How many of them destroy.
    pub destructive: u64,
}

/// The questions for which one rule asked, or one cause that is no rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleCount {
    /// The rule, by id; absent where none decided.
    pub rule: Option<String>,
    /// Where the rule stands: layer, file and line.
    pub origin: Option<String>,
    /// Why it asks; absent for a checkpoint and for a held result.
    pub cause: Option<AskCause>,
    /// What asked, where it is neither a rule nor a cause: `checkpoint` or `release`.
    pub ceremony: Option<&'static str>,
    /// How many questions.
    pub asked: u64,
    /// What was said to them.
    pub answers: AnswerCounts,
    /// How many of them a standing leave or a rule could have answered.
    pub sparable: u64,
}

impl RuleCount {
    /// What asked, in words.
    pub fn name(&self) -> String {
        match (&self.rule, self.ceremony, self.cause) {
            (Some(rule), _, _) => rule.clone(),
            (None, Some("release"), _) => "(held result)".into(),
            (None, Some(ceremony), _) => format!("({ceremony})"),
            (None, None, Some(cause)) => format!("({})", cause.words()),
            (None, None, None) => "(no reason)".into(),
        }
    }

    /// Whether it was worth sparing: asked again and again, always answered yes, and nothing about it needs a person.
    pub const fn is_always_yes(&self) -> bool {
        let AnswerCounts { yes, leave, open, .. } = self.answers;
        self.sparable >= 2 && self.sparable == self.asked && yes >= 2 && yes + leave + open == self.asked
    }
}

/// The calls of one day, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DayCount {
    /// Days since 1970-01-01.
    pub day: u64,
    /// How many calls came in.
    pub calls: u64,
    /// How many questions were asked about them, whenever that was.
    pub asked: u64,
}

impl StatsFilter {
    /// Whether a record is of a call that counts.
    pub fn fits(&self, record: &Record) -> bool {
        let Some(heading) = record.heading() else { return false };
        let received = record.entries().first().map_or(0, |entry| entry.at);
        self.tenant.as_ref().is_none_or(|tenant| *tenant == heading.tenant)
            && self.session.as_ref().is_none_or(|session| *session == heading.session)
            && self.agent.as_ref().is_none_or(|agent| *agent == heading.agent)
            && self.tool.as_ref().is_none_or(|tool| tool == tool_of(record))
            && self.since.is_none_or(|since| received >= since)
            && self.until.is_none_or(|until| received < until)
    }
}

/// The tool's own name; as the model wrote it, where there is no such tool.
fn tool_of(record: &Record) -> &str {
    match (record.resolved(), record.heading()) {
        (Some(Ok(terms)), _) => &terms.tool,
        (_, Some(heading)) => &heading.tool,
        (_, None) => "",
    }
}
