//! The confinement of a command as data: the files, the network and the resources that it may use. The backends enforce it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::guarantee::{Enforcement, Guarantee, UnenforceableError};
use crate::limits::ResourceLimits;
use crate::workspace_index::PathPolicy;

/// The limits of one run: files, network, environment and resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The file system as the command sees it.
    pub files: FileConfinement,
    /// The hosts that it may connect to.
    pub network: Network,
    /// The ports of a proxied network.
    pub ports: SandboxPorts,
    /// The complete environment of the command.
    pub environment: BTreeMap<String, String>,
    /// The resources that it may use.
    pub limits: ResourceLimits,
    /// Guarantees that the operator waived by name. An agent never chooses them. They are recorded in the audit log.
    pub waived: BTreeSet<Guarantee>,
    /// Guarantees that a rule requires. They must be given in full, even if they were waived.
    pub required: BTreeSet<Guarantee>,
}

/// The ports of a proxied network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxPorts {
    /// The ports on which programs that use no proxy can connect, besides those of the web and of SSH. No program inside can listen
    /// on them.
    pub granted: BTreeSet<u16>,
    /// Whether the ports on which the command listens can be published outside.
    pub can_publish: bool,
}

/// The file system as a command sees it. Paths that are not named cannot be written. The home directory contains only the named
/// paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileConfinement {
    /// The directory that the command starts in, absolute and resolved.
    pub cwd: PathBuf,
    /// The home directory, which is empty inside.
    pub home: Option<PathBuf>,
    /// Paths beneath the home directory, or beneath a hidden path, that can be read anyway (toolchains).
    pub home_readable: Vec<PathBuf>,
    /// The paths outside the home directory that can be read.
    pub readable: ReadScope,
    /// Directories above readable paths whose entries can be listed. Backends that mount files show nothing else of them than those paths;
    /// others do not use this.
    pub listed: Vec<PathBuf>,
    /// Paths that can be written, with everything beneath them. The workspace is the first.
    pub writable: Vec<PathBuf>,
    /// Files and directories that do not exist inside: secrets, sockets, the state directory.
    pub hidden: Vec<PathBuf>,
    /// Paths beneath a writable path that can be read, but not written, renamed or replaced.
    pub protected: Vec<PathBuf>,
    /// The policy that is asked, path by path and before every command, which other paths to hide or protect.
    pub path_policy: Option<PathPolicyScope>,
    /// Paths that the command sees a copy of. Only for a single command (not a session) on the native backend.
    pub copies: Vec<CopiedPath>,
    /// The directory for notes about the state before a running command, so that the next run finds the files that a killed run
    /// left. No command can see it. Without it, files that a killed run planted stay in place.
    pub run_markers_dir: Option<PathBuf>,
}

impl FileConfinement {
    /// Returns where the files of a path are: in the full copy that contains it, or at the path itself.
    pub fn path_on_copy(&self, path: &Path) -> PathBuf {
        let copies = self.copies.iter().filter_map(|copied| match &copied.source {
            CopySource::Tree { path: tree } => Some((path.strip_prefix(&copied.root).ok()?, tree)),
            CopySource::Overlay { .. } => None,
        });
        match copies.min_by_key(|(beneath, _)| beneath.components().count()) {
            Some((beneath, tree)) if beneath.as_os_str().is_empty() => tree.clone(),
            Some((beneath, tree)) => tree.join(beneath),
            None => path.to_path_buf(),
        }
    }

    /// Returns the writable paths that are not copies. Changes there take effect at once.
    pub(crate) fn directly_writable(&self) -> Vec<PathBuf> {
        let is_copied = |path: &PathBuf| self.copies.iter().any(|copied| path.starts_with(&copied.root));
        self.writable.iter().filter(|path| !is_copied(path)).cloned().collect()
    }
}

/// A path that the command sees a copy of. Its changes go to the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedPath {
    /// The original path, which is also where the copy appears: a writable path, or a path beneath one. Writable paths beneath it
    /// are in the copy as well. If the directory does not exist, it is created in the copy that contains it, and an empty
    /// directory stays behind there.
    pub root: PathBuf,
    /// The location of the copy.
    pub source: CopySource,
}

/// The location of a copy. Inside, it can be seen only at the path of the original. Otherwise planning fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopySource {
    /// The directory itself, which is not changed, beneath layers with the changes. All of them are on local file systems and
    /// belong to the user that the command runs as.
    ///
    /// Some things differ from a run without a copy. A file and its hard links become separate files when one of them is written.
    /// A directory that existed before cannot be renamed by one system call. A file of another user or group can be read and
    /// removed. An operation that would copy it (a write, a rename) fails with `EOVERFLOW`. Sockets and pipes in it do not lead
    /// to a process outside. The kernel may release the layers a moment after the command has ended, but nothing is written to
    /// them by then.
    Overlay {
        /// Layers in between, which are the upper layers of earlier commands, topmost first.
        lower_layers: Vec<PathBuf>,
        /// The directory for changes. It must never have been used before.
        upper_dir: PathBuf,
        /// The working directory of the kernel, another directory beside `upper`.
        work_dir: PathBuf,
    },
    /// A complete copy that exists already.
    Tree {
        /// The location.
        path: PathBuf,
    },
}

impl CopySource {
    /// Returns every directory or file that the copy consists of.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let (lowers, others) = match self {
            Self::Overlay { lower_layers: lowers, upper_dir: upper, work_dir: work } => {
                (lowers.as_slice(), vec![upper, work])
            }
            Self::Tree { path: at } => (&[][..], vec![at]),
        };
        lowers.iter().chain(others)
    }

    /// Returns the directory that contains the layers that are written. The kernel wants them in one mount.
    pub(crate) fn written_dir(&self) -> Option<&Path> {
        match self {
            Self::Overlay { upper_dir: upper, work_dir: work, .. } => {
                upper.parent().filter(|parent| work.parent() == Some(parent))
            }
            Self::Tree { .. } => None,
        }
    }
}

/// A policy that is asked about every path in some directories, before and after every command.
#[derive(Clone)]
pub struct PathPolicyScope {
    /// The directories.
    pub roots: Vec<PathBuf>,
    /// The policy.
    pub policy: Arc<dyn PathPolicy + Send + Sync>,
}

impl fmt::Debug for PathPolicyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl PartialEq for PathPolicyScope {
    fn eq(&self, other: &Self) -> bool {
        self.roots == other.roots && Arc::ptr_eq(&self.policy, &other.policy)
    }
}

impl Eq for PathPolicyScope {}

/// The paths outside the home directory that a command can read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadScope {
    /// Everything that this user can read, except for hidden paths.
    #[default]
    Everything,
    /// The programs and settings of the system and these paths, with everything beneath them. Other files can be listed by name,
    /// but not read.
    Only(Vec<PathBuf>),
}

/// The hosts that a command may connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// None. The command has its own loopback and no way out.
    #[default]
    Off,
    /// Through our proxy only, which checks every host by name.
    Proxied,
    /// The network of this machine. This waives the network guarantee.
    Host,
}

impl Confinement {
    /// Returns the guarantees that this confinement implies, including the required ones.
    pub fn guarantees(&self) -> Vec<Guarantee> {
        let needs = |guarantee: &Guarantee| match guarantee {
            Guarantee::SecretsHidden => !self.files.hidden.is_empty() || self.files.path_policy.is_some(),
            Guarantee::ProtectedKept => !self.files.protected.is_empty() || self.files.path_policy.is_some(),
            Guarantee::HomeHidden => self.files.home.is_some(),
            Guarantee::ReadsConfined => self.files.readable != ReadScope::Everything,
            Guarantee::NetworkConfined => self.network != Network::Host,
            _ => true,
        };
        let is_asked = |guarantee: &Guarantee| needs(guarantee) || self.required.contains(guarantee);
        Guarantee::ALL.into_iter().filter(is_asked).collect()
    }

    /// Checks whether a backend with this enforcement may run the command. Every guarantee must be given in full, except for
    /// waived and best-effort ones. Required guarantees must always be given in full.
    pub fn check_enforcement(
        &self,
        given: impl Fn(Guarantee) -> Enforcement,
    ) -> Result<(), UnenforceableError> {
        let missing = self.guarantees().into_iter().filter_map(|guarantee| {
            let given = given(guarantee);
            let why = match &given {
                Enforcement::Partial(why) | Enforcement::Unavailable(why)
                    if self.required.contains(&guarantee) =>
                {
                    Some(why.as_str())
                }
                _ if self.waived.contains(&guarantee) => None,
                given => guarantee.unmet_reason(given),
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
            ports: SandboxPorts::default(),
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
            Guarantee::TmpLimited => Enforcement::Partial("by their size alone".into()),
            Guarantee::IpcApart => Enforcement::Unavailable("no namespaces".into()),
            _ => Enforcement::Full,
        };
        let mut asked = confinement();
        let refused = asked.check_enforcement(given).unwrap_err();
        assert_eq!(refused.missing.len(), 2, "{refused}");
        asked.waived = BTreeSet::from([Guarantee::TmpLimited]);
        assert_eq!(asked.check_enforcement(given).unwrap_err().missing.len(), 1);
        asked.waived.insert(Guarantee::IpcApart);
        assert_eq!(asked.check_enforcement(given), Ok(()));
        // A required guarantee cannot be waived.
        asked.required.insert(Guarantee::IpcApart);
        assert_eq!(asked.check_enforcement(given).unwrap_err().missing.len(), 1);
        asked.required.clear();
        // A guarantee that was not requested need not be given.
        asked.network = Network::Host;
        assert!(!asked.guarantees().contains(&Guarantee::NetworkConfined));
        assert!(
            Guarantee::ALL.iter().all(|guarantee| Guarantee::from_name(guarantee.name()) == Some(*guarantee))
        );
    }

    // req: E7
    #[test]
    fn limits_on_each_process_alone_are_enough_unless_a_rule_requires_more() {
        let partly = |guarantee: Guarantee| match guarantee.is_best_effort() {
            true => Enforcement::Partial("for each process by itself".into()),
            false => Enforcement::Full,
        };
        let mut asked = confinement();
        assert_eq!(asked.check_enforcement(partly), Ok(()));
        let none = |guarantee: Guarantee| match guarantee.is_best_effort() {
            true => Enforcement::Unavailable("no limits at all".into()),
            false => Enforcement::Full,
        };
        assert_eq!(asked.check_enforcement(none).unwrap_err().missing.len(), 2);
        asked.required.insert(Guarantee::MemoryLimited);
        let refused = asked.check_enforcement(partly).unwrap_err();
        assert_eq!(refused.missing, [(Guarantee::MemoryLimited, "for each process by itself".to_owned())]);
    }
}
