//! Durability: data is on disk before something relies on it. A few files are synced one by one. Many files are synced by one call
//! for the whole filesystem, which also waits for the writes of all other processes.

use std::collections::HashSet;
use std::path::Path;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::dir_handle::{self, DirHandle};
use crate::error::{Error, IoContext as _};
use crate::journal::{Journal, JournalStep, StepAction, StepContext, StorageSlot};
use crate::paths;
use crate::store::CopyStore;

const MAX_SINGLE_SYNCS: usize = 64;

/// Syncs the contents that the commit will move into place. The layer itself was never synced.
pub(crate) fn sync_contents(store: &CopyStore, journal: &Journal, ground: &StepContext) -> Result<(), Error> {
    let all = || journal.steps.iter().filter_map(|step| incoming_slot(&step.action));
    let one = |slot: &StorageSlot| -> Result<(), Errno> {
        let (within, path) = ground.resolve_slot(slot)?;
        let is_file = within.identity(path)?.is_some_and(|ident| ident.kind() == FileType::RegularFile);
        if is_file { rustix::fs::fsync(within.open_at(path, OFlags::RDONLY)?) } else { Ok(()) }
    };
    if journal.steps.len() <= MAX_SINGLE_SYNCS && all().all(|slot| one(slot).is_ok()) {
        return Ok(());
    }
    sync_filesystems(store, journal)
}

/// Syncs the directory entries that the steps added and removed.
pub(crate) fn sync_names(store: &CopyStore, journal: &Journal, ground: &StepContext) -> Result<(), Error> {
    // Files copied from another filesystem also have contents to sync.
    let is_near = journal.steps.iter().flat_map(step_slots).all(|slot| slot.root.is_none());
    if is_near && journal.steps.len() <= MAX_SINGLE_SYNCS && sync_parents(journal, ground).is_ok() {
        return Ok(());
    }
    sync_filesystems(store, journal)
}

fn sync_parents(journal: &Journal, ground: &StepContext) -> Result<(), Errno> {
    let mut seen: HashSet<(Option<usize>, String)> = HashSet::new();
    let mut one = |root: Option<usize>, within: &DirHandle, path: &str| -> Result<(), Errno> {
        let above = paths::parent(path);
        if !seen.insert((root, above.to_owned())) {
            return Ok(());
        }
        match within.open_at(above, OFlags::RDONLY | OFlags::DIRECTORY) {
            // The directory itself was moved away as a whole, so its own parent is synced instead.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            other => rustix::fs::fsync(other?),
        }
    };
    for step in &journal.steps {
        let (within, path) = ground.resolve_step(step)?;
        one(Some(step.root), within, path)?;
        if let StepAction::Mode { .. } = step.action {
            rustix::fs::fsync(within.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
        }
        for slot in step_slots(step) {
            let (within, path) = ground.resolve_slot(slot)?;
            one(slot.root, within, path)?;
        }
    }
    Ok(())
}

const fn incoming_slot(act: &StepAction) -> Option<&StorageSlot> {
    match act {
        StepAction::Put { from, .. } | StepAction::Swap { from, .. } => Some(from),
        StepAction::Remove { .. } | StepAction::Mode { .. } => None,
    }
}

fn step_slots(step: &JournalStep) -> Vec<&StorageSlot> {
    match &step.action {
        StepAction::Put { from, .. } => vec![from],
        StepAction::Remove { keep, .. } => vec![keep],
        StepAction::Swap { from, keep, .. } => vec![from, keep],
        StepAction::Mode { .. } => Vec::new(),
    }
}

fn sync_filesystems(store: &CopyStore, journal: &Journal) -> Result<(), Error> {
    let mut seen = HashSet::new();
    let roots = journal.roots.iter().map(|root| Path::new(&root.path));
    for path in std::iter::once(store.path.as_path()).chain(roots) {
        let handle = dir_handle::open_directory(rustix::fs::CWD, path).context("open", path)?;
        if seen.insert(rustix::fs::fstat(&handle).context("inspect", path)?.st_dev) {
            rustix::fs::syncfs(&handle).context("write to the disk", path)?;
        }
    }
    Ok(())
}
