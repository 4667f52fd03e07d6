//! The store: a directory with one directory for each copy, the before-images of each commit, and the scratch layers.
//!
//! ```text
//! copies/ID/copy.json      which directories, since when
//! copies/ID/lock           held by the process that works with it
//! copies/ID/0/upper, work  the layers of the first directory
//! copies/ID/listing.json   what differs
//! copies/ID/changes.json   what a commit changes, with the states before and after
//! copies/ID/journal.json   a commit began       copies/ID/done.json  … and ended
//! copies/ID/before/N       what was there before
//! copies/ID/size.json      the bytes of a commit, once they were counted
//! copies/ID/kept.json      another program makes the edit, and the before-images are complete
//! copies/ID/undone.json    the commit that undid this one
//! dropped/ID.json          what was forgotten, and why
//! scratch/SESSION/…        layers of what is built again and again
//! outputs/ID/N             what was there before the outputs of an allowed build
//! ```
//!
//! ID is the id of the call. The program keeps the store in `copies` of its state directory.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::dir_handle;
use crate::error::{Error, IoContext as _};
use crate::external_edit;
use crate::json_files::{list_names, read_json};
use crate::scratch::{ScratchLayers, ScratchName};

/// The limits of the store, and the names of scratch directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySettings {
    /// The maximum size of the store. Beyond it, the oldest copies are dropped first.
    pub quota_bytes: u64,
    /// The time for which before-images are kept.
    pub retention: Duration,
    /// The time for which before-images are kept even if the store is larger than its maximum.
    pub min_retention: Duration,
    /// The time for which a copy is kept that was neither committed nor discarded.
    pub open_copy_retention: Duration,
    /// The maximum size of a tree that is copied as a whole.
    pub max_tree_bytes: u64,
    /// The directories that builds create again.
    pub scratch: Vec<ScratchName>,
}

impl Default for CopySettings {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            quota_bytes: 10 << 30,
            retention: 30 * DAY,
            min_retention: 7 * DAY,
            open_copy_retention: DAY,
            max_tree_bytes: 512 << 20,
            scratch: ScratchName::defaults(),
        }
    }
}

/// The directory that holds copies and before-images.
#[derive(Clone, Debug)]
pub struct CopyStore {
    pub(crate) path: PathBuf,
    pub(crate) settings: CopySettings,
}

/// The state of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// The copy exists and is neither committed nor discarded.
    Open,
    /// A commit of it began, and neither ended nor was recovered.
    Interrupted,
    /// Its before-images are kept, and another program makes the edit.
    ExternalEdit,
    /// The copy is committed.
    Committed,
    /// The copy was committed, and undone by another commit.
    Undone {
        /// The commit that undid it.
        undo_id: Uuid,
    },
    /// Its before-images were dropped.
    Dropped {
        /// The reason.
        reason: String,
    },
    /// No such copy exists.
    Missing,
}

/// The remains of a commit whose before-images were dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    pub at: SystemTime,
    pub reason: String,
}

/// The lock of a copy.
#[derive(Debug)]
pub(crate) struct CopyLock(File);

impl Drop for CopyLock {
    fn drop(&mut self) {
        // Unlocks explicitly and not only by closing. A child process that another thread is starting also has the file, until it
        // executes its program. If the unlock fails, the close that follows releases the lock.
        rustix::fs::flock(&self.0, FlockOperation::Unlock).unwrap_or_default();
    }
}

impl CopyStore {
    /// Opens the store in a directory, and creates the directory if needed. Only its owner can read it.
    pub fn open(directory: &Path, settings: CopySettings) -> Result<Self, Error> {
        fs::create_dir_all(directory).context("create", directory)?;
        let at = directory.canonicalize().context("find", directory)?;
        let metadata = fs::metadata(&at).context("inspect", &at)?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(Error::Root { path: at, reason: "the store belongs to another user" });
        }
        // Other owners of roots may enter the directory without reading it: see `copy`.
        if metadata.mode() & 0o077 & !0o011 != 0 {
            fs::set_permissions(&at, Permissions::from_mode(0o700)).context("set the mode of", &at)?;
        }
        let store = Self { path: at, settings };
        for name in ["copies", "scratch", "dropped"] {
            match DirBuilder::new().mode(0o700).create(store.path.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => other.context("create", store.path.join(name))?,
            }
        }
        Ok(store)
    }

    /// Returns the directory of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates an empty directory for this id, and locks it.
    pub(crate) fn create_entry(&self, id: Uuid) -> Result<(PathBuf, CopyLock), Error> {
        let at = self.entry_path(id);
        match DirBuilder::new().mode(0o700).create(&at) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.context("create", &at)?,
        }
        let lock = self.lock(id)?;
        if at.join("journal.json").exists()
            || at.join("done.json").exists()
            || self.tombstone_path(id).exists()
        {
            return Err(Error::Exists(id));
        }
        for name in list_names(&at)?.iter().filter(|name| *name != "lock") {
            dir_handle::remove_path(&at.join(name)).context("remove", at.join(name))?;
        }
        Ok((at, lock))
    }

    /// Returns the scratch layers of a session.
    pub fn scratch(&self, session: &str) -> ScratchLayers {
        ScratchLayers::new(&self.path.join("scratch"), session)
    }

    /// Returns the state of a copy.
    pub fn state(&self, id: Uuid) -> Result<CopyState, Error> {
        let at = self.entry_path(id);
        if let Some(dropped) = read_json::<Tombstone>(&self.tombstone_path(id))? {
            return Ok(CopyState::Dropped { reason: dropped.reason });
        }
        if let Some(by) = read_json(&at.join("undone.json"))? {
            return Ok(CopyState::Undone { undo_id: by });
        }
        Ok(if at.join("done.json").exists() {
            CopyState::Committed
        } else if at.join("journal.json").exists() {
            CopyState::Interrupted
        } else if at.join(external_edit::KEPT).exists() {
            CopyState::ExternalEdit
        } else if at.join("copy.json").exists() {
            CopyState::Open
        } else {
            CopyState::Missing
        })
    }

    pub(crate) fn tombstone_path(&self, id: Uuid) -> PathBuf {
        self.path.join("dropped").join(format!("{id}.json"))
    }

    /// Returns the error for a copy that does not exist.
    pub(crate) fn missing_error(&self, id: Uuid) -> Error {
        match read_json::<Tombstone>(&self.tombstone_path(id)) {
            Ok(Some(stone)) => Error::Dropped { id, at: stone.at, reason: stone.reason },
            Ok(None) => Error::Missing(id),
            Err(fault) => fault,
        }
    }

    pub(crate) fn entry_path(&self, id: Uuid) -> PathBuf {
        self.path.join("copies").join(id.to_string())
    }

    /// Takes the lock of a copy. It is released when the file is closed, also by a crash.
    pub(crate) fn lock(&self, id: Uuid) -> Result<CopyLock, Error> {
        let path = self.entry_path(id).join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.context("open", &path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(Error::Busy(id)),
            other => other.context("lock", &path).map(|()| CopyLock(file)),
        }
    }

    /// Returns the ids of all copies in the store.
    pub(crate) fn ids(&self) -> Result<Vec<Uuid>, Error> {
        Ok(list_names(&self.path.join("copies"))?
            .iter()
            .filter_map(|name| Uuid::parse_str(name).ok())
            .collect())
    }

    /// Returns the time of the filesystem, which is coarser than the system clock. It is compared with the times of files.
    pub(crate) fn filesystem_now(&self, at: &Path) -> Result<i64, Error> {
        let path = at.join("now");
        File::create(&path).context("create", &path)?;
        let metadata = fs::metadata(&path).context("inspect", &path)?;
        fs::remove_file(&path).context("remove", &path)?;
        Ok(metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec()))
    }
}
