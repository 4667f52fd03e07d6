//! Looking before a command and after it: what it must not see or change is found, and what it planted.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::LaunchError;
use crate::confinement::{Confinement, Files};
use crate::index::{AnyIndex, Index, Marked, Marker};
use crate::tripwire::Tripwire;

/// The index of what a command may touch, made by this.
pub(super) fn index(
    files: &Files,
    make: fn(Vec<PathBuf>, Option<Arc<dyn Marker + Send + Sync>>) -> AnyIndex,
) -> AnyIndex {
    let mut roots = files.writable.clone();
    roots.extend(files.asked.iter().flat_map(|asked| asked.roots.iter().cloned()));
    roots.sort();
    // What lies in another is looked through with it.
    roots.dedup_by(|inner, outer| inner.starts_with(outer));
    make(roots, files.asked.as_ref().map(|asked| Arc::clone(&asked.marker)))
}

/// For one command: its confinement with all that has to be hidden or held, and the tripwire for afterwards.
pub(super) fn once(confinement: &Confinement) -> Result<(Confinement, Tripwire), LaunchError> {
    // Kept warm where somebody is asked: afterwards only what has changed is asked about again.
    let make = if confinement.files.asked.is_some() { Index::new } else { Index::cold };
    let mut looked = index(&confinement.files, make);
    let marked = with_marked(confinement, &*looked.marked()?);
    let looked = if confinement.files.copied.is_empty() { looked } else { uncopied(&confinement.files) };
    Ok((marked, Tripwire::on(&Arc::new(Mutex::new(looked)))?))
}

/// The index of what the command can write that is not a copy: what it plants there, it plants nowhere else. In what there is a
/// copy of, whatever is new is somebody else's.
fn uncopied(files: &Files) -> AnyIndex {
    let is_copied = |path: &PathBuf| files.copied.iter().any(|copied| path.starts_with(&copied.root));
    let writable = files.writable.iter().filter(|path| !is_copied(path)).cloned().collect();
    Index::cold(writable, files.asked.as_ref().map(|asked| Arc::clone(&asked.marker)))
}

/// A confinement with what was marked besides.
pub(super) fn with_marked(confinement: &Confinement, marked: &Marked) -> Confinement {
    let mut confinement = confinement.clone();
    // A symbolic link is no content: what it leads to is marked by its own path.
    let is_link = |path: &&PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    for (to, from) in [
        (&mut confinement.files.hidden, &marked.hidden),
        (&mut confinement.files.protected, &marked.protected),
    ] {
        to.extend(from.iter().filter(|path| !is_link(path)).cloned());
        to.sort();
        to.dedup();
    }
    confinement
}
