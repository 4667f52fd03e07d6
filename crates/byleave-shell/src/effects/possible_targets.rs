//! Paths and hosts in words whose meaning is not known, and names that are made of other names.

use byleave_core::effect::Effect;

use super::command_analyzer::CommandAnalyzer;
use crate::env_var_rules::{is_switch, is_word};
use crate::host::{self, NetworkTarget};
use crate::manual::{OptionValue, ParsedOptions, WordRole};

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
            if (is_path || self.exists(value)) && !value.contains(char::is_whitespace) {
                self.add_single_path(WordRole::Read, value);
                self.tentatively(|own| own.add_single_path(WordRole::Write, value));
            }
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
