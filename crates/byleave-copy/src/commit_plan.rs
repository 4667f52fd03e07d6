//! The plan of a commit: the chosen items, and their steps in an order in which each step is possible.

use std::collections::{BTreeSet, HashMap, HashSet};

use byleave_core::file_change::{FileChanges, FileNodeKind};

use crate::diff_scan::{ChangedPath, is_directory};
use crate::dir_handle::{FileIdentity, permission_bits};
use crate::error::Error;
use crate::journal::{JournalStep, StepAction, StorageSlot};
use crate::layers::CopyRoot;
use crate::paths::{self, ancestors};

/// Returns the chosen items with the directories that they need. Fails if the choice cannot be committed alone.
pub(crate) fn choose_items<'a>(
    items: &'a [ChangedPath],
    chosen: &FileChanges,
) -> Result<Vec<&'a ChangedPath>, Error> {
    let by_path: HashMap<&str, usize> =
        items.iter().enumerate().map(|(number, item)| (item.change.path.as_str(), number)).collect();
    let item = |path: &str| by_path.get(path).and_then(|number| Some((*number, items.get(*number)?)));
    let mut all = BTreeSet::new();
    for change in &chosen.list {
        let same =
            |one: &ChangedPath| (&one.change.before, &one.change.after) == (&change.before, &change.after);
        let Some((number, _)) = item(&change.path).filter(|(_, one)| same(one)) else {
            return Err(Error::NotListed(change.path.clone()));
        };
        all.insert(number);
    }
    for change in chosen.list.iter().filter(|change| change.after.is_some()) {
        for (number, above) in ancestors(&change.path).filter_map(item) {
            // Only a directory that is new is included without being chosen.
            match (&above.change.before, is_directory(above.change.after.as_ref())) {
                (None, true) => _ = all.insert(number),
                (Some(before), true) if before.kind != FileNodeKind::Directory && !all.contains(&number) => {
                    return Err(Error::Incomplete {
                        path: change.path.clone(),
                        needs: above.change.path.clone(),
                    });
                }
                _ => {}
            }
        }
    }
    for (number, item) in items.iter().enumerate() {
        if all.contains(&number) || item.change.before.is_none() {
            continue;
        }
        for path in ancestors(&item.change.path) {
            let above =
                by_path.get(path).filter(|above| all.contains(above)).and_then(|above| items.get(*above));
            if above.is_some_and(ChangedPath::removes_directory) {
                return Err(Error::Incomplete { path: path.into(), needs: item.change.path.clone() });
            }
        }
    }
    Ok(all.into_iter().filter_map(|number| items.get(number)).collect())
}

/// Allocates the places where new files come from and old files are kept.
pub(crate) trait SlotAllocator {
    /// Prepares the new file of an item for the move and returns its place.
    fn prepare_incoming(
        &mut self,
        item: &ChangedPath,
        inside: &str,
    ) -> Result<(StorageSlot, FileIdentity), Error>;
    /// Returns a free place for the old file.
    fn new_slot(&mut self, root: usize) -> StorageSlot;
    /// Returns the current identity of a directory if its mode forbids its owner to move entries into or out of it.
    fn closed_directory(&mut self, root: usize, inside: &str) -> Result<Option<FileIdentity>, Error>;
}

/// Returns the steps that commit the items.
pub(crate) fn plan_steps(
    items: &[&ChangedPath],
    roots: &[CopyRoot],
    slots: &mut impl SlotAllocator,
) -> Result<Vec<JournalStep>, Error> {
    let going: HashSet<&str> =
        items.iter().filter(|item| item.removes_directory()).map(|item| item.change.path.as_str()).collect();
    let (mut open, mut middle, mut close) = (Vec::new(), Vec::new(), Vec::new());
    let mut opened = HashSet::new();
    for item in items {
        let root = item.root;
        let path = &item.change.path;
        let Some(top) = roots.get(root) else { continue };
        let inside = paths::inside(&top.path, path);
        let step = |act| JournalStep { root, inside: inside.to_owned(), action: act };
        if item.after.is_none() && ancestors(path).any(|above| going.contains(above)) {
            continue;
        }
        match (&item.before, &item.after) {
            (None, None) => continue,
            (Some(was), Some(is)) if was.is_directory() && is.is_directory() => {
                let (from, to) = (permission_bits(was.mode), permission_bits(is.mode));
                if from & 0o700 != 0o700 && opened.insert((root, inside.to_owned())) {
                    open.push(step(StepAction::Mode {
                        identity: *was,
                        old_mode: from,
                        new_mode: from | 0o700,
                    }));
                    close.push(step(StepAction::Mode {
                        identity: *was,
                        old_mode: from | 0o700,
                        new_mode: to,
                    }));
                } else if from & 0o700 == 0o700 {
                    opened.insert((root, inside.to_owned()));
                    close.push(step(StepAction::Mode { identity: *was, old_mode: from, new_mode: to }));
                }
                continue;
            }
            (None, Some(is)) => {
                let (from, new) = slots.prepare_incoming(item, inside)?;
                middle.push(step(StepAction::Put { new, from }));
                add_closing_mode(is, &new, &step, &mut close);
            }
            (Some(old), None) => {
                middle.push(step(StepAction::Remove { old: *old, keep: slots.new_slot(root) }))
            }
            (Some(old), Some(is)) => {
                let (from, new) = slots.prepare_incoming(item, inside)?;
                middle.push(step(StepAction::Swap { old: *old, new, from, keep: slots.new_slot(root) }));
                add_closing_mode(is, &new, &step, &mut close);
            }
        }
        // A directory that its owner may not write to is opened for the commit. The command had to open it too, in order to change
        // something in it. A directory that is removed is also opened, because moving a directory writes to it.
        let parent = paths::parent(inside);
        for directory in [Some(parent), item.removes_directory().then_some(inside)].into_iter().flatten() {
            if !opened.insert((root, directory.to_owned())) {
                continue;
            }
            let Some(of) = slots.closed_directory(root, directory)? else { continue };
            let mode = permission_bits(of.mode);
            let at = |was, is| JournalStep {
                root,
                inside: directory.to_owned(),
                action: StepAction::Mode { identity: of, old_mode: was, new_mode: is },
            };
            open.push(at(mode, mode | 0o700));
            if directory == parent {
                close.push(at(mode | 0o700, mode));
            }
        }
    }
    close.reverse();
    open.extend(middle);
    open.extend(close);
    Ok(open)
}

/// Adds the step that sets the final mode of a new directory. It comes last, because filling the directory needs more permissions.
fn add_closing_mode(
    is: &FileIdentity,
    new: &FileIdentity,
    step: &impl Fn(StepAction) -> JournalStep,
    close: &mut Vec<JournalStep>,
) {
    if is.is_directory() && permission_bits(is.mode) != permission_bits(new.mode) {
        close.push(step(StepAction::Mode {
            identity: *new,
            old_mode: permission_bits(new.mode),
            new_mode: permission_bits(is.mode),
        }));
    }
}
