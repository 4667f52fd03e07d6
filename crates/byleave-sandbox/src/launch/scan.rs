//! Scans before and after a command: finds the paths to hide or protect, and the planted files.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::LaunchError;
use crate::confinement::{Confinement, FileConfinement, PathPolicyScope};
use crate::tripwire::{self, Tripwire};
use crate::workspace_index::{DirectoryIndex, DynDirectoryIndex, PathPolicy, ProtectedPaths};

/// Creates the index of the paths that a command may touch, with this constructor.
pub(super) fn index(
    files: &FileConfinement,
    make: fn(Vec<PathBuf>, Option<Arc<dyn PathPolicy + Send + Sync>>) -> DynDirectoryIndex,
) -> DynDirectoryIndex {
    let mut roots = files.writable.clone();
    roots.extend(files.path_policy.iter().flat_map(|asked| asked.roots.iter().cloned()));
    roots.sort();
    // A root inside another one is scanned with it.
    roots.dedup_by(|inner, outer| inner.starts_with(outer));
    make(roots, files.path_policy.as_ref().map(|asked| Arc::clone(&asked.policy)))
}

/// A cache of the index between single commands. While the directories and the policy stay the same, only changes are scanned
/// again. A session has its own index. The cache watches every directory as long as it lives.
#[derive(Debug, Default)]
pub struct IndexCache {
    known: Mutex<Option<CachedIndex>>,
}

#[derive(Debug)]
struct CachedIndex {
    writable: Vec<PathBuf>,
    asked: Option<PathPolicyScope>,
    index: Arc<Mutex<DynDirectoryIndex>>,
}

impl IndexCache {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    fn index(&self, files: &FileConfinement) -> Arc<Mutex<DynDirectoryIndex>> {
        let mut known = self.known.lock();
        if let Some(known) = known.as_ref().filter(|known| known.is_of(files)) {
            return Arc::clone(&known.index);
        }
        let index = Arc::new(Mutex::new(index(files, DirectoryIndex::new)));
        let (writable, asked) = (files.writable.clone(), files.path_policy.clone());
        *known = Some(CachedIndex { writable, asked, index: Arc::clone(&index) });
        index
    }
}

impl CachedIndex {
    fn is_of(&self, files: &FileConfinement) -> bool {
        let same_asked = match (&self.asked, &files.path_policy) {
            (None, None) => true,
            (Some(known), Some(asked)) => {
                known.roots == asked.roots && (known == asked || known.policy.agrees_with(&*asked.policy))
            }
            _ => false,
        };
        self.writable == files.writable && same_asked
    }
}

/// Prepares one command: its confinement with all paths to hide or protect, and the tripwire.
pub(super) fn prepare_command(
    confinement: &Confinement,
    warm: Option<&IndexCache>,
) -> Result<(Confinement, Tripwire), LaunchError> {
    let files = &confinement.files;
    let marker = files.path_policy.as_ref().map(|asked| &asked.policy);
    let earlier = match &files.run_markers_dir {
        Some(directory) => tripwire::recover_abandoned(directory, &files.writable, marker)?,
        None => Vec::new(),
    };
    // Watched if there is a policy, so that afterwards only changes are checked again. After a run on a copy there is no check.
    let make = if files.path_policy.is_some() && files.copies.is_empty() {
        DirectoryIndex::new
    } else {
        DirectoryIndex::new_unwatched
    };
    let looked = warm.map_or_else(|| Arc::new(Mutex::new(index(files, make))), |warm| warm.index(files));
    let marked = looked.lock().protected_paths()?;
    let hidden = hidden_beside(files, &marked);
    let marked = with_protected_paths(confinement, &marked);
    let written = files.directly_writable();
    // New files in the original of a copy are not from this command.
    let looked = match files.copies.is_empty() {
        true => looked,
        false => Arc::new(Mutex::new(DirectoryIndex::new_unwatched(written.clone(), marker.cloned()))),
    };
    let tripwire = Tripwire::from_index(&looked)?.with_earlier(earlier).with_hidden(hidden);
    let tripwire = match &files.run_markers_dir {
        Some(directory) if !written.is_empty() => tripwire.with_marker_in(directory)?,
        _ => tripwire,
    };
    Ok((marked, tripwire))
}

/// Returns the hidden files beneath the scanned directories that contain the working directory.
fn hidden_beside(files: &FileConfinement, marked: &ProtectedPaths) -> Vec<PathBuf> {
    let roots = files.path_policy.iter().flat_map(|asked| &asked.roots);
    let roots: Vec<&PathBuf> = roots.filter(|root| files.cwd.starts_with(root)).collect();
    let is_beside = |path: &&PathBuf| roots.iter().any(|root| path.starts_with(root));
    marked.hidden.iter().filter(is_beside).cloned().collect()
}

/// Adds the marked paths to a confinement.
pub(super) fn with_protected_paths(confinement: &Confinement, marked: &ProtectedPaths) -> Confinement {
    let mut confinement = confinement.clone();
    // A symbolic link has no content. Its target is marked by its own path.
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
