//! Executes and reverts the steps of a journal. Each step can be repeated. It can be reverted whether it was done, half done or
//! not done: the identities on disk tell which. A step never replaces a file. It moves files to free paths or exchanges them.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::dir_handle::{self, DirHandle, FileIdentity};
use crate::journal::{JournalStep, StepAction, StepContext, StorageSlot};

/// The reason why a step failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StepError {
    /// Another file is there.
    Conflict,
    /// A file operation failed.
    Io(Errno),
}

impl From<Errno> for StepError {
    fn from(errno: Errno) -> Self {
        match errno {
            // Something got in the way after the check.
            Errno::EXIST | Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE | Errno::NOTEMPTY => {
                Self::Conflict
            }
            other => Self::Io(other),
        }
    }
}

type DirEntryRef<'a> = (&'a DirHandle, &'a str);

/// Executes a step, or the rest of it.
pub(crate) fn apply(step: &JournalStep, ground: &StepContext) -> Result<(), StepError> {
    let place = ground.resolve_step(step)?;
    match &step.action {
        StepAction::Remove { old, keep } => remove(place, old, ground.resolve_slot(keep)?),
        StepAction::Put { new, from } => insert(place, new, ground.resolve_slot(from)?),
        StepAction::Swap { old, new, from, keep } => {
            let (from, keep) = (ground.resolve_slot(from)?, ground.resolve_slot(keep)?);
            if is_inode(keep, old)? {
                return Ok(());
            }
            if !is_inode(from, old)? {
                swap(place, old, from, new)?;
            }
            Ok(dir_handle::rename_to_empty(from, keep)?)
        }
        StepAction::Mode { identity: of, new_mode: is, .. } => Ok(place.0.set_mode(place.1, of, *is)?),
    }
}

/// Reverts a step, or the part of it that was done.
pub(crate) fn revert(step: &JournalStep, ground: &StepContext) -> Result<(), StepError> {
    let place = ground.resolve_step(step)?;
    match &step.action {
        StepAction::Remove { old, keep } => {
            let keep = ground.resolve_slot(keep)?;
            if is_inode(keep, old)? { move_checked(keep, place, old) } else { Ok(()) }
        }
        StepAction::Put { new, from } => {
            let from = ground.resolve_slot(from)?;
            if is_inode(from, new)? {
                return Ok(());
            }
            if !is_identity(place, new)? || (is_staged(&step.action) && !is_empty(place)?) {
                return Err(StepError::Conflict);
            }
            move_checked(place, from, new)
        }
        StepAction::Swap { old, new, from, keep } => {
            let (from, keep) = (ground.resolve_slot(from)?, ground.resolve_slot(keep)?);
            if is_inode(keep, old)? {
                dir_handle::rename_to_empty(keep, from)?;
            }
            if is_inode(from, new)? { Ok(()) } else { swap(place, new, from, old) }
        }
        StepAction::Mode { identity: of, old_mode: was, .. } => {
            match place.0.set_mode(place.1, of, *was).map_err(StepError::from) {
                // Another directory is there, and its mode must not be changed.
                Err(StepError::Conflict) => Ok(()),
                other => other,
            }
        }
    }
}

fn remove(place: DirEntryRef<'_>, old: &FileIdentity, keep: DirEntryRef<'_>) -> Result<(), StepError> {
    if is_inode(keep, old)? {
        return Ok(());
    }
    if !is_identity(place, old)? {
        return Err(StepError::Conflict);
    }
    move_checked(place, keep, old)
}

fn insert(place: DirEntryRef<'_>, new: &FileIdentity, from: DirEntryRef<'_>) -> Result<(), StepError> {
    if is_inode(from, new)? {
        return move_checked(from, place, new);
    }
    if is_inode(place, new)? { Ok(()) } else { Err(StepError::Conflict) }
}

/// Moves a file. If another process was faster and it is a different file, moves it back.
fn move_checked(from: DirEntryRef<'_>, to: DirEntryRef<'_>, what: &FileIdentity) -> Result<(), StepError> {
    dir_handle::rename_to_empty(from, to)?;
    if what.is_directory() {
        from.0.clear_handles();
        to.0.clear_handles();
    }
    if is_identity(to, what)? {
        return Ok(());
    }
    dir_handle::rename_to_empty(to, from)?;
    Err(StepError::Conflict)
}

/// Exchanges the files at `place` and `slot`, if both are the expected ones.
fn swap(
    place: DirEntryRef<'_>,
    there: &FileIdentity,
    slot: DirEntryRef<'_>,
    here: &FileIdentity,
) -> Result<(), StepError> {
    if !is_inode(slot, here)? || !is_identity(place, there)? {
        return Err(StepError::Conflict);
    }
    dir_handle::exchange(place, slot)?;
    if there.is_directory() || here.is_directory() {
        place.0.clear_handles();
        slot.0.clear_handles();
    }
    if is_identity(slot, there)? {
        return Ok(());
    }
    // The file was replaced between the check and the exchange, so the replacement goes back to its path.
    dir_handle::exchange(place, slot)?;
    Err(StepError::Conflict)
}

fn is_identity(place: DirEntryRef<'_>, what: &FileIdentity) -> Result<bool, Errno> {
    Ok(place.0.identity(place.1)?.is_some_and(|is| is.is_same(what)))
}

/// Checks whether it is this file, even if a process that had it open wrote to it meanwhile.
fn is_inode(place: DirEntryRef<'_>, what: &FileIdentity) -> Result<bool, Errno> {
    Ok(place
        .0
        .identity(place.1)?
        .is_some_and(|is| (is.dev, is.ino, is.kind()) == (what.dev, what.ino, what.kind())))
}

/// Checks whether it is a directory that the commit created empty, and not one that it restores as a whole.
fn is_staged(act: &StepAction) -> bool {
    matches!(act, StepAction::Put { new, from: StorageSlot { path, .. } } if new.is_directory() && path.contains("/in/"))
}

fn is_empty(place: DirEntryRef<'_>) -> Result<bool, Errno> {
    let opened: OwnedFd = place.0.open_at(place.1, OFlags::RDONLY | OFlags::DIRECTORY)?;
    Ok(dir_handle::list_names(&opened)?.is_empty())
}
