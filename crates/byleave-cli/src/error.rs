//! Errors of the program: what failed and why, and what to do next.

use byleave_gate::catalog::UnknownToolError;
use byleave_gate::gate::AnswerError;

use crate::exit_status::ExitStatus;

/// An error with its exit code and a hint.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct CliError {
    what: String,
    pub(crate) status: ExitStatus,
    pub(crate) hint: Option<String>,
}

impl CliError {
    /// Creates an error for something that cannot be done as typed, or not at all.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: ExitStatus::Unusable, hint: None }
    }

    /// Creates an error for a refusal.
    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: ExitStatus::Refused, hint: None }
    }

    /// Creates an error for a command that could not be confined and was not run.
    pub(crate) fn not_run(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: ExitStatus::NOT_RUN, hint: None }
    }

    /// Creates the error that the state directory is unknown.
    pub(crate) fn no_state_dir() -> Self {
        Self::new("the state directory for the audit log is not known")
            .hint("choose a directory with `--state`")
    }

    /// Returns the hint of an error, if a [`CliError`] in its chain has one.
    pub(crate) fn hint_in(error: &anyhow::Error) -> Option<&str> {
        error.chain().find_map(|cause| cause.downcast_ref::<Self>()?.hint.as_deref())
    }

    /// Adds what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Returns what a person can do about a tool that is not in the catalog.
pub(crate) fn unknown_tool_hint(name: &str) -> &'static str {
    match name {
        "delete_file" => {
            "write `allow_delete = true` with `byleave config edit`, or set BYLEAVE_ALLOW_DELETE=1 for one command"
        }
        _ => "`byleave tools` lists the tools",
    }
}

impl From<UnknownToolError> for CliError {
    fn from(unknown: UnknownToolError) -> Self {
        Self::new(unknown.to_string()).hint(unknown_tool_hint(&unknown.name))
    }
}

impl From<AnswerError> for CliError {
    fn from(fault: AnswerError) -> Self {
        let what = fault.to_string();
        match fault {
            AnswerError::UnknownQuestion(_) => {
                Self::new(what).hint("`byleave inbox` lists the open questions")
            }
            AnswerError::QuestionClosed => {
                Self::new(what).hint("`byleave log` shows the outcome of its call")
            }
            AnswerError::Mismatch => {
                Self::refused(what).hint("`byleave inbox show` shows the current question")
            }
            AnswerError::SelfAnswer => {
                Self::refused(what).hint("answer under a name that is not the agent's")
            }
            AnswerError::NotPerson { .. } => Self::refused(what)
                .hint("answer in a terminal with `byleave inbox`, or in the browser with `byleave serve`"),
            AnswerError::InvalidAnswer(_) => Self::new(what)
                .hint("`byleave inbox show` shows the question; yes, no and abort are always valid"),
            AnswerError::NotRecorded(_) => Self::new(what).hint("nothing was changed; try again"),
        }
    }
}
