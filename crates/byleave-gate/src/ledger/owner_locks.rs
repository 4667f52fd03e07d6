//! Lock files that show whether the owner of a claim is alive. The kernel releases a lock when its process dies.
//!
//! The module serves ledgers whose owners are processes of one machine. It never reads a record.
//!
//! A missing lock file means that nobody holds the lock. Therefore the holder of a lock may remove its file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use byleave_core::id::OwnerId;

/// The number and the length of retries while another process holds a lock only to check it.
const RETRIES: u32 = 20;
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// A function that returns whether an owner on another machine is alive.
pub type OwnerLiveness = Arc<dyn Fn(OwnerId) -> bool + Send + Sync>;

/// A lock that is held until it is dropped. Dropping it removes its file.
#[derive(Debug)]
pub struct OwnerLock {
    path: PathBuf,
    _file: File,
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // The file is removed before the lock is released, so that no owner can have taken this lock in between.
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "cannot remove a lock file");
        }
    }
}

/// Takes the lock of an owner for its lifetime. Returns `None` if the lock is held.
pub fn acquire(dir: &Path, owner: OwnerId) -> io::Result<Option<OwnerLock>> {
    lock(dir, owner, File::try_lock)
}

/// Takes the lock of a returning owner. Retries, because a process that only checks the lock holds it for a moment.
pub fn acquire_with_retry(dir: &Path, owner: OwnerId) -> io::Result<Option<OwnerLock>> {
    for _ in 0..RETRIES {
        if let Some(lock) = acquire(dir, owner)? {
            return Ok(Some(lock));
        }
        std::thread::sleep(RETRY_DELAY);
    }
    acquire(dir, owner)
}

/// Takes the lock of a dead owner. Returns `None` if the owner is alive.
///
/// The lock is shared, so that two processes that check at the same time do not mistake each other for the owner.
pub fn remove_dead_owner(dir: &Path, owner: OwnerId) -> io::Result<Option<OwnerLock>> {
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
        // The file may have been removed between open and lock. In that case, the lock protects nothing.
        if is_same(&file, &path)? {
            return Ok(Some(OwnerLock { path, _file: file }));
        }
    }
}

/// Removes the lock files of dead owners.
pub fn remove_stale_locks(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let owner = name.to_str().and_then(|name| name.strip_suffix(".lock")).and_then(|id| id.parse().ok());
        if let Some(owner) = owner {
            drop(remove_dead_owner(dir, owner)?);
        }
    }
    Ok(())
}

/// Opens a lock file that only its user may access.
#[expect(clippy::disallowed_methods, reason = "a file in our own state directory that is never read")]
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
        let held = acquire(dir.path(), owner).unwrap().unwrap();
        assert!(acquire(dir.path(), owner).unwrap().is_none());
        remove_stale_locks(dir.path()).unwrap();
        assert!(acquire(dir.path(), owner).unwrap().is_none(), "a sweep keeps the locks of living owners");
        drop(held);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(acquire(dir.path(), owner).unwrap().is_some(), "a missing file is a dead owner");
    }
}
