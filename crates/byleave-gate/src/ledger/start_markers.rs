//! Marks on the worker's disk for attempts that were started.
//!
//! Once an attempt is claimed, only its worker knows whether it was started. If the worker dies, its disk is the only evidence.
//! Without a mark, the attempt never ran. With a mark, it may have run. A mark is never removed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_core::id::{AttemptId, OwnerId};
use byleave_files::own;
use parking_lot::Mutex;

use crate::ledger::LedgerError;

/// The marks of one owner.
#[derive(Clone, Debug)]
pub struct StartMarkers {
    path: PathBuf,
    file: Arc<Mutex<File>>,
}

impl StartMarkers {
    /// Creates the file of an owner, so that an owner without marks differs from an owner on another machine.
    pub fn open(dir: &Path, owner: OwnerId) -> io::Result<Self> {
        let path = path(dir, owner);
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        // The directory entry must survive a power failure too, not only the contents of the file.
        own::sync_directory(dir)?;
        Ok(Self { path, file: Arc::new(Mutex::new(file)) })
    }

    /// Marks an attempt as started. The mark is on disk on return.
    pub fn mark(&self, attempt: AttemptId) -> io::Result<()> {
        let mut file = self.file.lock();
        file.write_all(attempt.as_bytes())?;
        file.sync_data()
    }

    /// Marks an attempt without blocking the runtime.
    pub async fn mark_async(&self, attempt: AttemptId) -> Result<(), LedgerError> {
        let starts = self.clone();
        let marked = tokio::task::spawn_blocking(move || starts.mark(attempt)).await;
        let cannot = |why: String| LedgerError::new("cannot write a start marker for an attempt", why);
        marked.map_err(|error| cannot(error.to_string()))?.map_err(|error| cannot(error.to_string()))
    }

    /// Removes the file if it is empty.
    pub fn remove_if_empty(&self) {
        let file = self.file.lock();
        if file.metadata().is_ok_and(|metadata| metadata.len() == 0)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::debug!(path = %self.path.display(), %error, "cannot remove an empty file of start markers");
        }
    }
}

/// Checks whether an owner has marked an attempt as started. Returns `None` if the marks of the owner are not on this machine.
///
/// A partial mark is treated as a mark, because it may have been the last write that reached the disk.
pub fn was_started(dir: &Path, owner: OwnerId, attempt: AttemptId) -> io::Result<Option<bool>> {
    let mut marks = Vec::new();
    match own::open(path(dir, owner)) {
        Ok(mut file) => file.read_to_end(&mut marks)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_its = |mark: &[u8]| attempt.as_bytes().starts_with(mark);
    Ok(Some(marks.chunks(attempt.as_bytes().len()).any(is_its)))
}

fn path(dir: &Path, owner: OwnerId) -> PathBuf {
    dir.join(format!("{owner}.started"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn only_what_was_marked_was_started() {
        let dir = tempfile::tempdir().unwrap();
        let (owner, other) = (OwnerId::new(Uuid::from_u128(1)), OwnerId::new(Uuid::from_u128(2)));
        let [one, two] = [3_u128, 4].map(|id| AttemptId::new(Uuid::from_u128(id << 64)));
        let started = |owner, attempt| was_started(dir.path(), owner, attempt).unwrap();
        assert_eq!(started(owner, one), None);
        let starts = StartMarkers::open(dir.path(), owner).unwrap();
        assert_eq!(started(owner, one), Some(false));
        starts.mark(one).unwrap();
        starts.remove_if_empty();
        assert_eq!((started(owner, one), started(owner, two)), (Some(true), Some(false)));
        assert_eq!(started(other, one), None, "an owner has no markers of another owner");
        starts.mark(two).unwrap();
        let path = path(dir.path(), owner);
        let marks = std::fs::read(&path).unwrap();
        std::fs::write(&path, &marks[..30]).unwrap();
        assert_eq!(started(owner, two), Some(true), "a partial marker is valid");
        StartMarkers::open(dir.path(), other).unwrap().remove_if_empty();
        assert_eq!(started(other, one), None, "an owner that started nothing leaves no file");
    }
}
