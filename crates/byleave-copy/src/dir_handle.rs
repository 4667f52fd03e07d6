//! The disk: handles beneath a directory, identities, renames. A link is never followed here.

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

/// Which thing it is, so that it is known again under another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    /// The filesystem.
    #[serde(rename = "d")]
    pub dev: u64,
    /// The inode.
    #[serde(rename = "i")]
    pub ino: u64,
    /// File type and mode, as the kernel says them.
    #[serde(rename = "t")]
    pub mode: u32,
    /// How long.
    #[serde(rename = "s")]
    pub size: u64,
    /// When its content changed last, in nanoseconds.
    #[serde(rename = "m")]
    pub modified: i64,
    /// When anything about it changed last, in nanoseconds. A rename counts.
    #[serde(rename = "c")]
    pub touched: i64,
}

impl FileIdentity {
    /// From what the kernel says.
    #[expect(clippy::useless_conversion, reason = "the widths differ between architectures")]
    pub(crate) fn of(stat: &Stat) -> Self {
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
            touched: nanoseconds(stat.st_ctime.into(), i64::try_from(stat.st_ctime_nsec).unwrap_or_default()),
        }
    }

    /// How many names it has.
    #[expect(clippy::useless_conversion, reason = "the widths differ between architectures")]
    pub(crate) fn names(stat: &Stat) -> u64 {
        stat.st_nlink.into()
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == FileType::Directory
    }

    /// Whether it is the same thing with the same content, wherever it lies. A directory is the same whatever is in it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.dev == other.dev
            && self.ino == other.ino
            && self.kind() == other.kind()
            && (self.is_directory() || (self.size == other.size && self.modified == other.modified))
    }

    /// Whether it is the same thing and nothing at all was done to it, a rename included.
    pub(crate) fn is_untouched(&self, other: &Self) -> bool {
        self.is_same(other) && (self.is_directory() || self.touched == other.touched)
    }
}

/// The twelve bits of a mode.
pub(crate) const fn bits(mode: u32) -> u32 {
    mode & 0o7777
}

/// A directory, and handles of what lies in it.
pub(crate) struct DirHandle {
    root: Rc<OwnedFd>,
    parents: RefCell<HashMap<String, Rc<OwnedFd>>>,
}

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
const NEAR: ResolveFlags = ResolveFlags::BENEATH.union(NO_LINKS);
const HANDLES_MAX: usize = 128;

impl DirHandle {
    /// Opens the directory itself, by its resolved path: where a link is on the way now, somebody put it there since.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::openat2(CWD, path, flags, Mode::empty(), NO_LINKS)?;
        Ok(Self { root: Rc::new(root), parents: RefCell::default() })
    }

    /// The handle of the directory that holds `path`, and the name in it.
    pub(crate) fn parent<'a>(&self, path: &'a str) -> Result<(Rc<OwnedFd>, &'a str)> {
        let Some((above, name)) = path.rsplit_once('/') else { return Ok((Rc::clone(&self.root), path)) };
        if let Some(known) = self.parents.borrow().get(above) {
            return Ok((Rc::clone(known), name));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = Rc::new(rustix::fs::openat2(&*self.root, above, flags, Mode::empty(), NEAR)?);
        let mut parents = self.parents.borrow_mut();
        if parents.len() >= HANDLES_MAX {
            parents.clear();
        }
        parents.insert(above.to_owned(), Rc::clone(&opened));
        Ok((opened, name))
    }

    /// Forgets the handles: a directory has moved.
    pub(crate) fn forget(&self) {
        self.parents.borrow_mut().clear();
    }

    /// What is at `path`, if anything. The empty path is the directory itself.
    pub(crate) fn ident(&self, path: &str) -> Result<Option<FileIdentity>> {
        Ok(self.stat(path)?.map(|stat| FileIdentity::of(&stat)))
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

    /// Opens what is at `path`; a link is an error.
    pub(crate) fn open_at(&self, path: &str, flags: OFlags) -> Result<OwnedFd> {
        let path = if path.is_empty() { "." } else { path };
        rustix::fs::openat2(
            &*self.root,
            path,
            flags | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
            NEAR,
        )
    }

    /// Sets the mode of a directory, if it is still the one that is meant.
    pub(crate) fn set_mode(&self, path: &str, of: &FileIdentity, mode: u32) -> Result<()> {
        let opened = self.open_at(path, OFlags::PATH | OFlags::DIRECTORY)?;
        if !FileIdentity::of(&rustix::fs::fstat(&opened)?).is_same(of) {
            return Err(Errno::STALE);
        }
        // Through its handle, not by its name: it may be one that nobody may read, and a name can be made a link meanwhile.
        let handle = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened));
        rustix::fs::chmod(handle, Mode::from_raw_mode(mode))
    }
}

/// What has this name in a directory, if anything.
pub(crate) fn stat_at<N: rustix::path::Arg>(directory: impl AsFd, name: N) -> Result<Option<Stat>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Moves a thing to where nothing is.
pub(crate) fn move_to(from: (&DirHandle, &str), to: (&DirHandle, &str)) -> Result<()> {
    rename(from, to, RenameFlags::NOREPLACE)
}

/// Two things change places, at once.
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

/// Opens a directory by its resolved path to read its names: where a link is on the way now, somebody put it there since.
pub(crate) fn open_resolved(path: &Path) -> Result<OwnedFd> {
    rustix::fs::openat2(CWD, path, READ_DIRECTORY, Mode::empty(), NO_LINKS)
}

/// Opens a file to read it.
pub(crate) fn open_file<N: rustix::path::Arg>(above: impl AsFd, name: N) -> Result<OwnedFd> {
    rustix::fs::openat(above, name, READ_FILE, Mode::empty())
}

/// Opens a file or a directory of ours to read it; what its mode forbids is allowed for that moment. Never for what is the user's.
pub(crate) fn open_ours(above: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Result<OwnedFd> {
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let flags = if directory { READ_DIRECTORY } else { READ_FILE };
    match rustix::fs::openat(above, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let mode = bits(stat.st_mode);
            rustix::fs::chmodat(above, name, Mode::from_raw_mode(mode | 0o700), AtFlags::empty())?;
            let opened = rustix::fs::openat(above, name, flags, Mode::empty());
            rustix::fs::chmodat(above, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
            opened
        }
        other => other,
    }
}

/// Every name in a directory, read before anything is done with them.
pub(crate) fn names(directory: impl AsFd) -> Result<Vec<Box<CStr>>> {
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

/// How many directories may lie in each other where a tree is walked: far more than anybody has, far less than handles and stack.
pub(crate) const DEPTH_MAX: usize = 256;
/// How many are gone down at once where a tree is removed, which a command may have made as deep as it liked.
const STEPS_DOWN: usize = 64;

/// Removes what is at `name`, with everything beneath, however deep; what may not be read or entered is made so first.
pub(crate) fn remove(above: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    let Some(top) = removed_or_opened(above, name)? else { return Ok(()) };
    let mut moved = 0;
    // What was too deep comes up to here, and is gone down into again.
    loop {
        rustix::fs::seek(&top, rustix::fs::SeekFrom::Start(0))?;
        let inside = names(&top)?;
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
    let Some(opened) = removed_or_opened(above, name)? else { return Ok(()) };
    let inside = names(&opened)?;
    if !inside.is_empty() {
        rustix::fs::fchmod(&opened, Mode::RWXU)?;
        if depth >= STEPS_DOWN {
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

/// Removes what is no directory; opens one to be emptied.
fn removed_or_opened(above: BorrowedFd<'_>, name: &CStr) -> Result<Option<OwnedFd>> {
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

/// Removes what is at `path`, with everything beneath; nothing there is well.
pub(crate) fn remove_path(path: &Path) -> std::io::Result<()> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::open(above, flags, Mode::empty())?;
    let name = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(name))?;
    Ok(remove(above.as_fd(), &name)?)
}

/// Writes a file that is there wholly or not at all, also after a power cut.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
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
