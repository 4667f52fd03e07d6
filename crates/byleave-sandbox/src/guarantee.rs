//! The guarantees of a confinement, one by one, with names for waivers and the audit log.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One limit that holds for a confined command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Nothing outside the writable paths can be changed.
    WritesConfined,
    /// Writes are confined by Landlock as well as by mounts, in case one of them has a hole.
    WritesLockedTwice,
    /// Hidden files cannot be read by any name.
    SecretsHidden,
    /// Protected files beneath a writable path cannot be written, renamed or replaced.
    ProtectedKept,
    /// Only named paths of the home directory can be read.
    HomeHidden,
    /// Outside the home directory, only the system and named paths can be read.
    ReadsConfined,
    /// No host can be reached except through our proxy.
    NetworkConfined,
    /// Processes outside cannot be seen, signalled or traced.
    ProcessesApart,
    /// No shared memory, semaphores or message queues are shared with other processes.
    IpcApart,
    /// The command gains no privileges and has no kernel interfaces that it does not need.
    PrivilegesDropped,
    /// The environment is exactly the given one, and no descriptor is inherited.
    EnvironmentClean,
    /// When the command has ended, every process that it started is gone.
    TreeKilled,
    /// The memory limit holds for all of its processes together.
    MemoryLimited,
    /// The limit on processes holds.
    ProcessesLimited,
    /// The limits on the size and number of temporary files hold.
    TmpLimited,
}

impl Guarantee {
    /// All guarantees.
    pub const ALL: [Self; 15] = [
        Self::WritesConfined,
        Self::WritesLockedTwice,
        Self::SecretsHidden,
        Self::ProtectedKept,
        Self::HomeHidden,
        Self::ReadsConfined,
        Self::NetworkConfined,
        Self::ProcessesApart,
        Self::IpcApart,
        Self::PrivilegesDropped,
        Self::EnvironmentClean,
        Self::TreeKilled,
        Self::MemoryLimited,
        Self::ProcessesLimited,
        Self::TmpLimited,
    ];

    /// Returns the name, as it is used in waivers and in the audit log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WritesConfined => "writes-confined",
            Self::WritesLockedTwice => "writes-locked-twice",
            Self::SecretsHidden => "secrets-hidden",
            Self::ProtectedKept => "protected-kept",
            Self::HomeHidden => "home-hidden",
            Self::ReadsConfined => "reads-confined",
            Self::NetworkConfined => "network-confined",
            Self::ProcessesApart => "processes-apart",
            Self::IpcApart => "ipc-apart",
            Self::PrivilegesDropped => "privileges-dropped",
            Self::EnvironmentClean => "environment-clean",
            Self::TreeKilled => "tree-killed",
            Self::MemoryLimited => "memory-limited",
            Self::ProcessesLimited => "processes-limited",
            Self::TmpLimited => "tmp-limited",
        }
    }

    /// Returns whether a command runs even if this guarantee is given only partly. The limit on each single process still holds
    /// then.
    pub const fn is_best_effort(self) -> bool {
        matches!(self, Self::MemoryLimited | Self::ProcessesLimited)
    }

    /// Returns why a command does not run at this level of enforcement, if the guarantee is neither required nor waived.
    pub fn unmet_reason(self, given: &Enforcement) -> Option<&str> {
        match given {
            Enforcement::Full => None,
            Enforcement::Partial(_) if self.is_best_effort() => None,
            Enforcement::Partial(why) | Enforcement::Unavailable(why) => Some(why),
        }
    }

    /// Finds a guarantee by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|guarantee| guarantee.name() == name)
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How far a backend can give a guarantee on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// In full.
    Full,
    /// Not in full, with the extent.
    Partial(String),
    /// Not at all, with the reason.
    Unavailable(String),
}

/// The error for a command that cannot be confined as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot confine the command: {}", told(missing))]
pub struct UnenforceableError {
    /// The missing guarantees with reasons. Never empty.
    pub missing: Vec<(Guarantee, String)>,
}

fn told(missing: &[(Guarantee, String)]) -> String {
    let one = |(guarantee, why): &(Guarantee, String)| format!("`{guarantee}` ({why})");
    missing.iter().map(one).collect::<Vec<_>>().join(", ")
}
