//! Confinement: what a command may touch, reach and use up. Data; how it comes about is the backend's business.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::guarantee::{Enforcement, Guarantee, UnenforceableError};
use crate::limits::ResourceLimits;
use crate::workspace_index::PathPolicy;

/// What a command may touch, reach and use up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The file system as the command finds it.
    pub files: FileConfinement,
    /// What it may connect to.
    pub network: Network,
    /// The environment it starts with, and nothing else.
    pub environment: BTreeMap<String, String>,
    /// What it may use up.
    pub limits: ResourceLimits,
    /// Guarantees that the operator does without, by name. Never chosen by an agent; they stand in the book.
    pub waived: BTreeSet<Guarantee>,
    /// Guarantees that must be given in full, whatever was waived: a rule requires them.
    pub required: BTreeSet<Guarantee>,
}

/// The file system as a command finds it. What is not named can not be written, and nothing is in the home directory but what
/// is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileConfinement {
    /// The directory that it starts in, absolute and resolved.
    pub cwd: PathBuf,
    /// The home directory, which is empty inside.
    pub home: Option<PathBuf>,
    /// Beneath the home directory, or something that is hidden: what can be read all the same (toolchains).
    pub home_readable: Vec<PathBuf>,
    /// What can be read outside the home directory.
    pub readable: ReadScope,
    /// What can be written, with everything beneath it: the workspace first.
    pub writable: Vec<PathBuf>,
    /// Files and directories that are not there at all: secrets, sockets, the state directory.
    pub hidden: Vec<PathBuf>,
    /// Beneath something writable: what can be read and neither written, renamed nor replaced.
    pub protected: Vec<PathBuf>,
    /// Who is asked, path by path, what else is to be hidden or protected, before every command.
    pub asked: Option<PathPolicyScope>,
    /// What the command finds a copy of, at the same path. Only for a command that is started by itself on the native rung.
    pub copied: Vec<CopiedPath>,
    /// Where it is noted, while a command runs, what was there before it, so that the next run finds what a killed one left. Nothing
    /// that a command can see. Without it a run that is killed leaves what it planted.
    pub unfinished: Option<PathBuf>,
}

impl FileConfinement {
    /// What the command can write that is not a copy: what it changes there is changed at once.
    pub(crate) fn written_for_real(&self) -> Vec<PathBuf> {
        let is_copied = |path: &PathBuf| self.copied.iter().any(|copied| path.starts_with(&copied.root));
        self.writable.iter().filter(|path| !is_copied(path)).cloned().collect()
    }
}

/// Something that the command finds a copy of: what it changes there, it changes in the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedPath {
    /// What there is a copy of, which is where the copy is found: a writable path, or something beneath one. What is writable
    /// beneath it is in the copy as well. A directory that is not there is made in the copy that it lies in, where it is left as
    /// an empty directory.
    pub root: PathBuf,
    /// Where the copy is.
    pub source: CopySource,
}

/// Where a copy is. Nothing of it can be seen inside but at the place of what it is a copy of, or there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopySource {
    /// The directory itself, which stays as it is, under layers with what has changed. All of them are on file systems of this
    /// machine, and belong to whom the command runs as.
    ///
    /// Not everything is as without a copy: a file and its hard links part when one of them is written, a directory that was
    /// there before cannot be renamed by one system call, and a file of another user or group can be read and removed, but what
    /// would copy it (a write, a rename) fails with `EOVERFLOW`. Sockets and pipes that are in it lead to nobody outside. The
    /// kernel may let go of the layers a moment after the command is over; nothing is written to them any more by then.
    Overlay {
        /// Layers that lie between, as uppers of earlier commands left them, the topmost first.
        lowers: Vec<PathBuf>,
        /// Where changes go: a directory that was never used before.
        upper: PathBuf,
        /// Where the kernel prepares them: another one, beside it.
        work: PathBuf,
    },
    /// A copy that is there already, whole.
    Tree {
        /// Where.
        at: PathBuf,
    },
}

impl CopySource {
    /// Every directory or file that it is made of.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &PathBuf> {
        let (lowers, others) = match self {
            Self::Overlay { lowers, upper, work } => (lowers.as_slice(), vec![upper, work]),
            Self::Tree { at } => (&[][..], vec![at]),
        };
        lowers.iter().chain(others)
    }
}

/// Somebody who is asked about everything in some directories, before every command and after it.
#[derive(Clone)]
pub struct PathPolicyScope {
    /// The directories.
    pub roots: Vec<PathBuf>,
    /// Who.
    pub marker: Arc<dyn PathPolicy + Send + Sync>,
}

impl fmt::Debug for PathPolicyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl PartialEq for PathPolicyScope {
    fn eq(&self, other: &Self) -> bool {
        self.roots == other.roots && Arc::ptr_eq(&self.marker, &other.marker)
    }
}

impl Eq for PathPolicyScope {}

/// What a command can read outside the home directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadScope {
    /// Everything that this user can, but for what is hidden.
    #[default]
    Everything,
    /// The programs and settings of the system, and these, with everything beneath them. Of all else the names can be had,
    /// and not the contents.
    Only(Vec<PathBuf>),
}

/// What a command may connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing: there is a loopback of its own, and no way out.
    #[default]
    Off,
    /// Through our proxy alone, which asks for every host by name.
    Proxied,
    /// The network of this machine. Waives the guarantee about it.
    Host,
}

impl Confinement {
    /// The guarantees that it stands for, those that are required among them.
    pub fn guarantees(&self) -> Vec<Guarantee> {
        let needs = |guarantee: &Guarantee| match guarantee {
            Guarantee::SecretsHidden => !self.files.hidden.is_empty() || self.files.asked.is_some(),
            Guarantee::ProtectedKept => !self.files.protected.is_empty() || self.files.asked.is_some(),
            Guarantee::HomeHidden => self.files.home.is_some(),
            Guarantee::ReadsConfined => self.files.readable != ReadScope::Everything,
            Guarantee::NetworkConfined => self.network != Network::Host,
            _ => true,
        };
        let is_asked = |guarantee: &Guarantee| needs(guarantee) || self.required.contains(guarantee);
        Guarantee::ALL.into_iter().filter(is_asked).collect()
    }

    /// Whether a backend that gives this much may run it: everything in full, but for what was waived by name and for what is best
    /// effort. What is required must be given in full.
    pub fn held_against(&self, given: impl Fn(Guarantee) -> Enforcement) -> Result<(), UnenforceableError> {
        let missing = self.guarantees().into_iter().filter_map(|guarantee| {
            let given = given(guarantee);
            let why = match &given {
                Enforcement::Partly(why) | Enforcement::Not(why) if self.required.contains(&guarantee) => {
                    Some(why.as_str())
                }
                _ if self.waived.contains(&guarantee) => None,
                given => guarantee.lacks(given),
            };
            Some((guarantee, why?.to_owned()))
        });
        let missing: Vec<_> = missing.collect();
        if missing.is_empty() { Ok(()) } else { Err(UnenforceableError { missing }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confinement() -> Confinement {
        Confinement {
            files: FileConfinement::default(),
            network: Network::Off,
            environment: BTreeMap::new(),
            limits: ResourceLimits::default(),
            waived: BTreeSet::new(),
            required: BTreeSet::new(),
        }
    }

    // req: E7
    #[test]
    fn what_cannot_be_given_in_full_refuses_unless_it_was_waived_by_name() {
        let given = |guarantee| match guarantee {
            Guarantee::TmpLimited => Enforcement::Partly("by their size alone".into()),
            Guarantee::IpcApart => Enforcement::Not("no namespaces".into()),
            _ => Enforcement::Fully,
        };
        let mut asked = confinement();
        let refused = asked.held_against(given).unwrap_err();
        assert_eq!(refused.missing.len(), 2, "{refused}");
        asked.waived = BTreeSet::from([Guarantee::TmpLimited]);
        assert_eq!(asked.held_against(given).unwrap_err().missing.len(), 1);
        asked.waived.insert(Guarantee::IpcApart);
        assert_eq!(asked.held_against(given), Ok(()));
        // A rule that requires it is not waived.
        asked.required.insert(Guarantee::IpcApart);
        assert_eq!(asked.held_against(given).unwrap_err().missing.len(), 1);
        asked.required.clear();
        // What is not asked for need not be given.
        asked.network = Network::Host;
        assert!(!asked.guarantees().contains(&Guarantee::NetworkConfined));
        assert!(
            Guarantee::ALL.iter().all(|guarantee| Guarantee::named(guarantee.name()) == Some(*guarantee))
        );
    }

    // req: E7
    #[test]
    fn limits_on_each_process_alone_are_enough_unless_a_rule_requires_more() {
        let partly = |guarantee: Guarantee| match guarantee.is_best_effort() {
            true => Enforcement::Partly("for each process by itself".into()),
            false => Enforcement::Fully,
        };
        let mut asked = confinement();
        assert_eq!(asked.held_against(partly), Ok(()));
        let none = |guarantee: Guarantee| match guarantee.is_best_effort() {
            true => Enforcement::Not("no limits at all".into()),
            false => Enforcement::Fully,
        };
        assert_eq!(asked.held_against(none).unwrap_err().missing.len(), 2);
        asked.required.insert(Guarantee::MemoryLimited);
        let refused = asked.held_against(partly).unwrap_err();
        assert_eq!(refused.missing, [(Guarantee::MemoryLimited, "for each process by itself".to_owned())]);
    }
}
