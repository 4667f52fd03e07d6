//! The hidden files by device and inode instead of by name. A hard link has no target to resolve, so its name alone says nothing.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_gate::core::decision::Verdict;
use byleave_gate::core::policy::Policy;
use byleave_sandbox::protected_paths::{PathPolicy, find_protected_paths};
use rustix::fs::Stat;

/// The maximum number of entries that are searched. Beyond it, every file with several names is treated as hidden.
const ENTRIES_MAX: usize = 200_000;

/// The hidden files that have several names.
pub(super) struct HiddenInodes {
    files: HashSet<(u64, u64)>,
    /// Whether the search was incomplete.
    is_torn: bool,
}

impl HiddenInodes {
    /// Searches the workspace and the paths that rules deny to read.
    pub(super) fn scan(workspace: &Path, marker: &Arc<dyn PathPolicy + Send + Sync>, rules: &Policy) -> Self {
        let mut veil = Self { files: HashSet::new(), is_torn: false };
        let denied = rules.read_matchers(Verdict::Deny).map(|(place, _)| PathBuf::from(place));
        let places: HashSet<PathBuf> =
            denied.filter(|place| place.exists()).chain([workspace.to_path_buf()]).collect();
        let mut left = ENTRIES_MAX;
        for place in places {
            let hides = |path: &Path| path.to_str().is_none_or(|path| marker.is_hidden(path));
            if hides(&place) || !place.is_dir() {
                veil.add(place, &mut left);
                continue;
            }
            match find_protected_paths(&place, &**marker) {
                Ok(marked) => marked.hidden.into_iter().for_each(|path| veil.add(path, &mut left)),
                Err(_) => veil.is_torn = true,
            }
        }
        veil
    }

    /// Checks whether a file is one of them.
    #[expect(clippy::useless_conversion, reason = "the widths differ between architectures")]
    pub(super) fn contains(&self, stat: &Stat) -> bool {
        self.is_torn || self.files.contains(&(stat.st_dev.into(), stat.st_ino.into()))
    }

    fn add(&mut self, path: PathBuf, left: &mut usize) {
        let mut all = vec![path];
        while let Some(path) = all.pop() {
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            let Some(less) = left.checked_sub(1) else {
                self.is_torn = true;
                return;
            };
            *left = less;
            if found.is_dir() {
                // A directory that this user cannot list is skipped.
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                all.extend(entries.map(|entry| entry.path()));
            } else if found.nlink() > 1 {
                self.files.insert((found.dev(), found.ino()));
            }
        }
    }
}
