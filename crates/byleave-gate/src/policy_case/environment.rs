//! The environment of a case: directories that need not exist, with the files that really exist. It must not change anything.
//!
//! A missing path is used as written, and every program is assumed to be installed. A case describes what to evaluate, not
//! the state of this machine.

use std::fs;
use std::path::{Path, PathBuf};

use byleave_shell::shell_env::ShellEnv;

use crate::hard_links::{HardLinkIndex, has_other_names};
use crate::link_names::LinkIndex;
use crate::local_shell_env::{list_names, read_script};

/// How many links are followed before they are considered a cycle, as in the kernel.
const LINKS_MAX: usize = 40;
/// The directories of programs on any machine.
const SYSTEM_DIRS: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];

/// The environment that a case is evaluated in.
#[derive(Clone, Debug)]
pub struct CaseEnvironment {
    root: PathBuf,
    cwd: String,
    home: Option<String>,
}

impl CaseEnvironment {
    /// Creates an environment with a working directory. Its paths begin at `root`, which is `/` for this machine.
    pub fn new(root: &Path, cwd: &str, home: Option<&str>) -> Self {
        Self { root: root.to_path_buf(), cwd: cwd.to_owned(), home: home.map(str::to_owned) }
    }

    /// Returns the real path for a path of this environment.
    fn to_host_path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Follows every link, as the kernel would. A missing path is used as written.
    fn follow_links(&self, path: &str) -> Option<String> {
        let mut todo: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let mut done: Vec<String> = Vec::new();
        let mut links = 0_usize;
        while let Some(step) = todo.pop() {
            match step.as_str() {
                "" | "." => {}
                ".." => drop(done.pop()),
                _ => {
                    let here = format!("/{}/{step}", done.join("/"));
                    let Ok(target) = fs::read_link(self.to_host_path(&here)) else {
                        done.push(step);
                        continue;
                    };
                    links = links.saturating_add(1);
                    if links > LINKS_MAX {
                        return None;
                    }
                    let target = target
                        .strip_prefix(&self.root)
                        .map_or_else(|_| target.clone(), |inside| Path::new("/").join(inside));
                    let target = target.to_str()?;
                    if target.starts_with('/') {
                        done.clear();
                    }
                    todo.extend(target.split('/').rev().map(str::to_owned));
                }
            }
        }
        Some(format!("/{}", done.join("/")))
    }
}

impl ShellEnv for CaseEnvironment {
    fn cwd(&self) -> &str {
        &self.cwd
    }

    fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }

    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "HOME" => self.home.clone(),
            "PWD" => Some(self.cwd.clone()),
            _ => None,
        }
    }

    fn find_program(&self, name: &str) -> Option<String> {
        if !name.contains('/') {
            return Some(format!("/usr/bin/{name}"));
        }
        let path = self.resolve(&self.cwd, name)?;
        let is_system =
            SYSTEM_DIRS.iter().any(|directory| Path::new(&path).parent() == Some(Path::new(directory)));
        (is_system || self.to_host_path(&path).exists()).then_some(path)
    }

    fn resolve(&self, cwd: &str, path: &str) -> Option<String> {
        if path.is_empty() || path.contains('\0') {
            return None;
        }
        self.follow_links(&if path.starts_with('/') { path.to_owned() } else { format!("{cwd}/{path}") })
    }

    fn list_directory(&self, directory: &str) -> Option<Vec<String>> {
        list_names(&self.to_host_path(&self.follow_links(directory)?))
    }

    fn is_directory(&self, path: &str) -> bool {
        self.follow_links(path).is_some_and(|path| self.to_host_path(&path).is_dir())
    }

    fn read_script(&self, path: &str) -> Option<String> {
        read_script(&self.to_host_path(&self.follow_links(path)?).canonicalize().ok()?)
    }

    fn link_target(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.to_host_path(path)).ok()?;
        let inside = target.strip_prefix(&self.root).map(|inside| Path::new("/").join(inside));
        inside.unwrap_or(target).into_os_string().into_string().ok()
    }

    fn other_names(&self, path: &str) -> Vec<String> {
        let host = self.to_host_path(path);
        let (cwd, home) = (self.to_host_path(&self.cwd), self.home.as_deref());
        let home = home.map(|home| self.to_host_path(home));
        let mut names = LinkIndex::new(&cwd, home.as_deref()).names_of(&host);
        if has_other_names(&host) {
            names.extend(HardLinkIndex::scan(&cwd, home.as_deref()).other_names(&host));
        }
        let inside = |name: PathBuf| Some(format!("/{}", name.strip_prefix(&self.root).ok()?.to_str()?));
        names.into_iter().filter_map(inside).collect()
    }
}
