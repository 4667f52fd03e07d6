//! The state of the files that a running gate was built from, so that it notices a replaced one.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// The state of some files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(Vec<(PathBuf, Option<[i64; 5]>)>);

impl Fingerprint {
    /// Reads the current state of the files.
    pub(crate) fn from_files(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let about = |path: &PathBuf| {
            let found = fs::metadata(path).ok()?;
            let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            Some([
                number(found.ino()),
                number(found.size()),
                found.mtime(),
                found.mtime_nsec(),
                found.ctime_nsec(),
            ])
        };
        Self(files.into_iter().map(|path| (path.clone(), about(&path))).collect())
    }

    /// Returns the first file that has changed.
    pub(crate) fn changed(&self) -> Option<&PathBuf> {
        let now = Self::from_files(self.0.iter().map(|(path, _)| path.clone()));
        let pair = self.0.iter().zip(now.0).find(|((_, then), (_, now))| then != now);
        pair.map(|((path, _), _)| path)
    }
}
