//! The request and response bodies of the API. They are stable: a field may be added, but no field changes its meaning.

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
    AfterQuery, CallBody, CallEvent, CallStateName, CallStatusBody, LastEventHeader, MAX_WAIT_S, ModeName,
    RefusalBody, WaitQuery, kind_as_str,
};
pub(crate) use client_tools::{
    ClaimBody, ClientToolBody, ClientToolName, InputReview, OutputReview, ReportBody,
};
pub(crate) use policy::{
    ExplainBody, ExplanationBody, MAX_POLICY_CHARS, MAX_REPLAY, ReplayBody, ReplayReport, ToolEntry,
    ToolList, ToolQuery,
};
pub(crate) use questions::{
    AnswerBody, AnswerChoice, ChallengeBody, OpenQuestion, QuestionList, QuestionViewBody,
};
pub(crate) use service::{HaltBody, HaltStatus, Health};
pub(crate) use workers::WorkerList;

use crate::problem::{Problem, ProblemKind};

/// Rejects a text that is shorter or longer than the OpenAPI document says.
pub(crate) fn check_length(what: &str, text: &str, least: usize, most: usize) -> Result<(), Problem> {
    if (least..=most).contains(&text.chars().count()) {
        return Ok(());
    }
    Err(Problem::new(ProblemKind::Unusable, format!("`{what}` must have {least} to {most} characters")))
}
