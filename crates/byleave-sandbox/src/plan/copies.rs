//! Copies that a command runs on: which can be had, and that nothing of them is reached but through them.

use std::path::{Path, PathBuf};

use super::{Host, Kind, PlanError, resolved};
use crate::confinement::{Copied, Files, Readable, Source};
use crate::wire::LAYERS;

/// Refuses copies that could not be mounted, or would not be what they are said to be.
pub(super) fn check(files: &Files, host: &impl Host) -> Result<(), PlanError> {
    for (at, copied) in files.copied.iter().enumerate() {
        let root = &copied.root;
        let refuse = |why| Err(PlanError::NoCopy(root.clone(), why));
        resolved(root)?;
        if !files.writable.iter().any(|writable| root.starts_with(writable)) {
            return refuse("it lies in nothing that the command may write");
        }
        if files.copied.iter().take(at).any(|other| other.root == *root) {
            return refuse("there are two copies of it");
        }
        for part in copied.source.parts() {
            resolved(part)?;
            match host.kind(part) {
                Some(Kind::Link) => return Err(PlanError::Link(part.clone())),
                None => return Err(PlanError::Missing(part.clone())),
                Some(Kind::Directory | Kind::File) => {}
            }
            if part.starts_with(root) || root.starts_with(part) {
                return refuse("one lies in the other");
            }
        }
        let kind = host.kind(root);
        match (&copied.source, kind) {
            (_, Some(Kind::Link)) => return Err(PlanError::Link(root.clone())),
            (Source::Tree { at }, Some(kind)) if host.kind(at) != Some(kind) => {
                return refuse("one is a directory, and the other is not");
            }
            (Source::Overlay { .. }, Some(Kind::File)) => {
                return refuse("only a directory can lie under layers; make a whole copy of it");
            }
            (Source::Overlay { lowers, .. }, _) if lowers.len() + 3 > LAYERS => {
                return refuse("it has too many layers; make fewer of them");
            }
            (Source::Overlay { upper, work, .. }, _)
                if upper.starts_with(work) || work.starts_with(upper) =>
            {
                return refuse("what is written and where that is prepared lie in each other");
            }
            (Source::Overlay { lowers, .. }, None) if lowers.is_empty() => {
                return Err(PlanError::Missing(root.clone()));
            }
            // There is no place for it but in another copy.
            (_, None) if !files.copied.iter().any(|other| holds(other, root)) => {
                return Err(PlanError::Missing(root.clone()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn holds(copied: &Copied, path: &Path) -> bool {
    path != copied.root && path.starts_with(&copied.root)
}

/// What is found at the place of a copy.
pub(super) fn kind(source: &Source, host: &impl Host) -> Option<Kind> {
    match source {
        Source::Overlay { .. } => Some(Kind::Directory),
        Source::Tree { at } => host.kind(at),
    }
}

/// Whether everything that is there outside is in the copy as well, before the command has begun.
pub(super) const fn is_fresh(source: &Source) -> bool {
    match source {
        Source::Overlay { lowers, .. } => lowers.is_empty(),
        Source::Tree { .. } => false,
    }
}

/// Whether a path is in something that the command was given by name.
pub(super) fn is_named(path: &Path, files: &Files) -> bool {
    let readable = match &files.readable {
        Readable::Everything => &[][..],
        Readable::Only(paths) => paths,
    };
    files.writable.iter().chain(&files.home_readable).chain(readable).any(|named| path.starts_with(named))
}

/// What was to be read and not written, and lies in a copy that is written.
pub(super) fn read_only(files: &Files) -> impl Iterator<Item = &PathBuf> {
    let in_copy = |path: &&PathBuf| files.copied.iter().any(|copied| holds(copied, path));
    files.home_readable.iter().filter(move |path| in_copy(path) && !files.writable.contains(path))
}
