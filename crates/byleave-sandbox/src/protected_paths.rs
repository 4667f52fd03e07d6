//! Finds paths in a directory that must not be read or not be changed. It runs before a command starts, so that the sandbox can
//! hide or protect them.
//!
//! The policy decides which paths those are. The scan follows no symbolic link and changes nothing. A directory that cannot be
//! read, or too many entries, is an error, because an unseen path cannot be hidden.

use std::path::Path;
use std::sync::Arc;

use crate::workspace_index::DirectoryIndex;
pub use crate::workspace_index::{IndexError, MAX_ENTRIES, PathPolicy, ProtectedPaths};

/// Scans a directory and everything beneath it, once. To scan repeatedly, use [`DirectoryIndex`].
pub fn find_protected_paths(root: &Path, marker: &dyn PathPolicy) -> Result<ProtectedPaths, IndexError> {
    DirectoryIndex::new_unwatched(vec![root.to_path_buf()], Some(marker))
        .protected_paths()
        .map(Arc::unwrap_or_clone)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    struct NamePathPolicy;

    impl PathPolicy for NamePathPolicy {
        fn is_hidden(&self, path: &str) -> bool {
            path.ends_with(".env") || path.ends_with("/.ssh")
        }

        fn protects(&self, path: &str) -> bool {
            path.ends_with("/.git/hooks") || path.contains("/.git/hooks/") || path.ends_with("/.git/config")
        }
    }

    // req: E7
    #[test]
    fn what_must_be_hidden_or_held_is_found_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for file in
            ["a/.env", ".git/hooks/x", ".git/hooks/.env", ".git/config", ".git/index", ".ssh/id", "src/m.rs"]
        {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("/", root.join("everything")).unwrap();
        let under = |paths: &[PathBuf]| -> Vec<String> {
            paths.iter().map(|path| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned()).collect()
        };
        let marked = find_protected_paths(root, &NamePathPolicy).unwrap();
        assert_eq!(under(&marked.hidden), [".git/hooks/.env", ".ssh", "a/.env"]);
        assert_eq!(under(&marked.protected), [".git/config", ".git/hooks"]);
        assert!(matches!(
            find_protected_paths(&root.join("nowhere"), &NamePathPolicy),
            Err(IndexError::Unreadable { .. })
        ));
    }
}
