//! How the program exits: computed here and nowhere else.

use std::process::ExitCode;

use byleave::core::refusal::Code;
use byleave::result::{CallOutcome, CallResult, CallStatus};
use byleave_sandbox::launch;

/// How the program exits; the worse, the further down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExitStatus {
    /// It is done.
    #[default]
    Completed,
    /// It waits for a person, or behind a call that does.
    Waiting,
    /// We said no; or it ran, and its result is not released.
    Refused,
    /// The tool says that it failed, the book does not verify, or nothing can be confined here.
    Failed,
    /// Nobody can say whether it took effect.
    Unknown,
    /// A person stopped it.
    Aborted,
    /// A confined command ended so.
    Command(u8),
    /// It was typed wrongly, or the program itself could not do it; no call has failed.
    Unusable,
}

impl ExitStatus {
    /// The exit code, as `byleave --help` lists them.
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

    /// A command that could not be confined, and was not run.
    pub(crate) const NOT_RUN: Self = Self::Command(125);

    /// As a shell tells it.
    pub(crate) fn of_command(status: launch::CommandStatus) -> Self {
        match status {
            launch::CommandStatus::Exited(code) => Self::Command(u8::try_from(code).unwrap_or(1)),
            launch::CommandStatus::Signalled(signal) => {
                Self::Command(u8::try_from(signal.saturating_add(128)).unwrap_or(1))
            }
            // Not there, or not to be run.
            launch::CommandStatus::NotStarted(2) => Self::Command(127),
            launch::CommandStatus::NotStarted(_) => Self::Command(126),
        }
    }

    /// How a call that stands so makes the program exit.
    pub(crate) fn of(standing: &CallStatus) -> Self {
        match standing {
            CallStatus::Settled(result) => Self::of_result(result),
            CallStatus::Waiting { .. } | CallStatus::HeldUp { .. } | CallStatus::RunningElsewhere { .. } => {
                Self::Waiting
            }
            // Whoever came this far did what there was to do here.
            CallStatus::Ready { .. } => Self::Completed,
        }
    }

    fn of_result(result: &CallResult) -> Self {
        match &result.ending {
            CallOutcome::Completed(_) | CallOutcome::Rehearsed(_) => Self::Completed,
            CallOutcome::Failed(_) => Self::Failed,
            CallOutcome::Refused(refusal) if refusal.code == Code::Aborted => Self::Aborted,
            CallOutcome::Withheld(_) | CallOutcome::Refused(_) => Self::Refused,
            CallOutcome::Unknown(_) => Self::Unknown,
        }
    }

    /// The same after someone pressed Ctrl-C: stopped, unless it was done all the same or nobody can say.
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
