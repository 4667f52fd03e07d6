//! Undo: the inverse of a commit. It uses the same journal under an id of its own, so that it can be undone as well.
//!
//! It never overwrites a file that was changed since, unless asked to. Such a file is then kept like every file that a commit replaces.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use byleave_core::digest::Digest;
use byleave_core::file_change::{FileChange, FileChanges, FileNode, FileNodeKind};
use rustix::fs::OFlags;
use uuid::Uuid;

use crate::before_images::{CompletedCommit, image_path};
use crate::change_list::read_content;
use crate::commit::{CommitReport, execute, remove_leftovers};
use crate::commit_plan::SlotAllocator as _;
use crate::diff;
use crate::diff_scan::is_directory;
use crate::dir_handle::{self, DirHandle, FileIdentity};
use crate::error::{Conflict, ConflictTexts, Error, IoContext as _};
use crate::file_digest::FileReader;
use crate::journal::{Journal, JournalStep, StepAction, StepContext, StorageSlot};
use crate::outputs::OutputReport;
use crate::paths::{self, ancestors};
use crate::preconditions;
use crate::staged_indexes;
use crate::staging::CommitStaging;
use crate::store::{CopyState, CopyStore};

/// The treatment of files that were changed since the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Undoes nothing, and reports every conflict.
    Refuse,
    /// Moves the changed file to the store, and restores the file from before the commit.
    Overwrite,
}

impl CopyStore {
    /// Reverts a commit, as a commit with the id `by`. If anything was changed since, nothing is done unless `since` allows it.
    pub fn undo(&self, id: Uuid, by: Uuid, since: OnConflict) -> Result<CommitReport, Error> {
        let id = self.effective_commit(id)?;
        if self.state(id)? == CopyState::ExternalEdit {
            self.finish_external_edit(id)?;
        }
        let ended = self.ended_commit(id)?;
        let _of = self.lock(id)?;
        // Checks again, because the previous holder of the lock may have undone the commit.
        if let CopyState::Undone { undo_id: by } = self.state(id)? {
            return Err(Error::AlreadyUndone { id, undo_id: by });
        }
        let (at, _lock) = self.create_entry(by)?;
        let result = self.try_undo(ended, by, since);
        if result.is_err() && !at.join("journal.json").exists() {
            dir_handle::remove_path(&at).context("remove", &at)?;
        }
        result
    }

    /// Returns the commit that makes these changes effective: this one, or the undo of its undo.
    pub(crate) fn effective_commit(&self, mut id: Uuid) -> Result<Uuid, Error> {
        while let CopyState::Undone { undo_id: by } = self.state(id)? {
            match self.state(by)? {
                CopyState::Undone { undo_id: again } => id = again,
                _ => return Err(Error::AlreadyUndone { id, undo_id: by }),
            }
        }
        Ok(id)
    }

    fn try_undo(
        &self,
        mut ended: CompletedCommit,
        by: Uuid,
        since: OnConflict,
    ) -> Result<CommitReport, Error> {
        let id = ended.journal.id;
        let ground = StepContext::open(self, &ended.journal.roots)?;
        self.fill_digests(&mut ended, &ground)?;
        let conflicts = self.find_conflicts(&ended)?;
        // The parent directory must exist, even if conflicts may be overwritten.
        let hopeless = conflicts.iter().any(|conflict| conflict.reason == PARENT_GONE);
        if hopeless || (since == OnConflict::Refuse && !conflicts.is_empty()) {
            return Err(Error::Conflicts(conflicts));
        }
        let changes = invert_changes(&ended.changes, conflicts);
        let roots = ended.journal.roots.clone();
        let mut staging = CommitStaging::new(self, by, &ground, &roots)?;
        let inverse = |step| invert_step(step, id, &mut staging).transpose();
        let steps: Result<Vec<_>, _> = ended.journal.steps.iter().rev().filter_map(inverse).collect();
        let result = steps.and_then(|steps| {
            let journal = Journal { id: by, undo_of: Some(id), roots: roots.clone(), steps };
            execute(self, &journal, &ground, &changes)?;
            // What a build left is not worth a failed undo: if it was changed since, it stays.
            let outputs = self.restore_outputs(id, by);
            let (outputs, restored) = match outputs {
                Ok(report) => (report, Ok(())),
                Err(fault) => (OutputReport::default(), Err(fault)),
            };
            let tidied = restored.and_then(|()| remove_leftovers(self, &journal, &ground));
            Ok((outputs, tidied.err().map(|fault| fault.to_string())))
        });
        if result.is_err() && !self.entry_path(by).join("journal.json").exists() {
            staging.restore(self)?;
        }
        let (outputs, cleanup_error) = result?;
        Ok(CommitReport { id: by, changes, cleanup_error, outputs })
    }

    /// Fills in the digests of the files that come back, because later undos compare them.
    fn fill_digests(&self, ended: &mut CompletedCommit, ground: &StepContext) -> Result<(), Error> {
        let images = ended.images();
        let mut reader = FileReader::new();
        for change in &mut ended.changes.list {
            let Some(FileNode { kind: FileNodeKind::File { digest: digest @ None, .. }, .. }) =
                &mut change.before
            else {
                continue;
            };
            let Some(at) = image_path(&images, &change.path) else { continue };
            if let Ok(file) = ground.copies.open_at(&at, OFlags::RDONLY | OFlags::NONBLOCK) {
                *digest = Some(reader.digest(&file).context("read", &change.path)?);
            }
        }
        Ok(())
    }

    fn find_conflicts(&self, ended: &CompletedCommit) -> Result<Vec<Conflict>, Error> {
        let disk = DirHandle::open(Path::new("/")).context("open", "/")?;
        let mut reader = FileReader::new();
        let images = ended.images();
        let staged = staged_indexes::of_commit(&self.entry_path(ended.journal.id))?;
        let changes = &ended.changes.list;
        let left: HashSet<&str> = changes
            .iter()
            .filter(|change| change.after.is_some())
            .map(|change| change.path.trim_start_matches('/'))
            .collect();
        let coming: HashSet<&str> = changes
            .iter()
            .filter(|change| is_directory(change.before.as_ref()))
            .map(|change| &*change.path)
            .collect();
        let mut conflicts = Vec::new();
        for change in changes {
            let inside = change.path.trim_start_matches('/');
            let made = change.before.is_none() && is_directory(change.after.as_ref());
            let is_unchanged =
                preconditions::is_unchanged_since(&disk, change, ended.done.at_ns, &mut reader)?
                    || staged.is_unchanged(change);
            let why = if !is_unchanged {
                "the file was changed since then"
            } else if made
                && preconditions::has_unlisted(&disk, inside, &left).context("list", &change.path)?
            {
                "something was added to the directory since then"
            } else {
                let above = ancestors(&change.path).next().unwrap_or_default();
                let inside = above.trim_start_matches('/');
                let there = coming.contains(above)
                    || change.before.is_none()
                    || disk.open_at(inside, OFlags::PATH | OFlags::DIRECTORY).is_ok();
                if there {
                    continue;
                }
                PARENT_GONE
            };
            let is = preconditions::read_node(&disk, inside)?;
            let mut conflict = preconditions::new_conflict(change.after.clone(), change, is, why);
            conflict.texts = self.conflict_texts(change, &images)?;
            conflicts.push(conflict);
        }
        Ok(conflicts)
    }

    fn conflict_texts(
        &self,
        change: &FileChange,
        images: &HashMap<String, String>,
    ) -> Result<Option<ConflictTexts>, Error> {
        let text = |bytes: Option<Vec<u8>>| bytes.as_deref().and_then(diff::as_text).map(str::to_owned);
        let theirs = match image_path(images, &change.path) {
            Some(at) => text(read_content(&self.path.join("copies"), &at)?),
            None => Some(String::new()),
        };
        let ours = text(read_content(Path::new("/"), change.path.trim_start_matches('/'))?);
        let Some((ours, theirs)) = ours.zip(theirs) else { return Ok(None) };
        // The file as the commit left it is not kept. It is rebuilt from the before-image and the diff.
        let base = change.diff.as_ref().and_then(|diff| diff::apply(&theirs, diff));
        let base = base.filter(|base| match change.after.as_ref().map(|node| &node.kind) {
            Some(FileNodeKind::File { digest, .. }) => *digest == Some(Digest::compute(base.as_bytes())),
            _ => false,
        });
        Ok(Some(ConflictTexts { base, ours, theirs }))
    }
}

const PARENT_GONE: &str = "its parent directory no longer exists";

/// Inverts committed changes: swaps before and after. For a conflicting path, the file that is there now becomes the "before".
fn invert_changes(changes: &FileChanges, conflicts: Vec<Conflict>) -> FileChanges {
    let mut now: HashMap<String, Option<FileNode>> =
        conflicts.into_iter().map(|conflict| (conflict.path, conflict.actual)).collect();
    let mut inverse = FileChanges { caveats: Vec::new(), ..changes.clone() };
    for change in &mut inverse.list {
        std::mem::swap(&mut change.before, &mut change.after);
        change.diff = None;
        if let Some(is) = now.remove(&change.path) {
            change.before = is;
        }
    }
    // What somebody else has undone is no change.
    inverse.list.retain(|change| change.before.is_some() || change.after.is_some());
    for rename in &mut inverse.renames {
        std::mem::swap(&mut rename.from, &mut rename.to);
    }
    inverse
}

/// Returns the inverse of a step for the file that is there now, or `None` if there is nothing to do.
fn invert_step(
    step: &JournalStep,
    id: Uuid,
    staging: &mut CommitStaging<'_>,
) -> Result<Option<JournalStep>, Error> {
    let (root, inside) = (step.root, &step.inside);
    let now = |staging: &CommitStaging<'_>| -> Result<Option<FileIdentity>, Error> {
        let found = staging.context.resolve_step(step).and_then(|(within, path)| within.identity(path));
        // A link is there where a directory will be by then, so nothing is in that directory yet.
        if matches!(found, Err(rustix::io::Errno::LOOP)) {
            return Ok(None);
        }
        found.context("inspect", paths::absolute(".", inside))
    };
    let act = match &step.action {
        StepAction::Mode { identity: of, old_mode: was, new_mode: is } => {
            Some(StepAction::Mode { identity: *of, old_mode: *is, new_mode: *was })
        }
        StepAction::Put { .. } => {
            now(staging)?.map(|old| StepAction::Remove { old, keep: staging.new_slot(root) })
        }
        StepAction::Remove { keep, .. } | StepAction::Swap { keep, .. } => {
            let settled: StorageSlot = keep.final_slot(id);
            let (from, new) = staging.prepare(root, settled)?;
            Some(match now(staging)? {
                None => StepAction::Put { new, from },
                Some(old) => StepAction::Swap { old, new, from, keep: staging.new_slot(root) },
            })
        }
    };
    Ok(act.map(|act| JournalStep { root, inside: inside.clone(), action: act }))
}
