//! Finds the symbolic links that lead to a file: names by which rules may guard it. It reads the file system and must not change anything.
//!
//! A path is resolved before it is judged, so a rule about `.env` does not see `config/real` although `.env` is a link to it. The search is
//! limited: it covers the directories above the file and above the working directory, the hidden directories beside these, the hidden files
//! of the home directory, and the rest of a repository that has few directories. It does not look into `.git`, where Git makes no links.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use crate::hard_links::{SKIPPED, is_hidden};

/// The maximum number of directories and links that one search looks at.
const DIRECTORIES_MAX: usize = 400;

/// A symbolic link and where it leads.
#[derive(Clone, Debug)]
struct Link {
    name: PathBuf,
    target: PathBuf,
}

/// The symbolic links near a working directory. Each directory is read at most once.
#[derive(Debug)]
pub(crate) struct LinkIndex {
    cwd: PathBuf,
    top: PathBuf,
    home: Option<PathBuf>,
    found: OnceCell<Vec<Link>>,
    directories: RefCell<HashMap<PathBuf, Vec<Link>>>,
}

impl LinkIndex {
    /// Creates an index, which reads nothing yet.
    pub(crate) fn new(cwd: &Path, home: Option<&Path>) -> Self {
        let top = cwd.ancestors().find(|above| above.join(".git").exists()).unwrap_or(cwd);
        Self {
            cwd: cwd.to_path_buf(),
            top: top.to_path_buf(),
            home: home.map(Path::to_path_buf),
            found: OnceCell::new(),
            directories: RefCell::default(),
        }
    }

    /// Returns the names that lead to a resolved path by a symbolic link.
    pub(crate) fn names_of(&self, path: &Path) -> Vec<PathBuf> {
        let mut names = Vec::new();
        let mut add = |links: &[Link]| {
            for link in links {
                let Ok(rest) = path.strip_prefix(&link.target) else { continue };
                let name = if rest.as_os_str().is_empty() { link.name.clone() } else { link.name.join(rest) };
                if name != path && !names.contains(&name) {
                    names.push(name);
                }
            }
        };
        add(self.found.get_or_init(|| self.find_links()));
        let mut directories = self.directories.borrow_mut();
        let above = path.ancestors().skip(1).take_while(|above| above.starts_with(&self.top));
        for directory in above.chain(self.above_cwd()) {
            let known = directories.entry(directory.to_path_buf());
            add(known.or_insert_with(|| list_links(directory, &self.cwd)));
        }
        names
    }

    /// Returns the directories from the working directory up to the top of its repository.
    fn above_cwd(&self) -> impl Iterator<Item = &Path> {
        self.cwd.ancestors().take_while(|above| above.starts_with(&self.top))
    }

    /// Finds the links in hidden directories first: beside the working directory and above it, and in the home directory. Then those in the
    /// whole repository, from the top down, as far as the limit allows.
    fn find_links(&self) -> Vec<Link> {
        let home = self.home.as_deref().filter(|home| *home != self.top);
        let mut links: Vec<Link> = home.map(|home| list_links(home, &self.cwd)).unwrap_or_default();
        let beside = self.above_cwd().chain(home).flat_map(directories_in);
        let mut left: VecDeque<PathBuf> = beside.filter(|path| is_hidden(path)).collect();
        left.push_back(self.top.clone());
        let mut seen: HashSet<PathBuf> = left.iter().cloned().collect();
        let mut count = 0_usize;
        while let Some(directory) = left.pop_front() {
            let found = list_links(&directory, &self.cwd);
            let inner: Vec<PathBuf> = directories_in(&directory).collect();
            count = count.saturating_add(found.len()).saturating_add(inner.len()).saturating_add(1);
            links.extend(found);
            if count > DIRECTORIES_MAX {
                return links;
            }
            left.extend(inner.into_iter().filter(|path| seen.insert(path.clone())));
        }
        links
    }
}

/// Returns the links in a directory. A link to a directory around the working directory names everything, so it names nothing.
fn list_links(directory: &Path, cwd: &Path) -> Vec<Link> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let links = links.filter_map(|entry| {
        let name = entry.path();
        let target = fs::canonicalize(&name).ok()?;
        (!cwd.starts_with(&target) && !name.starts_with(&target)).then_some(Link { name, target })
    });
    links.collect()
}

/// Returns the directories in a directory, except those that tools fill with links of their own, and `.git`.
fn directories_in(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name != ".git" && !SKIPPED.contains(&name))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    // req: P4
    #[test]
    fn a_file_has_the_names_of_the_links_that_lead_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for directory in
            ["w/.git", "w/sub/deep", "w/config", "w/.github/workflows", "home/.config/git", "home/dots"]
        {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        for file in [
            "w/config/real",
            "w/config/ci.yml",
            "w/config/other",
            "w/sub/deep/a",
            "home/dots/gitconfig",
            "w/plain",
        ] {
            fs::write(top.join(file), "").unwrap();
        }
        let link = |target: &str, name: &str| symlink(target, top.join(name)).unwrap();
        link("config/real", "w/.env");
        link("../../config/ci.yml", "w/.github/workflows/ci.yml");
        link("../config/other", "w/sub/.env");
        link("deep", "w/sub/.vscode");
        link("../../dots/gitconfig", "home/.config/git/config");
        link("dots/gitconfig", "home/.gitconfig");
        // These lead to everything or nowhere.
        link("..", "w/.github/top");
        link("nowhere", "w/.bashrc");
        link(".loop", "w/.loop");
        let index = LinkIndex::new(&top.join("w/sub"), Some(&top.join("home")));
        for (path, others) in [
            ("w/config/real", &["w/.env"][..]),
            ("w/config/ci.yml", &["w/.github/workflows/ci.yml"]),
            ("w/config/other", &["w/sub/.env"]),
            ("w/sub/deep/a", &["w/sub/.vscode/a"]),
            ("home/dots/gitconfig", &["home/.gitconfig", "home/.config/git/config"]),
            ("w/plain", &[]),
        ] {
            let wanted: Vec<PathBuf> = others.iter().map(|other| top.join(other)).collect();
            assert_eq!(index.names_of(&top.join(path)), wanted, "{path}");
        }
    }
}
