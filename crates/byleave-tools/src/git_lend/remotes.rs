//! Finds the URLs that a call names: in the words of its commands, and as remotes in the settings of the repository.
//!
//! Git is never run in the repository for this. The settings are those of the real repository, not of a copy, so a command cannot change
//! them first. Of the settings, only `url` counts. Settings that would send Git to another place are a reason not to lend anything.

use std::path::{Path, PathBuf};

use byleave_files::{LinkPolicy, read_text};
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::git_transport::GitUrl;

/// The maximum size of a file of settings.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The maximum number of URLs of a call.
const URLS_MAX: usize = 32;

/// The URLs that a call names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NamedUrls {
    /// Each as it is written, and parsed.
    pub(super) urls: Vec<(String, GitUrl)>,
    /// A setting of the repository that sends Git elsewhere.
    pub(super) redirect: Option<String>,
}

impl NamedUrls {
    /// Finds the URLs of a call that runs in this directory.
    pub(super) fn find(plan: &Plan, cwd: &Path) -> Self {
        let mut named = Self::default();
        let mut directories = vec![cwd.to_path_buf()];
        for effect in &plan.effects {
            let Effect::Run { argv, .. } = effect else { continue };
            argv.iter().for_each(|word| named.add(word));
            let is_git = argv.first().is_some_and(|name| name.rsplit('/').next() == Some("git"));
            let chosen = argv.iter().zip(argv.iter().skip(1)).filter(|(option, _)| is_git && *option == "-C");
            directories.extend(chosen.map(|(_, directory)| cwd.join(directory)));
        }
        for directory in directories {
            let Some(settings) = settings_of(&directory) else { continue };
            for file in settings {
                match read_text(&file, LinkPolicy::Never, FILE_BYTES_MAX) {
                    Ok(text) => named.add_settings(&text),
                    Err(error) if error.is_missing() => {}
                    Err(error) => {
                        named.redirect = Some(format!("`{}` cannot be read: {error}", file.display()))
                    }
                }
            }
        }
        named
    }

    fn add(&mut self, text: &str) {
        let is_known = self.urls.iter().any(|(known, _)| known == text);
        if let Some(url) = GitUrl::parse(text).filter(|_| !is_known && self.urls.len() < URLS_MAX) {
            self.urls.push((text.to_owned(), url));
        }
    }

    /// Adds the remotes in the settings of a repository.
    fn add_settings(&mut self, text: &str) {
        let mut section = String::new();
        for line in text.lines().map(str::trim) {
            let Some(setting) = Setting::parse(line, &mut section) else { continue };
            let (kind, key) = (setting.section.split([' ', '.']).next().unwrap_or_default(), setting.key);
            let sends_elsewhere = matches!(
                (kind.to_ascii_lowercase().as_str(), key.to_ascii_lowercase().as_str()),
                ("url", _) | ("include" | "includeif", _) | ("remote", "pushurl" | "vcs" | "proxy")
            );
            if sends_elsewhere || line.ends_with('\\') {
                let setting = format!("{}.{key}", setting.section.replace('"', "")).replace(' ', ".");
                self.redirect =
                    Some(format!("the settings of the repository have `{}`", setting.escape_debug()));
            }
            let names_url = kind.eq_ignore_ascii_case("remote") || kind.eq_ignore_ascii_case("submodule");
            if names_url && key.eq_ignore_ascii_case("url") {
                self.add(setting.value);
            }
        }
    }
}

/// One line of settings.
struct Setting<'a> {
    section: &'a str,
    key: &'a str,
    value: &'a str,
}

impl<'a> Setting<'a> {
    /// Parses a line. A header of a section is remembered, and may have a setting after it.
    fn parse(line: &'a str, section: &'a mut String) -> Option<Self> {
        let mut rest = line;
        if let Some(header) = line.strip_prefix('[') {
            let (name, after) = header.rsplit_once(']')?;
            name.trim().clone_into(section);
            rest = after.trim();
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            return None;
        }
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let value = value.trim();
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        Some(Self { section, key: key.trim(), value })
    }
}

/// Returns the files with the settings of the repository that contains a directory.
fn settings_of(directory: &Path) -> Option<[PathBuf; 2]> {
    directory.ancestors().find_map(|above| {
        let entry = above.join(".git");
        let found = std::fs::symlink_metadata(&entry).ok();
        let git_dir = match found {
            Some(found) if found.is_dir() => entry,
            // A worktree or a submodule: the file names the directory.
            Some(found) if found.is_file() => {
                let text = read_text(&entry, LinkPolicy::Never, FILE_BYTES_MAX).ok()?;
                above.join(text.strip_prefix("gitdir:")?.trim())
            }
            // A bare repository.
            _ if above.join("HEAD").is_file() && above.join("objects").is_dir() => above.to_path_buf(),
            _ => return None,
        };
        let common = read_text(&git_dir.join("commondir"), LinkPolicy::Never, FILE_BYTES_MAX);
        let common = common.map_or_else(|_| git_dir.clone(), |text| git_dir.join(text.trim()));
        Some([common.join("config"), git_dir.join("config.worktree")])
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn found(settings: &str) -> NamedUrls {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(".git")).unwrap();
        fs::create_dir_all(folder.path().join("src")).unwrap();
        fs::write(folder.path().join(".git/config"), settings).unwrap();
        NamedUrls::find(&Plan::default(), &folder.path().join("src"))
    }

    // req: E7
    #[test]
    fn only_the_url_of_a_remote_counts() {
        let plain = "[core]\n\tsshCommand = /tmp/x\n\thooksPath = /tmp\n[credential]\n\thelper = !x\n\
                     [remote \"origin\"]\n\turl = git@git.example:team/app.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                     [Remote \"Two\"] URL = \"https://git.example/two\"\n[branch \"main\"]\n\tremote = origin\n\
                     [submodule \"lib\"]\n\turl = ssh://git.example/lib\n[remote \"local\"]\n\turl = /srv/x\n";
        let named = found(plain);
        assert_eq!(named.redirect, None);
        let texts: Vec<&str> = named.urls.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(
            texts,
            ["git@git.example:team/app.git", "https://git.example/two", "ssh://git.example/lib"]
        );
        for redirect in [
            "[url \"git@git.example:evil/\"]\n\tinsteadOf = git@git.example:team/\n",
            "[url \"x\"]\n\tpushInsteadOf = y\n",
            "[URL \"x\"] insteadof=y\n",
            "[url.x]\n\tinsteadof = y\n",
            "[remote \"origin\"]\n\tpushurl = git@git.example:evil/app.git\n",
            "[remote \"origin\"]\n\tpushURL = x\n",
            "[remote.origin]\n\tpushurl = x\n",
            "[remote \"origin\"]\n\tvcs = ext\n",
            "[include]\n\tpath = ../more\n",
            "[includeIf \"gitdir:/\"]\n\tpath = ../more\n",
            "[remote \"origin\"]\n\turl = git@git.example:a\\\n\tb\n",
        ] {
            let named = found(&format!("{plain}{redirect}"));
            assert!(named.redirect.is_some(), "{redirect}");
        }
    }

    #[test]
    fn a_url_in_the_words_of_a_command_counts() {
        let run = |argv: &[&str]| Effect::Run {
            program: "/usr/bin/git".into(),
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        };
        let effects = vec![run(&["git", "clone", "https://git.example/app", "x"]), run(&["git", "status"])];
        let named = NamedUrls::find(&Plan { effects, ..Plan::default() }, Path::new("/nowhere"));
        assert_eq!(named.urls.len(), 1);
    }
}
