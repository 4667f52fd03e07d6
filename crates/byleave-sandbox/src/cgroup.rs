//! Groups of processes with limits of their own: cgroup v2, where a part of it was delegated to us.
//!
//! A command is born in its group, so that there is no moment at which it is outside; when it is over the group is removed. This
//! moves the calling process into a leaf of what was delegated, because the kernel gives limits to groups only beside processes,
//! never beneath them. It must never touch a group that somebody else runs: under systemd only what says that it was delegated.

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

/// The leaf that processes of ours are in, beside the groups of commands.
const LEAF: &str = "byleave-supervisor";
/// How the name of a command's group begins; then the process that made it, and a number.
const RUN: &str = "byleave-run-";
const CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// How long a group is waited for whose last process has just ended.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why there are no groups of our own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CgroupUnavailable {
    /// There is no cgroup v2 to be seen.
    #[error("no cgroup v2 is mounted")]
    NotMounted,
    /// Ours is not ours to divide.
    #[error("`{}` was not delegated to us; begin with `systemd-run --user --scope -p Delegate=yes`", .0.display())]
    NotDelegated(PathBuf),
    /// The kernel keeps these limits elsewhere, or they were not passed on to us.
    #[error("`{}` has no `{controller}` to limit", path.display())]
    NoController {
        /// Where.
        path: PathBuf,
        /// What is missing.
        controller: &'static str,
    },
    /// Others are in the same group, which then cannot be divided.
    #[error("`{}` cannot be divided: {why}", path.display())]
    Undivided {
        /// Where.
        path: PathBuf,
        /// The kernel's answer.
        why: String,
    },
}

/// The part of the tree that was delegated to us.
#[derive(Debug)]
pub struct DelegatedCgroup {
    path: PathBuf,
    top: OwnedFd,
}

/// What was delegated to this process, found once. Moves the process into a leaf of it.
pub fn here() -> Result<&'static DelegatedCgroup, CgroupUnavailable> {
    static FOUND: OnceLock<Result<DelegatedCgroup, CgroupUnavailable>> = OnceLock::new();
    FOUND.get_or_init(|| DelegatedCgroup::find(&own()?)).as_ref().map_err(Clone::clone)
}

/// The directory of the group that this process is in.
fn own() -> Result<PathBuf, CgroupUnavailable> {
    let read = |path: &str| own::read_text(path).map_err(|_| CgroupUnavailable::NotMounted);
    let path = located(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
        .ok_or(CgroupUnavailable::NotMounted)?;
    // What is told must be what is there: a tree of another namespace would have other processes.
    let members = own::read_text(path.join("cgroup.procs")).map_err(|_| CgroupUnavailable::NotMounted)?;
    let me = std::process::id().to_string();
    if members.lines().any(|line| line == me) { Ok(path) } else { Err(CgroupUnavailable::NotMounted) }
}

/// Where a process is whose mounts and membership read so.
fn located(mounts: &str, membership: &str) -> Option<PathBuf> {
    let group = Path::new(membership.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        // Escaped blanks; nobody mounts it there.
        let beneath = group.strip_prefix(root).ok().filter(|_| !place.contains('\\'))?;
        Some(Path::new(place).join(beneath).components().collect())
    })
}

impl DelegatedCgroup {
    fn find(own: &Path) -> Result<Self, CgroupUnavailable> {
        if own.file_name().is_some_and(|name| name == LEAF)
            && let Some(above) = own.parent()
        {
            return Self::checked(above);
        }
        if !is_ours(own) {
            return Err(CgroupUnavailable::NotDelegated(own.to_path_buf()));
        }
        let offered = own::read_text(own.join("cgroup.controllers")).unwrap_or_default();
        for controller in CONTROLLERS {
            if !offered.split_whitespace().any(|name| name == controller) {
                return Err(CgroupUnavailable::NoController { path: own.to_path_buf(), controller });
            }
        }
        divide(own).map_err(|error| CgroupUnavailable::Undivided {
            path: own.to_path_buf(),
            why: error.to_string(),
        })?;
        Self::checked(own)
    }

    /// The groups of dead processes are removed on the way.
    fn checked(path: &Path) -> Result<Self, CgroupUnavailable> {
        let passed_on = own::read_text(path.join("cgroup.subtree_control")).unwrap_or_default();
        for controller in CONTROLLERS {
            if !passed_on.split_whitespace().any(|name| name == controller) {
                return Err(CgroupUnavailable::NoController { path: path.to_path_buf(), controller });
            }
        }
        let undivided =
            |error: Errno| CgroupUnavailable::Undivided { path: path.to_path_buf(), why: error.to_string() };
        let top =
            rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(undivided)?;
        access(path, Access::WRITE_OK).map_err(|_| CgroupUnavailable::NotDelegated(path.to_path_buf()))?;
        let found = Self { path: path.to_path_buf(), top };
        found.sweep();
        Ok(found)
    }

    /// Removes what a killed process of ours left behind. One that is in use cannot be removed, so nothing can go wrong.
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

    /// A new group with these limits, for one command.
    pub fn group(&self, limits: &ResourceLimits) -> io::Result<CommandCgroup> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("{RUN}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        mkdirat(&self.top, &name, Mode::from_raw_mode(0o755))?;
        let directory = openat(&self.top, &name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let directory = directory.inspect_err(|_| {
            unlinkat(&self.top, &name, AtFlags::REMOVEDIR).unwrap_or_default();
        })?;
        let top = self.top.try_clone()?;
        // From here on it is removed when it is dropped.
        let group = CommandCgroup { top, name, directory, removed: false };
        group.write("memory.max", &limits.memory.to_string())?;
        match group.write("memory.swap.max", "0") {
            // A kernel that does not count what is swapped; that matters only where there is something to swap to.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !swaps() => {}
            written => written?,
        }
        group.write("memory.oom.group", "1")?;
        // The first process inside counts as well.
        group.write("pids.max", &u64::from(limits.pids).saturating_add(1).to_string())?;
        Ok(group)
    }
}

/// Whether the group that we are in was given to us to divide. Under a user's own systemd every group can be written, and yet
/// only those that it marks are ours.
fn is_ours(own: &Path) -> bool {
    let writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    let files = ["", "cgroup.procs", "cgroup.subtree_control"].iter().all(|name| writable(&own.join(name)));
    let mut mark = [0u8; 8];
    let marked =
        matches!(getxattr(own, "user.delegate", &mut mark[..]), Ok(1)) && mark.first() == Some(&b'1');
    // Where we may not write above, this is where somebody drew the line.
    let line = own.parent().is_none_or(|above| !writable(&above.join("cgroup.procs")));
    files && (marked || line)
}

/// Moves this process into a leaf, and lets the groups beside it have limits.
fn divide(own: &Path) -> io::Result<()> {
    let leaf = own.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::write(leaf.join("cgroup.procs"), "0")?;
    let divided = fs::write(own.join("cgroup.subtree_control"), "+memory +pids");
    if divided.is_err() {
        // Back to where we were; what is left otherwise is an empty group.
        fs::write(own.join("cgroup.procs"), "0").unwrap_or_default();
        fs::remove_dir(&leaf).unwrap_or_default();
    }
    divided
}

fn swaps() -> bool {
    own::read_text("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1)
}

/// The group of one command. When it is dropped, what is in it is killed, and it is removed.
#[derive(Debug)]
pub struct CommandCgroup {
    top: OwnedFd,
    name: String,
    directory: OwnedFd,
    removed: bool,
}

/// What a group has to say when it is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupUsage {
    /// Its processes were killed because together they had reached the limit on memory.
    pub memory: bool,
    /// A process was not started because there were as many as the limit allows.
    pub pids: bool,
    /// Time on processors, of all that ever were in it.
    pub cpu: Duration,
}

impl AsFd for CommandCgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl CommandCgroup {
    /// Kills everything in it.
    pub fn kill(&self) -> io::Result<()> {
        match self.write("cgroup.kill", "1") {
            // A kernel before 5.14; the namespace of the command's processes is ended by itself.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            written => written,
        }
    }

    /// Time on processors so far.
    pub fn cpu(&self) -> io::Result<Duration> {
        Ok(Duration::from_micros(number(&self.read("cpu.stat")?, "usage_usec").unwrap_or_default()))
    }

    /// What it has to say; then it is gone. Everything in it has ended.
    pub fn end(mut self) -> io::Result<CgroupUsage> {
        let memory = self.read("memory.events")?;
        let pids = self.read("pids.events")?;
        let count = |text: &str, key: &str| number(text, key).unwrap_or_default();
        let account = CgroupUsage {
            // Who was killed for want of memory on the whole machine was not killed by this limit.
            memory: count(&memory, "oom") > 0 && count(&memory, "oom_kill") > 0,
            pids: count(&pids, "max") > 0,
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
                // The last one has ended for us, and not yet for the kernel, which says when.
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
            Ok(_) => Err(io::Error::other(format!("`{name}` took a part of `{text}`"))),
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
        // Best effort: what is left is empty, and is swept by whoever comes next.
        if !self.removed && self.kill().is_ok() {
            self.remove().unwrap_or_default();
        }
    }
}

/// The number after a word at the beginning of a line.
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
