//! What the indexes of Git stage after a commit. Git refreshes an index whenever it looks at files, and such a change is no conflict.
//!
//! The note is written after the commit, and only if the index is exactly as the commit left it. Without a note, or with one that cannot be
//! read, every change of an index is a conflict.

use std::collections::BTreeMap;
use std::path::Path;

use byleave_core::digest::Digest;
use byleave_core::file_change::{FileChange, FileChanges, FileNodeKind};
use byleave_files::{LinkPolicy, read};

use crate::error::Error;
use crate::git_index::staged_digest;
use crate::json_files::{read_json, write_json};

/// The name of the note beside a commit.
pub(crate) const NOTE: &str = "staged-indexes.json";
/// The maximum size of an index that is read.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// The digests of what the indexes of a commit stage, by their paths.
#[derive(Debug, Default)]
pub(crate) struct StagedIndexes(BTreeMap<String, Digest>);

impl StagedIndexes {
    /// Checks whether an index still stages what the commit left.
    pub(crate) fn is_unchanged(&self, change: &FileChange) -> bool {
        let Some(noted) = self.0.get(&change.path) else { return false };
        let now = read(Path::new(&change.path), LinkPolicy::Never, INDEX_BYTES_MAX);
        now.is_ok_and(|bytes| staged_digest(&bytes).as_ref() == Some(noted))
    }
}

/// Notes what the changed indexes stage. A note that cannot be written costs a conflict later.
pub(crate) fn remember(entry: &Path, changes: &FileChanges) {
    let indexes = changes.list.iter().filter(|change| change.path.ends_with("/.git/index"));
    let staged: BTreeMap<String, Digest> =
        indexes.filter_map(|change| Some((change.path.clone(), left_by_commit(change)?))).collect();
    if !staged.is_empty() {
        // Without the note, a refreshed index is a conflict, as any other change.
        write_json(&entry.join(NOTE), &staged).unwrap_or_default();
    }
}

/// Reads the note of a commit.
pub(crate) fn of_commit(entry: &Path) -> Result<StagedIndexes, Error> {
    Ok(StagedIndexes(read_json(&entry.join(NOTE))?.unwrap_or_default()))
}

/// Returns what an index stages, if it has exactly the content that the commit left.
fn left_by_commit(change: &FileChange) -> Option<Digest> {
    let Some(FileNodeKind::File { digest: Some(left), .. }) = change.after.as_ref().map(|node| &node.kind)
    else {
        return None;
    };
    let bytes = read(Path::new(&change.path), LinkPolicy::Never, INDEX_BYTES_MAX).ok()?;
    (Digest::compute(&bytes) == *left).then(|| staged_digest(&bytes))?
}
