//! Lock files of calls that waited for an answer and were not yet picked up, so that a repeated call finds its own.
//!
//! A lock file is an empty file `KEY/CALL` in a directory that only its owner can read. The process that follows a call holds
//! the lock, which the kernel releases when the process dies. It removes the file before it hands over the result. A result
//! is therefore handed over at most once, whichever process is killed at whatever time.
//!
//! A lock file is neither a permission nor an answer; those are only in the audit log. The loss of a file costs a second
//! question.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::CallId;

/// How long a repeated call finds the one before.
pub(super) const RETENTION: Duration = Duration::from_secs(24 * 3_600);

/// How often a path is retried that other processes remove meanwhile.
const TRIES: usize = 4;

/// Checks whether a gateway holds a call, or keeps its result for the client that made it.
pub fn is_pending(dir: &Path, call: CallId) -> bool {
    let name = call.to_string();
    let dirs = fs::read_dir(dir).into_iter().flatten().flatten();
    dirs.into_iter().any(|entry| entry.path().join(&name).exists())
}

/// The lock files of one audit log.
#[derive(Clone, Debug)]
pub(super) struct PendingCalls {
    dir: PathBuf,
}

/// A lock file that only this process holds.
#[derive(Debug)]
pub(super) struct PendingCallLock {
    /// The call that it represents.
    pub(super) call: CallId,
    path: PathBuf,
    /// Locked for as long as it is open.
    file: File,
}

/// The result of a lookup for an incoming call.
#[derive(Debug, Default)]
pub(super) struct PendingCallLookup {
    /// The same call made before and not yet picked up.
    pub(super) pending: Option<PendingCallLock>,
    /// Older calls whose clients did not come back in time.
    pub(super) outdated: Vec<CallId>,
}

impl PendingCalls {
    /// Uses this directory, which is created with the first lock file.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Creates and holds the lock file of a call.
    pub(super) fn create(&self, key: &Digest, call: CallId) -> io::Result<PendingCallLock> {
        let dir = self.of(key);
        let (new, path) = (dir.join(format!(".{call}")), dir.join(call.to_string()));
        let mut tried = 0;
        loop {
            tried += 1;
            // Locked before any other process can find it.
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir).and_then(|()| {
                let file =
                    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
                file.try_lock().map_err(io::Error::from)?;
                fs::rename(&new, &path)?;
                Ok(file)
            });
            match made {
                Ok(file) => return Ok(PendingCallLock { call, path, file }),
                Err(error) if error.kind() == io::ErrorKind::NotFound && tried < TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the oldest lock file of a call that no process holds. If `only` names a call, takes only that one.
    pub(super) fn take(&self, key: &Digest, only: Option<CallId>) -> io::Result<PendingCallLookup> {
        let mut found = PendingCallLookup::default();
        let dir = self.of(key);
        let listed = match fs::read_dir(&dir) {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(error) => return Err(error),
        };
        let named = listed.filter_map(|item| item.ok()?.file_name().to_str()?.parse::<CallId>().ok());
        let mut calls: Vec<CallId> = named.filter(|call| only.is_none_or(|only| only == *call)).collect();
        // Call ids are sorted by time.
        calls.sort_unstable();
        for call in calls {
            let Some(slip) = held(&dir, call)? else { continue };
            if slip.is_outdated() {
                slip.remove()?;
                found.outdated.push(call);
            } else {
                found.pending = Some(slip);
                break;
            }
        }
        Ok(found)
    }

    fn of(&self, key: &Digest) -> PathBuf {
        self.dir.join(key.to_string())
    }
}

impl PendingCallLock {
    /// Removes the lock file before the result is handed over. On an error the result must not be handed over.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        if let Some(dir) = self.path.parent() {
            // The directory remains if it contains another lock file.
            drop(fs::remove_dir(dir));
        }
        Ok(())
    }

    /// Releases the lock file, so that a repeated call finds it. Its age is measured from now.
    pub(super) fn release(self) -> io::Result<()> {
        self.file.set_modified(SystemTime::now())
    }

    /// Returns the time since it was last held.
    pub(super) fn age(&self) -> Duration {
        let modified = self.file.metadata().and_then(|found| found.modified());
        // A file of unknown age is too old.
        modified.map_or(Duration::MAX, |at| at.elapsed().unwrap_or_default())
    }

    fn is_outdated(&self) -> bool {
        self.age() > RETENTION
    }
}

/// Locks the file of a call, if no other process holds it.
fn held(dir: &Path, call: CallId) -> io::Result<Option<PendingCallLock>> {
    let path = dir.join(call.to_string());
    let file = match OpenOptions::new().write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Removed between open and lock: the call was picked up.
    match fs::metadata(&path) {
        Ok(there) if there.ino() == file.metadata()?.ino() => Ok(Some(PendingCallLock { call, path, file })),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use byleave_gate::clock::fresh_id;

    use super::*;

    fn fresh() -> CallId {
        CallId::new(fresh_id())
    }

    // req: R5
    #[test]
    fn a_slip_is_found_once_and_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let slips = PendingCalls::new(dir.path().join("pending"));
        let (key, call) = (Digest::compute(b"key"), fresh());
        assert!(slips.take(&key, None).unwrap().pending.is_none(), "nothing was written");
        let slip = slips.create(&key, call).unwrap();
        assert!(slips.take(&key, None).unwrap().pending.is_none(), "somebody holds it");
        slip.release().unwrap();
        let again = slips.take(&key, None).unwrap().pending.unwrap();
        assert_eq!(again.call, call);
        assert!(slips.take(&key, None).unwrap().pending.is_none(), "somebody holds it again");
        assert!(slips.take(&Digest::compute(b"other"), None).unwrap().pending.is_none());
        again.remove().unwrap();
        assert!(slips.take(&key, None).unwrap().pending.is_none(), "it was picked up");
    }

    // req: R5
    #[test]
    fn of_two_the_older_is_found_first_and_one_can_be_named() {
        let dir = tempfile::tempdir().unwrap();
        let slips = PendingCalls::new(dir.path().join("pending"));
        let (key, first, second) = (Digest::compute(b"key"), fresh(), fresh());
        slips.create(&key, second).unwrap().release().unwrap();
        slips.create(&key, first).unwrap().release().unwrap();
        assert_eq!(slips.take(&key, Some(second)).unwrap().pending.unwrap().call, second);
        assert_eq!(slips.take(&key, None).unwrap().pending.unwrap().call, first);
    }

    #[test]
    fn what_nobody_came_back_for_is_named_and_gone() {
        let dir = tempfile::tempdir().unwrap();
        let slips = PendingCalls::new(dir.path().join("pending"));
        let (key, call) = (Digest::compute(b"key"), fresh());
        let slip = slips.create(&key, call).unwrap();
        slip.file.set_modified(SystemTime::now() - RETENTION - Duration::from_secs(1)).unwrap();
        drop(slip);
        let found = slips.take(&key, None).unwrap();
        assert!(found.pending.is_none());
        assert_eq!(found.outdated, [call]);
        assert!(slips.take(&key, None).unwrap().outdated.is_empty());
    }
}
