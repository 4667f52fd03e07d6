//! Transitions: the check of every entry that is written on a record.
//!
//! A record accepts an entry only if [`next_step`] asks for it, and only for exactly what was asked. Every existing record is therefore valid.
//! Entries that are read back from a store are checked in the same way. If one is not valid, the record is damaged at that entry, and the
//! pipeline settles it safely.

use crate::call::Millis;
use crate::entry::{Entry, RecordEvent};
use crate::hash_chain::{ChainDamageError, ChainedEntry};
use crate::id::CallId;
use crate::pipeline::{NextStep, Task, next_step};
use crate::question::{Answer, Question, QuestionKind, RecordedAnswer};
use crate::record::Record;
use crate::refusal::Code;

impl Record {
    /// Reads a record back. It never fails: an entry that is not valid makes a damaged record, which the pipeline settles safely.
    pub fn from_stored_entries(call: CallId, lines: &[ChainedEntry]) -> Self {
        let mut record = Self::new(call);
        for (seq, line) in (0_u32..).zip(lines) {
            if let Err(damage) = record.append_stored(seq, line) {
                record.mark_damaged(damage);
                break;
            }
        }
        record
    }

    fn append_stored(&mut self, seq: u32, line: &ChainedEntry) -> Result<(), ChainDamageError> {
        if line.seq() != seq {
            return Err(ChainDamageError::Order { seq, actual_seq: line.seq() });
        }
        if !line.has_valid_link(self.call(), &self.head()) {
            return Err(ChainDamageError::Link { seq });
        }
        let entry: Entry = serde_json::from_str(line.body())
            .map_err(|error| ChainDamageError::Unreadable { seq, why: error.to_string() })?;
        check_transition(self, &entry)
            .map_err(|misplaced| ChainDamageError::InvalidTransition { seq, why: misplaced.to_string() })?;
        self.append_entry(entry, line.link());
        Ok(())
    }

    /// Checks whether an entry may be appended to this record.
    pub fn check_append(&self, entry: &Entry) -> Result<(), TransitionError> {
        check_transition(self, entry)
    }

    /// Appends an entry if it is valid here, and returns it in the form in which it is stored.
    pub fn push(&mut self, entry: Entry) -> Result<ChainedEntry, TransitionError> {
        check_transition(self, &entry)?;
        let seq = self.len();
        let body = entry.to_json().ok_or(TransitionError::NotSerializable)?;
        let line = ChainedEntry::new(self.call(), self.head(), seq, body);
        self.append_entry(entry, line.link());
        Ok(line)
    }
}

/// The reason why an entry may not be appended to a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// The record is damaged. Nothing more is written on it.
    #[error("the record is damaged")]
    Damaged,
    /// The entry is not what the pipeline asked for.
    #[error("unexpected entry `{entry}`: expected {expected}")]
    UnexpectedEntry {
        /// The kind of entry.
        entry: &'static str,
        /// The entry that was expected.
        expected: String,
    },
    /// The answer is for another question, or for a question about something else.
    #[error("the answer is for another question")]
    WrongQuestion,
    /// The question was already closed, or is expired.
    #[error("the question can no longer be answered")]
    QuestionClosed,
    /// This kind of answer is not valid for this question.
    #[error("this kind of answer is not valid for this question")]
    InvalidAnswerKind,
    /// The claim is not based on the grant.
    #[error("the claim does not match the grant")]
    WrongGrant,
    /// The grant was already used.
    #[error("the grant was already used")]
    GrantUsed,
    /// The grant is expired.
    #[error("the grant has expired")]
    GrantExpired,
    /// The entry cannot be written as JSON.
    #[error("the entry cannot be encoded as JSON")]
    NotSerializable,
}

impl TransitionError {
    /// Returns the corresponding refusal code.
    pub const fn code(&self) -> Code {
        match self {
            Self::Damaged | Self::UnexpectedEntry { .. } | Self::NotSerializable => Code::RecordBroken,
            Self::WrongQuestion | Self::InvalidAnswerKind => Code::AnswerMismatch,
            Self::QuestionClosed => Code::Unanswered,
            Self::WrongGrant | Self::GrantUsed => Code::GrantUsed,
            Self::GrantExpired => Code::GrantExpired,
        }
    }
}

/// Checks whether an entry may be appended to a record. It must be what [`next`] asks for, for exactly the thing asked.
fn check_transition(record: &Record, entry: &Entry) -> Result<(), TransitionError> {
    if record.damage().is_some() {
        return Err(TransitionError::Damaged);
    }
    if record.is_empty() {
        return match &entry.event {
            RecordEvent::Received(_) => Ok(()),
            other => Err(unexpected_entry(other, "`received`, the first entry of a record")),
        };
    }
    let next = next_step(record);
    let fact = &entry.event;
    match (&next, fact) {
        (NextStep::Do(task), _) if is_result_of(record, task, entry)? => Ok(()),
        (NextStep::Wait(question), RecordEvent::Answered(answered)) => {
            check_answer(record, question, answered, entry.at)
        }
        (NextStep::Wait(question), RecordEvent::Expired { question: id }) => {
            if *id != question.id || entry.at < question.expires_at {
                Err(TransitionError::WrongQuestion)
            } else {
                Ok(())
            }
        }
        (NextStep::Wait(question), RecordEvent::ApproverFailed { question: id, .. }) => {
            if *id == question.id { Ok(()) } else { Err(TransitionError::WrongQuestion) }
        }
        (NextStep::Do(_) | NextStep::Wait(_), RecordEvent::Cancelled { .. })
            if record.cancelled_by().is_none() =>
        {
            Ok(())
        }
        (NextStep::Settle(outcome), RecordEvent::Settled(written))
            if outcome == written && record.outcome().is_none() =>
        {
            Ok(())
        }
        (_, RecordEvent::Answered(_) | RecordEvent::Expired { .. } | RecordEvent::ApproverFailed { .. }) => {
            Err(TransitionError::QuestionClosed)
        }
        (_, RecordEvent::Started(_)) if record.attempts() > 0 => Err(TransitionError::GrantUsed),
        (NextStep::Do(task), _) => {
            Err(unexpected_entry(fact, &format!("the result of the task `{}`", task.name())))
        }
        (NextStep::Wait(_), _) => Err(unexpected_entry(fact, "an answer, because a question is open")),
        (NextStep::Settle(_), _) if record.outcome().is_some() => {
            Err(unexpected_entry(fact, "no entry after `settled`"))
        }
        (NextStep::Settle(outcome), _) => {
            Err(unexpected_entry(fact, &format!("`settled` with the outcome `{}`", outcome.as_str())))
        }
    }
}

fn unexpected_entry(fact: &RecordEvent, expected: &str) -> TransitionError {
    TransitionError::UnexpectedEntry { entry: fact.kind(), expected: expected.into() }
}

/// Checks whether the entry is the result of the task.
fn is_result_of(record: &Record, task: &Task, entry: &Entry) -> Result<bool, TransitionError> {
    Ok(match (task, &entry.event) {
        (Task::Resolve, RecordEvent::Resolved(_))
        | (Task::Validate, RecordEvent::Validated(_))
        | (Task::Plan, RecordEvent::Planned(_))
        | (Task::EvaluatePolicy, RecordEvent::PolicyEvaluated(_))
        | (Task::ReviewInput, RecordEvent::Reviewed(_))
        | (Task::Challenge, RecordEvent::Challenged(_))
        | (Task::ReviewOutput, RecordEvent::OutputReviewed(_))
        | (Task::Rehearse, RecordEvent::RehearsalFinished(_))
        | (Task::Ask(_), RecordEvent::Asked(Err(_)))
        | (Task::Start(_), RecordEvent::Started(Err(_))) => true,
        (Task::StartRehearsal(binding), RecordEvent::RehearsalStarted { binding: written }) => {
            binding == written
        }
        // Only before the commit began. From then on the journal is responsible for the copy.
        (Task::Start(_), RecordEvent::RehearsalCopyMissing { rehearsal }) => {
            let lost = record.draft().and_then(|draft| draft.rehearsal_summary());
            let observed = record.draft().and_then(|draft| draft.observed_run());
            record.attempts() == 0
                && observed.is_none()
                && lost.is_some_and(|head| head.digest() == *rehearsal)
        }
        (Task::Ask(asking), RecordEvent::Asked(Ok(question))) => {
            if question.kind != asking.kind || question.binding != asking.binding {
                return Err(TransitionError::WrongQuestion);
            }
            record.question(question.id).is_none()
        }
        (Task::Start(grant), RecordEvent::Started(Ok(claim))) => {
            if !grant.covers(claim) {
                return Err(TransitionError::WrongGrant);
            }
            if record.has_attempt(claim.attempt) {
                return Err(TransitionError::GrantUsed);
            }
            if grant.is_expired(entry.at) {
                return Err(TransitionError::GrantExpired);
            }
            true
        }
        // A run that began as the commit of a rehearsal has nothing more to observe.
        (Task::Execute { attempt, .. }, RecordEvent::Observed { attempt: ended, .. }) => {
            let run = record.draft().and_then(|draft| draft.rehearsal_summary());
            attempt == ended && run.is_none_or(|run| !run.committable)
        }
        (Task::Execute { attempt, .. }, RecordEvent::Ended { attempt: ended, .. })
        | (Task::Execute { attempt, .. }, RecordEvent::Interrupted { attempt: ended }) => attempt == ended,
        _ => false,
    })
}

fn check_answer(
    record: &Record,
    question: &Question,
    answered: &RecordedAnswer,
    at: Millis,
) -> Result<(), TransitionError> {
    if answered.question != question.id || answered.digest != question.digest() {
        return Err(TransitionError::WrongQuestion);
    }
    if at > question.expires_at {
        return Err(TransitionError::QuestionClosed);
    }
    let fits = match (&answered.answer, question.kind) {
        (Answer::Yes { .. } | Answer::No { .. } | Answer::Edit { .. } | Answer::Abort, _) => true,
        (Answer::StandingApproval(_), kind) => kind == QuestionKind::Approval,
        (Answer::Result { .. }, kind) => {
            kind == QuestionKind::Approval && answered.approver.assurance.is_person()
        }
        // A part can be chosen only from a rehearsal.
        (Answer::Partial { .. }, kind) => {
            let rehearsal = record.draft().and_then(|draft| draft.rehearsal_summary());
            kind == QuestionKind::Approval && rehearsal.is_some_and(|head| head.committable)
        }
    };
    if fits { Ok(()) } else { Err(TransitionError::InvalidAnswerKind) }
}
