//! Slips: which calls have waited for an answer and were not yet picked up, so that the same call made again finds its own.
//!
//! A slip is an empty file `KEY/CALL` in a directory of its own, for its owner only. Who follows a call holds the lock of its slip,
//! which the kernel drops at death; who hands its result over removes the slip first. So a result is handed over at most once,
//! whichever process was killed when. A slip is no permission and no answer: those are in the book alone. Losing one costs a
//! second question.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use byleave::core::digest::Digest;
use byleave::core::id::CallId;

/// How long the same call made again finds the one before.
pub(super) const KEPT: Duration = Duration::from_secs(24 * 3_600);

/// How often a place is tried for that others tidy away meanwhile.
const TRIES: usize = 4;

/// The slips of one book.
#[derive(Clone, Debug)]
pub(super) struct PendingCalls {
    dir: PathBuf,
}

/// A slip that is held here and nowhere else.
#[derive(Debug)]
pub(super) struct PendingCallLock {
    /// The call that it stands for.
    pub(super) call: CallId,
    path: PathBuf,
    /// Locked as long as it is open.
    file: File,
}

/// What was found for a call that comes in.
#[derive(Debug, Default)]
pub(super) struct PendingCallLookup {
    /// The same call made before, not yet picked up.
    pub(super) slip: Option<PendingCallLock>,
    /// Others that nobody came back for in time.
    pub(super) outdated: Vec<CallId>,
}

impl PendingCalls {
    /// The slips in this directory, which is made when the first is written.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Writes a slip for a call, and holds it.
    pub(super) fn put(&self, key: &Digest, call: CallId) -> io::Result<PendingCallLock> {
        let dir = self.of(key);
        let (new, path) = (dir.join(format!(".{call}")), dir.join(call.to_string()));
        let mut tried = 0;
        loop {
            tried += 1;
            // Locked before anyone can find it.
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

    /// The oldest slip for a call that nobody holds; where one is named, only that.
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
        // Their ids are sorted by time.
        calls.sort_unstable();
        for call in calls {
            let Some(slip) = held(&dir, call)? else { continue };
            if slip.is_outdated() {
                slip.remove()?;
                found.outdated.push(call);
            } else {
                found.slip = Some(slip);
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
    /// Removes it: the result is about to be handed over. An error says that it must not be.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        if let Some(dir) = self.path.parent() {
            // Another slip may be in it; then it stays.
            drop(fs::remove_dir(dir));
        }
        Ok(())
    }

    /// Lets go of it: whoever makes the same call finds it. Counted from now.
    pub(super) fn leave(self) -> io::Result<()> {
        self.file.set_modified(SystemTime::now())
    }

    /// How long ago it was last held.
    pub(super) fn age(&self) -> Duration {
        let modified = self.file.metadata().and_then(|found| found.modified());
        // What cannot be told is too old.
        modified.map_or(Duration::MAX, |at| at.elapsed().unwrap_or_default())
    }

    fn is_outdated(&self) -> bool {
        self.age() > KEPT
    }
}

/// The slip of a call, if nobody else holds it.
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
    // Removed between our opening and our locking: it was picked up.
    match fs::metadata(&path) {
        Ok(there) if there.ino() == file.metadata()?.ino() => Ok(Some(PendingCallLock { call, path, file })),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use byleave::clock::fresh_id;

    use super::*;

    fn fresh() -> CallId {
        CallId::new(fresh_id())
    }

    // req: R5
    #[test]
    fn a_slip_is_found_once_and_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let slips = PendingCalls::new(dir.path().join("pending"));
        let (key, call) = (Digest::of(b"key"), fresh());
        assert!(slips.take(&key, None).unwrap().slip.is_none(), "nothing was written");
        let slip = slips.put(&key, call).unwrap();
        assert!(slips.take(&key, None).unwrap().slip.is_none(), "somebody holds it");
        slip.leave().unwrap();
        let again = slips.take(&key, None).unwrap().slip.unwrap();
        assert_eq!(again.call, call);
        assert!(slips.take(&key, None).unwrap().slip.is_none(), "somebody holds it again");
        assert!(slips.take(&Digest::of(b"other"), None).unwrap().slip.is_none());
        again.remove().unwrap();
        assert!(slips.take(&key, None).unwrap().slip.is_none(), "it was picked up");
    }

    // req: R5
    #[test]
    fn of_two_the_older_is_found_first_and_one_can_be_named() {
        let dir = tempfile::tempdir().unwrap();
        let slips = PendingCalls::new(dir.path().join("pending"));
        let (key, first, second) = (Digest::of(b"key"), fresh(), fresh());
        slips.put(&key, second).unwrap().leave().unwrap();
        slips.put(&key, first).unwrap().leave().unwrap();
        assert_eq!(slips.take(&key, Some(second)).unwrap().slip.unwrap().call, second);
        assert_eq!(slips.take(&key, None).unwrap().slip.unwrap().call, first);
    }

    #[test]
    fn what_nobody_came_back_for_is_named_and_gone() {
        let dir = tempfile::tempdir().unwrap();
        let slips = PendingCalls::new(dir.path().join("pending"));
        let (key, call) = (Digest::of(b"key"), fresh());
        let slip = slips.put(&key, call).unwrap();
        slip.file.set_modified(SystemTime::now() - KEPT - Duration::from_secs(1)).unwrap();
        drop(slip);
        let found = slips.take(&key, None).unwrap();
        assert!(found.slip.is_none());
        assert_eq!(found.outdated, [call]);
        assert!(slips.take(&key, None).unwrap().outdated.is_empty());
    }
}
