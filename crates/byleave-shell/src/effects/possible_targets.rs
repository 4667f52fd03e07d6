//! Paths and hosts in words whose meaning is not known, and names that are made of other names.

use byleave_core::effect::{Effect, is_at_or_beneath};

use super::command_analyzer::CommandAnalyzer;
use crate::commands::WorkingDir;
use crate::env_var_rules::{is_switch, is_word};
use crate::host::{self, NetworkTarget};
use crate::manual::{OptionValue, ParsedOptions, WordRole};
use crate::word::Word;

/// The directories of installed programs.
const INSTALLED: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/snap"];

/// The first steps of paths that belong to a URL, if the machine has no such directory.
const URL_STEPS: [&str; 14] = [
    "api", "v1", "v2", "v3", "graphql", "rest", "rpc", "auth", "login", "users", "health", "healthz",
    "metrics", "oauth",
];

/// The options that make a program keep the former content of each file that it writes.
const BACKUP_OPTIONS: [&str; 2] = ["--backup", "-b"];

impl CommandAnalyzer<'_> {
    /// Adds the path or host that a word may name: the whole word, or what follows a `=` or `:`.
    ///
    /// Reading such a path is told as a read. Nothing proves that the program writes it, so only rules against the write apply.
    pub(super) fn add_possible_targets(&mut self, text: &str) {
        if let Some(at) = text.find("://") {
            return self.add_possible_url(text, at);
        }
        let equals = text.split_once('=').map(|(_, value)| value);
        let colon = text.split_once(':').map(|(_, value)| value);
        for value in [Some(text), equals, colon].into_iter().flatten() {
            let is_path = value.contains('/') || value.starts_with('~') || self.is_dotted(value);
            if self.is_url_path(value) {
                continue;
            }
            if (is_path || self.exists(value)) && !value.contains(char::is_whitespace) {
                self.add_single_path(WordRole::Read, value);
                self.tentatively(|own| own.add_single_path(WordRole::Write, value));
            }
        }
    }

    /// Checks whether a text is the path of a URL, such as `/api/users`, and the root has no such directory.
    pub(super) fn is_url_path(&self, text: &str) -> bool {
        let first = text.strip_prefix('/').and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let names = || self.env.list_directory("/").filter(|names| !names.is_empty());
        URL_STEPS.contains(&first) && names().is_some_and(|names| !names.iter().any(|name| name == first))
    }

    /// Adds the file that the value of an unknown option may name: `--logfile NAME` and `--logfile=NAME`.
    pub(super) fn add_possible_value(&mut self, before: Option<&Word>, word: &Word) {
        let Some(text) = word.as_text() else { return };
        // `-oNAME`
        if let Some(value) = text.get(2..).filter(|_| text.starts_with('-') && !text.starts_with("--")) {
            self.add_possible_new_file(value);
        }
        let is_option = |text: &str| text.starts_with('-') && !text.trim_start_matches('-').is_empty();
        if let Some((_, value)) = text.split_once('=').filter(|_| is_option(text)) {
            self.add_new_file(value);
        } else if before
            .and_then(Word::as_text)
            .is_some_and(|before| is_option(before) && !before.contains('='))
        {
            self.add_new_file(text);
        }
    }

    /// Adds the file that a word may name although it does not exist yet, if the word looks like the name of a file.
    pub(super) fn add_possible_new_file(&mut self, text: &str) {
        let has_extension = text.rsplit_once('.').is_some_and(|(stem, extension)| {
            !stem.is_empty() && extension.starts_with(|letter: char| letter.is_ascii_alphabetic())
        });
        if has_extension || text.starts_with(|letter: char| letter.is_ascii_uppercase()) {
            self.add_new_file(text);
        }
    }

    /// Adds that a plain name may be a file in the current directory that the program writes. Nothing proves it, so only rules against
    /// the write apply. Outside the project, a rule would have to allow the write, so it is left out there.
    fn add_new_file(&mut self, name: &str) {
        let is_plain = !name.is_empty()
            && !name.starts_with('-')
            && name.chars().all(|letter| letter.is_alphanumeric() || "._-+@".contains(letter));
        let WorkingDir::At(directory) = &self.working_dir else { return };
        if is_plain && self.is_in_project(directory) {
            self.tentatively(|own| own.add_single_path(WordRole::Write, name));
        }
    }

    /// Checks whether a path is in the directory that the session works in, or in the repository around it.
    pub(super) fn is_in_project(&self, path: &str) -> bool {
        let start = self.env.cwd();
        let mut above = Some(start);
        let top = std::iter::from_fn(|| {
            let directory = above?;
            above = directory.rsplit_once('/').map(|(above, _)| above).filter(|above| !above.is_empty());
            Some(directory)
        })
        .find(|directory| {
            let names = self.env.list_directory(directory);
            names.is_some_and(|names| names.iter().any(|name| name == ".git"))
        });
        is_at_or_beneath(path, top.unwrap_or(start))
    }

    /// Adds that code from outside the project runs, if the current directory is outside it and the program runs the code that it finds
    /// there.
    pub(super) fn check_project_directory(&mut self) {
        if let WorkingDir::At(directory) = self.working_dir.clone() {
            self.check_project_path(&directory);
        }
    }

    /// Does the same for a file or directory whose code the program runs.
    pub(super) fn check_project_path(&mut self, path: &str) {
        let is_installed = INSTALLED.iter().any(|directory| is_at_or_beneath(path, directory));
        if self.result.runs_project_code && !is_installed && !self.is_in_project(path) {
            self.add_unknown(format!("it runs the code in `{path}`, which is outside the project"));
        }
    }

    /// Checks for `.`, `..` and the name of a hidden file. `.5` and `...` are something else.
    fn is_dotted(&self, text: &str) -> bool {
        let rest = text.trim_start_matches('.');
        matches!(text, "." | "..")
            || text.starts_with('.')
                && rest.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
    }

    /// Adds the URL around `://`. A prefix such as `sparse+` names a protocol on top of the scheme.
    fn add_possible_url(&mut self, text: &str, at: usize) {
        let (before, rest) = text.split_at(at);
        let scheme = before.rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let scheme = scheme.into_iter().next().filter(|scheme| !scheme.is_empty()).unwrap_or("https");
        self.add_url(&format!("{scheme}{rest}"));
    }

    /// Adds the host of `host.example/path`, unless that is the path of something that exists.
    pub(super) fn add_possible_host(&mut self, text: &str) {
        let Some((name, _)) = text.split_once('/').filter(|_| !text.contains("://")) else { return };
        let is_name = |name: &str| {
            name.rsplit_once('.').is_some_and(|(above, top)| {
                !above.is_empty() && top.len() > 1 && top.bytes().all(|byte| byte.is_ascii_alphabetic())
            })
        };
        if is_name(name.split(':').next().unwrap_or(name))
            && !self.exists(name)
            && let Some(NetworkTarget::Reach(host, port)) = host::parse_host(name, 443)
        {
            self.add(Effect::Reach { host, port });
        }
    }

    /// Adds a setting of a build. It has no effect if its value is a switch, a number or a plain build type. Another value may name a
    /// program or a file with code.
    pub(super) fn add_definition(&mut self, text: &str) {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let kind = name.rsplit_once(':').map_or("", |(_, kind)| kind);
        let name = name.split(':').next().unwrap_or(name);
        if is_switch(value) || PLAIN_SETTINGS.contains(&name) && is_plain_value(value) {
            return;
        }
        self.add_possible_targets(value);
        if !(PATH_SETTINGS.contains(&name) || kind == "STRING" && is_plain_value(value)) {
            self.add_unknown(format!("`{text}` may name a program or a file with code"));
        }
    }

    /// Takes the suffixes from the options. Without a suffix, a copy of the former content has a tilde at its end.
    pub(super) fn set_suffixes(&mut self, parsed: &ParsedOptions<'_>) {
        let mut has_suffix_option = false;
        for (opt, value) in &parsed.options {
            let (OptionValue::Required(role) | OptionValue::Optional(role)) = opt.value else { continue };
            if role != WordRole::Suffix {
                continue;
            }
            has_suffix_option = true;
            match value.as_ref().map(|value| value.as_text()) {
                Some(Some(suffix)) if !suffix.is_empty() => self.suffixes.push(suffix.to_owned()),
                Some(None) => self.add_unknown("the suffix of the files that are made is not known"),
                _ => {}
            }
        }
        if !has_suffix_option && parsed.has(&BACKUP_OPTIONS) && self.makes_backups() {
            self.suffixes.push("~".to_owned());
        }
    }

    /// Checks whether `-b` means a backup here.
    fn makes_backups(&self) -> bool {
        let program = self.canonical_path.first().map(String::as_str);
        matches!(program, Some("cp" | "mv" | "ln" | "install" | "patch" | "rsync"))
    }

    /// Returns the names of the files that are made beside a written one.
    pub(super) fn suffixed_names(&self, text: &str) -> Vec<String> {
        let (folder, name) = text.rsplit_once('/').map_or(("", text), |(folder, name)| (folder, name));
        if name.is_empty() || self.suffixes.is_empty() {
            return Vec::new();
        }
        let beside = |name: &str| {
            if text.contains('/') { format!("{folder}/{name}") } else { name.to_owned() }
        };
        let made = self.suffixes.iter().flat_map(|suffix| {
            // In the suffix of sed, a star stands for the name, and a slash leads elsewhere.
            let filled =
                if suffix.contains('*') { suffix.replace('*', name) } else { format!("{name}{suffix}") };
            let elsewhere = suffix.contains('/').then(|| filled.clone());
            std::iter::once(beside(&filled)).chain(elsewhere)
        });
        made.collect()
    }
}

/// The settings that take a plain word.
const PLAIN_SETTINGS: [&str; 14] = [
    "CMAKE_BUILD_TYPE",
    "CMAKE_CXX_STANDARD",
    "CMAKE_C_STANDARD",
    "CMAKE_CONFIGURATION_TYPES",
    "CMAKE_OSX_ARCHITECTURES",
    "CMAKE_OSX_DEPLOYMENT_TARGET",
    "test",
    "it.test",
    "groups",
    "surefire.failIfNoSpecifiedTests",
    "style.color",
    "revision",
    "buildtype",
    "Configuration",
];

/// The settings that name a directory.
const PATH_SETTINGS: [&str; 4] = [
    "CMAKE_INSTALL_PREFIX",
    "CMAKE_PREFIX_PATH",
    "CMAKE_RUNTIME_OUTPUT_DIRECTORY",
    "CMAKE_LIBRARY_OUTPUT_DIRECTORY",
];

/// Checks for a word of letters, digits and a few marks, which cannot be a path.
fn is_plain_value(value: &str) -> bool {
    is_word(value, "_-.,*#+") && !value.starts_with('.')
}
