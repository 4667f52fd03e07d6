//! What the repository that a path lies in knows of it: read from git's own files as they are below the copy, so that a command
//! cannot make its work look ignored. Never runs git, its hooks or its filters.
//!
//! Read are the index, the `.gitignore` files and `info/exclude`. The person's global excludes are not: this crate knows no home.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use byleave_core::change::Standing;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::index;
use crate::list::{self, Item};

/// Fills in the standing of every item.
pub(crate) fn tell(items: &mut [Item]) {
    let mut known = Known::default();
    for item in items {
        let node = item.change.before.as_ref().or(item.change.after.as_ref());
        let is_directory = list::is_directory(node);
        item.change.standing = known.standing(&item.change.path, is_directory);
    }
}

#[derive(Default)]
struct Known {
    /// By directory: the repository that it lies in.
    repositories: HashMap<PathBuf, Option<Rc<Repository>>>,
    /// By directory: whether it is ignored, or lies in one that is.
    ignored: HashMap<PathBuf, bool>,
    /// By directory: the patterns that it has.
    patterns: HashMap<PathBuf, Option<Rc<Gitignore>>>,
}

struct Repository {
    top: PathBuf,
    tracked: HashSet<String>,
    excluded: Gitignore,
}

impl Known {
    fn standing(&mut self, path: &str, is_directory: bool) -> Standing {
        if path.split('/').any(|name| name == ".git") {
            return Standing::Repository;
        }
        let path = Path::new(path);
        let Some(repository) = path.parent().and_then(|above| self.repository(above)) else {
            return Standing::Untracked;
        };
        let inside = path.strip_prefix(&repository.top).ok().and_then(Path::to_str).unwrap_or_default();
        if repository.tracked.contains(inside) {
            Standing::Tracked
        } else if self.is_ignored(&repository, path, is_directory) {
            Standing::Ignored
        } else {
            Standing::Untracked
        }
    }

    fn repository(&mut self, directory: &Path) -> Option<Rc<Repository>> {
        if let Some(known) = self.repositories.get(directory) {
            return known.clone();
        }
        let found = Repository::at(directory)
            .map(Rc::new)
            .or_else(|| directory.parent().and_then(|above| self.repository(above)));
        self.repositories.insert(directory.to_owned(), found.clone());
        found
    }

    fn is_ignored(&mut self, repository: &Repository, path: &Path, is_directory: bool) -> bool {
        if path == repository.top {
            return false;
        }
        if is_directory && let Some(known) = self.ignored.get(path) {
            return *known;
        }
        // What lies in an ignored directory is ignored, whatever a pattern below says.
        let ignored = path.parent().is_some_and(|above| self.is_ignored(repository, above, true))
            || self.is_matched(repository, path, is_directory);
        if is_directory {
            self.ignored.insert(path.to_owned(), ignored);
        }
        ignored
    }

    fn is_matched(&mut self, repository: &Repository, path: &Path, is_directory: bool) -> bool {
        for above in path.ancestors().skip(1).take_while(|above| above.starts_with(&repository.top)) {
            let patterns = self
                .patterns
                .entry(above.to_owned())
                .or_insert_with(|| patterns(above, &above.join(".gitignore")).map(Rc::new));
            match patterns.as_ref().map(|patterns| patterns.matched(path, is_directory)) {
                Some(Match::Ignore(_)) => return true,
                Some(Match::Whitelist(_)) => return false,
                Some(Match::None) | None => {}
            }
        }
        repository.excluded.matched(path, is_directory).is_ignore()
    }
}

impl Repository {
    fn at(top: &Path) -> Option<Self> {
        let entry = top.join(".git");
        let metadata = fs::symlink_metadata(&entry).ok()?;
        let directory = if metadata.is_dir() {
            entry
        } else {
            // A worktree or a submodule: a file that says where.
            let text = fs::read_to_string(&entry).ok()?;
            top.join(text.strip_prefix("gitdir:")?.trim())
        };
        let common = fs::read_to_string(directory.join("commondir"))
            .map_or_else(|_| directory.clone(), |text| directory.join(text.trim()));
        let mut tracked = HashSet::new();
        let names = fs::read(directory.join("index")).ok().and_then(|bytes| index::names(&bytes));
        for name in names.unwrap_or_default() {
            let mut above = name.as_str();
            while let Some((directory, _)) = above.rsplit_once('/') {
                if !tracked.insert(directory.to_owned()) {
                    break;
                }
                above = directory;
            }
            tracked.insert(name);
        }
        let excluded = patterns(top, &common.join("info/exclude")).unwrap_or_else(Gitignore::empty);
        Some(Self { top: top.to_owned(), tracked, excluded })
    }
}

/// The patterns of a file, which count from a directory. A line that is none counts for nothing.
fn patterns(directory: &Path, file: &Path) -> Option<Gitignore> {
    if !fs::symlink_metadata(file).ok()?.is_file() {
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    let mut builder = GitignoreBuilder::new(directory);
    for line in text.lines() {
        // Whether it was understood or not, the others still count.
        if builder.add_line(None, line).is_err() {
            continue;
        }
    }
    builder.build().ok()
}
