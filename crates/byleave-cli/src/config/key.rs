//! The settings: their values, and what a project may change.

use byleave_sandbox::guarantee::Guarantee;

use super::suggestion::nearest;
use super::value::{SettingKind, SettingValue};
use crate::run_on::RunOn;

/// A setting.
#[derive(Debug)]
pub(crate) struct SettingKey {
    /// Its name in files. Its variable is `BYLEAVE_` and the name in capitals.
    pub(crate) name: &'static str,
    /// The kind of its value.
    pub(crate) kind: SettingKind,
    /// The changes that the file of a project may make.
    pub(crate) project: ProjectOverride,
}

/// The changes that the file of a project may make to a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProjectOverride {
    /// Nothing.
    Never,
    /// Set it freely, because it only affects display.
    Free,
    /// Choose an earlier one of the list.
    Earlier,
    /// Lower it.
    Lower,
    /// Raise it.
    Raise,
}

/// The modes, strictest first.
const MODES: &[&str] = &["read-only", "confirm-all", "confirm-sensitive", "confirm-dangerous", "yolo"];

/// The maximum time that anything may stay open.
const WEEKS: u64 = 52 * 7 * 24 * 3_600_000;

/// All settings, in display order.
pub(crate) const KEYS: &[SettingKey] = &[
    SettingKey { name: "mode", kind: SettingKind::Choice(MODES), project: ProjectOverride::Earlier },
    SettingKey { name: "dry_run", kind: SettingKind::Flag, project: ProjectOverride::Never },
    SettingKey {
        name: "ask",
        kind: SettingKind::Choice(&["none", "auto", "terminal", "inbox"]),
        project: ProjectOverride::Earlier,
    },
    SettingKey {
        name: "unattended",
        kind: SettingKind::Choice(&["refuse", "allow-with-warning"]),
        project: ProjectOverride::Earlier,
    },
    SettingKey {
        name: "question_expiry",
        kind: SettingKind::Span(1_000, WEEKS),
        project: ProjectOverride::Lower,
    },
    SettingKey {
        name: "approver_timeout",
        kind: SettingKind::Span(1_000, WEEKS),
        project: ProjectOverride::Lower,
    },
    SettingKey {
        name: "questions_per_minute",
        kind: SettingKind::Number(1, 100_000),
        project: ProjectOverride::Lower,
    },
    SettingKey {
        name: "min_read_time_percent",
        kind: SettingKind::Number(100, 10_000),
        project: ProjectOverride::Raise,
    },
    SettingKey { name: "rehearse", kind: SettingKind::Flag, project: ProjectOverride::Never },
    SettingKey {
        name: "challenge_when",
        kind: SettingKind::Choice(&["before-question", "after-answer"]),
        project: ProjectOverride::Earlier,
    },
    SettingKey {
        name: "challenge_replaces_checkpoint",
        kind: SettingKind::Words(None),
        project: ProjectOverride::Never,
    },
    SettingKey {
        name: "call_timeout",
        kind: SettingKind::Span(1_000, 600_000),
        project: ProjectOverride::Lower,
    },
    SettingKey { name: "max_concurrent", kind: SettingKind::Number(1, 64), project: ProjectOverride::Lower },
    SettingKey {
        name: "output_bytes",
        kind: SettingKind::Number(1_024, 16 << 20),
        project: ProjectOverride::Lower,
    },
    SettingKey {
        name: "kept_bytes",
        kind: SettingKind::Number(1_024, 256 << 20),
        project: ProjectOverride::Lower,
    },
    SettingKey {
        name: "file_bytes",
        kind: SettingKind::Number(1_024, 64 << 20),
        project: ProjectOverride::Lower,
    },
    SettingKey { name: "allow_delete", kind: SettingKind::Flag, project: ProjectOverride::Earlier },
    SettingKey { name: "mcp_elicitation", kind: SettingKind::Flag, project: ProjectOverride::Earlier },
    SettingKey { name: "hook_ask", kind: SettingKind::Flag, project: ProjectOverride::Earlier },
    SettingKey { name: "waive", kind: SettingKind::Words(Some(guarantee)), project: ProjectOverride::Never },
    SettingKey { name: "run_on", kind: SettingKind::CheckedText(run_on), project: ProjectOverride::Never },
    SettingKey {
        name: "container",
        kind: SettingKind::Choice(&["untrusted", "trusted"]),
        project: ProjectOverride::Never,
    },
    SettingKey {
        name: "color",
        kind: SettingKind::Choice(&["auto", "always", "never"]),
        project: ProjectOverride::Free,
    },
    SettingKey {
        name: "notify",
        kind: SettingKind::Choice(&["off", "auto", "osc9", "command"]),
        project: ProjectOverride::Earlier,
    },
    SettingKey { name: "notify_command", kind: SettingKind::Words(None), project: ProjectOverride::Never },
    SettingKey { name: "editor", kind: SettingKind::Text, project: ProjectOverride::Never },
    SettingKey { name: "state", kind: SettingKind::Text, project: ProjectOverride::Never },
];

impl SettingKey {
    /// Returns the environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("BYLEAVE_{}", self.name.to_uppercase())
    }

    /// Checks whether a value is tighter than another, as far as a project may change it.
    pub(super) fn is_stricter(&self, value: &SettingValue, than: &SettingValue) -> bool {
        match self.project {
            ProjectOverride::Never | ProjectOverride::Free => false,
            ProjectOverride::Earlier => self.rank(value) < self.rank(than),
            ProjectOverride::Lower => self.rank(value) < self.rank(than),
            ProjectOverride::Raise => self.rank(value) > self.rank(than),
        }
    }

    fn rank(&self, value: &SettingValue) -> u64 {
        match (self.kind, value) {
            (SettingKind::Choice(words), SettingValue::Text(word)) => {
                words.iter().position(|known| known == word).map_or(u64::MAX, |at| at as u64)
            }
            (_, SettingValue::Span(number) | SettingValue::Number(number)) => *number,
            (_, SettingValue::Flag(flag)) => u64::from(*flag),
            _ => u64::MAX,
        }
    }
}

/// Returns the error in a place where commands run.
fn run_on(text: &str) -> Option<String> {
    text.parse::<RunOn>().err()
}

/// Returns the error in the name of a guarantee.
fn guarantee(name: &str) -> Option<String> {
    if Guarantee::from_name(name).is_some() {
        return None;
    }
    Some(match nearest(name, Guarantee::ALL.map(Guarantee::name)) {
        Some(near) => format!("did you mean `{near}`? `byleave doctor` lists the guarantees"),
        None => "`byleave doctor` lists the guarantees".to_owned(),
    })
}
