//! Remotes of a repository that are directories of this machine. Git reads and writes their files itself, without a host.
//!
//! The settings of the repository name them. A setting can lead Git elsewhere, but then the sandbox has nothing there: only the named
//! directory is granted.

use byleave_core::effect::Effect;

use super::command_analyzer::CommandAnalyzer;
use crate::manual::WordRole;

/// The directories of a repository that a push writes. Its settings and hooks are not among them.
const PUSHED_TO: [&str; 2] = ["objects", "refs"];

impl CommandAnalyzer<'_> {
    /// Adds a repository that is a directory: a program reads it, and a push writes its objects and refs.
    pub(super) fn add_local_repository(&mut self, text: &str) {
        self.add_path(WordRole::Read, text);
        self.uses_local_repository = true;
        let Some(directory) = self.facts.targets.last().cloned().filter(|_| self.sends) else { return };
        // A repository with a working tree keeps its own in `.git`.
        let inner = format!("{directory}/.git");
        let directory = if self.env.is_directory(&inner) { inner } else { directory };
        for name in PUSHED_TO {
            self.add_path_effect(Effect::Write { path: format!("{directory}/{name}") }, true);
        }
    }

    /// Returns the directory that a remote names in the settings of the repository.
    pub(super) fn local_remote(&self, name: &str) -> Option<String> {
        let root = self.repository_root()?;
        let settings = self.env.read_script(&format!("{root}/.git/config"))?;
        let mut urls = remote_urls(&settings, name);
        let url = urls.next().filter(|_| urls.next().is_none())?;
        let path = url.strip_prefix("file://").unwrap_or(&url);
        let is_path = path.starts_with('/') || path.starts_with("./") || path.starts_with("../");
        let is_plain = !path.contains(['"', '\\', '#', ';', ':']);
        // Git starts at the top of the working tree.
        (is_path && is_plain).then(|| match path.strip_prefix('/') {
            Some(_) => path.to_owned(),
            None => format!("{root}/{path}"),
        })
    }

    /// Returns the directory of the remote, if Git has only this one to choose from.
    pub(super) fn only_local_remote(&self) -> Option<String> {
        if self.facts.program != "git" {
            return None;
        }
        let root = self.repository_root()?;
        let settings = self.env.read_script(&format!("{root}/.git/config"))?;
        let mut names = settings.lines().filter_map(|line| {
            line.trim()
                .strip_prefix("[remote \"")
                .and_then(|rest| rest.strip_suffix("\"]"))
                .map(str::to_owned)
        });
        let name = names.next()?;
        names.all(|other| other == name).then(|| self.local_remote(&name))?
    }
}

/// Returns the URLs of a remote, as the settings write them. A section or a value that is written in an unusual way is left out.
fn remote_urls(settings: &str, name: &str) -> impl Iterator<Item = String> {
    let header = format!("[remote \"{name}\"]");
    let mut is_own = false;
    let mut urls = Vec::new();
    for line in settings.lines().map(str::trim) {
        if line.starts_with('[') {
            is_own = line == header;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_own) {
            let key = key.trim().to_ascii_lowercase();
            if key == "url" || key == "pushurl" {
                urls.push(value.trim().to_owned());
            }
        }
    }
    urls.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_urls_of_the_named_remote_are_found() {
        let settings = "[core]\n\turl = x\n[remote \"origin\"]\n\turl = /srv/a.git\n\tfetch = +refs/*\n[remote \"two\"]\n\tURL = ../b\n\tpushurl = /c\n";
        let found = |name: &str| remote_urls(settings, name).collect::<Vec<_>>();
        assert_eq!(found("origin"), ["/srv/a.git"]);
        assert_eq!(found("two"), ["../b", "/c"]);
        assert!(found("three").is_empty());
    }
}
