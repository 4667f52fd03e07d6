//! The exit status of the program. It is computed only here.

use std::process::ExitCode;

use byleave_gate::core::refusal::Code;
use byleave_gate::result::{CallOutcome, CallResult, CallStatus};
use byleave_sandbox::launch;

/// The exit status, in the order of severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExitStatus {
    /// It is done.
    #[default]
    Completed,
    /// It waits for a person, or for another call that does.
    Waiting,
    /// It was refused, or it ran and its result is not released.
    Refused,
    /// The tool reports a failure, the audit log does not verify, or nothing can be confined here.
    Failed,
    /// It is unknown whether it took effect.
    Unknown,
    /// A person stopped it.
    Aborted,
    /// The exit code of a confined command.
    Command(u8),
    /// A usage error or an internal error. No call has failed.
    Unusable,
}

impl ExitStatus {
    /// Returns the exit code, as listed in `byleave --help`.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Completed => 0,
            Self::Failed => 1,
            Self::Unusable => 2,
            Self::Refused => 3,
            Self::Waiting => 4,
            Self::Unknown => 5,
            Self::Aborted => 130,
            Self::Command(code) => code,
        }
    }

    /// A command that could not be confined and was not run.
    pub(crate) const NOT_RUN: Self = Self::Command(125);

    /// Returns the status as a shell reports it.
    pub(crate) fn from_command(status: launch::CommandStatus) -> Self {
        match status {
            launch::CommandStatus::Exited(code) => Self::Command(u8::try_from(code).unwrap_or(1)),
            launch::CommandStatus::Signalled(signal) => {
                Self::Command(u8::try_from(signal.saturating_add(128)).unwrap_or(1))
            }
            // Not found, or not executable.
            launch::CommandStatus::NotStarted(2) => Self::Command(127),
            launch::CommandStatus::NotStarted(_) => Self::Command(126),
        }
    }

    /// Returns the exit status for the status of a call.
    pub(crate) fn from_call_status(standing: &CallStatus) -> Self {
        match standing {
            CallStatus::Settled(result) => Self::of_result(result),
            CallStatus::Waiting { .. } | CallStatus::Blocked { .. } | CallStatus::RunningElsewhere { .. } => {
                Self::Waiting
            }
            // A ready call has nothing left to do here.
            CallStatus::Ready { .. } => Self::Completed,
        }
    }

    fn of_result(result: &CallResult) -> Self {
        match &result.outcome {
            CallOutcome::Completed(_) | CallOutcome::DryRun(_) | CallOutcome::Answered(_) => Self::Completed,
            CallOutcome::Failed(_) => Self::Failed,
            CallOutcome::Refused(refusal) if refusal.code == Code::Aborted => Self::Aborted,
            CallOutcome::Withheld(_) | CallOutcome::Refused(_) => Self::Refused,
            CallOutcome::Unknown(_) => Self::Unknown,
        }
    }

    /// Returns the status after Ctrl-C: aborted, unless it completed or is unknown.
    pub(crate) const fn interrupted(self) -> Self {
        match self {
            Self::Completed | Self::Unknown => self,
            _ => Self::Aborted,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}
