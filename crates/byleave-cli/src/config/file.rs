//! Parses a settings file: TOML, with every key checked. An invalid file stops the program; it never continues with a part of it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use byleave_gate::core::policy::{Diagnostic, Layer};
use byleave_gate::policy_files::{self, PolicyFile, PolicyLoadError};
use toml::de::DeTable;

use super::key::{KEYS, ProjectOverride, SettingKey};
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

/// A settings file that may exist.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    /// It belongs to a project.
    pub(crate) is_project: bool,
    /// Its path.
    pub(crate) path: PathBuf,
}

/// One setting of a file, and its line.
#[derive(Clone, Debug)]
pub(super) struct FileSetting {
    pub(super) key: &'static SettingKey,
    pub(super) value: SettingValue,
    pub(super) line: usize,
}

/// Reads a file, if it exists.
pub(super) fn read(file: &ConfigFile, defaults: &[FileSetting]) -> anyhow::Result<Option<Vec<FileSetting>>> {
    let Some(text) = text_of(file)? else { return Ok(None) };
    Ok(Some(parse(&file.path, &text, file.is_project.then_some(defaults))?))
}

/// Parses a text. A project must not be looser than the defaults.
pub(super) fn parse(
    path: &Path,
    text: &str,
    project: Option<&[FileSetting]>,
) -> Result<Vec<FileSetting>, ConfigError> {
    let mut reader = ConfigParser { text, flaws: Vec::new() };
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut all = Vec::new();
    for error in &errors {
        let what = error.message().trim().replace('\n', ", ");
        reader.flaw(
            error.span().unwrap_or_default(),
            what,
            "correct the TOML syntax: https://toml.io".into(),
        );
    }
    if errors.is_empty() {
        for (name, value) in table.get_ref() {
            let Some(key) = KEYS.iter().find(|key| key.name == name.get_ref().as_ref()) else {
                reader.unknown(name.get_ref(), name.span());
                continue;
            };
            match SettingValue::from_toml(key.kind, value) {
                Err((what, todo)) => reader.flaw(value.span(), format!("`{}`: {what}", key.name), todo),
                Ok(value) => {
                    if let Some(todo) = project.and_then(|defaults| loosens(key, &value, defaults)) {
                        let what =
                            format!("`{} = {value}`: settings of a project may only tighten", key.name);
                        reader.flaw(name.span(), what, todo);
                        continue;
                    }
                    all.push(FileSetting { key, value, line: place(text, name.span().start).0 });
                }
            }
        }
    }
    if reader.flaws.is_empty() {
        return Ok(all);
    }
    reader.flaws.sort_by_key(|flaw| flaw.span.start);
    Err(ConfigError {
        file: path.to_string_lossy().into_owned(),
        text: text.to_owned(),
        diagnostics: reader.flaws,
    })
}

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
    let layer = if file.is_project { Layer::Project } else { Layer::User };
    let of = PolicyFile { layer, path: file.path.clone(), required: false };
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

struct ConfigParser<'a> {
    text: &'a str,
    flaws: Vec<Diagnostic>,
}

impl ConfigParser<'_> {
    fn unknown(&mut self, name: &str, span: Range<usize>) {
        let todo = match nearest(name, KEYS.iter().map(|key| key.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                format!("the settings are {}", KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", "))
            }
        };
        self.flaw(span, format!("there is no setting `{}`", name.escape_debug()), todo);
    }

    fn flaw(&mut self, span: Range<usize>, what: String, todo: String) {
        let (line, column) = place(self.text, span.start);
        self.flaws.push(Diagnostic { span, line, column, message: what, help: todo });
    }
}

fn first(flaws: &[Diagnostic]) -> String {
    let told = |flaw: &Diagnostic| {
        format!("line {}, column {}: {}; {}", flaw.line, flaw.column, flaw.message, flaw.help)
    };
    flaws.first().map(told).unwrap_or_default()
}

/// Returns line and column, both from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count().saturating_add(1);
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count());
    (line, column.saturating_add(1))
}
