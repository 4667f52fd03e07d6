//! Extracts the fields that lists are built from: those found in the entries of an append, and the summary of a call.
//!
//! These are pure functions, shared by every audit log. Their results must only be used to find things.

use byleave_core::call::Millis;
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::grant::GrantedBy;
use byleave_core::id::{AttemptId, StandingApprovalId};
use byleave_core::question::{Answer, QuestionKind};
use byleave_core::record::Record;
use serde::{Deserialize, Serialize};

use crate::audit_log::CallState;
use crate::ledger::CallSummary;

/// The fields found in the entries of one append.
#[derive(Clone, Debug, Default)]
pub struct IndexFields {
    /// When the first entry was written.
    pub opened_at: Millis,
    /// When the last entry was written.
    pub changed_at: Millis,
    /// The outcome as a single word, with the code of a refusal.
    pub outcome: Option<(&'static str, Option<&'static str>)>,
    /// When a person was asked.
    pub asked_at: Millis,
    /// Whether an attempt ended or was interrupted.
    pub attempt_ended: bool,
    /// Whether an attempt ended whose output may hold text of strangers.
    pub read_foreign: bool,
    /// Standing approvals that were given, each with its tool.
    pub approvals_granted: Vec<(StandingApprovalId, String)>,
    /// Standing approvals that were used, each with the attempt.
    pub approvals_used: Vec<(StandingApprovalId, AttemptId)>,
}

impl IndexFields {
    /// Extracts the fields from these entries.
    pub fn from_entries(entries: &[Entry]) -> Self {
        let mut marks = Self {
            opened_at: entries.first().map_or(0, |entry| entry.at),
            changed_at: entries.last().map_or(0, |entry| entry.at),
            ..Self::default()
        };
        for entry in entries {
            match &entry.event {
                RecordEvent::Asked(Ok(_)) => marks.asked_at = entry.at,
                RecordEvent::Answered(answered) => {
                    if let Answer::StandingApproval(leave) = &answered.answer {
                        marks.approvals_granted.push((leave.id, leave.tool.clone()));
                    }
                }
                RecordEvent::Started(Ok(claim)) => {
                    if let GrantedBy::StandingApproval(leave) = claim.granted_by {
                        marks.approvals_used.push((leave, claim.attempt));
                    }
                }
                RecordEvent::Ended { end, .. } => {
                    marks.attempt_ended = true;
                    marks.read_foreign |= end.read_foreign;
                }
                RecordEvent::Observed { .. } | RecordEvent::Interrupted { .. } => {
                    marks.attempt_ended = true;
                }
                RecordEvent::Settled(outcome) => {
                    let code = outcome.refusal().map(|refusal| refusal.code.as_str());
                    marks.outcome = Some((outcome.as_str(), code));
                }
                _ => {}
            }
        }
        marks
    }
}

/// The part of a call's summary that the record does not contain. It is stored with the contents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListNote {
    tool: String,
    operation: String,
    summary: String,
}

impl ListNote {
    /// Encodes the note for a summary.
    pub fn to_text(listing: &CallSummary) -> String {
        let CallSummary { tool, operation, summary, .. } = listing.clone();
        serde_json::to_string(&Self { tool, operation, summary }).unwrap_or_default()
    }

    /// Decodes a note.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Builds the summary of a call. Agent and session come from the record, the rest from the note while it can be read.
pub fn call_summary(record: &Record, noted: Option<&ListNote>) -> Option<CallSummary> {
    let heading = record.header()?;
    let (tool, operation, summary) = match (noted, record.resolved_tool()) {
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

/// Encodes a state for storage.
pub const fn state_to_number(state: CallState) -> i64 {
    match state {
        CallState::Open => 0,
        CallState::Waiting => 1,
        CallState::Settled => 2,
        CallState::Damaged => 3,
    }
}

/// Decodes a stored state. An unknown number becomes [`CallState::Damaged`].
pub const fn state_from_number(number: i64) -> CallState {
    match number {
        0 => CallState::Open,
        1 => CallState::Waiting,
        2 => CallState::Settled,
        _ => CallState::Damaged,
    }
}

/// Encodes a kind of question for storage.
pub const fn kind_to_number(kind: QuestionKind) -> i64 {
    match kind {
        QuestionKind::Approval => 0,
        QuestionKind::Checkpoint => 1,
        QuestionKind::Release => 2,
    }
}

/// Decodes a stored kind of question.
pub const fn kind_from_number(number: i64) -> QuestionKind {
    match number {
        0 => QuestionKind::Approval,
        1 => QuestionKind::Checkpoint,
        _ => QuestionKind::Release,
    }
}
