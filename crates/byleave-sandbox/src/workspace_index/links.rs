//! Finds other names of marked paths: targets of symbolic links, and hard links.
//!
//! A command may have created them before there was anything to hide. An example is an empty file with two names that a person
//! fills in later. Only names in the scanned directories are found. Other names are not visible to a command.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::PathBuf;

use super::IndexedDirectory;

/// Returns the other names of these paths, in these directories beneath these roots.
pub(super) fn find_aliases(
    paths: &[PathBuf],
    roots: &[PathBuf],
    directories: &HashMap<PathBuf, IndexedDirectory>,
) -> Vec<PathBuf> {
    let (mut found, mut shared) = (Vec::new(), HashSet::new());
    for path in paths {
        let Ok(mut kind) = fs::symlink_metadata(path) else { continue };
        if kind.is_symlink() {
            // A link to a root, or out of all roots, cannot be covered.
            let beneath =
                |target: &PathBuf| roots.iter().any(|root| target.starts_with(root) && target != root);
            let Some(target) = path.canonicalize().ok().filter(beneath) else { continue };
            let Ok(led_to) = fs::symlink_metadata(&target) else { continue };
            kind = led_to;
            found.push(target);
        }
        if kind.is_file() && kind.nlink() > 1 {
            shared.insert((kind.dev(), kind.ino()));
        }
    }
    if shared.is_empty() {
        return found;
    }
    let numbers: HashSet<u64> = shared.iter().map(|(_, inode)| *inode).collect();
    let holds = |directory: &IndexedDirectory| directory.inodes.iter().any(|inode| numbers.contains(inode));
    for (path, _) in directories.iter().filter(|(_, directory)| holds(directory)) {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| numbers.contains(&entry.ino())) {
            let is_shared = |kind: &fs::Metadata| shared.contains(&(kind.dev(), kind.ino()));
            if fs::symlink_metadata(entry.path()).as_ref().is_ok_and(is_shared) {
                found.push(entry.path());
            }
        }
    }
    found
}
