//! Commits the changes of a copy to the real files. A commit is checked and journaled first, and is atomic.

use std::collections::HashSet;
use std::path::Path;
use std::time::SystemTime;

use byleave_core::effect::SESSION_TMP;
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
use crate::json_files::{list_names, write_json_durably};
use crate::outputs::{OutputReport, OutputRule};
use crate::paths;
use crate::preconditions;
use crate::staged_indexes;
use crate::staging::{self, CommitStaging};
use crate::store::CopyStore;

/// Why outputs stay with the session.
const ON_OTHERS: &str = "it depends on what a run left there that nobody allowed";

/// The result of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitReport {
    /// The id of the commit, which undo takes.
    pub id: Uuid,
    /// The committed changes, with the directories that a partial choice needed.
    pub changes: FileChanges,
    /// The error of the cleanup, if it failed. The changes are committed all the same, and recovery retries the cleanup.
    pub cleanup_error: Option<String>,
    /// What became of scratch.
    pub outputs: OutputReport,
}

impl WorkspaceCopy {
    /// Commits all listed changes, or a part of them. The previous files are kept in the store. If any path is not as it was when
    /// the copy was made, nothing is done and the result is [`Error::Conflicts`]. The caller can then try another part. After
    /// [`Error::RolledBack`] the files were moved away and back. That is a conflict for this copy, so the caller must make another.
    pub fn commit(&self, chosen: &FileChanges) -> Result<CommitReport, Error> {
        self.commit_with(chosen, OutputRule::Session)
    }

    /// Does the same, with a rule for what the run wrote into scratch.
    pub fn commit_with(&self, chosen: &FileChanges, outputs: OutputRule<'_>) -> Result<CommitReport, Error> {
        let id = self.meta.id;
        if self.path.join("done.json").exists() {
            return Err(Error::Exists(id));
        }
        if self.path.join("journal.json").exists() {
            return Err(Error::Interrupted(id));
        }
        let listing = self.recorded_list()?;
        let items = commit_plan::choose_items(&listing.items, chosen)?;
        let roots = &self.meta.roots;
        let ground = StepContext::open(&self.store, roots)?;
        let conflicts = self.find_conflicts(&items, &ground)?;
        if !conflicts.is_empty() {
            return Err(Error::Conflicts(conflicts));
        }
        let mut staging = CommitStaging::new(&self.store, id, &ground, roots)?;
        let planned = commit_plan::plan_steps(&items, roots, &mut staging);
        let result = planned.and_then(|steps| {
            let journal = Journal { id, undo_of: None, roots: roots.clone(), steps };
            let changes = committed_changes(&listing, &items);
            execute(&self.store, &journal, &ground, &changes)?;
            // From here on the changes are committed, even if a later step fails.
            let (outputs, kept) = match self.keep_scratch(outputs) {
                Ok(report) => (report, Ok(())),
                Err(fault) => (OutputReport::default(), Err(fault)),
            };
            let tidied = kept.and_then(|()| remove_leftovers(&self.store, &journal, &ground));
            let cleanup_error = tidied.err().map(|fault| fault.to_string());
            Ok(CommitReport { id, changes, cleanup_error, outputs })
        });
        if result.is_err() && !self.path.join("journal.json").exists() {
            staging.restore(&self.store)?;
        }
        result
    }

    /// Ends a copy without changes. Its scratch stays with the session. Nothing else is kept, because there is nothing to undo.
    pub fn end_unchanged(&self) -> Result<(), Error> {
        self.end_unchanged_with(OutputRule::Session).map(drop)
    }

    /// Does the same, with a rule for what the run wrote into scratch. If that is on the disk, the run can be undone.
    pub fn end_unchanged_with(&self, outputs: OutputRule<'_>) -> Result<OutputReport, Error> {
        let report = self.keep_scratch(outputs)?;
        if report.placed.is_empty() {
            dir_handle::remove_path(&self.path).context("remove", &self.path)?;
            return Ok(report);
        }
        let ground = StepContext::open(&self.store, &[])?;
        let journal = Journal { id: self.meta.id, undo_of: None, roots: Vec::new(), steps: Vec::new() };
        execute(&self.store, &journal, &ground, &FileChanges::default())?;
        remove_leftovers(&self.store, &journal, &ground)?;
        Ok(report)
    }

    fn find_conflicts(&self, items: &[&ChangedPath], ground: &StepContext) -> Result<Vec<Conflict>, Error> {
        let mut conflicts = Vec::new();
        let inside = |item: &ChangedPath| {
            let root = self.meta.roots.get(item.root).map_or("", |root| root.path.as_str());
            paths::inside(root, &item.change.path).to_owned()
        };
        let paths: Vec<String> = items.iter().map(|item| inside(item)).collect();
        for (number, root) in ground.roots.iter().enumerate() {
            let of_root = || items.iter().zip(&paths).filter(|(item, _)| item.root == number);
            let gone = of_root().filter(|(item, _)| item.before.is_some()).map(|(_, path)| path.as_str());
            let gone: HashSet<&str> = gone.collect();
            let made = of_root().filter(|(item, _)| item.adds_directory());
            let made: HashSet<&str> = made.map(|(_, path)| path.as_str()).collect();
            for (item, path) in of_root() {
                // A path in a directory that does not exist yet cannot conflict.
                if item.before.is_none() && paths::ancestors(path).any(|above| made.contains(above)) {
                    continue;
                }
                let mut conflict = preconditions::find_conflict(item, (root, path), self.meta.started_ns)?;
                let change = &item.change;
                if conflict.is_none() && item.removes_directory() {
                    let more =
                        preconditions::has_unlisted(root, path, &gone).context("list", &change.path)?;
                    let why = "something was added to the directory meanwhile";
                    conflict = more.then(|| {
                        preconditions::new_conflict(change.before.clone(), change, change.before.clone(), why)
                    });
                }
                let above = paths::parent(path);
                if conflict.is_none() && item.before.is_none() {
                    let there = root.open_at(above, OFlags::PATH | OFlags::DIRECTORY).is_ok();
                    let why = "its parent directory no longer exists";
                    conflict = (!there).then(|| preconditions::new_conflict(None, change, None, why));
                }
                conflicts.extend(conflict);
            }
        }
        conflicts.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(conflicts)
    }

    /// Keeps the scratch of this run as the start of the next one, or puts it on the disk.
    fn keep_scratch(&self, outputs: OutputRule<'_>) -> Result<OutputReport, Error> {
        let Some(session) = &self.meta.session else { return Ok(OutputReport::default()) };
        let scratch = self.store.scratch(session);
        let mut layers = Vec::new();
        let mut on_others = Vec::new();
        for (number, mounted) in self.meta.scratch.iter().enumerate() {
            let stack = scratch.open_stack_for(&mounted.path, self.meta.visibility)?;
            let layer = self.path.join(format!("s{number}/upper"));
            if mounted.path == Path::new(SESSION_TMP) {
                stack.push_tmp(&layer, &mounted.lowers)?;
                continue;
            }
            match outputs {
                OutputRule::Drop => {}
                OutputRule::Place(_) if mounted.lowers.is_empty() => {
                    layers.push((layer, mounted.path.clone()));
                }
                OutputRule::Place(_) | OutputRule::Session => {
                    let is_current = stack.granted_generation() == mounted.generation;
                    let is_kept = is_current && stack.push(&layer, &mounted.lowers)?;
                    if is_kept && matches!(outputs, OutputRule::Place(_)) {
                        on_others.push(mounted.path.display().to_string());
                    }
                }
            }
        }
        for (number, harvested) in self.all_scratch_dirs()?.iter().enumerate() {
            let layer = self.path.join(format!("harvest/{number}"));
            match outputs {
                OutputRule::Drop => {}
                OutputRule::Place(_) => layers.push((layer, (&harvested.path).into())),
                OutputRule::Session => {
                    let path = Path::new(&harvested.path);
                    scratch.open_stack_for(path, self.meta.visibility)?.push(&layer, &[])?;
                }
            }
        }
        let OutputRule::Place(filter) = outputs else { return Ok(OutputReport::default()) };
        let mut report = self.place_outputs(layers, filter)?;
        // What rehearsals left was made on the directories as they were.
        for path in &report.placed {
            scratch.open_stack(Path::new(path))?.end_layers()?;
        }
        report.not_placed.extend(on_others.into_iter().map(|path| (path, ON_OTHERS.to_owned())));
        Ok(report)
    }
}

/// Returns the part of the list that was committed.
fn committed_changes(listing: &ChangeList, items: &[&ChangedPath]) -> FileChanges {
    let list: Vec<_> = items.iter().map(|item| item.change.clone()).collect();
    let paths: HashSet<&str> = list.iter().map(|change| change.path.as_str()).collect();
    let both = |one: &&FileRename| paths.contains(one.from.as_str()) && paths.contains(one.to.as_str());
    let renames = listing.renames.iter().filter(both).cloned().collect();
    FileChanges { renames, caveats: listing.caveats.clone(), list }
}

/// Writes the journal, executes its steps and marks it as done. If a step fails, all steps are reverted.
pub(crate) fn execute(
    store: &CopyStore,
    journal: &Journal,
    ground: &StepContext,
    changes: &FileChanges,
) -> Result<(), Error> {
    let at = store.entry_path(journal.id);
    write_json_durably(&at.join("changes.json"), changes)?;
    fsync::sync_contents(store, journal, ground)?;
    write_json_durably(&at.join("journal.json"), journal)?;
    for (number, step) in journal.steps.iter().enumerate() {
        if let Err(stopped) = journal_steps::apply(step, ground) {
            let left = roll_back(journal, number + 1, ground);
            return Err(failure_error(store, journal, ground, (journal.path(step), stopped), left)?);
        }
    }
    mark_done(store, journal, ground)?;
    staged_indexes::remember(&at, changes);
    Ok(())
}

/// Reverts the first `count` steps in reverse order. Returns the paths where that failed.
pub(crate) fn roll_back(journal: &Journal, count: usize, ground: &StepContext) -> Vec<String> {
    let done = journal.steps.get(..count).unwrap_or_default();
    let stuck = done.iter().rev().filter(|step| journal_steps::revert(step, ground).is_err());
    stuck.map(|step| journal.path(step)).collect()
}

/// Builds the error for a commit that was reverted, fully or in part.
fn failure_error(
    store: &CopyStore,
    journal: &Journal,
    ground: &StepContext,
    (path, stopped): (String, StepError),
    left: Vec<String>,
) -> Result<Error, Error> {
    let source = || match stopped {
        StepError::Conflict => std::io::Error::other("another file is there now"),
        StepError::Io(errno) => errno.into(),
    };
    if !left.is_empty() {
        return Ok(Error::RollbackFailed { path, source: source(), paths: left });
    }
    abandon_journal(store, journal, ground)?;
    Ok(Error::RolledBack { path, source: source() })
}

/// Removes a journal whose steps were all reverted. A mark tells recovery that nothing is left to do if this is interrupted.
pub(crate) fn abandon_journal(
    store: &CopyStore,
    journal: &Journal,
    ground: &StepContext,
) -> Result<(), Error> {
    let at = store.entry_path(journal.id);
    fsync::sync_names(store, journal, ground)?;
    write_json_durably(&at.join("abandoned.json"), &journal.id)?;
    staging::remove_temp_dirs(store, journal.id, ground, &journal.roots)?;
    if let Some(undone) = journal.undo_of {
        remove_file(&store.entry_path(undone).join("undone.json"))?;
    }
    remove_file(&at.join("journal.json"))?;
    remove_file(&at.join("abandoned.json"))
}

/// Marks a commit as done, after all of it is on disk.
pub(crate) fn mark_done(store: &CopyStore, journal: &Journal, ground: &StepContext) -> Result<(), Error> {
    staging::move_to_store(journal, ground)?;
    fsync::sync_names(store, journal, ground)?;
    let at = store.entry_path(journal.id);
    if let Some(undone) = journal.undo_of {
        write_json_durably(&store.entry_path(undone).join("undone.json"), &journal.id)?;
    }
    let done = CommitCompletion { at_ns: store.filesystem_now(&at)?, at_time: SystemTime::now() };
    write_json_durably(&at.join("done.json"), &done)
}

/// Removes everything that a completed commit no longer needs, in the roots and in the store.
pub(crate) fn remove_leftovers(
    store: &CopyStore,
    journal: &Journal,
    ground: &StepContext,
) -> Result<(), Error> {
    staging::remove_temp_dirs(store, journal.id, ground, &journal.roots)?;
    remove_store_leftovers(store, journal.id)
}

/// Removes everything that a completed commit no longer needs in the store.
pub(crate) fn remove_store_leftovers(store: &CopyStore, id: Uuid) -> Result<(), Error> {
    const STAYS: [&str; 9] = [
        "lock",
        "copy.json",
        "journal.json",
        "changes.json",
        "done.json",
        "before",
        "undone.json",
        staging::TEMP_DIRS_FILE,
        staged_indexes::NOTE,
    ];
    let at = store.entry_path(id);
    for name in list_names(&at)? {
        if !STAYS.contains(&name.as_str()) {
            dir_handle::remove_path(&at.join(&name)).context("remove", at.join(&name))?;
        }
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.context("remove", path),
    }
}
