//! The scene of a command: this machine, as the command would find it. Looks, and changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use byleave_files::LinkPolicy;
use byleave_shell::shell_env::ShellEnv;

use crate::path_resolution::resolve;
use crate::tool::ToolContext;

/// A directory with more names than this is not listed: what a glob would find there cannot be told.
const NAMES_MAX: usize = 10_000;
/// A script longer than this is not read.
const SCRIPT_BYTES_MAX: u64 = 64 * 1024;

/// This machine, seen from where a call works.
pub(crate) struct LocalShellEnv<'a> {
    site: &'a ToolContext,
    cwd: &'a str,
    home: Option<String>,
    path: Vec<PathBuf>,
}

impl<'a> LocalShellEnv<'a> {
    /// The machine as this process finds it; `None` where the directory has no readable name.
    pub(crate) fn at(site: &'a ToolContext) -> Option<Self> {
        let path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect());
        let home = std::env::var("HOME").ok().filter(|home| home.starts_with('/'));
        Some(Self { site, cwd: site.cwd.to_str()?, home, path: path.unwrap_or_default() })
    }

    /// The file itself, if it is there and may be run.
    fn runnable(path: &Path) -> Option<String> {
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

    fn program(&self, name: &str) -> Option<String> {
        if name.contains('/') {
            return Self::runnable(&self.site.cwd.join(name));
        }
        // A relative directory in the search path leads wherever the command has gone to: nobody can say where.
        let directories = self.path.iter().take_while(|directory| directory.is_absolute());
        directories.into_iter().find_map(|directory| Self::runnable(&directory.join(name)))
    }

    fn resolve(&self, cwd: &str, path: &str) -> Option<String> {
        resolve(path, Path::new(cwd)).ok()
    }

    fn list(&self, directory: &str) -> Option<Vec<String>> {
        names_in(Path::new(directory))
    }

    fn is_directory(&self, path: &str) -> bool {
        Path::new(path).is_dir()
    }

    fn text(&self, path: &str) -> Option<String> {
        script_at(Path::new(path))
    }
}

/// The names in a directory, sorted; `None` where it cannot be listed in full.
pub(crate) fn names_in(directory: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(directory).ok()?.take(NAMES_MAX + 1);
    let names = entries.map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect::<Option<_>>()?;
    names.sort();
    (names.len() <= NAMES_MAX).then_some(names)
}

/// The text of a script; `None` where it is no file, too long, or no text. The path is resolved, so that a link on the way is not the
/// one that was resolved: then nobody can say what would run.
pub(crate) fn script_at(path: &Path) -> Option<String> {
    byleave_files::read_text(path, LinkPolicy::Never, SCRIPT_BYTES_MAX).ok()
}
