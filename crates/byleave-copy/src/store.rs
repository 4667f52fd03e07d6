//! The store: a directory with one directory for each copy, what was there before each commit, and scratch layers.
//!
//! ```text
//! copies/ID/copy.json      which directories, since when
//! copies/ID/lock           held by whoever works with it
//! copies/ID/0/upper, work  the layers of the first directory
//! copies/ID/listing.json   what differs
//! copies/ID/journal.json   a commit began       copies/ID/done.json  … and ended
//! copies/ID/before/N       what was there before
//! dropped/ID.json          what was forgotten, and why
//! scratch/SESSION/…        layers of what is built again and again
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::copy::{Copy, Meta};
use crate::disk;
use crate::fault::{At as _, Fault};
use crate::layers::{self, Method, Owner, Root};
use crate::scratch::{Name, Scratch};

/// What may be kept, for how long, and what counts as scratch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many bytes the store may hold; beyond it, the oldest goes first.
    pub quota_bytes: u64,
    /// How long what was there before a commit is kept.
    pub keep_for: Duration,
    /// How long a copy waits that was neither committed nor discarded.
    pub wait_for: Duration,
    /// How large a tree may be that is copied as a whole.
    pub tree_bytes_max: u64,
    /// Directories that are made again by whoever needs them.
    pub scratch: Vec<Name>,
}

impl Default for Settings {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            quota_bytes: 10 << 30,
            keep_for: 30 * DAY,
            wait_for: DAY,
            tree_bytes_max: 512 << 20,
            scratch: Name::usual(),
        }
    }
}

/// The directory that holds copies and what was there before.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) at: PathBuf,
    pub(crate) settings: Settings,
}

/// What became of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is there, neither committed nor discarded.
    Open,
    /// A commit of it began and neither ended nor was recovered.
    Interrupted,
    /// It is committed.
    Committed,
    /// It was committed, and undone by another.
    Undone {
        /// By which.
        by: Uuid,
    },
    /// What was there before it was dropped.
    Dropped {
        /// Why.
        why: String,
    },
    /// There is none.
    Missing,
}

/// What remains of a commit whose before-images were dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    pub at: SystemTime,
    pub why: String,
}

impl Store {
    /// Opens the store in a directory, which is made if it is not there. Only its owner can look into it.
    pub fn open(directory: &Path, settings: Settings) -> Result<Self, Fault> {
        fs::create_dir_all(directory).at("make", directory)?;
        let at = directory.canonicalize().at("find", directory)?;
        let metadata = fs::metadata(&at).at("look at", &at)?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(Fault::Root { path: at, why: "the store belongs to somebody else" });
        }
        // Entering without looking is for owners of roots who are not us: see `copy`.
        if metadata.mode() & 0o077 & !0o011 != 0 {
            fs::set_permissions(&at, Permissions::from_mode(0o700)).at("set the mode of", &at)?;
        }
        let store = Self { at, settings };
        for name in ["copies", "scratch", "dropped"] {
            match DirBuilder::new().mode(0o700).create(store.at.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => other.at("make", store.at.join(name))?,
            }
        }
        Ok(store)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Makes a copy of these directories. What an ended process left under this name is removed first.
    pub fn copy(&self, id: Uuid, roots: &[PathBuf], method: Method) -> Result<Copy, Fault> {
        let (at, lock) = self.begin(id)?;
        let roots = roots.iter().map(|path| self.root(path, method)).collect::<Result<Vec<_>, _>>()?;
        for (number, root) in roots.iter().enumerate() {
            let above = |other: &Root| Path::new(&root.path).starts_with(&other.path);
            if roots.iter().enumerate().any(|(other, one)| other != number && above(one)) {
                return Err(Fault::Root {
                    path: (&root.path).into(),
                    why: "it lies in another that is copied",
                });
            }
        }
        let mut another = false;
        for root in &roots {
            another |= Owner::of(Path::new(&root.path))?.is_another();
        }
        if another {
            for directory in [&self.at, &self.at.join("copies"), &self.at.join("scratch"), &at] {
                fs::set_permissions(directory, Permissions::from_mode(0o711))
                    .at("set the mode of", directory)?;
            }
        }
        let started = self.now(&at)?;
        for (number, root) in roots.iter().enumerate() {
            layers::make(&at, number, root, self.settings.tree_bytes_max)?;
        }
        let meta = Meta { id, roots, started, session: None, scratch: Vec::new(), kept: Default::default() };
        write_json(&at.join("copy.json"), &meta)?;
        Ok(Copy { store: self.clone(), at, meta, _lock: lock })
    }

    /// An empty directory under this name, and its lock.
    pub(crate) fn begin(&self, id: Uuid) -> Result<(PathBuf, File), Fault> {
        let at = self.directory(id);
        match DirBuilder::new().mode(0o700).create(&at) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.at("make", &at)?,
        }
        let lock = self.lock(id)?;
        if at.join("journal.json").exists() || at.join("done.json").exists() || self.tombstone(id).exists() {
            return Err(Fault::Exists(id));
        }
        for name in names(&at)?.iter().filter(|name| *name != "lock") {
            disk::remove_path(&at.join(name)).at("remove", at.join(name))?;
        }
        Ok((at, lock))
    }

    /// Opens a copy that was made before, to look at it, commit it or discard it.
    pub fn reopen(&self, id: Uuid) -> Result<Copy, Fault> {
        let at = self.directory(id);
        if !at.exists() {
            return Err(self.missing(id));
        }
        let lock = self.lock(id)?;
        if at.join("done.json").exists() {
            return Err(Fault::Exists(id));
        }
        let meta = read_json(&at.join("copy.json"))?.ok_or(Fault::Missing(id))?;
        Ok(Copy { store: self.clone(), at, meta, _lock: lock })
    }

    /// The scratch layers of a session.
    pub fn scratch(&self, session: &str) -> Scratch {
        Scratch::new(&self.at.join("scratch"), session)
    }

    /// What became of a copy.
    pub fn state(&self, id: Uuid) -> Result<State, Fault> {
        let at = self.directory(id);
        if let Some(dropped) = read_json::<Tombstone>(&self.tombstone(id))? {
            return Ok(State::Dropped { why: dropped.why });
        }
        if let Some(by) = read_json(&at.join("undone.json"))? {
            return Ok(State::Undone { by });
        }
        Ok(if at.join("done.json").exists() {
            State::Committed
        } else if at.join("journal.json").exists() {
            State::Interrupted
        } else if at.join("copy.json").exists() {
            State::Open
        } else {
            State::Missing
        })
    }

    pub(crate) fn tombstone(&self, id: Uuid) -> PathBuf {
        self.at.join("dropped").join(format!("{id}.json"))
    }

    /// Why a copy is not there.
    pub(crate) fn missing(&self, id: Uuid) -> Fault {
        match read_json::<Tombstone>(&self.tombstone(id)) {
            Ok(Some(stone)) => Fault::Dropped { id, at: stone.at, why: stone.why },
            Ok(None) => Fault::Missing(id),
            Err(fault) => fault,
        }
    }

    pub(crate) fn directory(&self, id: Uuid) -> PathBuf {
        self.at.join("copies").join(id.to_string())
    }

    /// Takes the lock of a copy; it is given back when the file is closed, also by a crash.
    pub(crate) fn lock(&self, id: Uuid) -> Result<File, Fault> {
        let path = self.directory(id).join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.at("open", &path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(Fault::Busy(id)),
            other => other.at("lock", &path).map(|()| file),
        }
    }

    /// The ids of all copies that are there.
    pub(crate) fn ids(&self) -> Result<Vec<Uuid>, Fault> {
        Ok(names(&self.at.join("copies"))?.iter().filter_map(|name| Uuid::parse_str(name).ok()).collect())
    }

    /// The time as the filesystem tells it, which is coarser than the clock: what is compared with times of files.
    pub(crate) fn now(&self, at: &Path) -> Result<i64, Fault> {
        let path = at.join("now");
        File::create(&path).at("make", &path)?;
        let metadata = fs::metadata(&path).at("look at", &path)?;
        fs::remove_file(&path).at("remove", &path)?;
        Ok(metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec()))
    }

    fn root(&self, path: &Path, method: Method) -> Result<Root, Fault> {
        let wrong = |why| Fault::Root { path: path.to_owned(), why };
        let resolved = path.canonicalize().at("find", path)?;
        if resolved != path {
            return Err(wrong("it is not the resolved path"));
        }
        if self.at.starts_with(path) {
            return Err(wrong("the store lies in it"));
        }
        let metadata = fs::metadata(path).at("look at", path)?;
        if !metadata.is_dir() {
            return Err(wrong("it is not a directory"));
        }
        let text = path.to_str().ok_or_else(|| Fault::NotText { path: path.to_owned() })?;
        Ok(Root { path: text.into(), dev: metadata.dev(), ino: metadata.ino(), method })
    }
}

/// The names in a directory; none if it is not there.
pub(crate) fn names(directory: &Path) -> Result<Vec<String>, Fault> {
    let listing = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.at("list", directory)?,
    };
    let names = listing.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    names.collect::<io::Result<Vec<_>>>().at("list", directory)
}

/// Writes a file that is there wholly or not at all, as long as the machine runs.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Fault> {
    let draft = path.with_extension("draft");
    fs::write(&draft, json(path, value)?).at("write", &draft)?;
    fs::rename(&draft, path).at("write", path)
}

/// Writes a file that is there wholly or not at all, also after a power cut.
pub(crate) fn write_json_durably<T: Serialize>(path: &Path, value: &T) -> Result<(), Fault> {
    disk::write_whole(path, &json(path, value)?).at("write", path)
}

fn json<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec(value).map_err(|source| Fault::Garbled { path: path.to_owned(), source })
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Fault> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).at("read", path),
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| Fault::Garbled { path: path.to_owned(), source }),
    }
}
