//! Steps, done and taken back. Each can be done twice, and taken back whether it was done, half done or not at all: the identities
//! on the disk say which. Nothing is ever replaced: things move to where nothing is, or change places.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::disk::{self, Beneath, Ident};
use crate::journal::{Act, Ground, Slot, Step};

/// Why a step could not be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Something else is there.
    Foreign,
    /// The disk said no.
    Disk(Errno),
}

impl From<Errno> for Stopped {
    fn from(errno: Errno) -> Self {
        match errno {
            // Something came into the way after it was looked at.
            Errno::EXIST | Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE | Errno::NOTEMPTY => {
                Self::Foreign
            }
            other => Self::Disk(other),
        }
    }
}

type Place<'a> = (&'a Beneath, &'a str);

/// Does a step, or what is missing of it.
pub(crate) fn forward(step: &Step, ground: &Ground) -> Result<(), Stopped> {
    let place = ground.place(step)?;
    match &step.act {
        Act::Take { old, keep } => take(place, old, ground.slot(keep)?),
        Act::Put { new, from } => put(place, new, ground.slot(from)?),
        Act::Swap { old, new, from, keep } => {
            let (from, keep) = (ground.slot(from)?, ground.slot(keep)?);
            if is_inode(keep, old)? {
                return Ok(());
            }
            if !is_inode(from, old)? {
                swap(place, old, from, new)?;
            }
            Ok(disk::move_to(from, keep)?)
        }
        Act::Mode { of, is, .. } => Ok(place.0.set_mode(place.1, of, *is)?),
    }
}

/// Takes a step back, or what was done of it.
pub(crate) fn back(step: &Step, ground: &Ground) -> Result<(), Stopped> {
    let place = ground.place(step)?;
    match &step.act {
        Act::Take { old, keep } => {
            let keep = ground.slot(keep)?;
            if is_inode(keep, old)? { moved(keep, place, old) } else { Ok(()) }
        }
        Act::Put { new, from } => {
            let from = ground.slot(from)?;
            if is_inode(from, new)? {
                return Ok(());
            }
            if !is(place, new)? || (is_staged(&step.act) && !is_empty(place)?) {
                return Err(Stopped::Foreign);
            }
            moved(place, from, new)
        }
        Act::Swap { old, new, from, keep } => {
            let (from, keep) = (ground.slot(from)?, ground.slot(keep)?);
            if is_inode(keep, old)? {
                disk::move_to(keep, from)?;
            }
            if is_inode(from, new)? { Ok(()) } else { swap(place, new, from, old) }
        }
        Act::Mode { of, was, .. } => match place.0.set_mode(place.1, of, *was).map_err(Stopped::from) {
            // Another directory is there, and its mode is not ours.
            Err(Stopped::Foreign) => Ok(()),
            other => other,
        },
    }
}

fn take(place: Place<'_>, old: &Ident, keep: Place<'_>) -> Result<(), Stopped> {
    if is_inode(keep, old)? {
        return Ok(());
    }
    if !is(place, old)? {
        return Err(Stopped::Foreign);
    }
    moved(place, keep, old)
}

fn put(place: Place<'_>, new: &Ident, from: Place<'_>) -> Result<(), Stopped> {
    if is_inode(from, new)? {
        return moved(from, place, new);
    }
    if is_inode(place, new)? { Ok(()) } else { Err(Stopped::Foreign) }
}

/// Moves a thing, and moves it back if it turns out to be another: somebody was faster.
fn moved(from: Place<'_>, to: Place<'_>, what: &Ident) -> Result<(), Stopped> {
    disk::move_to(from, to)?;
    if what.is_directory() {
        from.0.forget();
        to.0.forget();
    }
    if is(to, what)? {
        return Ok(());
    }
    disk::move_to(to, from)?;
    Err(Stopped::Foreign)
}

/// What is at `place` and what is at `slot` change places, if they are what they should be.
fn swap(place: Place<'_>, there: &Ident, slot: Place<'_>, here: &Ident) -> Result<(), Stopped> {
    if !is_inode(slot, here)? || !is(place, there)? {
        return Err(Stopped::Foreign);
    }
    disk::exchange(place, slot)?;
    if there.is_directory() || here.is_directory() {
        place.0.forget();
        slot.0.forget();
    }
    if is(slot, there)? {
        return Ok(());
    }
    // Between the look and the exchange it became another: that one goes back to where it was.
    disk::exchange(place, slot)?;
    Err(Stopped::Foreign)
}

fn is(place: Place<'_>, what: &Ident) -> Result<bool, Errno> {
    Ok(place.0.ident(place.1)?.is_some_and(|is| is.is_same(what)))
}

/// Whether it is this thing, whatever was written into it meanwhile by those who had it open.
fn is_inode(place: Place<'_>, what: &Ident) -> Result<bool, Errno> {
    Ok(place
        .0
        .ident(place.1)?
        .is_some_and(|is| (is.dev, is.ino, is.kind()) == (what.dev, what.ino, what.kind())))
}

/// Whether it is a directory that the commit made empty, not one that it brings back as a whole.
fn is_staged(act: &Act) -> bool {
    matches!(act, Act::Put { new, from: Slot { path, .. } } if new.is_directory() && path.contains("/in/"))
}

fn is_empty(place: Place<'_>) -> Result<bool, Errno> {
    let opened: OwnedFd = place.0.open_at(place.1, OFlags::RDONLY | OFlags::DIRECTORY)?;
    Ok(disk::names(&opened)?.is_empty())
}
