//! Reviewers of arguments and results, as the settings describe them.

use std::path::PathBuf;
use std::time::Duration;

use byleave_gate::core::policy::Layer;
use serde_json::{Value, json};

/// A reviewer of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewerSetting {
    /// Its name in the audit log.
    pub(crate) name: String,
    /// The names of the tools that it reviews. In each, `*` matches any text.
    pub(crate) tools: Vec<String>,
    /// What it does.
    pub(crate) kind: ReviewerKind,
    /// The layer of its file.
    pub(crate) layer: Layer,
    /// Its file.
    pub(crate) file: PathBuf,
    /// The line in its file.
    pub(crate) line: usize,
}

/// What a reviewer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReviewerKind {
    /// Runs a program.
    Program { program: PathBuf, arguments: Vec<String>, on: ReviewStages, timeout: Option<Duration> },
    /// Asks a service, with a secret that both know.
    Webhook { url: String, secret_file: PathBuf, on: ReviewStages, timeout: Option<Duration> },
    /// Redacts text that looks like a secret from results.
    Secrets,
    /// Drops these fields from results.
    DropFields { fields: Vec<String> },
    /// Removes these texts from an argument.
    Strip { argument: String, remove: Vec<String> },
}

/// What a reviewer reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewStages {
    /// The arguments.
    Input,
    /// The results.
    Output,
    /// The arguments and the results.
    Both,
}

impl ReviewStages {
    /// The words of the settings.
    pub(super) const WORDS: [(&'static str, Self); 3] =
        [("input", Self::Input), ("output", Self::Output), ("both", Self::Both)];

    /// Returns the word of the settings.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Both => "both",
        }
    }

    /// Checks whether the arguments are reviewed.
    pub(crate) const fn has_input(self) -> bool {
        matches!(self, Self::Input | Self::Both)
    }

    /// Checks whether the results are reviewed.
    pub(crate) const fn has_output(self) -> bool {
        matches!(self, Self::Output | Self::Both)
    }
}

impl ReviewerKind {
    /// Returns the word of the settings.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::Program { .. } => "program",
            Self::Webhook { .. } => "webhook",
            Self::Secrets => "secrets",
            Self::DropFields { .. } => "drop_fields",
            Self::Strip { .. } => "strip",
        }
    }

    /// Returns what is reviewed.
    pub(crate) const fn stages(&self) -> ReviewStages {
        match self {
            Self::Program { on, .. } | Self::Webhook { on, .. } => *on,
            Self::Secrets | Self::DropFields { .. } => ReviewStages::Output,
            Self::Strip { .. } => ReviewStages::Input,
        }
    }

    /// Returns the file with the secret of a service.
    pub(crate) const fn secret_file(&self) -> Option<&PathBuf> {
        match self {
            Self::Webhook { secret_file, .. } => Some(secret_file),
            _ => None,
        }
    }
}

impl ReviewerSetting {
    /// Returns its place, as in `FILE:LINE`.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }

    /// Returns the reviewer as JSON. Durations are in milliseconds.
    pub(crate) fn json(&self) -> Value {
        let mut all = json!({
            "name": self.name,
            "kind": self.kind.as_str(),
            "tools": self.tools,
            "on": self.kind.stages().as_str(),
            "origin": { "kind": self.layer, "file": self.file, "line": self.line, "name": null },
        });
        let ms = |limit: &Option<Duration>| {
            limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
        };
        let own = match &self.kind {
            ReviewerKind::Program { program, arguments, timeout, .. } => {
                let command: Vec<String> = std::iter::once(program.to_string_lossy().into_owned())
                    .chain(arguments.iter().cloned())
                    .collect();
                json!({ "command": command, "timeout": ms(timeout) })
            }
            ReviewerKind::Webhook { url, secret_file, timeout, .. } => {
                json!({ "url": origin_of(url), "secret_file": secret_file, "timeout": ms(timeout) })
            }
            ReviewerKind::Secrets => json!({}),
            ReviewerKind::DropFields { fields } => json!({ "fields": fields }),
            ReviewerKind::Strip { argument, remove } => json!({ "argument": argument, "remove": remove }),
        };
        if let (Value::Object(all), Value::Object(own)) = (&mut all, own) {
            all.extend(own);
        }
        all
    }
}

/// Returns scheme, host and port. The rest of a URL may be a secret.
fn origin_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}
