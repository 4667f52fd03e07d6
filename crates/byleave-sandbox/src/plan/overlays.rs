//! Checks the copies that a command runs on: they can be mounted, and their parts are reached only through them.

use std::path::{Path, PathBuf};

use byleave_core::effect::SESSION_TMP;

use super::{HostInfo, PathKind, PlanError, check_resolved};
use crate::confinement::{CopiedPath, CopySource, FileConfinement, ReadScope};
use crate::plan_format::LAYER_SLOTS;

/// Refuses copies that could not be mounted, or that would differ from their description.
pub(super) fn check_copies(files: &FileConfinement, host: &impl HostInfo) -> Result<(), PlanError> {
    for (at, copied) in files.copies.iter().enumerate() {
        let root = &copied.root;
        let refuse = |why| Err(PlanError::InvalidCopy(root.clone(), why));
        check_resolved(root)?;
        if !is_session_tmp(root) && !files.writable.iter().any(|writable| root.starts_with(writable)) {
            return refuse("the command may not write there");
        }
        if files.copies.iter().take(at).any(|other| other.root == *root) {
            return refuse("there are two copies of this path");
        }
        for part in copied.source.paths() {
            check_resolved(part)?;
            match host.kind(part) {
                Some(PathKind::Link) => return Err(PlanError::Link(part.clone())),
                None => return Err(PlanError::Missing(part.clone())),
                Some(PathKind::Directory | PathKind::File) => {}
            }
            if part.starts_with(root) || root.starts_with(part) {
                return refuse("the copy is inside the original, or the original inside the copy");
            }
        }
        let kind = host.kind(root);
        match (&copied.source, kind) {
            (_, Some(PathKind::Link)) => return Err(PlanError::Link(root.clone())),
            (CopySource::Tree { path: at }, Some(kind)) if host.kind(at) != Some(kind) => {
                return refuse("of the copy and the original, only one is a directory");
            }
            (CopySource::Overlay { .. }, Some(PathKind::File)) => {
                return refuse("only a directory can be under an overlay; make a full copy of the file");
            }
            (CopySource::Overlay { lower_layers: lowers, .. }, _) if lowers.len() + 3 > LAYER_SLOTS => {
                return refuse("the overlay has too many layers; use fewer layers");
            }
            (CopySource::Overlay { upper_dir: upper, work_dir: work, .. }, _)
                if upper.starts_with(work) || work.starts_with(upper) =>
            {
                return refuse("the upper and the work directory of the overlay overlap");
            }
            (CopySource::Overlay { lower_layers: lowers, .. }, None) if lowers.is_empty() => {
                return Err(PlanError::Missing(root.clone()));
            }
            // Only another copy can provide a mount point for it.
            (_, None) if !files.copies.iter().any(|other| holds(other, root)) => {
                return Err(PlanError::Missing(root.clone()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether a copy stands in the place of the private temporary directory, which every command may write.
pub(super) fn is_session_tmp(root: &Path) -> bool {
    root == Path::new(SESSION_TMP)
}

fn holds(copied: &CopiedPath, path: &Path) -> bool {
    path != copied.root && path.starts_with(&copied.root)
}

/// Returns the kind of file that appears at the path of a copy.
pub(super) fn copy_kind(source: &CopySource, host: &impl HostInfo) -> Option<PathKind> {
    match source {
        CopySource::Overlay { .. } => Some(PathKind::Directory),
        CopySource::Tree { path: at } => host.kind(at),
    }
}

/// Returns whether the copy contains everything that exists outside, before the command has begun.
pub(super) const fn is_fresh(source: &CopySource) -> bool {
    match source {
        CopySource::Overlay { lower_layers: lowers, .. } => lowers.is_empty(),
        CopySource::Tree { .. } => false,
    }
}

/// Returns whether a path is in a directory that the command was given by name.
pub(super) fn is_named(path: &Path, files: &FileConfinement) -> bool {
    let readable = match &files.readable {
        ReadScope::Everything => &[][..],
        ReadScope::Only(paths) => paths,
    };
    files.writable.iter().chain(&files.home_readable).chain(readable).any(|named| path.starts_with(named))
}

/// Returns the paths that must stay read-only inside a writable copy.
pub(super) fn read_only_in_copies(files: &FileConfinement) -> impl Iterator<Item = &PathBuf> {
    let in_copy = |path: &&PathBuf| files.copies.iter().any(|copied| holds(copied, path));
    files.home_readable.iter().filter(move |path| in_copy(path) && !files.writable.contains(path))
}
