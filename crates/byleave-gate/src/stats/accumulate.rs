//! The fold that adds one record to the statistics.

use std::collections::HashMap;
use std::hash::Hash;

use byleave_core::call::Millis;
use byleave_core::decision::{AskCause, PolicyDecision, Verdict};
use byleave_core::entry::RecordEvent;
use byleave_core::outcome::Outcome;
use byleave_core::pipeline::{NextStep, next_step};
use byleave_core::question::{Answer, Question, QuestionKind};
use byleave_core::record::Record;
use byleave_core::rehearsal::RehearsalOutcome;

use crate::agent_report;

use super::{AnswerCounts, DayCount, OutcomeCounts, RuleCount, Stats, StatsFilter, ToolCount, tool_name};

/// The maximum number of distinct tools, rules and days. It is needed because the model can choose any tool name.
const DIFFERENT_MAX: usize = 1_000;
const DAY: Millis = 86_400_000;

/// An accumulator of statistics.
#[derive(Clone, Debug, Default)]
pub struct StatsAccumulator {
    filter: StatsFilter,
    stats: Stats,
    tools: HashMap<String, ToolCount>,
    rules: HashMap<RuleKey, RuleCount>,
    days: HashMap<u64, DayCount>,
}

/// The origin of a question: a rule with its position, a cause that is not a rule, or a ceremony.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RuleKey {
    rule: Option<String>,
    origin: Option<String>,
    cause: Option<AskCause>,
    question_kind: Option<&'static str>,
}

/// The statistics of one record.
#[derive(Default)]
struct RecordStats {
    destructive: bool,
    executed: bool,
    questions: Vec<RecordedQuestion>,
}

/// One question of a record.
struct RecordedQuestion {
    at: Millis,
    causes: Vec<RuleKey>,
    avoidable: bool,
    closed: Option<(QuestionResult, Millis)>,
}

#[derive(Clone, Copy)]
enum QuestionResult {
    Yes,
    No,
    Edit,
    Partial,
    StandingApproval,
    Result,
    Abort,
    Expired,
    Cancelled,
    ApproverFailed,
}

impl StatsAccumulator {
    /// Creates an empty accumulator with a filter.
    pub fn new(wanted: StatsFilter) -> Self {
        Self { filter: wanted, ..Self::default() }
    }

    /// Adds one record, if its call matches the filter.
    pub fn add(&mut self, record: &Record) {
        if record.damage().is_some() {
            // The filter cannot be applied to a damaged record.
            self.stats.damaged += 1;
            return;
        }
        // The report of an agent is a part of its call.
        let is_wanted = self.filter.tool.as_deref() == Some(agent_report::TOOL);
        if !self.filter.matches(record) || !is_wanted && agent_report::reported_call_of(record).is_some() {
            return;
        }
        let account = RecordStats::from_record(record);
        let asked = count(account.questions.len());
        self.stats.calls += 1;
        count_outcome(&mut self.stats.outcomes, record);
        if let Some(refusal) = record.outcome().and_then(Outcome::refusal) {
            *self.stats.codes.entry(refusal.code.as_str()).or_default() += 1;
        }
        self.stats.destructive.calls += u64::from(account.destructive);
        self.stats.destructive.executed += u64::from(account.destructive && account.executed);
        let mut listed = true;
        match entry_if_room(&mut self.tools, tool_name(record).to_owned()) {
            Some(tool) => {
                tool.calls += 1;
                tool.questions += asked;
                tool.destructive += u64::from(account.destructive);
                count_outcome(&mut tool.outcomes, record);
            }
            None => listed = false,
        }
        let received = record.entries().first().map_or(0, |entry| entry.at);
        match entry_if_room(&mut self.days, received / DAY) {
            Some(day) => {
                day.calls += 1;
                day.questions += asked;
            }
            None => listed = false,
        }
        for asking in account.questions {
            listed &= self.add_question(asking);
        }
        self.stats.unlisted += u64::from(!listed);
    }

    /// Returns how many calls were counted so far.
    pub const fn calls(&self) -> u64 {
        self.stats.calls
    }

    /// Returns the final statistics.
    pub fn finish(self) -> Stats {
        let Self { mut stats, tools, rules, days, .. } = self;
        stats.tools = tools.into_iter().map(|(tool, counted)| ToolCount { tool, ..counted }).collect();
        stats.tools.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.tool.cmp(&b.tool)));
        let named = |(key, counted): (RuleKey, RuleCount)| {
            let RuleKey { rule, origin, cause, question_kind: ceremony } = key;
            RuleCount { rule, origin, cause, question_kind: ceremony, ..counted }
        };
        stats.rules = rules.into_iter().map(named).collect();
        let name = |a: &RuleCount| (a.rule.clone(), a.origin.clone(), a.cause, a.question_kind);
        stats.rules.sort_by(|a, b| b.questions.cmp(&a.questions).then_with(|| name(a).cmp(&name(b))));
        stats.days = days.into_iter().map(|(day, counted)| DayCount { day, ..counted }).collect();
        stats.days.sort_by_key(|counted| counted.day);
        stats
    }

    /// Adds one question. Returns whether every origin of the question is listed.
    fn add_question(&mut self, asking: RecordedQuestion) -> bool {
        let questions = &mut self.stats.questions;
        questions.count += 1;
        let closed = asking.closed.map(|(closed, _)| closed);
        count_answer(&mut questions.answers, closed);
        if let Some((closed, at)) = asking.closed
            && !matches!(closed, QuestionResult::Cancelled | QuestionResult::ApproverFailed)
        {
            questions.open_durations.add(at.saturating_sub(asking.at));
        }
        let mut listed = true;
        for key in asking.causes {
            let Some(rule) = entry_if_room(&mut self.rules, key) else {
                listed = false;
                continue;
            };
            rule.questions += 1;
            rule.avoidable += u64::from(asking.avoidable);
            count_answer(&mut rule.answers, closed);
        }
        listed
    }
}

impl RecordStats {
    fn from_record(record: &Record) -> Self {
        let mut account = Self::default();
        let mut ruling = None;
        for entry in record.entries() {
            match &entry.event {
                RecordEvent::Resolved(Ok(terms)) => account.destructive |= terms.destructive,
                RecordEvent::Planned(Ok(plan)) => account.destructive |= plan.irreversible,
                RecordEvent::PolicyEvaluated(Ok(ruled)) => {
                    account.destructive |= is_dangerous(ruled);
                    ruling = Some(ruled);
                }
                RecordEvent::RehearsalFinished(RehearsalOutcome::Ran(head)) => {
                    account.destructive |= head.decision.as_ref().is_some_and(is_dangerous);
                }
                RecordEvent::Asked(Ok(question)) => {
                    account.questions.push(RecordedQuestion::from_question(question, entry.at, ruling))
                }
                RecordEvent::Answered(answered) => account.close(answer_kind(&answered.answer), entry.at),
                RecordEvent::Expired { .. } => account.close(QuestionResult::Expired, entry.at),
                RecordEvent::ApproverFailed { .. } => account.close(QuestionResult::ApproverFailed, entry.at),
                RecordEvent::Cancelled { .. } => account.close(QuestionResult::Cancelled, entry.at),
                RecordEvent::Started(Ok(_)) => account.executed = true,
                _ => {}
            }
        }
        account
    }

    /// Closes the open question. A record has at most one at a time, because the call waits for it.
    fn close(&mut self, closed: QuestionResult, at: Millis) {
        if let Some(asking) = self.questions.last_mut()
            && asking.closed.is_none()
        {
            asking.closed = Some((closed, at));
        }
    }
}

impl RecordedQuestion {
    fn from_question(question: &Question, at: Millis, ruling: Option<&PolicyDecision>) -> Self {
        let ceremony = |word| RuleKey { rule: None, origin: None, cause: None, question_kind: Some(word) };
        let (by, sparable) = match question.kind {
            QuestionKind::Checkpoint => (vec![ceremony("checkpoint")], false),
            QuestionKind::Release => (vec![ceremony("release")], false),
            QuestionKind::Approval => {
                let asks = |ruling: &PolicyDecision| {
                    let mut by: Vec<RuleKey> = Vec::new();
                    for reason in ruling.reasons.iter().filter(|reason| reason.verdict == Verdict::Ask) {
                        let (rule, origin) = (reason.rule.clone(), reason.origin.clone());
                        let key = RuleKey { rule, origin, cause: reason.cause, question_kind: None };
                        if !by.contains(&key) {
                            by.push(key);
                        }
                    }
                    let causes = ruling.causes();
                    (by, !causes.is_empty() && causes.into_iter().all(AskCause::allows_standing_approval))
                };
                ruling.map(asks).unwrap_or_default()
            }
        };
        Self { at, causes: by, avoidable: sparable, closed: None }
    }
}

/// Checks whether a person or a mode had to allow something dangerous or irreversible.
fn is_dangerous(ruling: &PolicyDecision) -> bool {
    ruling
        .reasons
        .iter()
        .any(|reason| matches!(reason.cause, Some(AskCause::Dangerous | AskCause::Irreversible)))
}

const fn answer_kind(answer: &Answer) -> QuestionResult {
    match answer {
        Answer::Yes { .. } => QuestionResult::Yes,
        Answer::No { .. } => QuestionResult::No,
        Answer::Edit { .. } => QuestionResult::Edit,
        Answer::Partial { .. } => QuestionResult::Partial,
        Answer::StandingApproval(_) => QuestionResult::StandingApproval,
        Answer::Result { .. } => QuestionResult::Result,
        Answer::Abort => QuestionResult::Abort,
    }
}

fn count_outcome(outcomes: &mut OutcomeCounts, record: &Record) {
    let number = match (record.outcome(), next_step(record)) {
        (Some(Outcome::Completed { .. }), _) => &mut outcomes.completed,
        (Some(Outcome::Failed { .. }), _) => &mut outcomes.failed,
        (Some(Outcome::Withheld(_)), _) => &mut outcomes.withheld,
        (Some(Outcome::Refused(_)), _) => &mut outcomes.refused,
        (Some(Outcome::DryRun { .. }), _) => &mut outcomes.dry_run,
        (Some(Outcome::Unknown(_)), _) => &mut outcomes.unknown,
        (Some(Outcome::Answered { .. }), _) => &mut outcomes.answered,
        (None, NextStep::Wait(_)) => &mut outcomes.waiting,
        (None, _) => &mut outcomes.open,
    };
    *number += 1;
}

const fn count_answer(answers: &mut AnswerCounts, closed: Option<QuestionResult>) {
    let number = match closed {
        Some(QuestionResult::Yes) => &mut answers.yes,
        Some(QuestionResult::No) => &mut answers.no,
        Some(QuestionResult::Edit) => &mut answers.edit,
        Some(QuestionResult::Partial) => &mut answers.partial,
        Some(QuestionResult::StandingApproval) => &mut answers.standing_approval,
        Some(QuestionResult::Result) => &mut answers.result,
        Some(QuestionResult::Abort) => &mut answers.abort,
        Some(QuestionResult::Expired) => &mut answers.expired,
        Some(QuestionResult::Cancelled) => &mut answers.cancelled,
        Some(QuestionResult::ApproverFailed) => &mut answers.approver_failed,
        None => &mut answers.open,
    };
    *number += 1;
}

/// Returns the value of a key, unless there are too many distinct keys.
fn entry_if_room<K: Eq + Hash, V: Default>(map: &mut HashMap<K, V>, key: K) -> Option<&mut V> {
    if map.len() >= DIFFERENT_MAX && !map.contains_key(&key) {
        return None;
    }
    Some(map.entry(key).or_default())
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
