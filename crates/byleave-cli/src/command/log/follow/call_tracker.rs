//! The watched calls according to their records, and the events since the last poll.

use std::collections::BTreeMap;
use std::path::Path;

use byleave_gate::audit_log::StoredCall;
use byleave_gate::core::call::Millis;
use byleave_gate::core::decision::PolicyDecision;
use byleave_gate::core::entry::{Entry, RecordEvent};
use byleave_gate::core::id::{CallId, SessionId};
use byleave_gate::core::pipeline::{NextStep, next_step};
use byleave_gate::core::question::Question;
use byleave_gate::core::record::{Attempt, Record};
use byleave_gate::stats::StatsFilter;

use crate::live_output::{self, LiveStatus};

/// The number of output lines of a call that are kept for the screen.
const TAIL_LINES: usize = 3;
/// An incomplete line is shown when it has this length.
const PARTIAL_BYTES_MAX: usize = 4_096;

/// The facts about a call for one line.
#[derive(Clone, Debug)]
pub(super) struct CallInfo {
    pub(super) call: CallId,
    pub(super) session: SessionId,
    pub(super) agent: String,
    pub(super) tool: String,
    pub(super) summary: String,
    pub(super) opened_at: Millis,
}

/// The stage of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallStage {
    /// It is being evaluated, is blocked, or no process drives it.
    Open,
    /// It runs on a copy.
    Rehearsing {
        since: Millis,
    },
    /// A person must answer.
    Waiting {
        question: Question,
        since: Millis,
    },
    Running {
        since: Millis,
    },
    Settled {
        at: Millis,
    },
    Damaged,
}

/// A watched call.
#[derive(Clone, Debug)]
pub(super) struct TrackedCall {
    pub(super) info: CallInfo,
    pub(super) stage: CallStage,
    /// The last decision of the policy, in words.
    pub(super) verdict: Option<String>,
    /// The live status from its process.
    pub(super) live: Option<LiveStatus>,
    /// The last lines of its output.
    pub(super) tail: Vec<String>,
    /// The number of entries that were shown.
    shown: usize,
    /// The number of output bytes that were shown, and the incomplete line after them.
    printed: u64,
    partial: String,
}

/// An event to show.
#[derive(Clone, Debug)]
pub(super) enum WatchEvent {
    /// A call that was open at the start.
    AlreadyOpen(Box<TrackedCall>),
    /// A new entry of its record.
    Entry {
        who: CallInfo,
        seq: usize,
        entry: Box<Entry>,
        duration_ms: Option<Millis>,
    },
    Progress {
        who: CallInfo,
        fraction: Option<f64>,
        detail: String,
    },
    /// A line of output, and the number of bytes before it that were dropped.
    Output {
        who: CallInfo,
        line: String,
        skipped_bytes: u64,
    },
    Damaged {
        who: CallInfo,
        reason: String,
    },
}

/// All watched calls.
pub(super) struct CallTracker {
    wanted: StatsFilter,
    acts: BTreeMap<CallId, TrackedCall>,
}

impl CallTracker {
    pub(super) const fn new(wanted: StatsFilter) -> Self {
        Self { wanted, acts: BTreeMap::new() }
    }

    /// Returns the calls, oldest first.
    pub(super) fn calls(&self) -> impl Iterator<Item = &TrackedCall> {
        self.acts.values()
    }

    /// Adds a call that was open at the start, with its current status but not its history.
    pub(super) fn add_existing(&mut self, kept: &StoredCall) -> Option<WatchEvent> {
        let act = TrackedCall::of(kept).filter(|_| self.wanted.matches(&kept.record))?;
        let act = TrackedCall { shown: kept.record.entries().len(), ..act };
        self.acts.insert(act.info.call, act.clone());
        Some(WatchEvent::AlreadyOpen(Box::new(act)))
    }

    /// Updates a call whose record has grown, and returns the new events.
    pub(super) fn follow(&mut self, kept: &StoredCall) -> Vec<WatchEvent> {
        let Some(fresh) = TrackedCall::of(kept).filter(|_| self.wanted.matches(&kept.record)) else {
            return Vec::new();
        };
        let act = self.acts.entry(fresh.info.call).or_insert_with(|| fresh.clone());
        let mut happened = Vec::new();
        if matches!(fresh.stage, CallStage::Settled { .. } | CallStage::Damaged) {
            // Its last output comes before its end.
            happened.extend(act.end_line());
        }
        let entries = kept.record.entries();
        for (seq, entry) in entries.iter().enumerate().skip(act.shown) {
            let took = matches!(entry.event, RecordEvent::Settled(_))
                .then(|| entry.at.saturating_sub(fresh.info.opened_at));
            let (who, entry) = (fresh.info.clone(), Box::new(entry.clone()));
            happened.push(WatchEvent::Entry { who, seq, entry, duration_ms: took });
        }
        if let Some(damage) = kept.record.damage()
            && act.stage != CallStage::Damaged
        {
            happened.push(WatchEvent::Damaged { who: fresh.info.clone(), reason: damage.to_string() });
        }
        act.shown = act.shown.max(entries.len());
        (act.info, act.stage, act.verdict) = (fresh.info, fresh.stage, fresh.verdict);
        happened
    }

    /// Reads the live status of running calls.
    pub(super) fn read_live_statuses(&mut self, state: &Path) -> Vec<WatchEvent> {
        let visible = live_output::visible(state);
        let mut happened = Vec::new();
        for act in self.acts.values_mut() {
            if matches!(act.stage, CallStage::Settled { .. } | CallStage::Damaged) {
                continue;
            }
            if !visible.contains(&act.info.call) {
                act.live = None;
            } else if let Some(glimpse) = live_output::read_status(state, act.info.call) {
                happened.extend(act.see(glimpse));
            }
        }
        happened
    }

    /// Returns one call.
    pub(super) fn call(&self, call: CallId) -> Option<&TrackedCall> {
        self.acts.get(&call)
    }

    /// Removes ended calls, once they were shown.
    pub(super) fn forget_settled(&mut self) {
        self.acts.retain(|_, act| !matches!(act.stage, CallStage::Settled { .. }));
    }
}

impl TrackedCall {
    fn of(kept: &StoredCall) -> Option<Self> {
        let record = &kept.record;
        let heading = record.header()?;
        let listing = kept.call_summary.as_ref();
        let tool = match record.resolved_tool() {
            Some(Ok(terms)) => &terms.tool,
            _ => &heading.tool,
        };
        let who = CallInfo {
            call: record.call(),
            session: heading.session.clone(),
            agent: heading.caller(),
            tool: tool.clone(),
            summary: listing.map(|listing| listing.summary.clone()).unwrap_or_default(),
            opened_at: record.entries().first().map_or(0, |entry| entry.at),
        };
        Some(Self {
            info: who,
            stage: stage(record),
            verdict: verdict(record),
            live: None,
            tail: Vec::new(),
            shown: 0,
            printed: 0,
            partial: String::new(),
        })
    }

    fn see(&mut self, glimpse: LiveStatus) -> Vec<WatchEvent> {
        let mut happened = Vec::new();
        let told = self
            .live
            .as_ref()
            .is_some_and(|live| live.fraction == glimpse.fraction && live.detail == glimpse.detail);
        if !told && (glimpse.fraction.is_some() || !glimpse.detail.is_empty()) {
            let (fraction, detail) = (glimpse.fraction, glimpse.detail.clone());
            happened.push(WatchEvent::Progress { who: self.info.clone(), fraction, detail });
        }
        // The count starts again when another process drives the call.
        if glimpse.output_bytes < self.printed {
            self.printed = 0;
        }
        let (mut left_out, text) = glimpse.since(self.printed);
        if left_out > 0 {
            self.partial.clear();
        }
        self.partial.push_str(text);
        self.printed = glimpse.output_bytes;
        while let Some((line, rest)) = self.partial.split_once('\n') {
            let (line, rest) = (line.to_owned(), rest.to_owned());
            self.partial = rest;
            happened.push(self.line(line, left_out));
            left_out = 0;
        }
        if self.partial.len() > PARTIAL_BYTES_MAX {
            happened.extend(self.end_line());
        }
        self.live = Some(glimpse);
        happened
    }

    /// Returns the incomplete line as a line.
    fn end_line(&mut self) -> Option<WatchEvent> {
        let line = std::mem::take(&mut self.partial);
        (!line.is_empty()).then(|| self.line(line, 0))
    }

    fn line(&mut self, line: String, left_out: u64) -> WatchEvent {
        self.tail.push(line.clone());
        let over = self.tail.len().saturating_sub(TAIL_LINES);
        self.tail.drain(..over);
        WatchEvent::Output { who: self.info.clone(), line, skipped_bytes: left_out }
    }
}

fn stage(record: &Record) -> CallStage {
    if record.damage().is_some() {
        return CallStage::Damaged;
    }
    let last = record.entries().last();
    let at = last.map_or(0, |entry| entry.at);
    if record.outcome().is_some() {
        return CallStage::Settled { at };
    }
    if let NextStep::Wait(question) = next_step(record) {
        return CallStage::Waiting { question, since: at };
    }
    if matches!(last.map(|entry| &entry.event), Some(RecordEvent::RehearsalStarted { .. })) {
        return CallStage::Rehearsing { since: at };
    }
    let begun =
        record.entries().iter().rev().find(|entry| matches!(entry.event, RecordEvent::Started(Ok(_))));
    match (record.attempt(), begun) {
        (Some(Attempt::Open(_)), Some(entry)) => CallStage::Running { since: entry.at },
        _ => CallStage::Open,
    }
}

/// Returns the last decision of the policy: the verdict, the reason and the deciding rule.
fn verdict(record: &Record) -> Option<String> {
    record.entries().iter().rev().find_map(|entry| match &entry.event {
        RecordEvent::PolicyEvaluated(Ok(ruling)) => Some(format_decision(ruling)),
        _ => None,
    })
}

/// Describes a decision with its reason. Not escaped.
pub(super) fn format_decision(ruling: &PolicyDecision) -> String {
    let verdict = ruling.verdict.as_str();
    let Some(reason) = ruling.decisive_reason() else { return verdict.to_owned() };
    let rule = match (&reason.rule, &reason.origin) {
        (Some(rule), Some(origin)) => format!(" ({rule}, {origin})"),
        (Some(rule), None) => format!(" ({rule})"),
        (None, _) => String::new(),
    };
    format!("{verdict}: {}{rule}", reason.message)
}
