//! Opens files for tools (B7). Every file that a tool reads is opened here, by a handle beneath the workspace or a granted directory. It
//! is opened on the evaluated path, without following links. No path is compared as text and opened later.
//!
//! `hidden_inodes` finds hard links to hidden files. `hidden_prefilter` avoids needless policy checks.

mod hidden_inodes;
mod hidden_prefilter;
mod open_file;

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use byleave_gate::core::effect::{Effect, Plan, is_resolved};
use byleave_gate::tool::RunContext;
use byleave_sandbox::from_plan;
use byleave_sandbox::protected_paths::PathPolicy;
use rustix::fs::{CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fstat, fstatfs, openat2};
use rustix::io::Errno;

use hidden_inodes::HiddenInodes;
pub(crate) use hidden_prefilter::HiddenPrefilter;
pub(crate) use open_file::FileContent;

use crate::execution_env::ExecutionEnv;

/// No link is followed in any component. The path was evaluated with all links resolved, so a link that exists now is new.
const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

/// The files that one call may read.
pub(crate) struct Files {
    workspace: PathBuf,
    /// The handle of the workspace.
    root: OwnedFd,
    cwd: PathBuf,
    plan: Arc<Plan>,
    marker: Arc<dyn PathPolicy + Send + Sync>,
    ours: Vec<PathBuf>,
    bytes_max: u64,
    veil: OnceLock<HiddenInodes>,
    sieve: OnceLock<HiddenPrefilter>,
    rules: Arc<byleave_gate::core::policy::Policy>,
}

/// Checks whether a file belongs to the kernel's file system about processes. Their command lines and environments can hold secrets,
/// and tools run outside the sandbox.
pub(crate) fn is_on_procfs(file: impl AsFd) -> bool {
    fstatfs(file).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC)
}

/// Checks whether a step of a path on procfs leads to a process.
fn is_process(step: Component<'_>) -> bool {
    let Component::Normal(step) = step else { return false };
    let step = step.as_encoded_bytes();
    matches!(step, b"self" | b"thread-self") || !step.is_empty() && step.iter().all(u8::is_ascii_digit)
}

impl Files {
    /// Returns the files that a call may read, from the granted plan and the current rules.
    pub(crate) fn for_run(workplace: &ExecutionEnv, run: &RunContext) -> Result<Self, String> {
        let rules = run.policy.clone().ok_or("no policy is configured")?;
        let (cwd, workspace) = workplace.resolve_directories(run)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat2(CWD, &workspace, flags, Mode::empty(), NO_LINKS)
            .map_err(|errno| format!("cannot open the workspace `{}`: {errno}", workspace.display()))?;
        let marker = from_plan::path_policy(&run.plan, &rules, &workspace);
        Ok(Self {
            root,
            cwd,
            plan: Arc::clone(&run.plan),
            marker,
            ours: workplace.all_private_paths(),
            bytes_max: workplace.max_file_bytes,
            veil: OnceLock::new(),
            sieve: OnceLock::new(),
            rules,
            workspace,
        })
    }

    /// Returns the maximum size of a file that is read or written as a whole.
    pub(crate) const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Opens a path that the plan allows to read, of any type. Never blocks on a pipe.
    pub(crate) fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, String> {
        if !self.may_read(path) {
            return Err(format!("reading `{}` was not granted", self.display_path(path)));
        }
        self.may_be_seen(path)?;
        let opened = self.handle(path, flags).map_err(|errno| self.not_opened(path, errno))?;
        if is_on_procfs(&opened) && Path::new(path).components().any(is_process) {
            return Err(format!("`{}` is about a process, not a file", self.display_path(path)));
        }
        Ok(opened)
    }

    /// Returns an error if a path is hidden.
    fn may_be_seen(&self, path: &str) -> Result<(), String> {
        match self.is_hidden(path) {
            true => Err(format!(
                "a rule denies reading `{}`; work without it, or write the whole file with write_file",
                self.display_path(path)
            )),
            false => Ok(()),
        }
    }

    /// Opens a directory that the plan allows to read, for listing it and for opening files beneath it.
    pub(crate) fn open_directory(&self, path: &str) -> Result<OwnedFd, String> {
        let opened = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        if is_on_procfs(&opened) {
            return Err(format!(
                "`{}` has a directory for each process; name a file",
                self.display_path(path)
            ));
        }
        Ok(opened)
    }

    /// Checks whether a path is not a directory. It only selects how to search; the opened file is checked again.
    pub(crate) fn is_not_a_directory(&self, path: &str) -> bool {
        self.handle(path, OFlags::RDONLY)
            .and_then(fstat)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory)
    }

    /// Checks whether a visible file exists at a path in the workspace. The path may be untrusted.
    pub(crate) fn is_visible(&self, path: &Path) -> bool {
        let is_plain =
            path.components().all(|step| !matches!(step, Component::ParentDir | Component::CurDir));
        let inside = path.strip_prefix(&self.workspace).ok().filter(|_| is_plain);
        let is_shown = path.to_str().is_some_and(|path| !self.is_hidden(path));
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        is_shown && inside.is_some_and(|inside| beneath(&self.root, inside.as_os_str(), flags).is_ok())
    }

    /// Checks whether a path is hidden: by a rule, or because it belongs to Byleave.
    pub(crate) fn is_hidden(&self, path: &str) -> bool {
        self.marker.is_hidden(path) || self.ours.iter().any(|ours| Path::new(path).starts_with(ours))
    }

    /// Returns the prefilter that avoids most calls of [`Files::is_hidden`].
    pub(crate) fn hidden_prefilter(&self) -> &HiddenPrefilter {
        self.sieve.get_or_init(|| HiddenPrefilter::for_policy(&self.rules, &self.ours))
    }

    /// Returns the directories above a path, from the workspace down, and its path relative to the workspace. They are only for reading
    /// ignore files. The list is empty if the path is elsewhere.
    pub(crate) fn open_parents(&self, path: &str) -> (Vec<OwnedFd>, PathBuf) {
        let Ok(inside) = Path::new(path).strip_prefix(&self.workspace) else {
            return (Vec::new(), PathBuf::new());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut above: Vec<&Path> = inside.ancestors().skip(1).collect();
        above.reverse();
        let opened = above.iter().map_while(|path| beneath(&self.root, path.as_os_str(), flags).ok());
        (opened.collect(), inside.to_path_buf())
    }

    /// Checks whether a file is a hard link to a hidden file.
    #[expect(clippy::useless_conversion, reason = "the widths differ between architectures")]
    pub(crate) fn is_hidden_alias(&self, stat: &rustix::fs::Stat) -> bool {
        let names: u64 = stat.st_nlink.into();
        names > 1
            && self
                .veil
                .get_or_init(|| HiddenInodes::scan(&self.workspace, &self.marker, &self.rules))
                .contains(stat)
    }

    /// Formats a path for the model: relative to the working directory if possible, with ambiguous characters escaped.
    pub(crate) fn display_path(&self, path: &str) -> String {
        let inside =
            Path::new(path).strip_prefix(&self.cwd).ok().filter(|inside| !inside.as_os_str().is_empty());
        inside.map_or(path, |inside| inside.to_str().unwrap_or(path)).escape_debug().to_string()
    }

    /// Returns the prefix for paths beneath a directory, so that other tools accept the shown paths.
    pub(crate) fn display_prefix(&self, directory: &str) -> String {
        let inside = Path::new(directory).strip_prefix(&self.cwd).ok().and_then(Path::to_str);
        match inside {
            Some("") => String::new(),
            Some(inside) => format!("{inside}/"),
            None => format!("{}/", directory.trim_end_matches('/')),
        }
    }

    /// Checks whether the plan allows to read a path: the plan names it, or a directory above it. The right to change a file includes the
    /// right to read it.
    fn may_read(&self, path: &str) -> bool {
        let lets = |effect: &Effect| match effect {
            Effect::Read { path: granted } => Path::new(path).starts_with(granted),
            Effect::Write { path: granted } => path == granted,
            _ => false,
        };
        is_resolved(path) && self.plan.effects.iter().any(lets)
    }

    fn handle(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        // A path handle never blocks, and the kernel rejects these flags for it.
        let at_once =
            if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
        let flags = flags | at_once | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match Path::new(path).strip_prefix(&self.workspace) {
            Ok(inside) => beneath(&self.root, inside.as_os_str(), flags),
            Err(_) => openat2(CWD, path, flags, Mode::empty(), NO_LINKS),
        }
    }

    /// Returns why a path could not be opened, and what to do.
    fn not_opened(&self, path: &str, errno: Errno) -> String {
        let shown = self.display_path(path);
        match errno {
            Errno::NOENT => format!("there is no `{shown}`; list_dir shows what is there"),
            Errno::NOTDIR => format!(
                "`{shown}` is not a directory, or one of its parents is not; list_dir shows what is there"
            ),
            Errno::ISDIR => format!("`{shown}` is a directory; list_dir shows what is in it"),
            Errno::LOOP | Errno::XDEV => {
                format!(
                    "`{shown}` was replaced by a link after the call was evaluated, so it was not opened; call again to have it evaluated again"
                )
            }
            Errno::ACCESS | Errno::PERM => {
                format!("this user may not read `{shown}`; ask the person to change its mode")
            }
            Errno::NXIO | Errno::NODEV => format!("`{shown}` is not a file; name a file"),
            other => format!("cannot open `{shown}`: {other}; check it with list_dir"),
        }
    }
}

/// Opens a path beneath a directory; the empty path is the directory itself.
fn beneath(root: impl AsFd, inside: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let inside = if inside.is_empty() { OsStr::from_bytes(b".") } else { inside };
    openat2(root, inside, flags, Mode::empty(), NO_LINKS | ResolveFlags::BENEATH)
}
