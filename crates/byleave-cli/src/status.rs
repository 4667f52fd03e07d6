//! How the program exits: computed here and nowhere else.

use std::process::ExitCode;

use byleave::core::refusal::Code;
use byleave::result::{CallResult, Ending, Standing};

/// How the program exits; the worse, the further down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
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
    /// It was typed wrongly, or the program itself could not do it; no call has failed.
    Unusable,
}

impl Status {
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
        }
    }

    /// How a call that stands so makes the program exit.
    pub(crate) fn of(standing: &Standing) -> Self {
        match standing {
            Standing::Settled(result) => Self::of_result(result),
            Standing::Waiting { .. } | Standing::HeldUp { .. } | Standing::RunningElsewhere { .. } => {
                Self::Waiting
            }
        }
    }

    fn of_result(result: &CallResult) -> Self {
        match &result.ending {
            Ending::Completed(_) | Ending::Rehearsed(_) => Self::Completed,
            Ending::Failed(_) => Self::Failed,
            Ending::Refused(refusal) if refusal.code == Code::Aborted => Self::Aborted,
            Ending::Withheld(_) | Ending::Refused(_) => Self::Refused,
            Ending::Unknown(_) => Self::Unknown,
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

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.code())
    }
}
