//! Handles for paths below a directory, file identities and renames. This module never follows a link.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::path::Path;
use std::rc::Rc;

use byleave_files::own;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, RenameFlags, ResolveFlags, Stat};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};

/// The identity of a file, by which it is recognized under another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    /// The device number of the filesystem.
    #[serde(rename = "d")]
    pub dev: u64,
    /// The inode number.
    #[serde(rename = "i")]
    pub ino: u64,
    /// The file type and mode, as the kernel reports them.
    #[serde(rename = "t")]
    pub mode: u32,
    /// The length in bytes.
    #[serde(rename = "s")]
    pub size: u64,
    /// The time of the last content change, in nanoseconds.
    #[serde(rename = "m")]
    pub modified: i64,
    /// The time of the last change of any kind, including a rename, in nanoseconds.
    #[serde(rename = "c")]
    pub changed: i64,
}

impl FileIdentity {
    /// Builds an identity from the result of `stat`.
    #[expect(clippy::useless_conversion, reason = "the widths differ between architectures")]
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        let nanoseconds =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            dev: stat.st_dev.into(),
            ino: stat.st_ino.into(),
            mode: stat.st_mode.into(),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: nanoseconds(
                stat.st_mtime.into(),
                i64::try_from(stat.st_mtime_nsec).unwrap_or_default(),
            ),
            changed: nanoseconds(stat.st_ctime.into(), i64::try_from(stat.st_ctime_nsec).unwrap_or_default()),
        }
    }

    /// Returns the number of hard links.
    #[expect(clippy::useless_conversion, reason = "the widths differ between architectures")]
    pub(crate) fn link_count(stat: &Stat) -> u64 {
        stat.st_nlink.into()
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == FileType::Directory
    }

    /// Checks whether it is the same file with the same content, at any path. For a directory, the content is not compared.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.dev == other.dev
            && self.ino == other.ino
            && self.kind() == other.kind()
            && (self.is_directory() || (self.size == other.size && self.modified == other.modified))
    }

    /// Checks whether it is the same file and was not touched at all, not even by a rename.
    pub(crate) fn is_untouched(&self, other: &Self) -> bool {
        self.is_same(other) && (self.is_directory() || self.changed == other.changed)
    }
}

/// Returns the twelve permission bits of a mode.
pub(crate) const fn permission_bits(mode: u32) -> u32 {
    mode & 0o7777
}

/// A directory, with cached handles of directories below it.
pub(crate) struct DirHandle {
    root: Rc<OwnedFd>,
    parents: RefCell<HashMap<String, Rc<OwnedFd>>>,
}

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
const BENEATH_NO_LINKS: ResolveFlags = ResolveFlags::BENEATH.union(NO_LINKS);
const HANDLES_MAX: usize = 128;

impl DirHandle {
    /// Opens the directory by its resolved path. A link on the way is an error, because it was put there since.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::openat2(CWD, path, flags, Mode::empty(), NO_LINKS)?;
        Ok(Self { root: Rc::new(root), parents: RefCell::default() })
    }

    /// Returns the handle of the directory that contains `path`, and the name in it.
    pub(crate) fn parent<'a>(&self, path: &'a str) -> Result<(Rc<OwnedFd>, &'a str)> {
        let Some((above, name)) = path.rsplit_once('/') else { return Ok((Rc::clone(&self.root), path)) };
        if let Some(known) = self.parents.borrow().get(above) {
            return Ok((Rc::clone(known), name));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened =
            Rc::new(rustix::fs::openat2(&*self.root, above, flags, Mode::empty(), BENEATH_NO_LINKS)?);
        let mut parents = self.parents.borrow_mut();
        if parents.len() >= HANDLES_MAX {
            parents.clear();
        }
        parents.insert(above.to_owned(), Rc::clone(&opened));
        Ok((opened, name))
    }

    /// Drops the cached handles, because a directory has moved.
    pub(crate) fn clear_handles(&self) {
        self.parents.borrow_mut().clear();
    }

    /// Returns the identity of the file at `path`, if there is one. The empty path is the directory itself.
    pub(crate) fn identity(&self, path: &str) -> Result<Option<FileIdentity>> {
        Ok(self.stat(path)?.map(|stat| FileIdentity::from_stat(&stat)))
    }

    pub(crate) fn stat(&self, path: &str) -> Result<Option<Stat>> {
        if path.is_empty() {
            return rustix::fs::statat(&*self.root, "", AtFlags::EMPTY_PATH).map(Some);
        }
        let found = self.parent(path).and_then(|(above, name)| stat_at(&above, name));
        match found {
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            other => other,
        }
    }

    /// Opens the file at `path`. A link is an error.
    pub(crate) fn open_at(&self, path: &str, flags: OFlags) -> Result<OwnedFd> {
        let path = if path.is_empty() { "." } else { path };
        rustix::fs::openat2(
            &*self.root,
            path,
            flags | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
            BENEATH_NO_LINKS,
        )
    }

    /// Sets the mode of a directory, if it is still the expected one.
    pub(crate) fn set_mode(&self, path: &str, of: &FileIdentity, mode: u32) -> Result<()> {
        let opened = self.open_at(path, OFlags::PATH | OFlags::DIRECTORY)?;
        if !FileIdentity::from_stat(&rustix::fs::fstat(&opened)?).is_same(of) {
            return Err(Errno::STALE);
        }
        // Uses the handle and not the name. The directory may be unreadable, and a name can be replaced by a link meanwhile.
        let handle = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened));
        rustix::fs::chmod(handle, Mode::from_raw_mode(mode))
    }
}

/// Returns the `stat` of a name in a directory, if it exists.
pub(crate) fn stat_at<N: rustix::path::Arg>(directory: impl AsFd, name: N) -> Result<Option<Stat>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Moves a file to a path where nothing exists.
pub(crate) fn rename_to_empty(from: (&DirHandle, &str), to: (&DirHandle, &str)) -> Result<()> {
    rename(from, to, RenameFlags::NOREPLACE)
}

/// Exchanges two files atomically.
pub(crate) fn exchange(one: (&DirHandle, &str), other: (&DirHandle, &str)) -> Result<()> {
    rename(one, other, RenameFlags::EXCHANGE)
}

fn rename(from: (&DirHandle, &str), to: (&DirHandle, &str), how: RenameFlags) -> Result<()> {
    let (source, name) = from.0.parent(from.1)?;
    let (target, new) = to.0.parent(to.1)?;
    rustix::fs::renameat_with(&*source, name, &*target, new, how)
}

const READ_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const READ_FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a directory to read its names.
pub(crate) fn open_directory<N: rustix::path::Arg>(above: impl AsFd, name: N) -> Result<OwnedFd> {
    rustix::fs::openat(above, name, READ_DIRECTORY, Mode::empty())
}

/// Opens a directory by its resolved path to read its names. A link on the way is an error, because it was put there since.
pub(crate) fn open_resolved(path: &Path) -> Result<OwnedFd> {
    rustix::fs::openat2(CWD, path, READ_DIRECTORY, Mode::empty(), NO_LINKS)
}

/// Opens a file to read it.
pub(crate) fn open_file<N: rustix::path::Arg>(above: impl AsFd, name: N) -> Result<OwnedFd> {
    rustix::fs::openat(above, name, READ_FILE, Mode::empty())
}

/// Opens a file or directory of ours for reading. Its mode is relaxed for that moment if needed. Never use it for files of the user.
pub(crate) fn open_owned(above: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Result<OwnedFd> {
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let flags = if directory { READ_DIRECTORY } else { READ_FILE };
    match rustix::fs::openat(above, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let mode = permission_bits(stat.st_mode);
            rustix::fs::chmodat(above, name, Mode::from_raw_mode(mode | 0o700), AtFlags::empty())?;
            let opened = rustix::fs::openat(above, name, flags, Mode::empty());
            rustix::fs::chmodat(above, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
            opened
        }
        other => other,
    }
}

/// Returns all names in a directory. They are read before the caller changes anything.
pub(crate) fn list_names(directory: impl AsFd) -> Result<Vec<Box<CStr>>> {
    let mut space = [MaybeUninit::uninit(); 16 * 1024];
    let mut listing = RawDir::new(directory, &mut space);
    let mut all = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            all.push(name.into());
        }
    }
    Ok(all)
}

/// The greatest depth of a tree walk. It is far more than real trees need, and far less than handles and stack allow.
pub(crate) const DEPTH_MAX: usize = 256;
/// The depth of one descent when a tree is removed. A command may have made the tree arbitrarily deep.
const REMOVE_DEPTH: usize = 64;

/// Removes the file at `name` with everything below it, at any depth. Directories without access are made accessible first.
pub(crate) fn remove(above: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    let Some(top) = remove_or_open(above, name)? else { return Ok(()) };
    let mut moved = 0;
    // Directories that were too deep are moved up to `top` and removed in the next round.
    loop {
        rustix::fs::seek(&top, rustix::fs::SeekFrom::Start(0))?;
        let inside = list_names(&top)?;
        if inside.is_empty() {
            return rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR);
        }
        rustix::fs::fchmod(&top, Mode::RWXU)?;
        for name in &inside {
            remove_within(top.as_fd(), (top.as_fd(), name), 1, &mut moved)?;
        }
    }
}

fn remove_within(
    top: BorrowedFd<'_>,
    (above, name): (BorrowedFd<'_>, &CStr),
    depth: usize,
    moved: &mut u64,
) -> Result<()> {
    let Some(opened) = remove_or_open(above, name)? else { return Ok(()) };
    let inside = list_names(&opened)?;
    if !inside.is_empty() {
        rustix::fs::fchmod(&opened, Mode::RWXU)?;
        if depth >= REMOVE_DEPTH {
            return move_up((above, name), top, moved);
        }
    }
    for name in &inside {
        remove_within(top, (opened.as_fd(), name), depth + 1, moved)?;
    }
    rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)
}

fn move_up(from: (BorrowedFd<'_>, &CStr), top: BorrowedFd<'_>, moved: &mut u64) -> Result<()> {
    loop {
        *moved += 1;
        let to = format!("deep-{moved}");
        match rustix::fs::renameat_with(from.0, from.1, top, to, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
    }
}

/// Removes a file that is not a directory, or opens a directory so that it can be emptied.
fn remove_or_open(above: BorrowedFd<'_>, name: &CStr) -> Result<Option<OwnedFd>> {
    match rustix::fs::unlinkat(above, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(None),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    match rustix::fs::openat(above, name, READ_DIRECTORY, Mode::empty()) {
        Err(Errno::NOTDIR) => Err(Errno::PERM),
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(above, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(above, name, READ_DIRECTORY, Mode::empty()).map(Some)
        }
        other => other.map(Some),
    }
}

/// Removes the file at `path` with everything below it. A missing file is not an error.
pub(crate) fn remove_path(path: &Path) -> std::io::Result<()> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::open(above, flags, Mode::empty())?;
    let name = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(name))?;
    Ok(remove(above.as_fd(), &name)?)
}

/// Writes a file atomically and durably, also across a power cut.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file = File::create(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    match path.parent() {
        Some(above) => own::sync_directory(above),
        None => Ok(()),
    }
}
