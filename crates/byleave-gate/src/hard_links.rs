//! Finds the other names of a file: its hard links. It reads the file system and must not change anything.
//!
//! A hard link has no target to resolve, so its name alone says nothing. The search is limited: it covers the project and the hidden files
//! of the home directory, where the files that rules protect are.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The maximum number of entries that one search looks at.
const ENTRIES_MAX: usize = 20_000;

/// Directories that tools fill with many links of their own.
pub(crate) const SKIPPED: [&str; 7] =
    ["node_modules", "target", "objects", ".venv", "venv", ".cache", "site-packages"];

/// The files with several names, by device and inode.
#[derive(Debug, Default)]
pub(crate) struct HardLinkIndex {
    names: HashMap<(u64, u64), Vec<PathBuf>>,
}

impl HardLinkIndex {
    /// Searches the repository around a directory, or the directory itself, and the hidden files of the home directory.
    pub(crate) fn scan(directory: &Path, home: Option<&Path>) -> Self {
        let mut index = Self::default();
        let top = directory.ancestors().find(|above| above.join(".git").exists());
        index.add_tree(VecDeque::from([top.unwrap_or(directory).to_path_buf()]));
        let hidden = home.into_iter().flat_map(list).filter(|path| is_hidden(path));
        index.add_tree(hidden.collect());
        index
    }

    /// Returns the other names of a file.
    pub(crate) fn other_names(&self, path: &Path) -> Vec<PathBuf> {
        let Some(id) = id_of_linked(path) else { return Vec::new() };
        let names = self.names.get(&id).map(Vec::as_slice).unwrap_or_default();
        names.iter().filter(|name| *name != path).cloned().collect()
    }

    fn add_tree(&mut self, mut left: VecDeque<PathBuf>) {
        let mut count = 0_usize;
        while let Some(path) = left.pop_front() {
            count = count.saturating_add(1);
            if count > ENTRIES_MAX {
                return;
            }
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            if found.is_dir() {
                let is_skipped = path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .is_some_and(|name| SKIPPED.contains(&name));
                if !is_skipped {
                    left.extend(list(&path));
                }
            } else if found.is_file() && found.nlink() > 1 {
                self.names.entry((found.dev(), found.ino())).or_default().push(path);
            }
        }
    }
}

/// Checks whether a file has several names.
pub(crate) fn has_other_names(path: &Path) -> bool {
    id_of_linked(path).is_some()
}

fn id_of_linked(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    (found.is_file() && found.nlink() > 1).then(|| (found.dev(), found.ino()))
}

/// Checks whether a name begins with a dot.
pub(crate) fn is_hidden(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with('.'))
}

fn list(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: P4
    #[test]
    fn a_hard_link_has_the_name_of_the_file_that_it_links() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        fs::create_dir_all(top.join("w/.git")).unwrap();
        fs::create_dir_all(top.join("w/sub")).unwrap();
        fs::create_dir_all(top.join("home/.ssh")).unwrap();
        fs::write(top.join("w/.git/config"), "").unwrap();
        fs::write(top.join("home/.ssh/id"), "").unwrap();
        fs::write(top.join("w/plain"), "").unwrap();
        fs::hard_link(top.join("w/.git/config"), top.join("w/notes")).unwrap();
        fs::hard_link(top.join("home/.ssh/id"), top.join("w/sub/n")).unwrap();
        let index = HardLinkIndex::scan(&top.join("w/sub"), Some(&top.join("home")));
        for (name, others) in
            [("w/notes", &["w/.git/config"][..]), ("w/sub/n", &["home/.ssh/id"]), ("w/plain", &[])]
        {
            let wanted: Vec<PathBuf> = others.iter().map(|other| top.join(other)).collect();
            assert_eq!(index.other_names(&top.join(name)), wanted, "{name}");
            assert_eq!(has_other_names(&top.join(name)), !wanted.is_empty(), "{name}");
        }
    }
}
