//! Commit: the changes of a copy become those of the files. Written down first, checked first, wholly done or wholly not.

use std::collections::HashSet;
use std::path::Path;
use std::time::SystemTime;

use byleave_core::file_change::{FileChanges, FileRename};
use rustix::fs::OFlags;
use uuid::Uuid;

use crate::change_list::ChangeList;
use crate::commit_plan;
use crate::copy::WorkspaceCopy;
use crate::diff_scan::ChangedPath;
use crate::dir_handle;
use crate::error::{Conflict, Error, IoContext as _};
use crate::fsync;
use crate::journal::{CommitCompletion, Journal, StepContext};
use crate::journal_steps::{self, StepError};
use crate::json_files::{names, write_json_durably};
use crate::paths;
use crate::preconditions;
use crate::staging::{self, CommitStaging};
use crate::store::CopyStore;

/// What was made final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitReport {
    /// Under which name: undo takes it.
    pub id: Uuid,
    /// What, with the directories that a chosen part needed.
    pub changes: FileChanges,
    /// What could not be cleaned up afterwards; it is committed all the same, and recovery tries again.
    pub untidy: Option<String>,
}

impl WorkspaceCopy {
    /// Makes these changes final: all that were listed, or a part of them. What was there before is kept in the store. Nothing is
    /// done if anything is not as it was when the copy was made; that is [`Error::Conflicts`], and another part can be
    /// tried. After [`Error::TakenBack`] the files were moved away and back, which is a conflict for this copy: make another.
    pub fn commit(&self, chosen: &FileChanges) -> Result<CommitReport, Error> {
        let id = self.meta.id;
        if self.at.join("done.json").exists() {
            return Err(Error::Exists(id));
        }
        if self.at.join("journal.json").exists() {
            return Err(Error::Interrupted(id));
        }
        let listing = self.listed()?;
        let items = commit_plan::choose(&listing.items, chosen)?;
        let roots = &self.meta.roots;
        let ground = StepContext::open(&self.store, roots)?;
        let conflicts = self.conflicts(&items, &ground)?;
        if !conflicts.is_empty() {
            return Err(Error::Conflicts(conflicts));
        }
        let mut staging = CommitStaging::new(&self.store, id, &ground, roots)?;
        let planned = commit_plan::steps(&items, roots, &mut staging);
        let result = planned.and_then(|steps| {
            let journal = Journal { id, undoes: None, roots: roots.clone(), steps };
            let changes = committed(&listing, &items);
            carry_out(&self.store, &journal, &ground, &changes)?;
            // From here on it is committed, whatever happens.
            let tidied = self.keep_scratch().and_then(|()| clear(&self.store, &journal, &ground));
            Ok(CommitReport { id, changes, untidy: tidied.err().map(|fault| fault.to_string()) })
        });
        if result.is_err() && !self.at.join("journal.json").exists() {
            staging.restore(&self.store)?;
        }
        result
    }

    /// Ends a copy on which nothing was changed: its scratch stays with the session, and nothing else remains. There is nothing to
    /// undo, so nothing is kept.
    pub fn release(&self) -> Result<(), Error> {
        self.keep_scratch()?;
        dir_handle::remove_path(&self.at).at("remove", &self.at)
    }

    fn conflicts(&self, items: &[&ChangedPath], ground: &StepContext) -> Result<Vec<Conflict>, Error> {
        let mut conflicts = Vec::new();
        let inside = |item: &ChangedPath| {
            let root = self.meta.roots.get(item.root).map_or("", |root| root.path.as_str());
            paths::inside(root, &item.change.path).to_owned()
        };
        let paths: Vec<String> = items.iter().map(|item| inside(item)).collect();
        for (number, root) in ground.roots.iter().enumerate() {
            let of_root = || items.iter().zip(&paths).filter(|(item, _)| item.root == number);
            let gone = of_root().filter(|(item, _)| item.was.is_some()).map(|(_, path)| path.as_str());
            let gone: HashSet<&str> = gone.collect();
            let made = of_root().filter(|(item, _)| item.is_coming());
            let made: HashSet<&str> = made.map(|(_, path)| path.as_str()).collect();
            for (item, path) in of_root() {
                // What lies in a directory that is not there yet cannot be in anybody's way.
                if item.was.is_none() && paths::ancestors(path).any(|above| made.contains(above)) {
                    continue;
                }
                let mut conflict = preconditions::conflict(item, (root, path), self.meta.started)?;
                let change = &item.change;
                if conflict.is_none() && item.is_going() {
                    let more = preconditions::holds_more(root, path, &gone).at("list", &change.path)?;
                    let why = "something was put into it meanwhile";
                    conflict = more.then(|| {
                        preconditions::met(change.before.clone(), change, change.before.clone(), why)
                    });
                }
                let above = paths::above(path);
                if conflict.is_none() && item.was.is_none() {
                    let there = root.open_at(above, OFlags::PATH | OFlags::DIRECTORY).is_ok();
                    let why = "the directory that it lies in is gone";
                    conflict = (!there).then(|| preconditions::met(None, change, None, why));
                }
                conflicts.extend(conflict);
            }
        }
        conflicts.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(conflicts)
    }

    /// The scratch that this run left is what the next one begins with.
    fn keep_scratch(&self) -> Result<(), Error> {
        let Some(session) = &self.meta.session else { return Ok(()) };
        let scratch = self.store.scratch(session);
        for (number, mounted) in self.meta.scratch.iter().enumerate() {
            let stack = scratch.stack_for(&mounted.path, self.meta.kept)?;
            stack.push(&self.at.join(format!("s{number}/upper")), &mounted.lowers)?;
        }
        for (number, harvested) in self.all_harvested()?.iter().enumerate() {
            scratch
                .stack_for(Path::new(&harvested.path), self.meta.kept)?
                .push(&self.at.join(format!("harvest/{number}")), &[])?;
        }
        Ok(())
    }
}

/// What of a listing was committed.
fn committed(listing: &ChangeList, items: &[&ChangedPath]) -> FileChanges {
    let list: Vec<_> = items.iter().map(|item| item.change.clone()).collect();
    let paths: HashSet<&str> = list.iter().map(|change| change.path.as_str()).collect();
    let both = |one: &&FileRename| paths.contains(one.from.as_str()) && paths.contains(one.to.as_str());
    let renames = listing.renames.iter().filter(both).cloned().collect();
    FileChanges { renames, limits: listing.limits.clone(), list }
}

/// Writes the journal, does its steps, says that it is done. A step that cannot be done takes everything back.
pub(crate) fn carry_out(
    store: &CopyStore,
    journal: &Journal,
    ground: &StepContext,
    changes: &FileChanges,
) -> Result<(), Error> {
    let at = store.directory(journal.id);
    write_json_durably(&at.join("changes.json"), changes)?;
    fsync::contents(store, journal, ground)?;
    write_json_durably(&at.join("journal.json"), journal)?;
    for (number, step) in journal.steps.iter().enumerate() {
        if let Err(stopped) = journal_steps::forward(step, ground) {
            let left = take_back(journal, number + 1, ground);
            return Err(end(store, journal, ground, (journal.path(step), stopped), left)?);
        }
    }
    finish(store, journal, ground)
}

/// Takes the first steps back, the last of them first; the paths where that could not be done.
pub(crate) fn take_back(journal: &Journal, count: usize, ground: &StepContext) -> Vec<String> {
    let done = journal.steps.get(..count).unwrap_or_default();
    let stuck = done.iter().rev().filter(|step| journal_steps::back(step, ground).is_err());
    stuck.map(|step| journal.path(step)).collect()
}

/// What to say of a commit that was taken back, as far as it could be.
fn end(
    store: &CopyStore,
    journal: &Journal,
    ground: &StepContext,
    (path, stopped): (String, StepError),
    left: Vec<String>,
) -> Result<Error, Error> {
    let source = || match stopped {
        StepError::Foreign => std::io::Error::other("something else is there now"),
        StepError::Disk(errno) => errno.into(),
    };
    if !left.is_empty() {
        return Ok(Error::Stuck { path, source: source(), paths: left });
    }
    abandon(store, journal, ground)?;
    Ok(Error::TakenBack { path, source: source() })
}

/// Forgets a journal whose steps were all taken back. Interrupted, it is known by a mark that there is nothing to do any more.
pub(crate) fn abandon(store: &CopyStore, journal: &Journal, ground: &StepContext) -> Result<(), Error> {
    let at = store.directory(journal.id);
    fsync::names(store, journal, ground)?;
    write_json_durably(&at.join("abandoned.json"), &journal.id)?;
    staging::leave(store, journal.id, ground, &journal.roots)?;
    if let Some(undone) = journal.undoes {
        remove_file(&store.directory(undone).join("undone.json"))?;
    }
    remove_file(&at.join("journal.json"))?;
    remove_file(&at.join("abandoned.json"))
}

/// Says that a commit is done, after everything of it is on the disk.
pub(crate) fn finish(store: &CopyStore, journal: &Journal, ground: &StepContext) -> Result<(), Error> {
    staging::settle(journal, ground)?;
    fsync::names(store, journal, ground)?;
    let at = store.directory(journal.id);
    if let Some(undone) = journal.undoes {
        write_json_durably(&store.directory(undone).join("undone.json"), &journal.id)?;
    }
    let done = CommitCompletion { at: store.now(&at)?, on: SystemTime::now() };
    write_json_durably(&at.join("done.json"), &done)
}

/// Removes what a commit does not need any more once it is done, in the roots as well.
pub(crate) fn clear(store: &CopyStore, journal: &Journal, ground: &StepContext) -> Result<(), Error> {
    staging::leave(store, journal.id, ground, &journal.roots)?;
    tidy_up(store, journal.id)
}

/// Removes what a commit does not need any more once it is done, in the store.
pub(crate) fn tidy_up(store: &CopyStore, id: Uuid) -> Result<(), Error> {
    const STAYS: [&str; 8] = [
        "lock",
        "copy.json",
        "journal.json",
        "changes.json",
        "done.json",
        "before",
        "undone.json",
        staging::OUTPOSTS,
    ];
    let at = store.directory(id);
    for name in names(&at)? {
        if !STAYS.contains(&name.as_str()) {
            dir_handle::remove_path(&at.join(&name)).at("remove", at.join(&name))?;
        }
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.at("remove", path),
    }
}
