//! Parses a settings file: TOML, with every key checked. An invalid file stops the program; it never continues with a part of it.

use std::ops::Range;

use byleave_gate::core::policy::Diagnostic;
use byleave_gate::policy_files::{self, PolicyFile, PolicyLoadError};
use toml::de::DeTable;

use super::file_path::ConfigFile;
use super::key::{KEYS, ProjectOverride, SettingKey};
use super::problems::Problems;
use super::reviewer::ReviewerSetting;
use super::reviewer_parser::{self, TABLE};
use super::suggestion::nearest;
use super::value::SettingValue;
use crate::error::CliError;

/// All errors of a settings file.
#[derive(Debug, thiserror::Error)]
#[error("cannot use settings file `{file}`: {}", first(diagnostics))]
pub(crate) struct ConfigError {
    /// The file.
    pub(crate) file: String,
    /// Its text, to show the places.
    pub(crate) text: String,
    /// The errors. Never empty.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// One setting of a file, and its line.
#[derive(Clone, Debug)]
pub(super) struct FileSetting {
    pub(super) key: &'static SettingKey,
    pub(super) value: SettingValue,
    pub(super) line: usize,
}

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileContents {
    pub(super) settings: Vec<FileSetting>,
    pub(super) reviewers: Vec<ReviewerSetting>,
}

/// What the contents of a file are compared with.
#[derive(Clone, Copy, Default)]
pub(super) struct ParseContext<'a> {
    /// The defaults. A project must not be looser.
    pub(super) defaults: &'a [FileSetting],
    /// The reviewers of the files before it.
    pub(super) reviewers: &'a [ReviewerSetting],
}

/// Reads a file, if it exists.
pub(super) fn read(file: &ConfigFile, known: ParseContext<'_>) -> anyhow::Result<Option<FileContents>> {
    let Some(text) = text_of(file)? else { return Ok(None) };
    Ok(Some(parse(file, &text, known)?))
}

/// Parses the text of a file.
pub(super) fn parse(
    file: &ConfigFile,
    text: &str,
    known: ParseContext<'_>,
) -> Result<FileContents, ConfigError> {
    let mut problems = Problems::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut all = FileContents::default();
    for error in &errors {
        let what = error.message().trim().replace('\n', ", ");
        problems.add(error.span().unwrap_or_default(), what, "correct the TOML syntax: https://toml.io");
    }
    if errors.is_empty() {
        for (name, value) in table.get_ref() {
            if name.get_ref() == TABLE {
                if file.is_project() {
                    problems.add(name.span(), NO_PROJECT_REVIEWERS.0, NO_PROJECT_REVIEWERS.1);
                } else {
                    all.reviewers = reviewer_parser::parse(file, value, known.reviewers, &mut problems);
                }
                continue;
            }
            let Some(key) = KEYS.iter().find(|key| key.name == name.get_ref().as_ref()) else {
                unknown(&mut problems, name.get_ref(), name.span());
                continue;
            };
            match SettingValue::from_toml(key.kind, value) {
                Err((what, todo)) => problems.add(value.span(), format!("`{}`: {what}", key.name), todo),
                Ok(value) => {
                    let todo = if file.is_project() { loosens(key, &value, known.defaults) } else { None };
                    if let Some(todo) = todo {
                        let what =
                            format!("`{} = {value}`: settings of a project may only tighten", key.name);
                        problems.add(name.span(), what, todo);
                        continue;
                    }
                    let line = problems.line(&name.span());
                    all.settings.push(FileSetting { key, value, line });
                }
            }
        }
    }
    if problems.count() == 0 {
        return Ok(all);
    }
    Err(ConfigError {
        file: file.path.to_string_lossy().into_owned(),
        text: text.to_owned(),
        diagnostics: problems.sorted(),
    })
}

/// The error for a reviewer in the file of a project, and what to do.
const NO_PROJECT_REVIEWERS: (&str, &str) = (
    "a project may not have reviewers: a reviewer can change arguments and run programs",
    "put it into your own file (`byleave config edit`)",
);

/// Returns advice if a project's setting is looser than the default.
fn loosens(key: &SettingKey, value: &SettingValue, defaults: &[FileSetting]) -> Option<String> {
    let default = defaults.iter().find(|said| said.key.name == key.name).map(|said| &said.value);
    let own = "put it into your own file (`byleave config edit`)";
    match key.project {
        ProjectOverride::Free => None,
        ProjectOverride::Never => Some(format!("{own}: a project may not set it")),
        ProjectOverride::Earlier | ProjectOverride::Lower | ProjectOverride::Raise => {
            let default = default?;
            let is_fine = value == default || key.is_stricter(value, default);
            (!is_fine).then(|| format!("{own}, or make it as strict as the default: `{default}`"))
        }
    }
}

/// Reads a file. Fails if others could have written it, or if a project's file is a link.
fn text_of(file: &ConfigFile) -> Result<Option<String>, CliError> {
    let of = PolicyFile { layer: file.layer, path: file.path.clone(), required: false };
    policy_files::read_text(&of).map_err(|fault| match fault {
        PolicyLoadError::Unreadable { path, reason: why } => {
            CliError::new(format!("cannot read settings file `{}`: {why}", path.display()))
                .hint("make the file readable, or move it away; until then nothing runs")
        }
        PolicyLoadError::Untrusted { path, reason: why } => {
            CliError::new(format!("cannot trust settings file `{}`: {why}", path.display()))
        }
        other => CliError::new(other.to_string()),
    })
}

fn unknown(problems: &mut Problems<'_>, name: &str, span: Range<usize>) {
    let known = || KEYS.iter().map(|key| key.name);
    let todo = match nearest(name, known().chain([TABLE])) {
        Some(TABLE) => format!("did you mean `[[{TABLE}]]`?"),
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the settings are {}, and `[[{TABLE}]]`", known().collect::<Vec<_>>().join(", ")),
    };
    problems.add(span, format!("there is no setting `{}`", name.escape_debug()), todo);
}

fn first(flaws: &[Diagnostic]) -> String {
    let told = |flaw: &Diagnostic| {
        format!("line {}, column {}: {}; {}", flaw.line, flaw.column, flaw.message, flaw.help)
    };
    flaws.first().map(told).unwrap_or_default()
}
