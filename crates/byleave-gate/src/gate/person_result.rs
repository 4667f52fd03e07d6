//! A person answers in the place of the tool: checks who may, and stores the text as an output.
//!
//! The tool never starts. The reviewers of results read the text like the output of the tool.

use byleave_core::outcome::Output;
use byleave_core::question::{Answer, ApproverIdentity, Question, QuestionKind};

use crate::gate::answer_error::AnswerError;
use crate::gate::truncate;
use crate::gate::working_record::WorkingRecord;

/// Checks that this approver may give the result of the call that the question is about.
pub(crate) fn check_may_answer(question: &Question, approver: &ApproverIdentity) -> Result<(), AnswerError> {
    let invalid = |why: &str| Err(AnswerError::InvalidAnswer(why.to_owned()));
    match question.kind {
        QuestionKind::Checkpoint => {
            invalid("a checkpoint cannot be answered in the place of the tool; release it or decline it")
        }
        QuestionKind::Release => {
            invalid("this question is about a result, so there is no tool to answer for; edit the result")
        }
        QuestionKind::Approval if !approver.assurance.is_person() => {
            Err(AnswerError::NotPerson { action: "answer in the place of a tool" })
        }
        QuestionKind::Approval => Ok(()),
    }
}

/// Stores the text of a person as the output of a tool, within the same limit.
pub(crate) fn store(desk: &mut WorkingRecord, text: String) -> Result<Answer, AnswerError> {
    if text.trim().is_empty() {
        let why = "the result is empty; write what the model gets in the place of the tool's output";
        return Err(AnswerError::InvalidAnswer(why.to_owned()));
    }
    let mut output = Output::text(text);
    truncate::truncate_stored(&mut output, desk.stored_output_limit());
    Ok(Answer::Result { output: desk.store_content(&output) })
}
