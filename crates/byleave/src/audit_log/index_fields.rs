//! What lists are made of: what the entries of an append say by themselves, and what a call is listed as.
//!
//! Pure functions for every book. What they say is for finding things, and for nothing else.

use byleave_core::call::Millis;
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::grant::GrantedBy;
use byleave_core::id::{AttemptId, StandingApprovalId};
use byleave_core::question::{Answer, QuestionKind};
use byleave_core::record::Record;
use serde::{Deserialize, Serialize};

use crate::audit_log::CallState;
use crate::ledger::CallSummary;

/// What the entries of one append say by themselves.
#[derive(Clone, Debug, Default)]
pub struct IndexFields {
    /// When the first of them was written.
    pub opened_at: Millis,
    /// When the last of them was written.
    pub changed_at: Millis,
    /// The outcome in a word, with the code of a refusal.
    pub outcome: Option<(&'static str, Option<&'static str>)>,
    /// When a person was asked.
    pub asked_at: Millis,
    /// An attempt ended or was interrupted.
    pub ends: bool,
    /// Leaves that were given, each with its tool.
    pub leaves_given: Vec<(StandingApprovalId, String)>,
    /// Leaves that were used, each with the attempt.
    pub leaves_used: Vec<(StandingApprovalId, AttemptId)>,
}

impl IndexFields {
    /// What these entries say.
    pub fn of(entries: &[Entry]) -> Self {
        let mut marks = Self {
            opened_at: entries.first().map_or(0, |entry| entry.at),
            changed_at: entries.last().map_or(0, |entry| entry.at),
            ..Self::default()
        };
        for entry in entries {
            match &entry.fact {
                RecordEvent::Asked(Ok(_)) => marks.asked_at = entry.at,
                RecordEvent::Answered(answered) => {
                    if let Answer::Leave(leave) = &answered.answer {
                        marks.leaves_given.push((leave.id, leave.tool.clone()));
                    }
                }
                RecordEvent::Begun(Ok(claim)) => {
                    if let GrantedBy::Leave(leave) = claim.by {
                        marks.leaves_used.push((leave, claim.attempt));
                    }
                }
                RecordEvent::Ended { .. } | RecordEvent::Interrupted { .. } => marks.ends = true,
                RecordEvent::Settled(outcome) => {
                    let code = outcome.refusal().map(|refusal| refusal.code.as_str());
                    marks.outcome = Some((outcome.word(), code));
                }
                _ => {}
            }
        }
        marks
    }
}

/// What stands in a list of calls and cannot be read off the record; kept with the contents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListNote {
    tool: String,
    operation: String,
    summary: String,
}

impl ListNote {
    /// The note on a listing, as it is kept.
    pub fn text(listing: &CallSummary) -> String {
        let CallSummary { tool, operation, summary, .. } = listing.clone();
        serde_json::to_string(&Self { tool, operation, summary }).unwrap_or_default()
    }

    /// Reads a note back.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// What a list shows of a call: who and where from its record, the rest as it was noted, while it can be read.
pub fn listing_of(record: &Record, noted: Option<&ListNote>) -> Option<CallSummary> {
    let heading = record.heading()?;
    let (tool, operation, summary) = match (noted, record.resolved()) {
        (Some(note), _) => (note.tool.clone(), note.operation.clone(), note.summary.clone()),
        (None, Some(Ok(terms))) => (terms.tool.clone(), terms.operation.clone(), String::new()),
        (None, _) => (heading.tool.clone(), String::new(), String::new()),
    };
    Some(CallSummary {
        tenant: heading.tenant.clone(),
        session: heading.session.clone(),
        agent: heading.caller(),
        tool,
        operation,
        summary,
    })
}

/// A state as it is stored.
pub const fn state_number(state: CallState) -> i64 {
    match state {
        CallState::Open => 0,
        CallState::Waiting => 1,
        CallState::Settled => 2,
        CallState::Damaged => 3,
    }
}

/// A state as it was stored. What is none counts as damaged.
pub const fn state_from(number: i64) -> CallState {
    match number {
        0 => CallState::Open,
        1 => CallState::Waiting,
        2 => CallState::Settled,
        _ => CallState::Damaged,
    }
}

/// A kind of question as it is stored.
pub const fn kind_number(kind: QuestionKind) -> i64 {
    match kind {
        QuestionKind::Approval => 0,
        QuestionKind::Checkpoint => 1,
        QuestionKind::Release => 2,
    }
}

/// A kind of question as it was stored.
pub const fn kind_from(number: i64) -> QuestionKind {
    match number {
        0 => QuestionKind::Approval,
        1 => QuestionKind::Checkpoint,
        _ => QuestionKind::Release,
    }
}
