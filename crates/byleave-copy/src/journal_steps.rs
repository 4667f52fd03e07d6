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
    Foreign,
    /// A file operation failed.
    Disk(Errno),
}

impl From<Errno> for StepError {
    fn from(errno: Errno) -> Self {
        match errno {
            // Something got in the way after the check.
            Errno::EXIST | Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE | Errno::NOTEMPTY => {
                Self::Foreign
            }
            other => Self::Disk(other),
        }
    }
}

type DirEntryRef<'a> = (&'a DirHandle, &'a str);

/// Executes a step, or the rest of it.
pub(crate) fn forward(step: &JournalStep, ground: &StepContext) -> Result<(), StepError> {
    let place = ground.place(step)?;
    match &step.act {
        StepAction::Take { old, keep } => take(place, old, ground.slot(keep)?),
        StepAction::Put { new, from } => put(place, new, ground.slot(from)?),
        StepAction::Swap { old, new, from, keep } => {
            let (from, keep) = (ground.slot(from)?, ground.slot(keep)?);
            if is_inode(keep, old)? {
                return Ok(());
            }
            if !is_inode(from, old)? {
                swap(place, old, from, new)?;
            }
            Ok(dir_handle::move_to(from, keep)?)
        }
        StepAction::Mode { of, is, .. } => Ok(place.0.set_mode(place.1, of, *is)?),
    }
}

/// Reverts a step, or the part of it that was done.
pub(crate) fn back(step: &JournalStep, ground: &StepContext) -> Result<(), StepError> {
    let place = ground.place(step)?;
    match &step.act {
        StepAction::Take { old, keep } => {
            let keep = ground.slot(keep)?;
            if is_inode(keep, old)? { moved(keep, place, old) } else { Ok(()) }
        }
        StepAction::Put { new, from } => {
            let from = ground.slot(from)?;
            if is_inode(from, new)? {
                return Ok(());
            }
            if !is(place, new)? || (is_staged(&step.act) && !is_empty(place)?) {
                return Err(StepError::Foreign);
            }
            moved(place, from, new)
        }
        StepAction::Swap { old, new, from, keep } => {
            let (from, keep) = (ground.slot(from)?, ground.slot(keep)?);
            if is_inode(keep, old)? {
                dir_handle::move_to(keep, from)?;
            }
            if is_inode(from, new)? { Ok(()) } else { swap(place, new, from, old) }
        }
        StepAction::Mode { of, was, .. } => {
            match place.0.set_mode(place.1, of, *was).map_err(StepError::from) {
                // Another directory is there, and its mode must not be changed.
                Err(StepError::Foreign) => Ok(()),
                other => other,
            }
        }
    }
}

fn take(place: DirEntryRef<'_>, old: &FileIdentity, keep: DirEntryRef<'_>) -> Result<(), StepError> {
    if is_inode(keep, old)? {
        return Ok(());
    }
    if !is(place, old)? {
        return Err(StepError::Foreign);
    }
    moved(place, keep, old)
}

fn put(place: DirEntryRef<'_>, new: &FileIdentity, from: DirEntryRef<'_>) -> Result<(), StepError> {
    if is_inode(from, new)? {
        return moved(from, place, new);
    }
    if is_inode(place, new)? { Ok(()) } else { Err(StepError::Foreign) }
}

/// Moves a file. If another process was faster and it is a different file, moves it back.
fn moved(from: DirEntryRef<'_>, to: DirEntryRef<'_>, what: &FileIdentity) -> Result<(), StepError> {
    dir_handle::move_to(from, to)?;
    if what.is_directory() {
        from.0.forget();
        to.0.forget();
    }
    if is(to, what)? {
        return Ok(());
    }
    dir_handle::move_to(to, from)?;
    Err(StepError::Foreign)
}

/// Exchanges the files at `place` and `slot`, if both are the expected ones.
fn swap(
    place: DirEntryRef<'_>,
    there: &FileIdentity,
    slot: DirEntryRef<'_>,
    here: &FileIdentity,
) -> Result<(), StepError> {
    if !is_inode(slot, here)? || !is(place, there)? {
        return Err(StepError::Foreign);
    }
    dir_handle::exchange(place, slot)?;
    if there.is_directory() || here.is_directory() {
        place.0.forget();
        slot.0.forget();
    }
    if is(slot, there)? {
        return Ok(());
    }
    // The file was replaced between the check and the exchange, so the replacement goes back to its path.
    dir_handle::exchange(place, slot)?;
    Err(StepError::Foreign)
}

fn is(place: DirEntryRef<'_>, what: &FileIdentity) -> Result<bool, Errno> {
    Ok(place.0.ident(place.1)?.is_some_and(|is| is.is_same(what)))
}

/// Checks whether it is this file, even if a process that had it open wrote to it meanwhile.
fn is_inode(place: DirEntryRef<'_>, what: &FileIdentity) -> Result<bool, Errno> {
    Ok(place
        .0
        .ident(place.1)?
        .is_some_and(|is| (is.dev, is.ino, is.kind()) == (what.dev, what.ino, what.kind())))
}

/// Checks whether it is a directory that the commit created empty, and not one that it restores as a whole.
fn is_staged(act: &StepAction) -> bool {
    matches!(act, StepAction::Put { new, from: StorageSlot { path, .. } } if new.is_directory() && path.contains("/in/"))
}

fn is_empty(place: DirEntryRef<'_>) -> Result<bool, Errno> {
    let opened: OwnedFd = place.0.open_at(place.1, OFlags::RDONLY | OFlags::DIRECTORY)?;
    Ok(dir_handle::names(&opened)?.is_empty())
}
