//! Files: the one gate for paths (B7). What a tool reads, it opens here: by a handle beneath the workspace, or beneath what was
//! granted elsewhere, on the path that was judged, without following any link. Nothing is compared as text and opened later.

mod hidden_inodes;
mod hidden_prefilter;
mod open_file;

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use byleave::core::effect::{Effect, Plan, is_resolved};
use byleave::tool::RunContext;
use byleave_sandbox::from_plan;
use byleave_sandbox::protected_paths::PathPolicy;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use hidden_inodes::HiddenInodes;
pub(crate) use hidden_prefilter::HiddenPrefilter;
pub(crate) use open_file::FileContent;

use crate::execution_env::ExecutionEnv;

/// No link is followed, on no step: the path was judged with all of them resolved, and one that is there now was not there then.
const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

/// The files that one call may read, and how it gets at them.
pub(crate) struct Files {
    workspace: PathBuf,
    /// The workspace itself, by its handle.
    root: OwnedFd,
    cwd: PathBuf,
    plan: Arc<Plan>,
    marker: Arc<dyn PathPolicy + Send + Sync>,
    ours: Vec<PathBuf>,
    bytes_max: u64,
    veil: OnceLock<HiddenInodes>,
    sieve: OnceLock<HiddenPrefilter>,
    rules: Arc<byleave::core::policy::Policy>,
}

impl Files {
    /// What a call may read, by what was granted and by the rules in force.
    pub(crate) fn of(workplace: &ExecutionEnv, run: &RunContext) -> Result<Self, String> {
        let rules = run.rules.clone().ok_or("nobody said which rules are in force")?;
        let (cwd, workspace) = workplace.places(run)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat2(CWD, &workspace, flags, Mode::empty(), NO_LINKS)
            .map_err(|errno| format!("the workspace `{}` cannot be opened: {errno}", workspace.display()))?;
        let marker = from_plan::marker(&run.plan, &rules, &workspace);
        Ok(Self {
            root,
            cwd,
            plan: Arc::clone(&run.plan),
            marker,
            ours: workplace.all_ours(),
            bytes_max: workplace.file_bytes_max,
            veil: OnceLock::new(),
            sieve: OnceLock::new(),
            rules,
            workspace,
        })
    }

    /// How long a file may be that is read or written as a whole.
    pub(crate) const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Opens what is at a path that the plan lets be read, whatever it is. Never waits for the other end of a pipe.
    pub(crate) fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, String> {
        if !self.may_read(path) {
            return Err(format!("reading `{}` was not granted", self.shown(path)));
        }
        self.may_be_seen(path)?;
        self.handle(path, flags).map_err(|errno| self.not_opened(path, errno))
    }

    /// Says of a path that must not be seen that it must not.
    fn may_be_seen(&self, path: &str) -> Result<(), String> {
        match self.is_hidden(path) {
            true => Err(format!(
                "a rule keeps `{}` from being read; work without it, or write it whole with write_file",
                self.shown(path)
            )),
            false => Ok(()),
        }
    }

    /// Opens a directory that the plan lets be read, for listing it and for what lies beneath it.
    pub(crate) fn directory(&self, path: &str) -> Result<OwnedFd, String> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Whether something else than a directory is at a path. Only for choosing how to look: what is then opened is looked at again.
    pub(crate) fn is_no_directory(&self, path: &str) -> bool {
        self.handle(path, OFlags::RDONLY)
            .and_then(fstat)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory)
    }

    /// Whether something may be seen at a path in the workspace, which need not have been named by anybody who may be trusted.
    pub(crate) fn stands(&self, path: &Path) -> bool {
        let is_plain =
            path.components().all(|step| !matches!(step, Component::ParentDir | Component::CurDir));
        let inside = path.strip_prefix(&self.workspace).ok().filter(|_| is_plain);
        let is_shown = path.to_str().is_some_and(|path| !self.is_hidden(path));
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        is_shown && inside.is_some_and(|inside| beneath(&self.root, inside.as_os_str(), flags).is_ok())
    }

    /// Whether a path must not be seen: a rule says so, or it is ours.
    pub(crate) fn is_hidden(&self, path: &str) -> bool {
        self.marker.hides(path) || self.ours.iter().any(|ours| Path::new(path).starts_with(ours))
    }

    /// What spares asking [`Files::is_hidden`] of every name.
    pub(crate) fn sieve(&self) -> &HiddenPrefilter {
        self.sieve.get_or_init(|| HiddenPrefilter::of(&self.rules, &self.ours))
    }

    /// The directories above one, from the workspace down, and what it is called beneath the workspace. To read what their ignore
    /// files say of it, and nothing else. None where it lies elsewhere.
    pub(crate) fn above(&self, path: &str) -> (Vec<OwnedFd>, PathBuf) {
        let Ok(inside) = Path::new(path).strip_prefix(&self.workspace) else {
            return (Vec::new(), PathBuf::new());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut above: Vec<&Path> = inside.ancestors().skip(1).collect();
        above.reverse();
        let opened = above.iter().map_while(|path| beneath(&self.root, path.as_os_str(), flags).ok());
        (opened.collect(), inside.to_path_buf())
    }

    /// Whether a file is another name of one that must not be seen.
    #[expect(clippy::useless_conversion, reason = "the widths differ between architectures")]
    pub(crate) fn is_veiled(&self, stat: &rustix::fs::Stat) -> bool {
        let names: u64 = stat.st_nlink.into();
        names > 1
            && self
                .veil
                .get_or_init(|| HiddenInodes::of(&self.workspace, &self.marker, &self.rules))
                .covers(stat)
    }

    /// A path as the model knows it: within the directory that it works in by its name there, and nothing that could be read as
    /// something else.
    pub(crate) fn shown(&self, path: &str) -> String {
        let inside =
            Path::new(path).strip_prefix(&self.cwd).ok().filter(|inside| !inside.as_os_str().is_empty());
        inside.map_or(path, |inside| inside.to_str().unwrap_or(path)).escape_debug().to_string()
    }

    /// What stands in front of the paths beneath a directory, so that they can be given to other tools as they are shown.
    pub(crate) fn in_front(&self, directory: &str) -> String {
        let inside = Path::new(directory).strip_prefix(&self.cwd).ok().and_then(Path::to_str);
        match inside {
            Some("") => String::new(),
            Some(inside) => format!("{inside}/"),
            None => format!("{}/", directory.trim_end_matches('/')),
        }
    }

    /// Whether the plan lets a path be read: it is named there, or lies beneath a directory that is. Who may change a file may look
    /// at what it changes.
    fn may_read(&self, path: &str) -> bool {
        let lets = |effect: &Effect| match effect {
            Effect::Read { path: granted } => Path::new(path).starts_with(granted),
            Effect::Write { path: granted } => path == granted,
            _ => false,
        };
        is_resolved(path) && self.plan.effects.iter().any(lets)
    }

    fn handle(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        // What is only looked at waits for nobody, and the kernel refuses to be told so.
        let at_once =
            if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
        let flags = flags | at_once | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match Path::new(path).strip_prefix(&self.workspace) {
            Ok(inside) => beneath(&self.root, inside.as_os_str(), flags),
            Err(_) => openat2(CWD, path, flags, Mode::empty(), NO_LINKS),
        }
    }

    /// Why something could not be opened, and what to do.
    fn not_opened(&self, path: &str, errno: Errno) -> String {
        let shown = self.shown(path);
        match errno {
            Errno::NOENT => format!("there is no `{shown}`; list_dir shows what is there"),
            Errno::NOTDIR => format!(
                "`{shown}` is not a directory, or lies beneath something that is none; list_dir shows what is there"
            ),
            Errno::ISDIR => format!("`{shown}` is a directory; list_dir shows what is in it"),
            Errno::LOOP | Errno::XDEV => {
                format!(
                    "`{shown}` was replaced by a link after it was judged, so it was not opened; call again to have it judged anew"
                )
            }
            Errno::ACCESS | Errno::PERM => {
                format!("this user may not read `{shown}`; ask the person to change its mode")
            }
            Errno::NXIO | Errno::NODEV => format!("`{shown}` is not a file; name a file"),
            other => format!("`{shown}` cannot be opened: {other}; look at it with list_dir"),
        }
    }
}

/// Opens what lies beneath a directory; the empty path is the directory itself.
fn beneath(root: impl AsFd, inside: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let inside = if inside.is_empty() { OsStr::from_bytes(b".") } else { inside };
    openat2(root, inside, flags, Mode::empty(), NO_LINKS | ResolveFlags::BENEATH)
}
