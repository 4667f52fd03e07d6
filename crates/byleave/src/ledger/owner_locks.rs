//! Owners: who holds claims, known by a lock that the kernel drops when its process dies.
//!
//! For ledgers whose owners are processes of one machine. Nothing here looks at a record.
//!
//! A lock file that is missing is a lock that nobody holds. So a file may be removed by whoever has its lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use byleave_core::id::OwnerId;

/// How often, and how long each time, someone who only looks at a lock is waited for.
const LOOKS: u32 = 20;
const LOOK: Duration = Duration::from_millis(5);

/// Says whether an owner lives who is not on this machine.
pub type OwnerLiveness = Arc<dyn Fn(OwnerId) -> bool + Send + Sync>;

/// A lock that is held until it is dropped. Dropping removes its file.
#[derive(Debug)]
pub struct OwnerLock {
    path: PathBuf,
    _file: File,
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // Removed before the lock goes, so that nobody can have come to live by it meanwhile.
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "cannot remove a lock file");
        }
    }
}

/// Takes the lock of an owner to live by; `None` where it is held.
pub fn take(dir: &Path, owner: OwnerId) -> io::Result<Option<OwnerLock>> {
    lock(dir, owner, File::try_lock)
}

/// The same for an owner who comes back: whoever only looks at its lock holds it for a moment.
pub fn take_soon(dir: &Path, owner: OwnerId) -> io::Result<Option<OwnerLock>> {
    for _ in 0..LOOKS {
        if let Some(lock) = take(dir, owner)? {
            return Ok(Some(lock));
        }
        std::thread::sleep(LOOK);
    }
    take(dir, owner)
}

/// Takes the lock of an owner that is gone; `None` where the owner lives.
///
/// Shared, so that two who come to look at the same time do not take each other for the owner.
pub fn bury(dir: &Path, owner: OwnerId) -> io::Result<Option<OwnerLock>> {
    lock(dir, owner, File::try_lock_shared)
}

fn lock(
    dir: &Path,
    owner: OwnerId,
    try_lock: fn(&File) -> Result<(), TryLockError>,
) -> io::Result<Option<OwnerLock>> {
    let path = dir.join(format!("{owner}.lock"));
    loop {
        let file = open_lock(&path)?;
        match try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Between opening and locking someone may have removed the file; then this is a lock on nothing.
        if is_same(&file, &path)? {
            return Ok(Some(OwnerLock { path, _file: file }));
        }
    }
}

/// Removes the lock files of owners that are gone.
pub fn sweep(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let owner = name.to_str().and_then(|name| name.strip_suffix(".lock")).and_then(|id| id.parse().ok());
        if let Some(owner) = owner {
            drop(bury(dir, owner)?);
        }
    }
    Ok(())
}

/// Opens a lock file, for its owner only.
#[expect(clippy::disallowed_methods, reason = "in our own state directory, and never read")]
pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok(ours.ino() == there.ino() && ours.dev() == there.dev()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_by_one_and_gone_when_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let owner = OwnerId::new(uuid::Uuid::from_u128(1));
        let held = take(dir.path(), owner).unwrap().unwrap();
        assert!(take(dir.path(), owner).unwrap().is_none());
        sweep(dir.path()).unwrap();
        assert!(take(dir.path(), owner).unwrap().is_none(), "a sweep leaves the living alone");
        drop(held);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(take(dir.path(), owner).unwrap().is_some(), "a missing file is a dead owner");
    }
}
