//! What lies in a directory that must not be read, or not be changed: found before a command starts, so that the sandbox can
//! hide or hold it.
//!
//! Which paths those are is for the policy to say; it comes in as a question. Looks, follows no link, and changes nothing. A
//! directory that cannot be looked into, or too much to look at, is an error: what was not seen cannot be hidden.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Entries that are looked at, at most. Beyond that a walk before every command would take longer than the command.
pub const ENTRIES_MAX: usize = 1_000_000;

/// What a policy says of a path.
pub trait Marker {
    /// It must not be read.
    fn hides(&self, path: &str) -> bool;

    /// It must not be changed.
    fn protects(&self, path: &str) -> bool;
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Not to be read; of a directory and what is in it, the directory alone.
    pub hidden: Vec<PathBuf>,
    /// Not to be changed; of a directory and what is in it, the directory alone.
    pub protected: Vec<PathBuf>,
}

/// Why a directory could not be looked through.
#[derive(Debug, thiserror::Error)]
pub enum MarkFault {
    /// Something in it cannot be looked at.
    #[error("cannot look for secrets in `{path}`: {error}; make it readable, or work in another directory", path = path.display())]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A name in it is not text.
    #[error("cannot look for secrets in `{path}`: its name is not readable as text; rename it", path = path.display())]
    NotText {
        /// Where.
        path: PathBuf,
    },
    /// There is too much in it.
    #[error("cannot look for secrets in `{path}`: it has more than {ENTRIES_MAX} files; work in a smaller directory", path = path.display())]
    TooMany {
        /// Where.
        path: PathBuf,
    },
}

/// Looks through a directory and everything beneath it.
pub fn look(root: &Path, marker: &dyn Marker) -> Result<Marked, MarkFault> {
    let mut marked = Marked::default();
    let mut left = vec![(root.to_path_buf(), false)];
    let mut seen = 0_usize;
    while let Some((directory, is_protected)) = left.pop() {
        let unreadable = |error| MarkFault::Unreadable { path: directory.clone(), error };
        for entry in fs::read_dir(&directory).map_err(unreadable)? {
            seen = seen.saturating_add(1);
            if seen > ENTRIES_MAX {
                return Err(MarkFault::TooMany { path: root.to_path_buf() });
            }
            let entry = entry.map_err(unreadable)?;
            let path = entry.path();
            let Some(text) = path.to_str() else { return Err(MarkFault::NotText { path }) };
            if marker.hides(text) {
                marked.hidden.push(path);
                continue;
            }
            // Nothing in a directory that is held need be held by itself, but it may have to be hidden.
            let protects = !is_protected && marker.protects(text);
            if protects {
                marked.protected.push(path.clone());
            }
            if entry.file_type().map_err(unreadable)?.is_dir() {
                left.push((path, is_protected || protects));
            }
        }
    }
    marked.hidden.sort();
    marked.protected.sort();
    Ok(marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ByName;

    impl Marker for ByName {
        fn hides(&self, path: &str) -> bool {
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
        let marked = look(root, &ByName).unwrap();
        assert_eq!(under(&marked.hidden), [".git/hooks/.env", ".ssh", "a/.env"]);
        assert_eq!(under(&marked.protected), [".git/config", ".git/hooks"]);
        assert!(matches!(look(&root.join("nowhere"), &ByName), Err(MarkFault::Unreadable { .. })));
    }
}
