//! The settings of the program, each with its origin.
//!
//! In order: the defaults, which are a commented file in this repository; the organisation's file; the person's own file; environment
//! variables; flags. A project's file is a bound on all of them and can only tighten. The reviewers of the organisation and of the
//! person all apply; a project has none. Nothing here reads the environment; the caller passes it in.

mod file;
mod file_path;
mod key;
mod problems;
mod reviewer;
mod reviewer_parser;
pub(crate) mod suggestion;
mod value;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use byleave_gate::core::call::Mode;
use byleave_gate::core::challenge::ChallengeTiming;
use byleave_gate::core::policy::{Layer, PathVariables};
use byleave_gate::policy_files;
use byleave_gate::schema::JsonLimits;
use byleave_gate::settings::{GateSettings, UnattendedAction};
use byleave_sandbox::guarantee::Guarantee;

pub(crate) use self::file::ConfigError;
use self::file::{FileContents, FileSetting, ParseContext};
pub(crate) use self::file_path::ConfigFile;
use self::key::KEYS;
pub(crate) use self::key::SettingKey;
pub(crate) use self::reviewer::{ReviewerKind, ReviewerSetting};
pub(crate) use self::value::SettingValue;
use crate::args::{AskArg, ColorArg, ModeArg};
use crate::error::CliError;
use crate::run_on::RunOn;

/// Every setting with its default and its description.
pub(crate) const DEFAULTS: &str = include_str!("config/defaults.toml");

/// The name of a settings file, beside the policy file.
const NAME: &str = "config.toml";

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingSource {
    /// The default.
    Default,
    /// The file of the organisation, and the line.
    Organisation(PathBuf, usize),
    /// The person's own file, and the line.
    User(PathBuf, usize),
    /// The file of a project, and the line.
    Project(PathBuf, usize),
    /// An environment variable.
    Variable(String),
    /// A flag on the command line.
    Flag(&'static str),
}

/// How a person is notified of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotifySetting {
    /// Not at all.
    Off,
    /// On the desktop, if there is one, else by the terminal.
    Auto,
    /// By a terminal sequence.
    Osc9,
    /// By a command and its arguments. A description of the question is appended.
    Command(Vec<String>),
}

/// A setting in force.
#[derive(Clone, Debug)]
pub(crate) struct ConfigValue {
    /// The setting.
    pub(crate) key: &'static SettingKey,
    /// Its value.
    pub(crate) value: SettingValue,
    /// The origin of the value.
    pub(crate) origin: SettingSource,
}

/// The settings.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    held: Vec<ConfigValue>,
    /// The bounds of projects, the strictest of each.
    bounds: Vec<ConfigValue>,
    reviewers: Vec<ReviewerSetting>,
    /// The files that were searched, and whether each exists.
    pub(crate) files: Vec<(ConfigFile, bool)>,
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Organisation(path, line) | Self::User(path, line) | Self::Project(path, line) => {
                write!(f, "{}:{line}", path.display())
            }
            Self::Variable(name) => write!(f, "${name}"),
            Self::Flag(name) => write!(f, "{name}"),
        }
    }
}

impl SettingSource {
    /// Returns the kind of the origin as a word.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Organisation(..) => "organisation",
            Self::User(..) => "user",
            Self::Project(..) => "project",
            Self::Variable(_) => "variable",
            Self::Flag(_) => "flag",
        }
    }
}

/// Returns the files that may contain settings for work in these directories.
pub(crate) fn files(places: &PathVariables<'_>) -> Vec<ConfigFile> {
    // Beside the policy files, so that both are easy to find.
    let beside = policy_files::candidate_files(places, None).into_iter();
    beside.map(|file| ConfigFile { layer: file.layer, path: file.path.with_file_name(NAME) }).collect()
}

/// Checks whether a text is valid as the person's own file, beside the reviewers of the organisation.
pub(crate) fn check(path: &Path, text: &str, organisation: &[ReviewerSetting]) -> Result<(), ConfigError> {
    let known = ParseContext { reviewers: organisation, ..ParseContext::default() };
    file::parse(&own_file(path), text, known).map(drop)
}

fn own_file(path: &Path) -> ConfigFile {
    ConfigFile { layer: Layer::User, path: path.to_path_buf() }
}

/// Returns the defaults with every setting commented out, as a template.
pub(crate) fn template() -> String {
    let commented = |line: &str| {
        if line.is_empty() || line.starts_with('#') { format!("{line}\n") } else { format!("# {line}\n") }
    };
    DEFAULTS.lines().map(commented).collect()
}

impl Config {
    /// Returns the defaults alone.
    pub(crate) fn defaults() -> Result<Self> {
        let held = |said: FileSetting| ConfigValue {
            key: said.key,
            value: said.value,
            origin: SettingSource::Default,
        };
        let defaults = file::parse(&own_file(Path::new("defaults.toml")), DEFAULTS, ParseContext::default())?;
        let mut held: Vec<ConfigValue> = defaults.settings.into_iter().map(held).collect();
        held.sort_by_key(|held| KEYS.iter().position(|key| key.name == held.key.name));
        Ok(Self { held, bounds: Vec::new(), reviewers: defaults.reviewers, files: Vec::new() })
    }

    /// Loads the settings from these files and variables.
    pub(crate) fn load(files: Vec<ConfigFile>, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut config = Self::defaults()?;
        let of = |held: &ConfigValue| FileSetting { key: held.key, value: held.value.clone(), line: 0 };
        let defaults: Vec<FileSetting> = config.held.iter().map(of).collect();
        for file in files {
            let read = file::read(&file, ParseContext { defaults: &defaults, reviewers: &config.reviewers })?;
            let is_there = read.is_some();
            let FileContents { settings, reviewers } = read.unwrap_or_default();
            config.reviewers.extend(reviewers);
            for FileSetting { key, value, line } in settings {
                let path = file.path.clone();
                match file.layer {
                    Layer::Project => {
                        config.bound(ConfigValue { key, value, origin: SettingSource::Project(path, line) });
                    }
                    Layer::Organisation => config.set(key, value, SettingSource::Organisation(path, line)),
                    _ => config.set(key, value, SettingSource::User(path, line)),
                }
            }
            config.files.push((file, is_there));
        }
        for key in KEYS {
            let name = key.variable();
            let Some(text) = variable(&name) else { continue };
            let value = SettingValue::from_text(key.kind, &text).map_err(|(what, todo)| {
                CliError::new(format!("cannot use the variable {name}: {what}")).hint(todo)
            })?;
            config.set(key, value, SettingSource::Variable(name));
        }
        Ok(config)
    }

    /// Applies a value from the command line.
    pub(crate) fn with_flag(mut self, name: &str, flag: &'static str, value: Option<SettingValue>) -> Self {
        if let (Some(value), Some(key)) = (value, KEYS.iter().find(|key| key.name == name)) {
            self.set(key, value, SettingSource::Flag(flag));
        }
        self
    }

    /// Applies the mode from the command line.
    pub(crate) fn with_mode(self, typed: Option<ModeArg>) -> Self {
        let word = |mode| SettingValue::Text(Mode::from(mode).as_str().to_owned());
        self.with_flag("mode", "--mode", typed.map(word))
    }

    /// Applies the time limit from the command line.
    pub(crate) fn with_timeout(self, timeout_ms: Option<u64>) -> Self {
        self.with_flag("call_timeout", "--timeout-ms", timeout_ms.map(SettingValue::Span))
    }

    /// Returns the settings in force, after bounds.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ConfigValue> {
        self.held.iter().map(|held| self.bounded(held))
    }

    /// Returns the setting in force with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&ConfigValue> {
        self.held.iter().find(|held| held.key.name == name).map(|held| self.bounded(held))
    }

    /// Returns the reviewers, in the order in which they review: first those of the organisation, then those of the person.
    pub(crate) fn reviewers(&self) -> &[ReviewerSetting] {
        &self.reviewers
    }

    /// Returns the settings that a project tightened, with their bounds.
    pub(crate) fn tightened_by_project(&self) -> impl Iterator<Item = (&ConfigValue, &ConfigValue)> {
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
            // Of two nested projects the stricter one wins. For settings without strictness the inner one wins.
            Some(there) if bound.key.project == key::ProjectOverride::Free => *there = bound,
            Some(there) if bound.key.is_stricter(&bound.value, &there.value) => *there = bound,
            Some(_) => {}
        }
    }

    fn bounded<'a>(&'a self, held: &'a ConfigValue) -> &'a ConfigValue {
        let bound = self.bounds.iter().find(|bound| bound.key.name == held.key.name);
        let counts = |bound: &&ConfigValue| match held.key.project {
            // A project sets a display option only if nobody else did.
            key::ProjectOverride::Free => held.origin == SettingSource::Default,
            _ => held.key.is_stricter(&bound.value, &held.value),
        };
        bound.filter(counts).unwrap_or(held)
    }

    fn text(&self, name: &str) -> &str {
        match self.get(name).map(|held| &held.value) {
            Some(SettingValue::Text(text)) => text,
            _ => "",
        }
    }

    fn number(&self, name: &str) -> u64 {
        match self.get(name).map(|held| &held.value) {
            Some(SettingValue::Number(number) | SettingValue::Span(number)) => *number,
            _ => 0,
        }
    }

    fn words(&self, name: &str) -> &[String] {
        match self.get(name).map(|held| &held.value) {
            Some(SettingValue::Words(words)) => words,
            _ => &[],
        }
    }

    /// Returns the mode.
    pub(crate) fn mode(&self) -> Mode {
        let all = Mode::ALL.into_iter().chain([Mode::ReadOnly]);
        let word = self.text("mode");
        // An unknown word cannot have been loaded.
        all.into_iter().find(|mode| mode.as_str() == word).unwrap_or(Mode::ConfirmAll)
    }

    /// Returns where questions go, if it is set.
    pub(crate) fn ask(&self) -> Option<AskArg> {
        match self.text("ask") {
            "auto" => None,
            "terminal" => Some(AskArg::Terminal),
            "inbox" => Some(AskArg::Inbox),
            _ => Some(AskArg::None),
        }
    }

    /// Returns when to use colour.
    pub(crate) fn color(&self) -> ColorArg {
        match self.text("color") {
            "always" => ColorArg::Always,
            "never" => ColorArg::Never,
            _ => ColorArg::Auto,
        }
    }

    /// Returns the configured editor and its arguments. Empty if the environment decides.
    pub(crate) fn editor(&self) -> Vec<String> {
        self.text("editor").split_whitespace().map(str::to_owned).collect()
    }

    /// Returns how long a question must be looked at, in percent of the usual time.
    pub(crate) fn min_read_time_percent(&self) -> u32 {
        u32::try_from(self.number("min_read_time_percent")).unwrap_or(u32::MAX)
    }

    /// Returns how a person is notified of a question.
    pub(crate) fn notify(&self) -> NotifySetting {
        match self.text("notify") {
            "auto" => NotifySetting::Auto,
            "osc9" => NotifySetting::Osc9,
            "command" => NotifySetting::Command(self.words("notify_command").to_vec()),
            _ => NotifySetting::Off,
        }
    }

    /// Returns the state directory, if it is set.
    pub(crate) fn state(&self) -> Option<PathBuf> {
        Some(self.text("state")).filter(|dir| !dir.is_empty()).map(PathBuf::from)
    }

    /// Returns the guarantees that commands run without.
    pub(crate) fn waived(&self) -> BTreeSet<Guarantee> {
        self.words("waive").iter().filter_map(|name| Guarantee::from_name(name)).collect()
    }

    /// Checks whether a file of the organisation or the person says that the container around this program is the outer wall.
    pub(crate) fn trusts_container(&self) -> bool {
        self.get("container").is_some_and(|held| {
            let is_in_file = matches!(held.origin, SettingSource::Organisation(..) | SettingSource::User(..));
            is_in_file && held.value == SettingValue::Text("trusted".into())
        })
    }

    /// Returns where commands run.
    pub(crate) fn run_on(&self) -> RunOn {
        let text = self.text("run_on");
        // An invalid text cannot have been loaded. If it was, no engine accepts it.
        text.parse().unwrap_or_else(|_| RunOn::Oci(text.to_owned()))
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|held| held.value == SettingValue::Flag(true))
    }

    /// Checks whether every call of an agent is a dry run.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.flag("dry_run")
    }

    /// Checks whether `delete_file` is among the tools.
    pub(crate) fn allow_delete(&self) -> bool {
        self.flag("allow_delete")
    }

    /// Returns the maximum size of a file that the file tools read or write as a whole.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.number("file_bytes")
    }

    /// Checks whether MCP clients that can show a form are asked to.
    pub(crate) fn mcp_elicitation(&self) -> bool {
        self.flag("mcp_elicitation")
    }

    /// Checks whether agents that can ask in their own window are let to.
    pub(crate) fn hook_ask(&self) -> bool {
        self.flag("hook_ask")
    }

    /// Returns the settings of a gate.
    pub(crate) fn gate(&self) -> GateSettings {
        let mut settings = GateSettings::default();
        settings.limits.question_timeout_ms = self.number("question_expiry");
        settings.limits.timeout_ms = self.number("call_timeout");
        settings.limits.max_output_bytes = self.number("output_bytes");
        settings.limits.max_stored_bytes = self.number("kept_bytes");
        settings.approver_timeout = Duration::from_millis(self.number("approver_timeout"));
        settings.max_concurrent = usize::try_from(self.number("max_concurrent")).unwrap_or(1);
        settings.max_argument_bytes = JsonLimits::for_files(self.file_bytes()).max_bytes;
        settings.rehearse = self.flag("rehearse");
        settings.challenge_when = match self.text("challenge_when") {
            "after-answer" => ChallengeTiming::AfterAnswer,
            _ => ChallengeTiming::BeforeQuestion,
        };
        settings.challenge_replaces_checkpoint =
            self.words("challenge_replaces_checkpoint").iter().cloned().collect();
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
