//! Starts: what a worker has started, marked on its own disk before it is run.
//!
//! Once an attempt is claimed, nobody but its worker knows whether it was ever started. If the worker dies, its disk is the
//! only witness: no mark, and it never ran; a mark, and it may have. A mark is never taken back.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use byleave_core::id::{AttemptId, OwnerId};

/// The marks of one owner. The file is made with the first.
#[derive(Clone, Debug)]
pub(crate) struct Starts {
    path: PathBuf,
    file: Arc<Mutex<Option<File>>>,
}

impl Starts {
    pub(crate) fn of(dir: &Path, owner: OwnerId) -> Self {
        Self { path: path(dir, owner), file: Arc::default() }
    }

    /// Marks an attempt. On the disk when it returns.
    pub(crate) fn mark(&self, attempt: AttemptId) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *file {
            Some(file) => file,
            none => none.insert(create(&self.path)?),
        };
        file.write_all(attempt.as_bytes())?;
        file.sync_data()
    }
}

/// Whether an owner that is gone has marked an attempt as started. Half a mark is one: it may have been the last thing
/// that reached the disk.
pub(crate) fn was_started(dir: &Path, owner: OwnerId, attempt: AttemptId) -> io::Result<bool> {
    let mut marks = Vec::new();
    match File::open(path(dir, owner)) {
        Ok(mut file) => file.read_to_end(&mut marks)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let is_its = |mark: &[u8]| attempt.as_bytes().starts_with(mark);
    Ok(marks.chunks(attempt.as_bytes().len()).any(is_its))
}

fn path(dir: &Path, owner: OwnerId) -> PathBuf {
    dir.join(format!("{owner}.started"))
}

fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    // The name must outlive a power failure too, not only what is behind it.
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(file)
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
        assert!(!was_started(dir.path(), owner, one).unwrap());
        let starts = Starts::of(dir.path(), owner);
        starts.mark(one).unwrap();
        assert!(was_started(dir.path(), owner, one).unwrap());
        assert!(!was_started(dir.path(), owner, two).unwrap());
        assert!(!was_started(dir.path(), other, one).unwrap());
        starts.mark(two).unwrap();
        let path = path(dir.path(), owner);
        let marks = std::fs::read(&path).unwrap();
        std::fs::write(&path, &marks[..30]).unwrap();
        assert!(was_started(dir.path(), owner, two).unwrap(), "half a mark is a mark");
    }
}
