//! Undo: the inverse of a commit, made by the same journal under a name of its own, so that it can be undone as well.
//!
//! A file that was changed since is never overwritten unasked, and then it is kept like everything else that a commit replaces.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use byleave_core::digest::Digest;
use byleave_core::file_change::{FileChange, FileChanges, FileNode, FileNodeKind};
use rustix::fs::OFlags;
use uuid::Uuid;

use crate::before_images::{CompletedCommit, image};
use crate::change_list::content;
use crate::commit::{CommitReport, carry_out, clear};
use crate::commit_plan::SlotAllocator as _;
use crate::diff;
use crate::diff_scan::is_directory;
use crate::dir_handle::{self, DirHandle, FileIdentity};
use crate::error::{Conflict, ConflictTexts, Error, IoContext as _};
use crate::file_digest::FileReader;
use crate::journal::{Journal, JournalStep, StepAction, StepContext, StorageSlot};
use crate::paths::{self, ancestors};
use crate::preconditions;
use crate::staging::CommitStaging;
use crate::store::{CopyState, CopyStore};

/// What to do with what was changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Nothing is undone, and every conflict is told.
    Refuse,
    /// It goes to the store, and what was there before the commit comes back.
    Overwrite,
}

impl CopyStore {
    /// Takes a commit back, as a commit under the name `by`. Nothing is done if anything was changed since, unless that is wanted.
    pub fn undo(&self, id: Uuid, by: Uuid, since: OnConflict) -> Result<CommitReport, Error> {
        let id = self.in_effect(id)?;
        let ended = self.ended(id)?;
        let _of = self.lock(id)?;
        // Asked again: whoever had the lock may have done it.
        if let CopyState::Undone { by } = self.state(id)? {
            return Err(Error::Undone { id, by });
        }
        let (at, _lock) = self.begin(by)?;
        let result = self.try_undo(ended, by, since);
        if result.is_err() && !at.join("journal.json").exists() {
            dir_handle::remove_path(&at).at("remove", &at)?;
        }
        result
    }

    /// The commit by which the changes of this one are there: itself, or the undo of its undo.
    fn in_effect(&self, mut id: Uuid) -> Result<Uuid, Error> {
        while let CopyState::Undone { by } = self.state(id)? {
            match self.state(by)? {
                CopyState::Undone { by: again } => id = again,
                _ => return Err(Error::Undone { id, by }),
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
        let conflicts = self.changed_since(&ended)?;
        // What it would lie in must be there, wanted or not.
        let hopeless = conflicts.iter().any(|conflict| conflict.why == NOWHERE);
        if hopeless || (since == OnConflict::Refuse && !conflicts.is_empty()) {
            return Err(Error::Conflicts(conflicts));
        }
        let changes = inverse(&ended.changes, conflicts);
        let roots = ended.journal.roots.clone();
        let mut staging = CommitStaging::new(self, by, &ground, &roots)?;
        let inverse = |step| inverted(step, id, &mut staging).transpose();
        let steps: Result<Vec<_>, _> = ended.journal.steps.iter().rev().filter_map(inverse).collect();
        let result = steps.and_then(|steps| {
            let journal = Journal { id: by, undoes: Some(id), roots: roots.clone(), steps };
            carry_out(self, &journal, &ground, &changes)?;
            Ok(clear(self, &journal, &ground).err().map(|fault| fault.to_string()))
        });
        if result.is_err() && !self.directory(by).join("journal.json").exists() {
            staging.restore(self)?;
        }
        Ok(CommitReport { id: by, changes, untidy: result? })
    }

    /// What comes back is known by its content as well: later undos compare it.
    fn fill_digests(&self, ended: &mut CompletedCommit, ground: &StepContext) -> Result<(), Error> {
        let images = ended.images();
        let mut reader = FileReader::new();
        for change in &mut ended.changes.list {
            let Some(FileNode { kind: FileNodeKind::File { digest: digest @ None, .. }, .. }) =
                &mut change.before
            else {
                continue;
            };
            let Some(at) = image(&images, &change.path) else { continue };
            if let Ok(file) = ground.copies.open_at(&at, OFlags::RDONLY | OFlags::NONBLOCK) {
                *digest = Some(reader.digest(&file).at("read", &change.path)?);
            }
        }
        Ok(())
    }

    fn changed_since(&self, ended: &CompletedCommit) -> Result<Vec<Conflict>, Error> {
        let disk = DirHandle::open(Path::new("/")).at("open", "/")?;
        let mut reader = FileReader::new();
        let images = ended.images();
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
            let why = if !preconditions::is_as_left(&disk, change, ended.done.at, &mut reader)? {
                "it was changed since"
            } else if made && preconditions::holds_more(&disk, inside, &left).at("list", &change.path)? {
                "something was put into it since"
            } else {
                let above = ancestors(&change.path).next().unwrap_or_default();
                let inside = above.trim_start_matches('/');
                let there = coming.contains(above)
                    || change.before.is_none()
                    || disk.open_at(inside, OFlags::PATH | OFlags::DIRECTORY).is_ok();
                if there {
                    continue;
                }
                NOWHERE
            };
            let is = preconditions::look(&disk, inside)?;
            let mut conflict = preconditions::met(change.after.clone(), change, is, why);
            conflict.texts = self.texts(change, &images)?;
            conflicts.push(conflict);
        }
        Ok(conflicts)
    }

    fn texts(
        &self,
        change: &FileChange,
        images: &HashMap<String, String>,
    ) -> Result<Option<ConflictTexts>, Error> {
        let text = |bytes: Option<Vec<u8>>| bytes.as_deref().and_then(diff::text).map(str::to_owned);
        let theirs = match image(images, &change.path) {
            Some(at) => text(content(&self.at.join("copies"), &at)?),
            None => Some(String::new()),
        };
        let ours = text(content(Path::new("/"), change.path.trim_start_matches('/'))?);
        let Some((ours, theirs)) = ours.zip(theirs) else { return Ok(None) };
        // What the commit left is not kept; what was there before and how it was changed say the same.
        let base = change.diff.as_ref().and_then(|diff| diff::apply(&theirs, diff));
        let base = base.filter(|base| match change.after.as_ref().map(|node| &node.kind) {
            Some(FileNodeKind::File { digest, .. }) => *digest == Some(Digest::of(base.as_bytes())),
            _ => false,
        });
        Ok(Some(ConflictTexts { base, ours, theirs }))
    }
}

const NOWHERE: &str = "the directory that it was in is gone";

/// The inverse of what was committed: what was left becomes what was there before, which is what is there now where that is another.
fn inverse(changes: &FileChanges, conflicts: Vec<Conflict>) -> FileChanges {
    let mut now: HashMap<String, Option<FileNode>> =
        conflicts.into_iter().map(|conflict| (conflict.path, conflict.is)).collect();
    let mut inverse = FileChanges { limits: Vec::new(), ..changes.clone() };
    for change in &mut inverse.list {
        std::mem::swap(&mut change.before, &mut change.after);
        change.diff = None;
        if let Some(is) = now.remove(&change.path) {
            change.before = is;
        }
    }
    for rename in &mut inverse.renames {
        std::mem::swap(&mut rename.from, &mut rename.to);
    }
    inverse
}

/// The step that takes a step back, with what is there now; none where there is nothing to do.
fn inverted(
    step: &JournalStep,
    id: Uuid,
    staging: &mut CommitStaging<'_>,
) -> Result<Option<JournalStep>, Error> {
    let (root, inside) = (step.root, &step.inside);
    let now = |staging: &CommitStaging<'_>| -> Result<Option<FileIdentity>, Error> {
        let found = staging.ground.place(step).and_then(|(within, path)| within.ident(path));
        // A link where a directory will be by then: nothing is in that one yet.
        if matches!(found, Err(rustix::io::Errno::LOOP)) {
            return Ok(None);
        }
        found.at("look at", paths::absolute(".", inside))
    };
    let act = match &step.act {
        StepAction::Mode { of, was, is } => Some(StepAction::Mode { of: *of, was: *is, is: *was }),
        StepAction::Put { .. } => now(staging)?.map(|old| StepAction::Take { old, keep: staging.keep(root) }),
        StepAction::Take { keep, .. } | StepAction::Swap { keep, .. } => {
            let settled: StorageSlot = keep.settled(id);
            let (from, new) = staging.bring(root, settled)?;
            Some(match now(staging)? {
                None => StepAction::Put { new, from },
                Some(old) => StepAction::Swap { old, new, from, keep: staging.keep(root) },
            })
        }
    };
    Ok(act.map(|act| JournalStep { root, inside: inside.clone(), act }))
}
