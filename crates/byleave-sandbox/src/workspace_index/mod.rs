//! An index of the directories that commands write, kept between commands. It answers which paths to hide or protect before a
//! command, and where files could be run later (`tripwire`).
//!
//! The index is trusted only as far as the kernel reports changes. Every directory is watched before it is read, so that later
//! changes are noticed. If a file system does not report changes, or the kernel loses events, everything is scanned again. A
//! query cannot skip this. The index follows no symbolic link and changes nothing.

mod autorun_paths;
mod links;
mod path_policy;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_files::own;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, fstatfs, open};
use rustix::io::Errno;

use self::autorun_paths::EnclosingTree;
pub use self::path_policy::{IndexError, MAX_ENTRIES, PathPolicy, ProtectedPaths};
use crate::repository::{GitPathKind, RepositoryDetector, SETTINGS, is_list};

/// File systems that report every change on this machine: ext, xfs, btrfs, tmpfs, f2fs, overlay, zfs, bcachefs. File systems that
/// other machines also write do not.
const TELLING: [i64; 8] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010, 0x794c_7630, 0x2fc1_2fc1, 0xca45_1a4e];
/// How often changes are followed up while others make more.
const ROUNDS: usize = 8;

/// Checks whether a directory of another user is closed for this one, who can neither read it, pass through it nor open it.
fn is_closed_by_other(path: &Path) -> bool {
    let user = rustix::process::geteuid();
    let of_other = fs::symlink_metadata(path).is_ok_and(|found| found.uid() != user.as_raw());
    let passable = rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS);
    !user.is_root() && of_other && passable == Err(Errno::ACCESS)
}

/// The contents of some directories. Every answer is current at the time of the query.
pub struct DirectoryIndex<M> {
    roots: Vec<PathBuf>,
    marker: Option<M>,
    eyes: Option<ChangeWatcher>,
    directories: HashMap<PathBuf, IndexedDirectory>,
    /// Directories that could not be read. They are tried again at every query.
    unreadable: BTreeMap<PathBuf, (DirectoryContext, io::ErrorKind)>,
    entries: usize,
    answer: Option<IndexAnswer>,
}

/// Paths of files that could be run, with the target if the path is a symbolic link.
pub type RunnablePaths = BTreeMap<PathBuf, Option<PathBuf>>;

/// Both answers, cached until something changes.
#[derive(Debug)]
struct IndexAnswer {
    marked: Arc<ProtectedPaths>,
    places: Arc<RunnablePaths>,
    lists: Arc<[PathBuf]>,
}

/// One directory, as of the last read.
#[derive(Debug)]
struct IndexedDirectory {
    identity: (u64, u64),
    watch: Option<i32>,
    context: DirectoryContext,
    entries: usize,
    below: BTreeSet<PathBuf>,
    hidden: Vec<PathBuf>,
    protected: Vec<PathBuf>,
    places: Vec<(PathBuf, Option<PathBuf>)>,
    /// Todo lists whose commands Git runs.
    lists: Vec<PathBuf>,
    /// The inode numbers of entries that are not directories.
    inodes: Vec<u64>,
}

/// The tree that a directory belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DirectoryContext {
    is_hidden: bool,
    is_protected: bool,
    within: EnclosingTree,
}

/// A watcher for changes.
#[derive(Debug)]
struct ChangeWatcher {
    changes: OwnedFd,
    mounts: fs::File,
    /// Directories by watch descriptor. A directory may be at two places.
    watched: HashMap<i32, Vec<PathBuf>>,
}

/// An index with any path policy.
pub type DynDirectoryIndex = DirectoryIndex<Arc<dyn PathPolicy + Send + Sync>>;

impl<M> fmt::Debug for DirectoryIndex<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl<M: PathPolicy> DirectoryIndex<M> {
    /// Creates an index that watches these directories, with this policy. It scans nothing yet.
    pub fn new(roots: Vec<PathBuf>, marker: Option<M>) -> Self {
        Self { eyes: ChangeWatcher::open(&roots), ..Self::new_unwatched(roots, marker) }
    }

    /// Creates an index for one or two scans, which watches nothing.
    pub fn new_unwatched(roots: Vec<PathBuf>, marker: Option<M>) -> Self {
        Self {
            roots,
            marker,
            eyes: None,
            directories: HashMap::new(),
            unreadable: BTreeMap::new(),
            entries: 0,
            answer: None,
        }
    }

    /// Returns whether the kernel reports changes, so that another scan reads only what has changed.
    pub const fn is_watching(&self) -> bool {
        self.eyes.is_some()
    }

    /// Returns the paths to hide or protect now. A path that could not be read is an error.
    pub fn protected_paths(&mut self) -> Result<Arc<ProtectedPaths>, IndexError> {
        self.look()?;
        if self.marker.is_none() {
            return Ok(Arc::clone(&self.answered().marked));
        }
        // A directory that is hidden as a whole need not be readable. One that is closed for this user is closed for the command, too.
        let matters = |(path, (context, _)): &(&PathBuf, &(DirectoryContext, io::ErrorKind))| {
            !context.is_hidden && !is_closed_by_other(path)
        };
        if let Some((path, (_, kind))) = self.unreadable.iter().find(matters) {
            return Err(IndexError::Unreadable { path: path.clone(), error: (*kind).into() });
        }
        if self.entries > MAX_ENTRIES {
            return Err(IndexError::TooManyEntries { path: self.roots.first().cloned().unwrap_or_default() });
        }
        Ok(Arc::clone(&self.answered().marked))
    }

    /// Returns the places of files that could be run later, as far as they are readable. See [`DirectoryIndex::unreadable_directories`].
    pub fn runnable_paths(&mut self) -> Result<Arc<RunnablePaths>, IndexError> {
        self.look()?;
        Ok(Arc::clone(&self.answered().places))
    }

    /// Returns the todo lists of Git, as far as they are readable. The index does not know whether their content changed, so they
    /// must be read.
    pub fn lists(&mut self) -> Result<Arc<[PathBuf]>, IndexError> {
        self.look()?;
        Ok(Arc::clone(&self.answered().lists))
    }

    /// Returns the directories that could not be read at the last query.
    pub fn unreadable_directories(&self) -> BTreeSet<PathBuf> {
        self.unreadable.keys().cloned().collect()
    }

    /// Returns the indexed directories.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Brings everything up to date. After an error nothing is trusted.
    fn look(&mut self) -> Result<(), IndexError> {
        let looked = self.follow_up();
        if looked.is_err() {
            self.forget();
        }
        looked
    }

    fn follow_up(&mut self) -> Result<(), IndexError> {
        for _ in 0..ROUNDS {
            let changed = match self.eyes.as_mut().map(ChangeWatcher::changed) {
                Some(ChangeSet::Nothing) if !self.directories.is_empty() => break,
                Some(ChangeSet::These { changed, gone }) if !self.directories.is_empty() => {
                    // First, because a replacement may have got the same number.
                    gone.iter().for_each(|path| self.drop_beneath(path));
                    changed
                }
                _ => {
                    self.forget();
                    self.read_all()?;
                    if self.eyes.is_none() {
                        return Ok(());
                    }
                    continue;
                }
            };
            self.answer = None;
            for path in changed {
                self.read_again(&path)?;
            }
        }
        for (path, (context, _)) in std::mem::take(&mut self.unreadable) {
            self.answer = None;
            self.read_beneath(path, context)?;
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.directories.clear();
        self.unreadable.clear();
        (self.entries, self.answer) = (0, None);
        // The watches end with the descriptor. If no new one can be opened, nothing is trusted from here on.
        if self.eyes.is_some() {
            self.eyes = ChangeWatcher::open(&self.roots);
        }
    }

    fn read_all(&mut self) -> Result<(), IndexError> {
        for root in self.roots.clone() {
            match fs::symlink_metadata(&root) {
                Ok(found) if !found.is_dir() => continue,
                Ok(_) => {}
                Err(error) => return Err(IndexError::Unreadable { path: root, error }),
            }
            let within = EnclosingTree::of_root(&root);
            let context = DirectoryContext { is_hidden: false, is_protected: false, within };
            self.read_beneath(root.clone(), context)?;
            if let Some((_, kind)) = self.unreadable.get(&root) {
                return Err(IndexError::Unreadable { path: root, error: (*kind).into() });
            }
        }
        Ok(())
    }

    /// Reads a directory whose entries have changed. Unchanged entries are kept.
    fn read_again(&mut self, path: &Path) -> Result<(), IndexError> {
        let Some(known) = self.directories.get(path) else { return Ok(()) };
        let (context, before) = (known.context.clone(), known.below.clone());
        for below in &before {
            let identity = self.directories.get(below).map(|directory| directory.identity);
            if identity.is_some() && identity != identity_of(below) {
                self.drop_beneath(below);
            }
        }
        self.drop_one(path);
        self.read_beneath(path.to_path_buf(), context)?;
        let after = self.directories.get(path).map(|directory| directory.below.clone()).unwrap_or_default();
        before.difference(&after).for_each(|gone| self.drop_beneath(gone));
        Ok(())
    }

    /// Reads a directory and the unknown directories beneath it.
    fn read_beneath(&mut self, path: PathBuf, context: DirectoryContext) -> Result<(), IndexError> {
        let mut left = vec![(path, context)];
        while let Some((path, context)) = left.pop() {
            if let Some(known) = self.directories.get(&path) {
                if known.context == context {
                    continue;
                }
                self.drop_beneath(&path);
            }
            match self.read_one(&path, context.clone()) {
                Ok((directory, below)) => {
                    self.entries += directory.entries;
                    self.directories.insert(path, directory);
                    left.extend(below);
                }
                // It was removed after its name was read. If it returns, that is a change.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => {
                    self.unreadable.insert(path, (context, io::Error::from(errno).kind()));
                }
            }
            if self.entries > MAX_ENTRIES && self.marker.is_some() {
                return Err(IndexError::TooManyEntries {
                    path: self.roots.first().cloned().unwrap_or_default(),
                });
            }
        }
        Ok(())
    }

    fn read_one(
        &mut self,
        path: &Path,
        context: DirectoryContext,
    ) -> Result<(IndexedDirectory, Vec<(PathBuf, DirectoryContext)>), Errno> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let opened = open(path, flags, Mode::empty())?;
        let found = fstat(&opened)?;
        // Before the read, so that no change in between is missed.
        let watch = match &mut self.eyes {
            Some(eyes) => match eyes.watch(&opened, path) {
                Ok(watch) => Some(watch),
                Err(_) => {
                    self.eyes = None;
                    None
                }
            },
            None => None,
        };
        let mut directory = IndexedDirectory {
            identity: (found.st_dev, found.st_ino),
            watch,
            context,
            entries: 0,
            below: BTreeSet::new(),
            hidden: Vec::new(),
            protected: Vec::new(),
            places: Vec::new(),
            lists: Vec::new(),
            inodes: Vec::new(),
        };
        let mut shape = RepositoryDetector::default();
        let mut below = Vec::new();
        for entry in Dir::new(opened)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                shape.note_name(name);
                if entry.file_type() != FileType::Directory {
                    directory.inodes.push(entry.ino());
                }
                self.take_entry(path.join(name), name, entry.file_type(), &mut directory, &mut below);
            }
        }
        if directory.context.within == EnclosingTree::Ordinary && shape.is_repository() {
            Self::take_repository(path, &mut directory);
        }
        directory.below = below.iter().map(|(path, _)| path.clone()).collect();
        Ok((directory, below))
    }

    fn take_entry(
        &mut self,
        path: PathBuf,
        name: &OsStr,
        kind: FileType,
        directory: &mut IndexedDirectory,
        below: &mut Vec<(PathBuf, DirectoryContext)>,
    ) {
        directory.entries += 1;
        let DirectoryContext { mut is_hidden, mut is_protected, ref within } = directory.context;
        let is_directory = match kind {
            FileType::Unknown => fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()),
            kind => kind == FileType::Directory,
        };
        // First, because a file that must not be read may still be run.
        let (part, mut within) = within.classify(&name.to_string_lossy(), is_directory);
        let mut is_place = part == GitPathKind::Run;
        // Also in a directory that is a repository by its contents.
        if part == GitPathKind::List || within.is_ordinary() && is_list(&path.to_string_lossy()) {
            directory.lists.push(path.clone());
        }
        // Rules are text. In a name that is not, the other characters still count.
        let text = path.to_string_lossy();
        let plants = |marker: &M| marker.is_runnable_later(&text);
        if !is_place && within.is_ordinary() && self.marker.as_ref().is_some_and(plants) {
            (is_place, within) = (true, EnclosingTree::NewTree);
        }
        if is_place {
            let leads_to = if is_directory { None } else { fs::read_link(&path).ok() };
            directory.places.push((path.clone(), leads_to));
        }
        if let Some(marker) = self.marker.as_ref().filter(|_| !is_hidden) {
            if marker.is_hidden(&text) {
                is_hidden = true;
                directory.hidden.push(path.clone());
            } else if !is_protected && marker.protects(&text) {
                // In a protected directory nothing needs its own protection, but a path may have to be hidden.
                is_protected = true;
                directory.protected.push(path.clone());
            }
        }
        // Without a policy, the thousands of object directories of Git are skipped.
        let is_marked = self.marker.is_some() && !is_hidden;
        if is_directory && (is_marked || within.may_contain_runnable()) {
            below.push((path, DirectoryContext { is_hidden, is_protected, within }));
        }
    }

    /// Adds a directory that is a repository by its contents. It is a new repository if its `HEAD` is new. The files that Git
    /// obeys in it are protected, or new.
    fn take_repository(path: &Path, directory: &mut IndexedDirectory) {
        directory.places.push((path.join("HEAD"), None));
        for own in SETTINGS.map(|name| path.join(name)) {
            if fs::symlink_metadata(&own).is_err() {
                continue;
            }
            directory.places.push((own.clone(), None));
            if !directory.context.is_protected && !directory.protected.contains(&own) {
                directory.protected.push(own);
            }
        }
    }

    fn drop_beneath(&mut self, path: &Path) {
        let mut left = vec![path.to_path_buf()];
        while let Some(path) = left.pop() {
            self.unreadable.remove(&path);
            left.extend(self.drop_one(&path).into_iter().flat_map(|directory| directory.below));
        }
    }

    fn drop_one(&mut self, path: &Path) -> Option<IndexedDirectory> {
        let dropped = self.directories.remove(path)?;
        self.entries = self.entries.saturating_sub(dropped.entries);
        if let (Some(eyes), Some(watch)) = (&mut self.eyes, dropped.watch) {
            eyes.unwatch(watch, path);
        }
        Some(dropped)
    }

    fn answered(&mut self) -> &IndexAnswer {
        let (directories, roots) = (&self.directories, &self.roots);
        self.answer.get_or_insert_with(|| {
            let (mut marked, mut places, mut lists) =
                (ProtectedPaths::default(), RunnablePaths::new(), Vec::new());
            for directory in directories.values() {
                marked.hidden.extend(directory.hidden.iter().cloned());
                marked.protected.extend(directory.protected.iter().cloned());
                places.extend(directory.places.iter().cloned());
                lists.extend(directory.lists.iter().cloned());
            }
            for paths in [&mut marked.hidden, &mut marked.protected] {
                paths.extend(links::find_aliases(paths, roots, directories));
                paths.sort();
                paths.dedup();
            }
            lists.sort();
            IndexAnswer { marked: Arc::new(marked), places: Arc::new(places), lists: lists.into() }
        })
    }
}

fn identity_of(path: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::lstat(path).ok()?;
    Some((found.st_dev, found.st_ino))
}

/// The changes since the last query.
enum ChangeSet {
    Nothing,
    These {
        /// Directories in which entries were added or removed.
        changed: BTreeSet<PathBuf>,
        /// Directories that no longer exist.
        gone: BTreeSet<PathBuf>,
    },
    /// The kernel has lost events, or something was mounted.
    Anything,
}

impl ChangeWatcher {
    fn open(roots: &[PathBuf]) -> Option<Self> {
        for root in roots {
            let opened = open(root, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
            tells(&opened)?;
        }
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let mounts = own::open("/proc/self/mountinfo").ok()?;
        Some(Self { changes, mounts, watched: HashMap::new() })
    }

    fn watch(&mut self, directory: &OwnedFd, path: &Path) -> Result<i32, Errno> {
        tells(directory).ok_or(Errno::NOTSUP)?;
        let changes = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE | WatchFlags::ONLYDIR;
        let by_descriptor = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let watch = inotify::add_watch(&self.changes, by_descriptor, changes)?;
        let places = self.watched.entry(watch).or_default();
        if !places.iter().any(|known| known == path) {
            places.push(path.to_path_buf());
        }
        Ok(watch)
    }

    fn unwatch(&mut self, watch: i32, path: &Path) {
        let Some(places) = self.watched.get_mut(&watch) else { return };
        places.retain(|place| place != path);
        if places.is_empty() {
            self.watched.remove(&watch);
            // It is not an error if the directory has gone, and the watch with it.
            inotify::remove_watch(&self.changes, watch).unwrap_or_default();
        }
    }

    fn changed(&mut self) -> ChangeSet {
        let mut asked =
            [PollFd::new(&self.changes, PollFlags::IN), PollFd::new(&self.mounts, PollFlags::PRI)];
        match poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) => return ChangeSet::Nothing,
            Ok(_) => {}
            Err(_) => return ChangeSet::Anything,
        }
        if asked.last().is_none_or(|mounts| !mounts.revents().is_empty()) {
            return ChangeSet::Anything;
        }
        let (mut changed, mut gone) = (BTreeSet::new(), BTreeSet::new());
        let mut room = [MaybeUninit::uninit(); 16 << 10];
        let mut events = inotify::Reader::new(&self.changes, &mut room);
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return ChangeSet::These { changed, gone },
                Err(_) => return ChangeSet::Anything,
            };
            if event.events().intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT) {
                return ChangeSet::Anything;
            }
            let is_gone = event.events().contains(ReadFlags::IGNORED);
            let paths = if is_gone { &mut gone } else { &mut changed };
            paths.extend(self.watched.get(&event.wd()).into_iter().flatten().cloned());
        }
    }
}

/// Returns `Some` if this file system reports every change.
fn tells(opened: &OwnedFd) -> Option<()> {
    let kind = fstatfs(opened).ok()?.f_type;
    TELLING.contains(&kind).then_some(())
}
