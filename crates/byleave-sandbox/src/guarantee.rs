//! Guarantees: what a confinement means, item by item, by names that a person can waive and the book can keep.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that holds of a confined command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Nothing outside the writable paths can be changed.
    WritesConfined,
    /// What can be written is held by Landlock as well as by mounts, should one of them have a hole.
    WritesLockedTwice,
    /// What is hidden cannot be read, by whichever name.
    SecretsHidden,
    /// What is protected beneath a writable path cannot be written, renamed or replaced.
    ProtectedKept,
    /// Of the home directory only what was named can be read.
    HomeHidden,
    /// Outside the home directory only the system, and what was named, can be read.
    ReadsConfined,
    /// No way to any host but through our proxy.
    NetworkConfined,
    /// No process outside can be seen, signalled or traced.
    ProcessesApart,
    /// No shared memory, semaphores or message queues with others.
    IpcApart,
    /// No more privileges than it began with, and no kernel interfaces that it does not need.
    PrivilegesDropped,
    /// The environment is what was given, and no descriptor is inherited.
    EnvironmentClean,
    /// When the command is over, everything that it started is gone.
    TreeKilled,
    /// The limit on memory holds for all of its processes together.
    MemoryLimited,
    /// The limit on processes holds.
    ProcessesLimited,
    /// The limit on temporary files holds, by their size and by their number.
    TmpLimited,
}

impl Guarantee {
    /// All of them.
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

    /// Its name, as it is waived and as it stands in the book.
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

    /// Whether a command runs all the same where it is given only partly. A limit on each process alone still stands then.
    pub const fn is_best_effort(self) -> bool {
        matches!(self, Self::MemoryLimited | Self::ProcessesLimited)
    }

    /// Why a command does not run where this much is given, and nobody requires or waives anything.
    pub fn lacks(self, given: &Enforcement) -> Option<&str> {
        match given {
            Enforcement::Fully => None,
            Enforcement::Partly(_) if self.is_best_effort() => None,
            Enforcement::Partly(why) | Enforcement::Not(why) => Some(why),
        }
    }

    /// The guarantee of this name.
    pub fn named(name: &str) -> Option<Self> {
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
    Fully,
    /// Not in full, and how far.
    Partly(String),
    /// Not at all, and why.
    Not(String),
}

/// Why a command cannot be confined as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot confine the command: {}", told(missing))]
pub struct UnenforceableError {
    /// What cannot be given, and why; never empty.
    pub missing: Vec<(Guarantee, String)>,
}

fn told(missing: &[(Guarantee, String)]) -> String {
    let one = |(guarantee, why): &(Guarantee, String)| format!("`{guarantee}` ({why})");
    missing.iter().map(one).collect::<Vec<_>>().join(", ")
}
