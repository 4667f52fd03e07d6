//! Turns the effects of a permitted plan, under the current policy, into a confinement.
//!
//! ```text
//! plan (permitted) ─┐                 ┌─ files: writable, readable, hidden, protected
//! current policy  ──┼─▶ confinement  ─┼─ network: none, or through the proxy by name
//! this machine    ──┘                 └─ waived: what the plan declares as unconfined
//! ```
//!
//! An effect that a rule denies is impossible, even if the plan declares it. An effect that a rule asks about is impossible until
//! that very effect was granted. A permitted program may work in the workspace and in granted places, and nowhere else. The
//! workspace is scanned when the command starts, and again for every command of a session, because the confinement carries the
//! rules. This module changes no files. A path that cannot be scanned is an error, because an unseen path cannot be hidden.

mod host_policy;
mod path_policy;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_core::decision::Verdict;
use byleave_core::effect::{Effect, Plan};
use byleave_core::git_settings::file_of_setting;
use byleave_core::policy::Policy;

pub use host_policy::{CallHostPolicy, GitLending};

use crate::confinement::{Confinement, FileConfinement, Network, PathPolicyScope, ReadScope, SandboxPorts};
use crate::guarantee::Guarantee;
use crate::limits::ResourceLimits;
use crate::protected_paths::{IndexError, PathPolicy};
use crate::system_paths;
use path_policy::RulePathPolicy;

/// The maximum number of protected paths beside a file that is written outside the workspace.
const NEIGHBOURS_MAX: usize = 200;

/// The sub-commands of Git that write the settings of the repository.
const WRITES_SETTINGS: [&str; 11] = [
    "branch",
    "checkout",
    "config",
    "fetch",
    "pull",
    "push",
    "remote",
    "sparse-checkout",
    "submodule",
    "switch",
    "worktree",
];

/// The place where a command would run. Paths are absolute and resolved.
#[derive(Clone, Debug, Default)]
pub struct RunEnvironment {
    /// The directory it works in, with everything beneath it.
    pub workspace: PathBuf,
    /// The directory that it starts in, inside the workspace.
    pub cwd: PathBuf,
    /// The person's home directory.
    pub home: Option<PathBuf>,
    /// Paths of Byleave itself: the state directory, sockets of the gate. They do not exist inside.
    pub private_paths: Vec<PathBuf>,
    /// The directory for notes about unfinished runs, inside `ours`. See [`FileConfinement::run_markers_dir`].
    pub run_markers_dir: Option<PathBuf>,
    /// The repository of the workspace, if it lies outside of it.
    pub repository: Option<OuterRepositoryPaths>,
    /// The environment of this process. Only the usual variables are passed on.
    pub environment: BTreeMap<String, String>,
    /// Whether nothing may be changed, because the call was made in the mode `read-only`.
    pub read_only: bool,
    /// Whether the command runs before a person is asked, so that it must not reach anything. See [`build_confinement`].
    pub is_rehearsal: bool,
    /// Whether the command runs on copies, so that its changes are judged before they are final. See [`build_confinement`].
    pub on_copy: bool,
}

/// The paths of a repository that lies outside of the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OuterRepositoryPaths {
    /// Its own directory, which can be written where the workspace can.
    pub directory: PathBuf,
    /// Files above the workspace that Git reads.
    pub files: Vec<PathBuf>,
    /// Directories above the workspace whose entries Git lists. See [`FileConfinement::listed`].
    pub listed: Vec<PathBuf>,
}

/// The error for granted effects that cannot be made possible on their own.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// The plan waives a guarantee that does not exist.
    #[error("cannot waive `{0}`: there is no guarantee with this name; `byleave doctor` lists them")]
    UnknownGuarantee(String),
    /// Making the path writable would make too much writable.
    #[error(
        "cannot let the command write only `{path}`: {reason}; write the file in the workspace, or in a separate directory",
        path = path.display()
    )]
    TooWide {
        /// The granted path.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// The search for hidden paths failed.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// Returns the confinement for the granted effects.
///
/// On a copy, paths that a rule merely asks about can be written. The rule then asks about the result. Denied effects stay impossible, and unreadable files stay hidden, as in every run. In a rehearsal the network is
/// always [`Network::Proxied`], whatever the plan reaches or waives, so that every attempt is recorded. The egress for such a run
/// is [`Egress::deny_all`](crate::net::egress::Egress::deny_all), which lets nothing out.
pub fn build_confinement(
    plan: &Plan,
    policy: &Arc<Policy>,
    place: &RunEnvironment,
) -> Result<Confinement, GrantError> {
    let mut granted = GrantedEffects::of(plan);
    // Paths in the temporary directory are those of the session, unless a rule names them.
    granted.read.retain(|path| {
        let read = Effect::Read { path: path.to_string_lossy().into_owned() };
        !plan.stays_in_session_tmp(&read) || policy.may_ask(&read)
    });
    let mut files = FileConfinement {
        cwd: place.cwd.clone(),
        home: place.home.clone(),
        home_readable: system_paths::toolchains(place.home.as_deref()),
        run_markers_dir: place.run_markers_dir.clone(),
        ..FileConfinement::default()
    };
    files.hidden.extend(system_paths::credentials(place.home.as_deref()));
    files.hidden.extend(system_paths::other_homes(place.home.as_deref()));
    files.hidden.extend(place.private_paths.iter().cloned());

    let roots = reading(policy, &granted, place, &mut files);
    writing(policy, &granted, place, &mut files)?;
    cover_the_rest(Path::new("/"), place, &mut files);
    let unconfined = std::mem::take(&mut granted.unconfined);
    let reaches = granted.reaches;
    let is_unknown = |effect: &Effect| matches!(effect, Effect::Unknown { .. });
    let may_reach_others = !plan.names_all_hosts || plan.effects.iter().any(is_unknown);
    let mut marks = RulePathPolicy::new(Arc::clone(policy), granted, &place.workspace);
    if place.on_copy {
        marks = marks.for_copy();
    }
    let elsewhere = marks.denied_outside_roots(&roots, &files.home_readable)?;
    files.hidden.extend(elsewhere);
    files.path_policy = Some(PathPolicyScope { roots, policy: Arc::new(marks) });

    let mut waived = BTreeSet::new();
    for name in unconfined {
        waived.insert(Guarantee::from_name(&name).ok_or(GrantError::UnknownGuarantee(name))?);
    }
    if place.is_rehearsal {
        waived.remove(&Guarantee::NetworkConfined);
    }
    let network = match () {
        () if place.is_rehearsal => Network::Proxied,
        () if waived.contains(&Guarantee::NetworkConfined) => Network::Host,
        () if reaches => Network::Proxied,
        // A rule that allows a host is for programs that may need it.
        () if may_reach_others && CallHostPolicy::has_reach_rule(policy) => Network::Proxied,
        () => Network::Off,
    };
    let granted = match network {
        Network::Proxied => host_policy::proxied_ports(plan, policy),
        Network::Off | Network::Host => BTreeSet::new(),
    };
    let ports = SandboxPorts { granted, can_publish: false };
    let environment = system_paths::environment(place.environment.clone());
    let (limits, required) = (ResourceLimits::default(), BTreeSet::new());
    Ok(Confinement { files, network, ports, environment, limits, waived, required })
}

/// Returns the policy for hidden and protected paths under this plan, for tools that open files themselves.
pub fn path_policy(plan: &Plan, policy: &Arc<Policy>, workspace: &Path) -> Arc<dyn PathPolicy + Send + Sync> {
    Arc::new(RulePathPolicy::new(Arc::clone(policy), GrantedEffects::of(plan), workspace))
}

/// The effects of a plan, grouped by their meaning for a confinement.
#[derive(Debug, Default)]
struct GrantedEffects {
    read: BTreeSet<PathBuf>,
    written: BTreeSet<PathBuf>,
    deleted: BTreeSet<PathBuf>,
    unconfined: Vec<String>,
    git_settings: GitSettingsFiles,
    runs: bool,
    reaches: bool,
}

/// The settings of repositories that a run on a copy may write. What it wrote is judged by each setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GitSettingsFiles {
    named: BTreeSet<PathBuf>,
    /// A command of Git may write those of the repository that it finds.
    any: bool,
}

impl GrantedEffects {
    fn of(plan: &Plan) -> Self {
        let mut granted = Self::default();
        for effect in &plan.effects {
            match effect {
                Effect::Read { path } => drop(granted.read.insert(path.into())),
                Effect::Write { path } => {
                    granted.git_settings.named.extend(file_of_setting(path).map(PathBuf::from));
                    granted.written.insert(path.into());
                }
                Effect::Delete { path } => drop(granted.deleted.insert(path.into())),
                Effect::Unconfined { guarantee } => granted.unconfined.push(guarantee.clone()),
                Effect::Reach { .. } | Effect::Send { .. } => granted.reaches = true,
                Effect::Run { program, argv } => {
                    granted.git_settings.any |= writes_git_settings(program, argv);
                    granted.runs = true;
                }
                Effect::Invoke { .. } | Effect::Unknown { .. } => granted.runs = true,
            }
        }
        granted
    }

    fn changes(&self, path: &Path) -> bool {
        self.written.contains(path) || self.deleted.contains(path)
    }

    fn all_changed(&self) -> impl Iterator<Item = &Path> {
        self.written.iter().chain(&self.deleted).map(PathBuf::as_path)
    }
}

/// Checks whether a command is one of Git that may write the settings of its repository.
fn writes_git_settings(program: &str, argv: &[String]) -> bool {
    program.rsplit('/').next() == Some("git")
        && argv.iter().skip(1).any(|word| WRITES_SETTINGS.contains(&word.as_str()))
}

/// Sets the readable paths: the system, the workspace, toolchains, granted paths, and paths that a rule allows by name. Returns
/// the directories that must be scanned for paths to hide or protect.
fn reading(
    policy: &Policy,
    granted: &GrantedEffects,
    place: &RunEnvironment,
    files: &mut FileConfinement,
) -> Vec<PathBuf> {
    let allowed: Vec<PathBuf> =
        policy.read_matchers(Verdict::Allow).map(|(place, _)| PathBuf::from(place)).collect();
    let more = granted.read.iter().cloned().chain(allowed);
    let more: BTreeSet<PathBuf> = more
        .filter(|path| !path.starts_with(&place.workspace) && !system_paths::is_always_available(path))
        // Every command has its own temporary directory. Mounting the shared one over it would leave the command nowhere to
        // write.
        .filter(|path| !(system_paths::is_scratch(path) && system_paths::contains_scratch(path)))
        // A directory that contains the workspace would show the files beside the workspace.
        .filter(|path| !place.workspace.starts_with(path))
        .filter(|path| place.home.as_ref().is_none_or(|home| !home.starts_with(path)))
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink()))
        .collect();
    // Paths inside a directory that is empty inside must be mounted there.
    let beneath_empty = |path: &&PathBuf| {
        system_paths::is_scratch(path) || place.home.as_ref().is_some_and(|home| path.starts_with(home))
    };
    // This includes the workspace, which need not be writable.
    let shown = || std::iter::once(&place.workspace).chain(repository_paths(place)).chain(&more);
    files.home_readable.extend(shown().filter(beneath_empty).cloned());
    let readable = shown().cloned().collect();
    files.listed.extend(place.repository.iter().flat_map(|repository| repository.listed.clone()));
    files.readable = ReadScope::Only(readable);
    let directories = more.into_iter().filter(|path| path.is_dir());
    let repository = place.repository.iter().map(|repository| repository.directory.clone());
    std::iter::once(place.workspace.clone()).chain(repository).chain(directories).collect()
}

/// Returns the readable paths of a repository outside of the workspace.
fn repository_paths(place: &RunEnvironment) -> impl Iterator<Item = &PathBuf> {
    place
        .repository
        .iter()
        .flat_map(|repository| std::iter::once(&repository.directory).chain(&repository.files))
}

/// Hides every directory in which nothing can be read, because a socket in it could still be connected to.
fn cover_the_rest(directory: &Path, place: &RunEnvironment, files: &mut FileConfinement) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_socket()))
        .map(|entry| entry.path())
    {
        let readable = match &files.readable {
            ReadScope::Everything => return,
            ReadScope::Only(paths) => paths,
        };
        let is_named = readable.iter().chain(&files.writable).any(|named| path.starts_with(named));
        if is_named
            || system_paths::is_always_available(&path)
            || system_paths::is_scratch(&path)
            || place.home.as_ref() == Some(&path)
        {
            continue;
        }
        if place.home.as_ref().is_some_and(|home| home.starts_with(&path))
            || system_paths::contains_scratch(&path)
        {
            cover_the_rest(&path, place, files);
            continue;
        }
        let kept = readable.iter().map(PathBuf::as_path).chain(system_paths::system_paths());
        let kept = kept.filter(|kept| kept.starts_with(&path) && fs::symlink_metadata(kept).is_ok());
        let kept: Vec<PathBuf> = kept
            .filter(|kept| !files.writable.iter().any(|path| path == kept))
            .map(Path::to_path_buf)
            .collect();
        files.home_readable.extend(kept);
        files.hidden.push(path);
    }
}

/// Sets the writable paths: the workspace, if a program runs and no rule denies it, and granted paths elsewhere.
fn writing(
    policy: &Policy,
    granted: &GrantedEffects,
    place: &RunEnvironment,
    files: &mut FileConfinement,
) -> Result<(), GrantError> {
    if place.read_only {
        return Ok(());
    }
    let workspace = &place.workspace;
    let inside = granted.all_changed().any(|path| path.starts_with(workspace));
    let may_change =
        |path: &Path| !policy.may_deny(&Effect::Write { path: path_policy::sample_new_path(path) });
    let denied = !may_change(workspace);
    let repository = place.repository.as_ref().map(|repository| &repository.directory);
    let repository = repository.filter(|directory| !denied && may_change(directory));
    if (granted.runs || inside) && !denied {
        files.writable.push(workspace.clone());
        files.writable.extend(repository.cloned());
    }
    let mut wide = BTreeSet::new();
    for path in granted.all_changed() {
        let in_repository = || repository.is_some_and(|directory| path.starts_with(directory));
        let inside = path.starts_with(workspace) && !denied || in_repository();
        // The sandbox provides its own temporary directories.
        if inside || system_paths::is_scratch(path) || system_paths::is_kernel(path) {
            continue;
        }
        let kind = fs::symlink_metadata(path).ok();
        let stays = !granted.deleted.contains(path);
        // Only directories can be copied.
        if stays && kind.is_some_and(|kind| kind.is_dir() || kind.is_file() && !place.on_copy) {
            files.writable.push(path.to_path_buf());
            continue;
        }
        // Creating or removing a file changes its parent directory.
        let too_wide = |why| GrantError::TooWide { path: path.to_path_buf(), reason: why };
        // A word that may be a directory or a new file stands for both, and the second is enough.
        if path.parent().is_some_and(|parent| !parent.exists() && granted.changes(parent)) {
            continue;
        }
        let parent = path.parent().filter(|parent| parent.is_dir());
        let parent = parent.ok_or_else(|| too_wide("its directory does not exist"))?;
        let holds_more = place.home.as_ref().is_some_and(|home| home.starts_with(parent))
            || workspace.starts_with(parent)
            || system_paths::is_system(parent);
        if holds_more {
            return Err(too_wide(
                "its directory contains your home directory, the workspace or system files",
            ));
        }
        wide.insert(parent.to_path_buf());
    }
    for directory in wide {
        let unreadable = |error| IndexError::Unreadable { path: directory.clone(), error };
        let entries = fs::read_dir(&directory).map_err(unreadable)?;
        let beside: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()
            .map_err(unreadable)?;
        let beside: Vec<PathBuf> = beside
            .into_iter()
            .filter(|path| !granted.changes(path))
            .filter(|path| fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink()))
            .collect();
        if beside.len() > NEIGHBOURS_MAX {
            let why = "its directory has too many other entries to protect";
            return Err(GrantError::TooWide { path: directory, reason: why });
        }
        files.protected.extend(beside);
        files.writable.push(directory);
    }
    files.writable.sort();
    files.writable.dedup();
    Ok(())
}
