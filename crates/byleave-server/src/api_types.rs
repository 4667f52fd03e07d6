//! What goes over the wire. Stable shapes, exact values: a field may be added, none changes its meaning.

mod audit_log;
mod calls;
mod client_tools;
mod integer;
mod policy;
mod questions;
mod service;
mod workers;

pub(crate) use audit_log::{
    AuditLogQuery, CallEntry, CallList, ExportFormat, ExportQuery, PageQuery, RecordBody,
    StandingApprovalEntry, StandingApprovalList, VerificationReport,
};
pub(crate) use calls::{
    AfterQuery, CallBody, CallEvent, CallStateName, CallStatusBody, LastEventHeader, ModeName, RefusalBody,
    WAIT_S_MAX, WaitQuery, kind_word,
};
pub(crate) use client_tools::{
    ClaimBody, ClientToolBody, ClientToolName, InputReview, OutputReview, ReportBody,
};
pub(crate) use policy::{
    ExplainBody, ExplanationBody, POLICY_CHARS_MAX, REPLAY_MAX, ReplayBody, ReplayReport, ToolEntry,
    ToolList, ToolQuery,
};
pub(crate) use questions::{AnswerBody, AnswerChoice, OpenQuestion, QuestionList, QuestionViewBody};
pub(crate) use service::{HaltBody, HaltStatus, Health};
pub(crate) use workers::WorkerList;

use crate::problem::{Problem, ProblemKind};

/// Refuses a text that is shorter or longer than the document says.
pub(crate) fn bounded(what: &str, text: &str, least: usize, most: usize) -> Result<(), Problem> {
    if (least..=most).contains(&text.chars().count()) {
        return Ok(());
    }
    Err(Problem::new(ProblemKind::Unusable, format!("`{what}` has {least} to {most} characters")))
}
