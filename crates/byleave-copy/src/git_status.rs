//! The Git status of a path. It is read from Git's own files below the copy, so that a command cannot make its work look
//! ignored. This module never runs Git, its hooks or its filters.
//!
//! It reads the index, the `.gitignore` files and `info/exclude`. It does not read the global excludes of the user, because this
//! crate does not know the home directory.
//!
//! An agent can replace each of these files, and they are read outside the sandbox. So `byleave-files` reads each of them, and all
//! of them together are limited. If a limit prevents a read, the answer is the safe one: no repository has the path.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use byleave_core::file_change::{FileChanges, GitStatus};
use byleave_files::{LinkPolicy, ReadError, open, read_text};
use ignore::Match;
use ignore::gitignore::Gitignore;

use crate::copy::WorkspaceCopy;
use crate::diff_scan::{self, ChangedPath};
use crate::git_index::GitIndexNames;
use crate::layers;
use crate::paths;
use crate::patterns;

/// The limit for the bytes of indexes that one listing reads.
const INDEX_BYTES_MAX: u64 = 64 << 20;
/// The limit for the bytes of index names that one listing keeps.
const NAME_BYTES_MAX: usize = 32 << 20;

/// The place of the index in a working tree.
const INDEX: &str = "/.git/index";
/// The most hidden files of one index that are named.
const HIDDEN_MAX: usize = 20;

/// Fills in the Git status of every item.
pub(crate) fn fill_git_status(items: &mut [ChangedPath]) {
    let mut known = GitStatusCache::default();
    for item in items {
        let node = item.change.before.as_ref().or(item.change.after.as_ref());
        let is_directory = diff_scan::is_directory(node);
        item.change.git_status = known.git_status(&item.change.path, is_directory);
    }
}

/// The directories that hold tracked files. Git shows changes there to everybody, so they are no scratch, whatever their names are.
#[derive(Default)]
pub(crate) struct TrackedDirectories {
    known: GitStatusCache,
}

impl TrackedDirectories {
    /// Checks whether the index of its repository has something beneath a directory.
    pub(crate) fn holds_tracked(&mut self, directory: &Path) -> bool {
        let Some(repository) = directory.parent().and_then(|above| self.known.repository(above)) else {
            return false;
        };
        let inside = directory.strip_prefix(&repository.top).ok().and_then(Path::to_str);
        inside.is_some_and(|inside| repository.tracked.contains(inside))
    }
}

impl WorkspaceCopy {
    /// Returns the files whose changes Git would not show any more, because an index on the copy has a flag for them that it did not have.
    /// For an index that can no longer be read, returns the index.
    pub fn hidden_from_git(&self, changes: &FileChanges) -> Vec<String> {
        let mut limits = GitReadLimits::default();
        let mut found = Vec::new();
        for change in changes.list.iter().filter(|change| change.after.is_some()) {
            let Some(top) = change.path.strip_suffix(INDEX) else { continue };
            let Some((number, root)) = self.root_for(Path::new(&change.path)) else { continue };
            let changed = self.path.join(layers::changes_path(root.method, number));
            let before = read_index(Path::new(&change.path), &mut limits);
            let after = read_index(&changed.join(paths::inside(&root.path, &change.path)), &mut limits);
            match (before, after) {
                (Some(_), None) => found.push(change.path.clone()),
                (_, None) => {}
                (before, Some(after)) => {
                    let before = before.unwrap_or_default();
                    let was_hidden: HashSet<&[u8]> = before.hidden_names().collect();
                    let names = after.hidden_names().filter(|name| !was_hidden.contains(name));
                    found.extend(
                        names.take(HIDDEN_MAX).map(|name| format!("{top}/{}", String::from_utf8_lossy(name))),
                    );
                }
            }
        }
        found
    }
}

#[derive(Default)]
struct GitStatusCache {
    limits: GitReadLimits,
    /// By directory: the repository that contains it.
    repositories: HashMap<PathBuf, Option<Rc<GitRepository>>>,
    /// By directory: whether it is ignored, or lies in an ignored one.
    ignored: HashMap<PathBuf, bool>,
    /// By directory: its own patterns.
    patterns: HashMap<PathBuf, IgnorePatterns>,
}

/// The remaining limits for reading and keeping.
struct GitReadLimits {
    index_bytes: u64,
    name_bytes: usize,
    patterns: patterns::PatternBudget,
}

impl Default for GitReadLimits {
    fn default() -> Self {
        Self {
            index_bytes: INDEX_BYTES_MAX,
            name_bytes: NAME_BYTES_MAX,
            patterns: patterns::PatternBudget::default(),
        }
    }
}

struct GitRepository {
    top: PathBuf,
    tracked: GitIndexNames,
    excluded: IgnorePatterns,
}

/// The patterns of one file.
enum IgnorePatterns {
    /// The file does not exist.
    None,
    /// The compiled patterns.
    Known(Gitignore),
    /// The file exists, but was not read or not compiled.
    Unknown,
}

impl GitStatusCache {
    fn git_status(&mut self, path: &str, is_directory: bool) -> GitStatus {
        if path.split('/').any(|name| name == ".git") {
            return GitStatus::Repository;
        }
        let path = Path::new(path);
        let Some(repository) = path.parent().and_then(|above| self.repository(above)) else {
            return GitStatus::Untracked;
        };
        let inside = path.strip_prefix(&repository.top).ok().and_then(Path::to_str).unwrap_or_default();
        if repository.tracked.contains(inside) {
            GitStatus::Tracked
        } else if self.is_ignored(&repository, path, is_directory) {
            GitStatus::Ignored
        } else {
            GitStatus::Untracked
        }
    }

    fn repository(&mut self, directory: &Path) -> Option<Rc<GitRepository>> {
        if let Some(known) = self.repositories.get(directory) {
            return known.clone();
        }
        let found = GitRepository::open(directory, &mut self.limits)
            .map(Rc::new)
            .or_else(|| directory.parent().and_then(|above| self.repository(above)));
        self.repositories.insert(directory.to_owned(), found.clone());
        found
    }

    fn is_ignored(&mut self, repository: &GitRepository, path: &Path, is_directory: bool) -> bool {
        if path == repository.top {
            return false;
        }
        if is_directory && let Some(known) = self.ignored.get(path) {
            return *known;
        }
        // Everything in an ignored directory is ignored, even if a pattern below says otherwise.
        let ignored = path.parent().is_some_and(|above| self.is_ignored(repository, above, true))
            || self.is_matched(repository, path, is_directory);
        if is_directory {
            self.ignored.insert(path.to_owned(), ignored);
        }
        ignored
    }

    fn is_matched(&mut self, repository: &GitRepository, path: &Path, is_directory: bool) -> bool {
        for above in path.ancestors().skip(1).take_while(|above| above.starts_with(&repository.top)) {
            let patterns = self
                .patterns
                .entry(above.to_owned())
                .or_insert_with(|| IgnorePatterns::read(above, &above.join(".gitignore"), &mut self.limits));
            match patterns.match_path(path, is_directory) {
                Match::Ignore(()) => return true,
                Match::Whitelist(()) => return false,
                Match::None => {}
            }
        }
        repository.excluded.match_path(path, is_directory).is_ignore()
    }
}

impl GitRepository {
    fn open(top: &Path, limits: &mut GitReadLimits) -> Option<Self> {
        let entry = top.join(".git");
        let metadata = fs::symlink_metadata(&entry).ok()?;
        let directory = if metadata.is_dir() {
            entry
        } else {
            // A worktree or a submodule: the file names the Git directory. The named path may contain links.
            let text = read_text(&entry, LinkPolicy::Never, patterns::FILE_BYTES_MAX).ok()?;
            top.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?
        };
        let common = read_text(&directory.join("commondir"), LinkPolicy::Never, patterns::FILE_BYTES_MAX)
            .map_or_else(|_| directory.clone(), |text| directory.join(text.trim()));
        let common = common.canonicalize().unwrap_or(common);
        let tracked = read_index(&directory.join("index"), limits).unwrap_or_default();
        let excluded = IgnorePatterns::read(top, &common.join("info/exclude"), limits);
        Some(Self { top: top.to_owned(), tracked, excluded })
    }
}

/// Returns the names in an index, or `None` if they cannot be determined.
fn read_index(index: &Path, limits: &mut GitReadLimits) -> Option<GitIndexNames> {
    let index = open(index, LinkPolicy::Never).ok()?;
    limits.index_bytes = limits.index_bytes.checked_sub(index.metadata.len())?;
    // The limit holds even if the file grows.
    let index = BufReader::new(index.file.take(index.metadata.len()));
    let names = GitIndexNames::parse(index, limits.name_bytes)?;
    limits.name_bytes = limits.name_bytes.saturating_sub(names.byte_len());
    Some(names)
}

impl IgnorePatterns {
    /// Reads the patterns of a file. They are relative to `directory`.
    fn read(directory: &Path, file: &Path, limits: &mut GitReadLimits) -> Self {
        match read_text(file, LinkPolicy::Never, patterns::FILE_BYTES_MAX) {
            Ok(text) => {
                patterns::compile(directory, &text, &mut limits.patterns).map_or(Self::Unknown, Self::Known)
            }
            Err(error) if error.is_missing() => Self::None,
            // Git does not follow such a link either.
            Err(ReadError::Link) => Self::None,
            Err(_) => Self::Unknown,
        }
    }

    /// Matches a path. Unknown patterns mean "not ignored", and override the patterns further up.
    fn match_path(&self, path: &Path, is_directory: bool) -> Match<()> {
        match self {
            Self::None => Match::None,
            Self::Known(patterns) => patterns.matched(path, is_directory).map(|_| ()),
            Self::Unknown => Match::Whitelist(()),
        }
    }
}
