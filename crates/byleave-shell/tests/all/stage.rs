//! Shell environments for tests: a fake one, and a real directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use byleave_shell::shell_env::ShellEnv;

/// A fake environment with a few files.
pub(crate) struct FakeShellEnv {
    files: BTreeMap<&'static str, &'static str>,
}

impl Default for FakeShellEnv {
    fn default() -> Self {
        let files = [
            ("/ws/a.txt", ""),
            ("/ws/b.txt", ""),
            ("/ws/.env", ""),
            ("/ws/src/lib.rs", ""),
            ("/ws/src/main.rs", ""),
            ("/ws/x.sh", "rm from-x\n"),
            ("/usr/bin/touch", ""),
            ("/usr/bin/cat", ""),
            ("/outside/secret.txt", ""),
            ("/home/u/.bashrc", ""),
        ];
        Self { files: files.into_iter().collect() }
    }
}

impl ShellEnv for FakeShellEnv {
    fn cwd(&self) -> &str {
        "/ws"
    }
    fn home(&self) -> Option<&str> {
        Some("/home/u")
    }
    fn variable(&self, name: &str) -> Option<String> {
        (name == "TOOL").then(|| "cat".to_owned())
    }
    fn find_program(&self, name: &str) -> Option<String> {
        Some(format!("/usr/bin/{name}"))
    }
    fn resolve(&self, cwd: &str, path: &str) -> Option<String> {
        let whole = if path.starts_with('/') { path.to_owned() } else { format!("{cwd}/{path}") };
        let mut parts = Vec::new();
        for part in whole.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        Some(format!("/{}", parts.join("/")))
    }
    fn list_directory(&self, directory: &str) -> Option<Vec<String>> {
        let prefix = if directory == "/" { "/".to_owned() } else { format!("{directory}/") };
        let mut names: Vec<String> = self
            .files
            .keys()
            .filter_map(|path| path.strip_prefix(&prefix)?.split('/').next().map(str::to_owned))
            .collect();
        names.dedup();
        Some(names)
    }
    fn is_directory(&self, path: &str) -> bool {
        path == "/" || self.files.keys().any(|file| file.starts_with(&format!("{path}/")))
    }
    fn read_script(&self, path: &str) -> Option<String> {
        self.files.get(path).map(|text| (*text).to_owned())
    }
}

/// A real directory.
pub(crate) struct RealShellEnv {
    pub(crate) cwd: String,
    pub(crate) home: String,
    pub(crate) variables: Vec<(&'static str, &'static str)>,
}

impl ShellEnv for RealShellEnv {
    fn cwd(&self) -> &str {
        &self.cwd
    }
    fn home(&self) -> Option<&str> {
        Some(&self.home)
    }
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
    }
    fn find_program(&self, _: &str) -> Option<String> {
        None
    }
    fn resolve(&self, cwd: &str, path: &str) -> Option<String> {
        let whole = Path::new(cwd).join(path);
        let mut rest = PathBuf::new();
        for ancestor in whole.ancestors() {
            if let Ok(real) = fs::canonicalize(ancestor) {
                let tail = whole.strip_prefix(ancestor).ok()?;
                rest = real.join(tail);
                break;
            }
        }
        Some(rest.to_str()?.trim_end_matches('/').to_owned())
            .map(|path| if path.is_empty() { "/".to_owned() } else { path })
    }
    fn list_directory(&self, directory: &str) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).ok()? {
            names.push(entry.ok()?.file_name().into_string().ok()?);
        }
        names.sort();
        Some(names)
    }
    fn is_directory(&self, path: &str) -> bool {
        Path::new(path).is_dir()
    }
    fn read_script(&self, path: &str) -> Option<String> {
        fs::read_to_string(path).ok()
    }
}
