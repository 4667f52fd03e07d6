//! The error of an answer that was rejected.

use byleave_core::id::QuestionId;
use byleave_core::transition::TransitionError;

use crate::ledger::LedgerError;

/// The reason why an answer was rejected.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The question does not exist.
    #[error("there is no question {0}")]
    UnknownQuestion(QuestionId),
    /// The answer was given for other contents than this question has now.
    #[error("the answer is for another question (code answer-mismatch)")]
    Mismatch,
    /// The question was already closed, or has expired.
    #[error("the question can no longer be answered: it was answered or cancelled, or has expired")]
    QuestionClosed,
    /// The answer is invalid for this question.
    #[error("the answer is not valid: {0}")]
    InvalidAnswer(String),
    /// Only a person can release a checkpoint or answer in the place of a tool.
    #[error("only a person can {action}: at a terminal, or signed in on the page of the question")]
    NotPerson {
        /// The action that needs a person.
        action: &'static str,
    },
    /// The agent that asks tried to answer itself.
    #[error("an agent cannot answer its own question")]
    SelfAnswer,
    /// The answer could not be recorded.
    #[error("cannot record the answer: {0}")]
    NotRecorded(String),
}

impl From<LedgerError> for AnswerError {
    fn from(fault: LedgerError) -> Self {
        Self::NotRecorded(fault.to_string())
    }
}

impl From<TransitionError> for AnswerError {
    fn from(misplaced: TransitionError) -> Self {
        match misplaced {
            TransitionError::WrongQuestion => Self::Mismatch,
            TransitionError::InvalidAnswerKind => {
                Self::InvalidAnswer("this kind of answer is not valid for this question".into())
            }
            _ => Self::QuestionClosed,
        }
    }
}
