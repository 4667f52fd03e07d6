//! The settings of the program, each with where it comes from.
//!
//! In order: the defaults, which are a commented file in this repository; the person's own file; variables of the environment;
//! flags. What a project says is none of these: it is a bound, which holds for all of them, and it may only tighten. Nothing here
//! reads the environment: it is handed in.

mod file;
mod key;
mod suggestion;
mod value;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use byleave::core::call::Mode;
use byleave::core::policy::PathVariables;
use byleave::policy_files;
use byleave::settings::{GateSettings, UnattendedAction};
use byleave_sandbox::guarantee::Guarantee;

use self::file::FileSetting;
pub(crate) use self::file::{ConfigError, ConfigFile};
use self::key::KEYS;
pub(crate) use self::key::SettingKey;
pub(crate) use self::value::SettingValue;
use crate::args::{AskArg, ColorArg, ModeArg};
use crate::error::CliError;

/// Every setting with its default and what it does.
pub(crate) const DEFAULTS: &str = include_str!("config/defaults.toml");

/// What a file of settings is called, beside the policy file.
const NAME: &str = "config.toml";

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingSource {
    /// It is the default.
    Default,
    /// The person's own file, and the line.
    Own(PathBuf, usize),
    /// The file of a project, and the line.
    Project(PathBuf, usize),
    /// A variable of the environment.
    Variable(String),
    /// It was typed.
    Flag(&'static str),
}

/// How a person is told that a question waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotifySetting {
    /// Not at all.
    Off,
    /// By the terminal.
    Osc9,
    /// By a command, in words; what waits is added.
    Command(Vec<String>),
}

/// A setting as it holds.
#[derive(Clone, Debug)]
pub(crate) struct ConfigValue {
    /// The setting.
    pub(crate) key: &'static SettingKey,
    /// Its value.
    pub(crate) value: SettingValue,
    /// Where that comes from.
    pub(crate) origin: SettingSource,
}

/// The settings.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    held: Vec<ConfigValue>,
    /// What projects say, the strictest of each.
    bounds: Vec<ConfigValue>,
    /// The files that were looked for, and whether each is there.
    pub(crate) files: Vec<(ConfigFile, bool)>,
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Own(path, line) | Self::Project(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Flag(name) => write!(f, "{name}"),
        }
    }
}

impl SettingSource {
    /// What kind of place it is, in a word.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Own(..) => "user",
            Self::Project(..) => "project",
            Self::Variable(_) => "variable",
            Self::Flag(_) => "flag",
        }
    }
}

/// The files that may hold settings for work in these places.
pub(crate) fn files(places: &PathVariables<'_>) -> Vec<ConfigFile> {
    use byleave::core::policy::Layer;
    // Beside the policy files, so that whoever knows the one knows the other.
    let beside = policy_files::files(places, None).into_iter().filter_map(|file| {
        let is_project = match file.layer {
            Layer::User => false,
            Layer::Project => true,
            _ => return None,
        };
        Some(ConfigFile { is_project, path: file.path.with_file_name(NAME) })
    });
    beside.collect()
}

/// Whether a text would do as the person's own file.
pub(crate) fn check(path: &Path, text: &str) -> Result<(), ConfigError> {
    file::parse(path, text, None).map(drop)
}

/// The defaults with every setting commented out: a file to begin with.
pub(crate) fn template() -> String {
    let commented = |line: &str| {
        if line.is_empty() || line.starts_with('#') { format!("{line}\n") } else { format!("# {line}\n") }
    };
    DEFAULTS.lines().map(commented).collect()
}

impl Config {
    /// The defaults alone.
    pub(crate) fn defaults() -> Result<Self> {
        let held = |said: FileSetting| ConfigValue {
            key: said.key,
            value: said.value,
            origin: SettingSource::Default,
        };
        let mut held: Vec<ConfigValue> =
            file::parse(Path::new("defaults.toml"), DEFAULTS, None)?.into_iter().map(held).collect();
        held.sort_by_key(|held| KEYS.iter().position(|key| key.name == held.key.name));
        Ok(Self { held, bounds: Vec::new(), files: Vec::new() })
    }

    /// The settings that these files and variables make.
    pub(crate) fn load(files: Vec<ConfigFile>, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut config = Self::defaults()?;
        let of = |held: &ConfigValue| FileSetting { key: held.key, value: held.value.clone(), line: 0 };
        let defaults: Vec<FileSetting> = config.held.iter().map(of).collect();
        for file in files {
            let read = file::read(&file, &defaults)?;
            let is_there = read.is_some();
            for FileSetting { key, value, line } in read.into_iter().flatten() {
                if file.is_project {
                    config.bound(ConfigValue {
                        key,
                        value,
                        origin: SettingSource::Project(file.path.clone(), line),
                    });
                } else {
                    config.set(key, value, SettingSource::Own(file.path.clone(), line));
                }
            }
            config.files.push((file, is_there));
        }
        for key in KEYS {
            let name = key.variable();
            let Some(text) = variable(&name) else { continue };
            let value = SettingValue::of_text(key.kind, &text).map_err(|(what, todo)| {
                CliError::new(format!("cannot use the variable {name}: {what}")).hint(todo)
            })?;
            config.set(key, value, SettingSource::Variable(name));
        }
        Ok(config)
    }

    /// The same with what was typed.
    pub(crate) fn typed(mut self, name: &str, flag: &'static str, value: Option<SettingValue>) -> Self {
        if let (Some(value), Some(key)) = (value, KEYS.iter().find(|key| key.name == name)) {
            self.set(key, value, SettingSource::Flag(flag));
        }
        self
    }

    /// The same in the mode that was typed.
    pub(crate) fn in_mode(self, typed: Option<ModeArg>) -> Self {
        let word = |mode| SettingValue::Text(Mode::from(mode).word().to_owned());
        self.typed("mode", "--mode", typed.map(word))
    }

    /// The same with the time that was typed.
    pub(crate) fn within(self, timeout_ms: Option<u64>) -> Self {
        self.typed("call_timeout", "--timeout-ms", timeout_ms.map(SettingValue::Span))
    }

    /// The settings as they hold, bounds and all.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ConfigValue> {
        self.held.iter().map(|held| self.bounded(held))
    }

    /// The setting of a name, as it holds.
    pub(crate) fn held(&self, name: &str) -> Option<&ConfigValue> {
        self.held.iter().find(|held| held.key.name == name).map(|held| self.bounded(held))
    }

    /// What somebody said and a project tightened.
    pub(crate) fn tightened(&self) -> impl Iterator<Item = (&ConfigValue, &ConfigValue)> {
        let said =
            |held: &&ConfigValue| matches!(held.origin, SettingSource::Flag(_) | SettingSource::Variable(_));
        self.held.iter().filter(said).filter_map(|held| {
            let holds = self.bounded(held);
            (holds.origin != held.origin).then_some((held, holds))
        })
    }

    fn set(&mut self, key: &'static SettingKey, value: SettingValue, origin: SettingSource) {
        if let Some(held) = self.held.iter_mut().find(|held| held.key.name == key.name) {
            *held = ConfigValue { key, value, origin };
        }
    }

    fn bound(&mut self, bound: ConfigValue) {
        match self.bounds.iter_mut().find(|held| held.key.name == bound.key.name) {
            None => self.bounds.push(bound),
            // Of two projects, one in the other, the stricter; where there is no strictness, the inner one.
            Some(there) if bound.key.project == key::ProjectOverride::Free => *there = bound,
            Some(there) if bound.key.is_tighter(&bound.value, &there.value) => *there = bound,
            Some(_) => {}
        }
    }

    fn bounded<'a>(&'a self, held: &'a ConfigValue) -> &'a ConfigValue {
        let bound = self.bounds.iter().find(|bound| bound.key.name == held.key.name);
        let counts = |bound: &&ConfigValue| match held.key.project {
            // What only shows is set by a project where nobody else said anything.
            key::ProjectOverride::Free => held.origin == SettingSource::Default,
            _ => held.key.is_tighter(&bound.value, &held.value),
        };
        bound.filter(counts).unwrap_or(held)
    }

    fn text(&self, name: &str) -> &str {
        match self.held(name).map(|held| &held.value) {
            Some(SettingValue::Text(text)) => text,
            _ => "",
        }
    }

    fn number(&self, name: &str) -> u64 {
        match self.held(name).map(|held| &held.value) {
            Some(SettingValue::Number(number) | SettingValue::Span(number)) => *number,
            _ => 0,
        }
    }

    fn words(&self, name: &str) -> &[String] {
        match self.held(name).map(|held| &held.value) {
            Some(SettingValue::Words(words)) => words,
            _ => &[],
        }
    }

    /// How much is asked.
    pub(crate) fn mode(&self) -> Mode {
        let all = Mode::ALL.into_iter().chain([Mode::ReadOnly]);
        let word = self.text("mode");
        // A word that is none of these cannot have been read.
        all.into_iter().find(|mode| mode.word() == word).unwrap_or(Mode::ConfirmAll)
    }

    /// Where questions go, where someone said so.
    pub(crate) fn ask(&self) -> Option<AskArg> {
        match self.text("ask") {
            "auto" => None,
            "terminal" => Some(AskArg::Terminal),
            "inbox" => Some(AskArg::Inbox),
            _ => Some(AskArg::None),
        }
    }

    /// When to use colour.
    pub(crate) fn color(&self) -> ColorArg {
        match self.text("color") {
            "always" => ColorArg::Always,
            "never" => ColorArg::Never,
            _ => ColorArg::Auto,
        }
    }

    /// The editor that was chosen here, in words; none where the environment says.
    pub(crate) fn editor(&self) -> Vec<String> {
        self.text("editor").split_whitespace().map(str::to_owned).collect()
    }

    /// How long a question must be looked at, in percent of what is usual.
    pub(crate) fn dwell_percent(&self) -> u32 {
        u32::try_from(self.number("dwell_percent")).unwrap_or(u32::MAX)
    }

    /// How a person is told that a question waits.
    pub(crate) fn notify(&self) -> NotifySetting {
        match self.text("notify") {
            "osc9" => NotifySetting::Osc9,
            "command" => NotifySetting::Command(self.words("notify_command").to_vec()),
            _ => NotifySetting::Off,
        }
    }

    /// Where the book is kept, where someone said so.
    pub(crate) fn state(&self) -> Option<PathBuf> {
        Some(self.text("state")).filter(|dir| !dir.is_empty()).map(PathBuf::from)
    }

    /// Guarantees that commands run without.
    pub(crate) fn waived(&self) -> BTreeSet<Guarantee> {
        self.words("waive").iter().filter_map(|name| Guarantee::named(name)).collect()
    }

    /// `delete_file` is among the tools.
    pub(crate) fn allow_delete(&self) -> bool {
        self.held("allow_delete").is_some_and(|held| held.value == SettingValue::Flag(true))
    }

    /// MCP clients that can show a form are asked to.
    pub(crate) fn mcp_elicitation(&self) -> bool {
        self.held("mcp_elicitation").is_some_and(|held| held.value == SettingValue::Flag(true))
    }

    /// What a gate is told.
    pub(crate) fn gate(&self) -> GateSettings {
        let mut settings = GateSettings::default();
        settings.limits.question_ms = self.number("question_expiry");
        settings.limits.timeout_ms = self.number("call_timeout");
        settings.limits.output_bytes = self.number("output_bytes");
        settings.limits.kept_bytes = self.number("kept_bytes");
        settings.approver_timeout = Duration::from_millis(self.number("approver_timeout"));
        settings.questions_per_minute = u32::try_from(self.number("questions_per_minute")).unwrap_or(1);
        settings.unattended = match self.text("unattended") {
            "allow-with-warning" => UnattendedAction::AllowWithWarning,
            _ => UnattendedAction::Refuse,
        };
        settings
    }
}

#[cfg(test)]
mod tests;
