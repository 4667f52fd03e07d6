//! Before-images: the place in the store where each path of a commit is kept as it was.

use std::collections::HashMap;
use std::path::PathBuf;

use byleave_core::file_change::FileChanges;
use uuid::Uuid;

use crate::change_list;
use crate::dir_handle::DirHandle;
use crate::error::{Error, IoContext as _};
use crate::file_digest::FileReader;
use crate::journal::{CommitCompletion, Journal, StepAction};
use crate::json_files::read_json;
use crate::paths::ancestors;
use crate::preconditions;
use crate::store::{CopyState, CopyStore};

/// A completed commit, as read from the store.
pub(crate) struct CompletedCommit {
    pub journal: Journal,
    pub done: CommitCompletion,
    pub changes: FileChanges,
}

impl CompletedCommit {
    /// Returns the before-images: absolute path to path in the store, relative to `copies`.
    pub(crate) fn images(&self) -> HashMap<String, String> {
        let mut images = HashMap::new();
        for step in &self.journal.steps {
            let (StepAction::Remove { keep, .. } | StepAction::Swap { keep, .. }) = &step.action else {
                continue;
            };
            images.insert(self.journal.path(step), keep.final_slot(self.journal.id).path);
        }
        images
    }
}

/// Returns the before-image of a path: its own, or its place inside the image of a directory above it.
pub(crate) fn image_path(images: &HashMap<String, String>, path: &str) -> Option<String> {
    if let Some(own) = images.get(path) {
        return Some(own.clone());
    }
    let above = ancestors(path).find(|above| images.contains_key(*above))?;
    let rest = path.strip_prefix(above)?;
    Some(format!("{}{rest}", images.get(above)?))
}

impl CopyStore {
    /// Returns the changes of an open or committed copy, with all diffs that can still be computed.
    pub fn changes(&self, id: Uuid) -> Result<FileChanges, Error> {
        if self.state(id)? == CopyState::ExternalEdit {
            return self.external_changes(id);
        }
        if self.state(id)? == CopyState::Open {
            let listing: Option<change_list::ChangeList> =
                read_json(&self.entry_path(id).join("listing.json"))?;
            return Ok(listing.ok_or(Error::Missing(id))?.changes());
        }
        let mut ended = self.ended_commit(id)?;
        let images = ended.images();
        let copies = self.path.join("copies");
        let root = PathBuf::from("/");
        let disk = DirHandle::open(&root).context("open", &root)?;
        let mut reader = FileReader::new();
        for change in ended.changes.list.iter_mut().filter(|change| change.diff.is_none()) {
            let at = image_path(&images, &change.path).unwrap_or_default();
            if at.is_empty() && change.before.is_some() {
                continue;
            }
            // A path can be compared only if it is still as the commit left it.
            let path = change.path.trim_start_matches('/');
            if change.after.is_some()
                && !preconditions::is_unchanged_since(&disk, change, ended.done.at_ns, &mut reader)?
            {
                continue;
            }
            change.diff = change_list::diff_change(change, (&copies, &at), (&root, path))?;
        }
        Ok(ended.changes)
    }

    /// Returns the content that an undo of a completed commit would restore at a path, empty if nothing was there. Returns nothing if it is
    /// not text.
    pub fn restored_text(&self, id: Uuid, path: &str) -> Result<Option<String>, Error> {
        let ended = self.ended_commit(self.effective_commit(id)?)?;
        let bytes = match image_path(&ended.images(), path) {
            Some(at) => change_list::read_content(&self.path.join("copies"), &at)?,
            None => Some(Vec::new()),
        };
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// Returns the changes of a completed commit as they are stored, without computing diffs.
    pub fn stored_changes(&self, id: Uuid) -> Result<FileChanges, Error> {
        Ok(self.ended_commit(id)?.changes)
    }

    /// Reads a completed commit.
    pub(crate) fn ended_commit(&self, id: Uuid) -> Result<CompletedCommit, Error> {
        let at = self.entry_path(id);
        match self.state(id)? {
            CopyState::Missing | CopyState::Dropped { .. } => return Err(self.missing_error(id)),
            CopyState::Open | CopyState::ExternalEdit => return Err(Error::NotCommitted(id)),
            CopyState::Interrupted => return Err(Error::Interrupted(id)),
            CopyState::Committed | CopyState::Undone { .. } => {}
        }
        let missing = || Error::Missing(id);
        Ok(CompletedCommit {
            journal: read_json(&at.join("journal.json"))?.ok_or_else(missing)?,
            done: read_json(&at.join("done.json"))?.ok_or_else(missing)?,
            changes: read_json(&at.join("changes.json"))?.ok_or_else(missing)?,
        })
    }
}
