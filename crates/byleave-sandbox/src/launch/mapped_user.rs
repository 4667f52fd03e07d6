//! Runs commands of root as an unprivileged user to whom root's files seem to belong.
//!
//! A process of root is root for the kernel's own files as well, whatever its namespaces are. So a command of root gets a user id that
//! nobody has. The launcher's thread enters a mount namespace of its own. There, every tree that the command may see or write is mounted
//! once more, at the same path, with the ids mapped (`MOUNT_ATTR_IDMAP`): what belongs to the owner of the tree belongs to the command,
//! and what it creates belongs to the owner of the tree. From there on everything is as for an ordinary user.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::temp_dir::CommandTempDir;
use super::{LaunchError, RunAs, mount_calls, owner_on_disk};
use crate::clone3::{self, PausedChild};
use crate::confinement::FileConfinement;
use crate::plan::UserIdentity;
use crate::syscall::Errno;

/// The user id of commands of root. It is far from the ids that systems and containers give out.
const MAPPED_ID: u32 = 1_652_127_862;
/// The same where the ids of a container end at 65535.
const MAPPED_ID_SMALL: u32 = 65_432;

/// The trees that are mounted with mapped ids, and the user to whom they seem to belong.
#[derive(Debug)]
pub(super) struct MappedUser {
    identity: UserIdentity,
    trees: BTreeMap<PathBuf, UserIdentity>,
}

/// Returns the unprivileged user for commands of root.
pub(super) fn identity() -> Result<UserIdentity, LaunchError> {
    let ids = |path: &str| {
        let map = byleave_files::own::read_text(path).unwrap_or_default();
        let has = |id: u32| is_mapped(&map, id);
        [MAPPED_ID, MAPPED_ID_SMALL].into_iter().find(|id| has(*id))
    };
    let found = ids("/proc/self/uid_map").zip(ids("/proc/self/gid_map"));
    found.map(|(uid, gid)| UserIdentity { uid, gid }).ok_or(LaunchError::Root)
}

/// Checks whether an id is in a map of the kernel: lines of first id, first id outside, number of ids.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().filter_map(|number| number.parse::<u64>().ok());
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        first.zip(count).is_some_and(|(first, count)| (first..first + count).contains(&u64::from(id)))
    })
}

impl MappedUser {
    /// Finds the trees that a command of root needs: what it may write, its copies and its home; and what leads there, if others may not
    /// pass.
    pub(super) fn new(files: &FileConfinement, identity: UserIdentity) -> Self {
        let mut trees = BTreeMap::new();
        let written = files.writable.iter().cloned().chain(files.home.clone());
        let mut owned: Vec<PathBuf> = written.collect();
        for copied in &files.copies {
            // The layers that are written must be in one mount.
            owned.extend(copied.source.written_dir().map(Path::to_path_buf));
            owned.extend(copied.source.paths().cloned());
        }
        let seen = files.home_readable.iter().chain([&files.cwd]);
        for path in owned.iter().chain(seen) {
            let closed = path.ancestors().filter(|above| above.parent().is_some() && is_closed(above)).last();
            add(&mut trees, closed, identity);
        }
        owned.sort();
        for path in &owned {
            add(&mut trees, Some(path), identity);
        }
        Self { identity, trees }
    }

    /// Moves this thread into a mount namespace with these trees, and changes its user for good. Only for a thread that ends soon.
    pub(super) fn enter(&self) -> Result<(), (&'static str, io::Error)> {
        fn told<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> (&'static str, io::Error) {
            move |error| (what, error.into())
        }
        let errno = |Errno(errno): Errno| io::Error::from_raw_os_error(errno);
        clone3::unshare_mounts().map_err(errno).map_err(told("creating a mount namespace"))?;
        mount_calls::make_private().map_err(told("making its mounts private"))?;
        // All trees are cloned before the first is in place: a mapped mount cannot be mapped again.
        let mut mapped = Vec::new();
        for (path, owner) in &self.trees {
            let ids = id_map(*owner, self.identity)?;
            let place = open_resolved(path).map_err(told("opening its files"))?;
            let tree = mount_calls::clone_mapped(place.as_fd(), &*ids)
                .map_err(told("mapping the owner of its files"))?;
            mapped.push((tree, path));
        }
        // Outer trees come first, and are in the way of a descriptor that was opened before.
        for (tree, path) in mapped {
            let place = open_resolved(path).map_err(told("opening its files"))?;
            mount_calls::attach(&tree, place.as_fd()).map_err(told("mounting its files"))?;
        }
        self.name_user();
        clone3::change_thread_user(self.identity)
            .map_err(|errno| ("setting its user", io::Error::from_raw_os_error(errno)))
    }

    /// Checks whether the kernel maps the owner of these trees.
    pub(super) fn check(&self) -> Result<(), (&'static str, io::Error)> {
        for (path, owner) in &self.trees {
            let ids = id_map(*owner, self.identity)?;
            let place = open_resolved(path).map_err(|errno| ("opening its files", errno.into()))?;
            mount_calls::clone_mapped(place.as_fd(), &*ids)
                .map_err(|error| ("mapping the owner of its files", error))?;
        }
        Ok(())
    }

    /// Gives the user a name, because many programs end without one. Only this mount namespace has it. Without the name everything is as
    /// safe, so a file that cannot be replaced is left alone.
    fn name_user(&self) {
        let UserIdentity { uid, gid } = self.identity;
        let home = std::env::var("HOME").unwrap_or_else(|_| "/root".into());
        let user = format!("byleave:x:{uid}:{gid}:commands of root:{home}:/bin/sh\n");
        for (path, line) in [("/etc/passwd", user), ("/etc/group", format!("byleave:x:{gid}:\n"))] {
            append_in_namespace(path, &line).unwrap_or_default();
        }
    }
}

/// Mounts a copy of a file with one more line over the file.
fn append_in_namespace(path: &str, line: &str) -> io::Result<()> {
    let place = open_resolved(Path::new(path))?;
    let mut text = byleave_files::own::read_text(path)?;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    // The kernel mounts no file without a name. It is gone again when the directory is dropped, and stays mounted.
    let directory = CommandTempDir::new(owner_on_disk(RunAs::Caller)).map_err(io::Error::other)?;
    let mut file = fs::File::create_new(directory.path.join("text"))?;
    file.write_all(text.as_bytes())?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
    mount_calls::attach(&mount_calls::clone_one(file.as_fd())?, place.as_fd())
}

/// Opens a path as a reference, and refuses symbolic links everywhere on the way.
fn open_resolved(path: &Path) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Checks whether other users may not pass through a directory.
fn is_closed(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.mode() & 0o001 == 0)
}

fn add(trees: &mut BTreeMap<PathBuf, UserIdentity>, path: Option<&Path>, identity: UserIdentity) {
    let Some((path, found)) = path.and_then(|path| Some((path, fs::symlink_metadata(path).ok()?))) else {
        return;
    };
    let owner = UserIdentity { uid: found.uid(), gid: found.gid() };
    let above = trees
        .iter()
        .filter(|(tree, _)| path.starts_with(tree))
        .max_by_key(|(tree, _)| tree.as_os_str().len());
    let has_owner = above.is_some_and(|(_, mapped)| *mapped == owner);
    if path.parent().is_some() && !has_owner && owner != identity {
        trees.insert(path.to_owned(), owner);
    }
}

/// Returns a user namespace that maps an owner on disk to the user of a command, and leaves all other ids as they are.
fn id_map(owner: UserIdentity, user: UserIdentity) -> Result<Arc<OwnedFd>, (&'static str, io::Error)> {
    type Known = BTreeMap<(u32, u32), Arc<OwnedFd>>;
    static KNOWN: Mutex<Known> = Mutex::new(Known::new());
    let mut known = KNOWN.lock();
    if let Some(found) = known.get(&(owner.uid, owner.gid)) {
        return Ok(Arc::clone(found));
    }
    let told = |what| move |error: io::Error| (what, error);
    let child = PausedChild::in_user_namespace()
        .map_err(|Errno(errno)| ("creating a user namespace", namespace_error(errno)))?;
    let proc = PathBuf::from(format!("/proc/{}", child.pid()));
    for (name, from, to) in [("uid_map", owner.uid, user.uid), ("gid_map", owner.gid, user.gid)] {
        let map = byleave_files::own::read_text(Path::new("/proc/self").join(name)).unwrap_or_default();
        fs::write(proc.join(name), map_except(&map, from, to)).map_err(told("mapping ids"))?;
    }
    let opened = byleave_files::own::open(proc.join("ns/user")).map_err(told("opening a user namespace"))?;
    let made = Arc::new(OwnedFd::from(opened));
    known.insert((owner.uid, owner.gid), Arc::clone(&made));
    Ok(made)
}

/// The kernel reports the limit on user namespaces as a full disk.
fn namespace_error(errno: i32) -> io::Error {
    match io::Error::from_raw_os_error(errno) {
        error if error.kind() == io::ErrorKind::StorageFull => {
            io::Error::other("the limit `user.max_user_namespaces` is reached")
        }
        error => error,
    }
}

/// Returns a map of one id to another. All ids that the namespace has, but for these two, stay as they are.
fn map_except(map: &str, from: u32, to: u32) -> String {
    let (from, to) = (u64::from(from), u64::from(to));
    let mut lines = format!("{from} {to} 1\n");
    for line in map.lines() {
        let mut numbers = line.split_ascii_whitespace().filter_map(|number| number.parse::<u64>().ok());
        let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else {
            continue;
        };
        let (mut at, end) = (first, first + count);
        let mut cuts = [from, to];
        cuts.sort_unstable();
        for cut in cuts.into_iter().chain([end]) {
            let until = cut.clamp(at, end);
            if until > at {
                writeln!(lines, "{at} {at} {}", until - at).unwrap_or_default();
            }
            at = at.max((cut + 1).min(end));
        }
    }
    lines
}
