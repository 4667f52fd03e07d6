//! A cgroup v2 with limits for each command, if a part of the tree is delegated to us.
//!
//! A command is created inside its cgroup, so it is never outside of it. The cgroup is removed when the command has ended. This
//! module moves the calling process into a leaf of the delegated cgroup. The kernel allows limits only on cgroups beside
//! processes, not beneath them. It must never touch a cgroup of another manager. Under systemd it uses only a cgroup that is
//! marked as delegated.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use byleave_files::own;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, AtFlags, Mode, OFlags, access, getxattr, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::limits::ResourceLimits;

/// The leaf for our own processes, beside the cgroups of commands.
const LEAF: &str = "byleave-supervisor";
/// The prefix of a command's cgroup name. The id of the creating process and a number follow.
const RUN: &str = "byleave-run-";
const CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// How long to wait until a cgroup is empty after its last process has ended.
const PATIENCE: Duration = Duration::from_secs(1);

/// The reason why we have no cgroups.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CgroupUnavailableError {
    /// No cgroup v2 is visible.
    #[error("no cgroup v2 is mounted")]
    NotMounted,
    /// Our cgroup is not delegated to us.
    #[error("the cgroup `{}` is not delegated to this process; start with `systemd-run --user --scope -p Delegate=yes`", .0.display())]
    NotDelegated(PathBuf),
    /// The kernel has this controller elsewhere, or it was not passed on to us.
    #[error("the cgroup `{}` has no controller `{controller}`", path.display())]
    NoController {
        /// The cgroup.
        path: PathBuf,
        /// The missing controller.
        controller: &'static str,
    },
    /// Other processes are in the same cgroup, so that it cannot be divided.
    #[error("cannot create a child cgroup in `{}`: {reason}", path.display())]
    NotDivisible {
        /// The cgroup.
        path: PathBuf,
        /// The error of the kernel.
        reason: String,
    },
}

/// The part of the tree that is delegated to us.
#[derive(Debug)]
pub struct DelegatedCgroup {
    path: PathBuf,
    top: OwnedFd,
}

/// Returns the cgroup that is delegated to this process. It is determined once, and the process is moved into a leaf of it.
pub fn delegated_cgroup() -> Result<&'static DelegatedCgroup, CgroupUnavailableError> {
    static FOUND: OnceLock<Result<DelegatedCgroup, CgroupUnavailableError>> = OnceLock::new();
    FOUND.get_or_init(|| DelegatedCgroup::find(&own()?)).as_ref().map_err(Clone::clone)
}

/// Returns the directory of the cgroup that this process is in.
fn own() -> Result<PathBuf, CgroupUnavailableError> {
    let read = |path: &str| own::read_text(path).map_err(|_| CgroupUnavailableError::NotMounted);
    let path = located(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
        .ok_or(CgroupUnavailableError::NotMounted)?;
    // The directory must list this process. A tree of another namespace would have other processes.
    let members =
        own::read_text(path.join("cgroup.procs")).map_err(|_| CgroupUnavailableError::NotMounted)?;
    let me = std::process::id().to_string();
    if members.lines().any(|line| line == me) { Ok(path) } else { Err(CgroupUnavailableError::NotMounted) }
}

/// Finds the cgroup directory of a process from its mounts and its membership.
fn located(mounts: &str, membership: &str) -> Option<PathBuf> {
    let group = Path::new(membership.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        // A mount point with escaped blanks is not supported.
        let beneath = group.strip_prefix(root).ok().filter(|_| !place.contains('\\'))?;
        Some(Path::new(place).join(beneath).components().collect())
    })
}

impl DelegatedCgroup {
    fn find(own: &Path) -> Result<Self, CgroupUnavailableError> {
        if own.file_name().is_some_and(|name| name == LEAF)
            && let Some(above) = own.parent()
        {
            return Self::checked(above);
        }
        if !is_ours(own) {
            return Err(CgroupUnavailableError::NotDelegated(own.to_path_buf()));
        }
        let offered = own::read_text(own.join("cgroup.controllers")).unwrap_or_default();
        for controller in CONTROLLERS {
            if !offered.split_whitespace().any(|name| name == controller) {
                return Err(CgroupUnavailableError::NoController { path: own.to_path_buf(), controller });
            }
        }
        divide(own).map_err(|error| CgroupUnavailableError::NotDivisible {
            path: own.to_path_buf(),
            reason: error.to_string(),
        })?;
        Self::checked(own)
    }

    /// Checks that the controllers are passed on, and removes the cgroups of dead processes.
    fn checked(path: &Path) -> Result<Self, CgroupUnavailableError> {
        let passed_on = own::read_text(path.join("cgroup.subtree_control")).unwrap_or_default();
        for controller in CONTROLLERS {
            if !passed_on.split_whitespace().any(|name| name == controller) {
                return Err(CgroupUnavailableError::NoController { path: path.to_path_buf(), controller });
            }
        }
        let undivided = |error: Errno| CgroupUnavailableError::NotDivisible {
            path: path.to_path_buf(),
            reason: error.to_string(),
        };
        let top =
            rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(undivided)?;
        access(path, Access::WRITE_OK)
            .map_err(|_| CgroupUnavailableError::NotDelegated(path.to_path_buf()))?;
        let found = Self { path: path.to_path_buf(), top };
        found.sweep();
        Ok(found)
    }

    /// Removes cgroups that a killed process of ours left behind. The kernel does not remove one that is in use, so this is safe.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let maker = name.to_str().and_then(|name| name.strip_prefix(RUN)?.split('-').next());
            let gone = |maker: &str| !Path::new("/proc").join(maker).exists();
            if maker.is_some_and(gone) {
                unlinkat(&self.top, &name, AtFlags::REMOVEDIR).unwrap_or_default();
            }
        }
    }

    /// Creates a cgroup with these limits for one command.
    pub fn create_cgroup(&self, limits: &ResourceLimits) -> io::Result<CommandCgroup> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("{RUN}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        mkdirat(&self.top, &name, Mode::from_raw_mode(0o755))?;
        let directory = openat(&self.top, &name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let directory = directory.inspect_err(|_| {
            unlinkat(&self.top, &name, AtFlags::REMOVEDIR).unwrap_or_default();
        })?;
        let top = self.top.try_clone()?;
        // From here on, dropping the value removes the cgroup.
        let group = CommandCgroup { top, name, directory, removed: false };
        group.write("memory.max", &limits.memory_bytes.to_string())?;
        match group.write("memory.swap.max", "0") {
            // The kernel does not account swap. That matters only if swap exists.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !swaps() => {}
            written => written?,
        }
        group.write("memory.oom.group", "1")?;
        // The limit includes the first process inside.
        group.write("pids.max", &u64::from(limits.pids).saturating_add(1).to_string())?;
        Ok(group)
    }
}

/// Checks whether our cgroup is delegated to us. Under a user's systemd every cgroup is writable, but only the marked ones are
/// ours.
fn is_ours(own: &Path) -> bool {
    let writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    let files = ["", "cgroup.procs", "cgroup.subtree_control"].iter().all(|name| writable(&own.join(name)));
    let mut mark = [0u8; 8];
    let marked =
        matches!(getxattr(own, "user.delegate", &mut mark[..]), Ok(1)) && mark.first() == Some(&b'1');
    // If the parent is not writable, the delegation begins here.
    let line = own.parent().is_none_or(|above| !writable(&above.join("cgroup.procs")));
    files && (marked || line)
}

/// Moves this process into a leaf, so that the cgroups beside it can have limits.
fn divide(own: &Path) -> io::Result<()> {
    let leaf = own.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::write(leaf.join("cgroup.procs"), "0")?;
    let divided = fs::write(own.join("cgroup.subtree_control"), "+memory +pids");
    if divided.is_err() {
        // Moves back. At worst an empty cgroup is left.
        fs::write(own.join("cgroup.procs"), "0").unwrap_or_default();
        fs::remove_dir(&leaf).unwrap_or_default();
    }
    divided
}

fn swaps() -> bool {
    own::read_text("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1)
}

/// The cgroup of one command. Dropping it kills its processes and removes it.
#[derive(Debug)]
pub struct CommandCgroup {
    top: OwnedFd,
    name: String,
    directory: OwnedFd,
    removed: bool,
}

/// The usage of a cgroup at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupUsage {
    /// Whether processes were killed because together they had reached the memory limit.
    pub memory_limit_hit: bool,
    /// Whether a process was not started because of the limit on processes.
    pub pids_limit_hit: bool,
    /// Processor time of all processes that were ever in it.
    pub cpu: Duration,
}

impl AsFd for CommandCgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl CommandCgroup {
    /// Kills all of its processes.
    pub fn kill(&self) -> io::Result<()> {
        match self.write("cgroup.kill", "1") {
            // The kernel is older than 5.14. The command's process namespace ends by itself.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            written => written,
        }
    }

    /// Returns the processor time so far.
    pub fn cpu(&self) -> io::Result<Duration> {
        Ok(Duration::from_micros(number(&self.read("cpu.stat")?, "usage_usec").unwrap_or_default()))
    }

    /// Returns the usage and removes the cgroup. All of its processes must have ended.
    pub fn finish(mut self) -> io::Result<CgroupUsage> {
        let memory = self.read("memory.events")?;
        let pids = self.read("pids.events")?;
        let count = |text: &str, key: &str| number(text, key).unwrap_or_default();
        let account = CgroupUsage {
            // A process that was killed because the whole machine ran out of memory was not killed by this limit.
            memory_limit_hit: count(&memory, "oom") > 0 && count(&memory, "oom_kill") > 0,
            pids_limit_hit: count(&pids, "max") > 0,
            cpu: self.cpu()?,
        };
        self.remove()?;
        Ok(account)
    }

    fn remove(&mut self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            match unlinkat(&self.top, &self.name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => break,
                // The last process has ended for us, but not yet for the kernel, which reports it later.
                Err(Errno::BUSY) if Instant::now() < until => self.wait_empty()?,
                Err(errno) => return Err(errno.into()),
            }
        }
        self.removed = true;
        Ok(())
    }

    fn wait_empty(&self) -> io::Result<()> {
        let events = self.open("cgroup.events", OFlags::RDONLY)?;
        let mut text = [0u8; 64];
        let read = rustix::io::read(&events, &mut text)?;
        let told = String::from_utf8_lossy(text.get(..read).unwrap_or_default()).into_owned();
        if number(&told, "populated") == Some(0) {
            std::thread::yield_now();
            return Ok(());
        }
        let patience = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        match poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&patience)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn open(&self, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(openat(&self.directory, name, flags | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let written =
            self.open(name, OFlags::WRONLY).and_then(|file| Ok(rustix::io::write(file, text.as_bytes())?));
        match written {
            Ok(count) if count == text.len() => Ok(()),
            Ok(_) => Err(io::Error::other(format!("`{name}` accepted only a part of `{text}`"))),
            Err(error) => {
                Err(io::Error::new(error.kind(), format!("cannot write `{text}` to `{name}`: {error}")))
            }
        }
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let mut text = String::new();
        let mut file = fs::File::from(self.open(name, OFlags::RDONLY)?);
        io::Read::read_to_string(&mut file, &mut text)?;
        Ok(text)
    }
}

impl Drop for CommandCgroup {
    fn drop(&mut self) {
        // Best effort: a cgroup that is left is empty, and the next process removes it.
        if !self.removed && self.kill().is_ok() {
            self.remove().unwrap_or_default();
        }
    }
}

/// Returns the number after a key at the beginning of a line.
fn number(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "24 1 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        30 1 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

    // req: E2
    #[test]
    fn our_own_group_is_where_the_kernel_says() {
        for (mounts, membership, expected) in [
            (
                MOUNTS,
                "4:memory:/x\n0::/user.slice/a.scope\n",
                Some("/sys/fs/cgroup/unified/user.slice/a.scope"),
            ),
            (MOUNTS, "0::/\n", Some("/sys/fs/cgroup/unified")),
            (MOUNTS, "4:memory:/x\n", None),
            (
                "30 1 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup2 rw",
                "0::/docker/1/a",
                Some("/sys/fs/cgroup/a"),
            ),
            ("30 1 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup2 rw", "0::/elsewhere", None),
            ("30 1 0:26 / /proc rw - proc proc rw", "0::/", None),
        ] {
            assert_eq!(located(mounts, membership), expected.map(PathBuf::from), "{membership}");
        }
        assert_eq!(number("low 0\noom 2\noom_kill 3\n", "oom"), Some(2));
        assert_eq!(number("max 1\n", "maximum"), None);
    }
}
