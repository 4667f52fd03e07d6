//! Guarantees: what a confinement means, item by item, by names that a person can waive and the book can keep.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::confinement::{Confinement, Network};

/// Something that holds of a confined command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Nothing outside the writable paths can be changed.
    WritesConfined,
    /// What is hidden cannot be read, by whichever name.
    SecretsHidden,
    /// What is protected beneath a writable path cannot be written, renamed or replaced.
    ProtectedKept,
    /// Of the home directory only what was named can be read.
    HomeHidden,
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
}

impl Guarantee {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::WritesConfined,
        Self::SecretsHidden,
        Self::ProtectedKept,
        Self::HomeHidden,
        Self::NetworkConfined,
        Self::ProcessesApart,
        Self::IpcApart,
        Self::PrivilegesDropped,
        Self::EnvironmentClean,
        Self::TreeKilled,
        Self::MemoryLimited,
        Self::ProcessesLimited,
    ];

    /// Its name, as it is waived and as it stands in the book.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WritesConfined => "writes-confined",
            Self::SecretsHidden => "secrets-hidden",
            Self::ProtectedKept => "protected-kept",
            Self::HomeHidden => "home-hidden",
            Self::NetworkConfined => "network-confined",
            Self::ProcessesApart => "processes-apart",
            Self::IpcApart => "ipc-apart",
            Self::PrivilegesDropped => "privileges-dropped",
            Self::EnvironmentClean => "environment-clean",
            Self::TreeKilled => "tree-killed",
            Self::MemoryLimited => "memory-limited",
            Self::ProcessesLimited => "processes-limited",
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
pub enum Given {
    /// In full.
    Fully,
    /// Not in full, and how far.
    Partly(String),
    /// Not at all, and why.
    Not(String),
}

/// Why a command cannot be confined as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot confine the command: {}; `byleave doctor` says what would help, and `--waive NAME` does without one",
    told(missing)
)]
pub struct Unenforceable {
    /// What cannot be given, and why; never empty.
    pub missing: Vec<(Guarantee, String)>,
}

fn told(missing: &[(Guarantee, String)]) -> String {
    let one = |(guarantee, why): &(Guarantee, String)| format!("`{guarantee}` ({why})");
    missing.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl Confinement {
    /// The guarantees that it stands for.
    pub fn guarantees(&self) -> Vec<Guarantee> {
        let needs = |guarantee: &Guarantee| match guarantee {
            Guarantee::SecretsHidden => !self.files.hidden.is_empty(),
            Guarantee::ProtectedKept => !self.files.protected.is_empty(),
            Guarantee::HomeHidden => self.files.home.is_some(),
            Guarantee::NetworkConfined => self.network != Network::Host,
            _ => true,
        };
        Guarantee::ALL.into_iter().filter(needs).collect()
    }

    /// Whether a backend that gives this much may run it: everything in full, or waived by name.
    pub fn held_against(&self, given: impl Fn(Guarantee) -> Given) -> Result<(), Unenforceable> {
        let missing = self.guarantees().into_iter().filter(|guarantee| !self.waived.contains(guarantee));
        let missing: Vec<_> = missing
            .filter_map(|guarantee| match given(guarantee) {
                Given::Fully => None,
                Given::Partly(why) | Given::Not(why) => Some((guarantee, why)),
            })
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(Unenforceable { missing }) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::confinement::Files;
    use crate::limits::Limits;

    fn confinement() -> Confinement {
        Confinement {
            files: Files::default(),
            network: Network::Off,
            environment: BTreeMap::new(),
            limits: Limits::default(),
            waived: BTreeSet::new(),
        }
    }

    // req: E7
    #[test]
    fn what_cannot_be_given_in_full_refuses_unless_it_was_waived_by_name() {
        let given = |guarantee| match guarantee {
            Guarantee::MemoryLimited => Given::Partly("for each process by itself".into()),
            Guarantee::IpcApart => Given::Not("no namespaces".into()),
            _ => Given::Fully,
        };
        let mut asked = confinement();
        let refused = asked.held_against(given).unwrap_err();
        assert_eq!(refused.missing.len(), 2, "{refused}");
        asked.waived = BTreeSet::from([Guarantee::MemoryLimited]);
        assert_eq!(asked.held_against(given).unwrap_err().missing.len(), 1);
        asked.waived.insert(Guarantee::IpcApart);
        assert_eq!(asked.held_against(given), Ok(()));
        // What is not asked for need not be given.
        asked.network = Network::Host;
        assert!(!asked.guarantees().contains(&Guarantee::NetworkConfined));
        assert!(
            Guarantee::ALL.iter().all(|guarantee| Guarantee::named(guarantee.name()) == Some(*guarantee))
        );
    }
}
