//! The environment of a shell command: this machine, as the command would find it. It must not change anything.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use byleave_files::LinkPolicy;
use byleave_shell::shell_env::ShellEnv;

use crate::hard_links::{HardLinkIndex, has_other_names};
use crate::link_names::LinkIndex;
use crate::path_resolution::resolve;
use crate::tool::ToolContext;

/// The maximum number of names in a listed directory. In a larger one, the matches of a glob are unknown.
const NAMES_MAX: usize = 10_000;
/// The maximum size of a script that is read.
const SCRIPT_BYTES_MAX: u64 = 64 * 1024;

/// This machine, seen from the working directory of a call.
pub(crate) struct LocalShellEnv<'a> {
    context: &'a ToolContext,
    cwd: &'a str,
    home: Option<String>,
    search_path: Vec<PathBuf>,
    /// The files of the project that would run instead of the programs that were found, if they existed.
    shadowing: RefCell<BTreeSet<PathBuf>>,
    hard_links: OnceCell<HardLinkIndex>,
    links: LinkIndex,
}

impl<'a> LocalShellEnv<'a> {
    /// Returns the environment of this process, or `None` if the directory is not valid UTF-8.
    pub(crate) fn for_context(site: &'a ToolContext) -> Option<Self> {
        let path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect());
        let home = std::env::var("HOME").ok().filter(|home| home.starts_with('/'));
        let links = LinkIndex::new(&site.cwd, home.as_deref().map(Path::new));
        Some(Self {
            context: site,
            cwd: site.cwd.to_str()?,
            home,
            search_path: path.unwrap_or_default(),
            shadowing: RefCell::default(),
            hard_links: OnceCell::new(),
            links,
        })
    }

    /// Returns the files of the project that would run instead of the programs that were found, if they existed. A command that is run
    /// later must not find them.
    pub(crate) fn shadowing_files(&self) -> Vec<String> {
        let files = self.shadowing.borrow();
        files.iter().filter_map(|file| file.to_str().map(str::to_owned)).collect()
    }

    /// Returns the topmost directory of the project: the last one above the working directory that does not contain the home directory.
    fn project(&self) -> &Path {
        let home = self.home.as_deref().map(Path::new);
        let own = |directory: &&Path| {
            directory.parent().is_some() && home.is_none_or(|home| !home.starts_with(directory))
        };
        self.context.cwd.ancestors().take_while(own).last().unwrap_or(&self.context.cwd)
    }

    /// Returns the resolved file, if it exists and is executable.
    fn find_executable(path: &Path) -> Option<String> {
        use std::os::unix::fs::PermissionsExt as _;
        let file = fs::canonicalize(path).ok()?;
        let found = fs::metadata(&file).ok()?;
        (found.is_file() && found.permissions().mode() & 0o111 != 0).then_some(())?;
        file.into_os_string().into_string().ok()
    }
}

impl ShellEnv for LocalShellEnv<'_> {
    fn cwd(&self) -> &str {
        self.cwd
    }

    fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }

    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "HOME" => self.home.clone(),
            "PWD" => Some(self.cwd.to_owned()),
            _ => None,
        }
    }

    fn find_program(&self, name: &str) -> Option<String> {
        if name.contains('/') {
            return Self::find_executable(&self.context.cwd.join(name));
        }
        // A relative directory in the search path depends on the command's current directory, which is unknown.
        let project = self.project();
        let directories = self.search_path.iter().take_while(|directory| directory.is_absolute());
        directories.into_iter().find_map(|directory| {
            let file = directory.join(name);
            let found = Self::find_executable(&file);
            if found.is_none() && directory.starts_with(project) {
                self.shadowing.borrow_mut().insert(file);
            }
            found
        })
    }

    fn resolve(&self, cwd: &str, path: &str) -> Option<String> {
        resolve(path, Path::new(cwd)).ok()
    }

    fn list_directory(&self, directory: &str) -> Option<Vec<String>> {
        list_names(Path::new(directory))
    }

    fn is_directory(&self, path: &str) -> bool {
        Path::new(path).is_dir()
    }

    fn read_script(&self, path: &str) -> Option<String> {
        read_script(Path::new(path))
    }

    fn link_target(&self, path: &str) -> Option<String> {
        fs::read_link(path).ok()?.into_os_string().into_string().ok()
    }

    fn other_names(&self, path: &str) -> Vec<String> {
        let path = Path::new(path);
        let mut names = self.links.names_of(path);
        if has_other_names(path) {
            let scan = || HardLinkIndex::scan(&self.context.cwd, self.home.as_deref().map(Path::new));
            names.extend(self.hard_links.get_or_init(scan).other_names(path));
        }
        names.into_iter().filter_map(|name| name.into_os_string().into_string().ok()).collect()
    }
}

/// Returns the sorted names in a directory, or `None` if it cannot be listed in full.
pub(crate) fn list_names(directory: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(directory).ok()?.take(NAMES_MAX + 1);
    let names = entries.map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect::<Option<_>>()?;
    names.sort();
    (names.len() <= NAMES_MAX).then_some(names)
}

/// Reads a script. Returns `None` if it is not a file, too long, or not text. The path is already resolved, so a link on the
/// way means that it has changed, and it is unknown what would run.
pub(crate) fn read_script(path: &Path) -> Option<String> {
    byleave_files::read_text(path, LinkPolicy::Never, SCRIPT_BYTES_MAX).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use byleave_core::id::{AgentId, SessionId};

    #[test]
    fn nearer_programs_of_the_project_are_those_that_do_not_exist_yet() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (project, home) = (root.join("project"), root.join("home"));
        for directory in ["project/sub", "project/near", "project/bin", "home/bin"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let tool = project.join("bin/tool");
        fs::write(&tool, "").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        let context = ToolContext {
            tenant: "t".parse().unwrap(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("a").unwrap(),
            cwd: project.join("sub"),
        };
        let mut env = LocalShellEnv::for_context(&context).unwrap();
        env.home = home.to_str().map(str::to_owned);
        env.search_path = ["project/near", "home/bin", "project/bin"].map(|place| root.join(place)).to_vec();
        assert_eq!(env.find_program("tool").as_deref(), tool.to_str());
        assert_eq!(env.shadowing_files(), [project.join("near/tool").to_str().unwrap()]);
        assert_eq!(env.find_program("none"), None);
        assert_eq!(env.shadowing_files().len(), 3, "{:?}", env.shadowing_files());
    }
}
