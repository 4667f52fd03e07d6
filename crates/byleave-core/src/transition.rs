//! What may be written on a record: only what answers the walk's own question.
//!
//! A record takes an entry only if [`next`] asks for it, for the very thing asked; so a record that exists is a legal
//! one. Entries read back from a store are checked the same way: where one does not belong, the record is broken there,
//! and the walk settles it safely.

use crate::call::Millis;
use crate::entry::{Entry, RecordEvent};
use crate::hash_chain::{ChainDamage, ChainedEntry};
use crate::id::CallId;
use crate::pipeline::{NextStep, Task, next};
use crate::question::{Answer, Question, QuestionKind, RecordedAnswer};
use crate::record::Record;
use crate::refusal::Code;

impl Record {
    /// Reads a record back. Never fails: what does not belong makes a broken record, which the walk settles safely.
    pub fn read(call: CallId, lines: &[ChainedEntry]) -> Self {
        let mut record = Self::new(call);
        for (seq, line) in (0_u32..).zip(lines) {
            if let Err(damage) = record.take(seq, line) {
                record.break_at(damage);
                break;
            }
        }
        record
    }

    fn take(&mut self, seq: u32, line: &ChainedEntry) -> Result<(), ChainDamage> {
        if line.seq() != seq {
            return Err(ChainDamage::Order { seq, found: line.seq() });
        }
        if !line.follows(self.call(), &self.head()) {
            return Err(ChainDamage::Link { seq });
        }
        let entry: Entry = serde_json::from_str(line.body())
            .map_err(|error| ChainDamage::Unreadable { seq, why: error.to_string() })?;
        admit(self, &entry)
            .map_err(|misplaced| ChainDamage::Misplaced { seq, why: misplaced.to_string() })?;
        self.put(entry, line.link());
        Ok(())
    }

    /// Whether an entry belongs at the end of this record.
    pub fn admits(&self, entry: &Entry) -> Result<(), TransitionError> {
        admit(self, entry)
    }

    /// Writes an entry down, if it is one that belongs here, and returns it as it is to be stored.
    pub fn push(&mut self, entry: Entry) -> Result<ChainedEntry, TransitionError> {
        admit(self, &entry)?;
        let seq = self.len();
        let body = entry.to_json().ok_or(TransitionError::Unwritable)?;
        let line = ChainedEntry::linked(self.call(), self.head(), seq, body);
        self.put(entry, line.link());
        Ok(line)
    }
}

/// Why an entry does not belong on a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// The record is damaged; nothing more is written on it.
    #[error("the record is damaged")]
    Damaged,
    /// It is not what the walk asked for.
    #[error("`{entry}` does not belong here: {expected}")]
    OutOfTurn {
        /// The kind of entry.
        entry: &'static str,
        /// What would have.
        expected: String,
    },
    /// The answer is for another question, or for one that was asked about something else.
    #[error("the answer belongs to another question")]
    OtherQuestion,
    /// The question was closed already, or is too old.
    #[error("the question can no longer be answered")]
    Late,
    /// The answer is of a kind that this question cannot have.
    #[error("this question cannot be answered so")]
    WrongAnswer,
    /// The claim does not rest on the grant.
    #[error("the claim does not rest on the grant")]
    OtherGrant,
    /// The grant was used already.
    #[error("the grant was used already")]
    GrantUsed,
    /// The grant is too old.
    #[error("the grant is too old")]
    GrantExpired,
    /// The entry cannot be written as JSON.
    #[error("the entry cannot be written")]
    Unwritable,
}

impl TransitionError {
    /// The refusal code that says the same.
    pub const fn code(&self) -> Code {
        match self {
            Self::Damaged | Self::OutOfTurn { .. } | Self::Unwritable => Code::RecordBroken,
            Self::OtherQuestion | Self::WrongAnswer => Code::AnswerMismatch,
            Self::Late => Code::Unanswered,
            Self::OtherGrant | Self::GrantUsed => Code::GrantUsed,
            Self::GrantExpired => Code::GrantExpired,
        }
    }
}

/// Whether an entry belongs at the end of a record: it must be what [`next`] asks for, for the very thing asked.
fn admit(record: &Record, entry: &Entry) -> Result<(), TransitionError> {
    if record.damage().is_some() {
        return Err(TransitionError::Damaged);
    }
    if record.is_empty() {
        return match &entry.fact {
            RecordEvent::Received(_) => Ok(()),
            other => Err(out_of_turn(other, "a record begins with `received`")),
        };
    }
    let next = next(record);
    let fact = &entry.fact;
    match (&next, fact) {
        (NextStep::Do(task), _) if answers(record, task, entry)? => Ok(()),
        (NextStep::Wait(question), RecordEvent::Answered(answered)) => {
            admit_answer(record, question, answered, entry.at)
        }
        (NextStep::Wait(question), RecordEvent::Expired { question: id }) => {
            if *id != question.id || entry.at < question.expires_at {
                Err(TransitionError::OtherQuestion)
            } else {
                Ok(())
            }
        }
        (NextStep::Wait(question), RecordEvent::Unasked { question: id, .. }) => {
            if *id == question.id {
                Ok(())
            } else {
                Err(TransitionError::OtherQuestion)
            }
        }
        (NextStep::Do(_) | NextStep::Wait(_), RecordEvent::Cancelled { .. })
            if record.cancelled().is_none() =>
        {
            Ok(())
        }
        (NextStep::Settle(outcome), RecordEvent::Settled(written))
            if outcome == written && record.settled().is_none() =>
        {
            Ok(())
        }
        (_, RecordEvent::Answered(_) | RecordEvent::Expired { .. } | RecordEvent::Unasked { .. }) => {
            Err(TransitionError::Late)
        }
        (_, RecordEvent::Begun(_)) if record.attempts() > 0 => Err(TransitionError::GrantUsed),
        (NextStep::Do(task), _) => Err(out_of_turn(fact, task.name())),
        (NextStep::Wait(_), _) => Err(out_of_turn(fact, "a question is open")),
        (NextStep::Settle(outcome), _) => Err(out_of_turn(fact, outcome.word())),
    }
}

fn out_of_turn(fact: &RecordEvent, expected: &str) -> TransitionError {
    TransitionError::OutOfTurn { entry: fact.kind(), expected: expected.into() }
}

/// Whether the entry is what came of the task.
fn answers(record: &Record, task: &Task, entry: &Entry) -> Result<bool, TransitionError> {
    Ok(match (task, &entry.fact) {
        (Task::Resolve, RecordEvent::Resolved(_))
        | (Task::Validate, RecordEvent::Validated(_))
        | (Task::Plan, RecordEvent::Planned(_))
        | (Task::Permit, RecordEvent::Permitted(_))
        | (Task::ReviewInput, RecordEvent::Reviewed(_))
        | (Task::Challenge, RecordEvent::Challenged(_))
        | (Task::ReviewOutput, RecordEvent::OutputReviewed(_))
        | (Task::Rehearse, RecordEvent::Rehearsed(_))
        | (Task::Ask(_), RecordEvent::Asked(Err(_)))
        | (Task::Begin(_), RecordEvent::Begun(Err(_))) => true,
        (Task::OpenRehearsal(binding), RecordEvent::Rehearsing { binding: written }) => binding == written,
        // Only before anything was committed: from then on the copy is the journal's business.
        (Task::Begin(_), RecordEvent::RehearsalLost { rehearsal }) => {
            let lost = record.draft().and_then(|draft| draft.rehearsal());
            record.attempts() == 0 && lost.is_some_and(|head| head.digest() == *rehearsal)
        }
        (Task::Ask(asking), RecordEvent::Asked(Ok(question))) => {
            if question.kind != asking.kind || question.binding != asking.binding {
                return Err(TransitionError::OtherQuestion);
            }
            record.question(question.id).is_none()
        }
        (Task::Begin(grant), RecordEvent::Begun(Ok(claim))) => {
            if !grant.covers(claim) {
                return Err(TransitionError::OtherGrant);
            }
            if record.has_attempt(claim.attempt) {
                return Err(TransitionError::GrantUsed);
            }
            if grant.is_expired(entry.at) {
                return Err(TransitionError::GrantExpired);
            }
            true
        }
        (Task::Execute { attempt, .. }, RecordEvent::Ended { attempt: ended, .. })
        | (Task::Execute { attempt, .. }, RecordEvent::Interrupted { attempt: ended }) => attempt == ended,
        _ => false,
    })
}

fn admit_answer(
    record: &Record,
    question: &Question,
    answered: &RecordedAnswer,
    at: Millis,
) -> Result<(), TransitionError> {
    if answered.question != question.id || answered.digest != question.digest() {
        return Err(TransitionError::OtherQuestion);
    }
    if at > question.expires_at {
        return Err(TransitionError::Late);
    }
    let fits = match (&answered.answer, question.kind) {
        (Answer::Yes { .. } | Answer::No { .. } | Answer::Edit { .. } | Answer::Abort, _) => true,
        (Answer::Leave(_), kind) => kind == QuestionKind::Approval,
        // Only of what was really seen can a part be chosen.
        (Answer::Part { .. }, kind) => {
            let rehearsal = record.draft().and_then(|draft| draft.rehearsal());
            kind == QuestionKind::Approval && rehearsal.is_some_and(|head| head.stands)
        }
    };
    if fits { Ok(()) } else { Err(TransitionError::WrongAnswer) }
}
