//! What goes over the wire. Stable shapes, exact values: a field may be added, none changes its meaning.

mod asking;
mod book;
mod calls;
mod own_tools;
mod policy;
mod service;
mod whole;
mod workers;

pub(crate) use asking::{Answer, AnswerBody, OpenQuestion, QuestionList, QuestionSheet};
pub(crate) use book::{
    BookQuery, CallEntry, CallList, ExportForm, ExportQuery, LeaveEntry, LeaveList, PageQuery, Recorded,
    Verified,
};
pub(crate) use calls::{
    After, CallBody, CallEvent, CallStanding, LastEvent, ModeWord, Refused, State, WAIT_S_MAX, Wait,
    kind_word,
};
pub(crate) use own_tools::{OwnToolBody, OwnToolName, ReportBody, TakeBody};
pub(crate) use policy::{
    ExplainBody, Explained, POLICY_CHARS_MAX, REPLAY_MAX, ReplayBody, Replayed, ToolEntry, ToolList,
    ToolQuery,
};
pub(crate) use service::{Halt, HaltBody, Health};
pub(crate) use workers::WorkerList;

use crate::problem::{Problem, Trouble};

/// Refuses a text that is shorter or longer than the document says.
pub(crate) fn bounded(what: &str, text: &str, least: usize, most: usize) -> Result<(), Problem> {
    if (least..=most).contains(&text.chars().count()) {
        return Ok(());
    }
    Err(Problem::new(Trouble::Unusable, format!("`{what}` has {least} to {most} characters")))
}
