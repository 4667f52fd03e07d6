//! Which settings there are: what each may be, and how far a project may go.

use byleave_sandbox::guarantee::Guarantee;

use super::nearest::nearest;
use super::value::{Kind, Value};

/// A setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name in files; `BYLEAVE_` and the same in capitals is its variable.
    pub(crate) name: &'static str,
    /// What it may be.
    pub(crate) kind: Kind,
    /// What the file of a project may do to it.
    pub(crate) project: Project,
}

/// What the file of a project may do to a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Project {
    /// Nothing.
    Never,
    /// Set it as it likes: it only shows.
    Free,
    /// Choose one that stands further to the front.
    Earlier,
    /// Lower it.
    Lower,
    /// Raise it.
    Raise,
}

/// The modes, the strictest first.
const MODES: &[&str] = &["read-only", "confirm-all", "confirm-sensitive", "confirm-dangerous", "yolo"];

/// The longest that anything may be left open.
const WEEKS: u64 = 52 * 7 * 24 * 3_600_000;

/// All settings, in the order in which they are shown.
pub(crate) const KEYS: &[Key] = &[
    Key { name: "mode", kind: Kind::Choice(MODES), project: Project::Earlier },
    Key {
        name: "ask",
        kind: Kind::Choice(&["none", "auto", "terminal", "inbox"]),
        project: Project::Earlier,
    },
    Key {
        name: "unattended",
        kind: Kind::Choice(&["refuse", "allow-with-warning"]),
        project: Project::Earlier,
    },
    Key { name: "question_expiry", kind: Kind::Span(1_000, WEEKS), project: Project::Lower },
    Key { name: "approver_timeout", kind: Kind::Span(1_000, WEEKS), project: Project::Lower },
    Key { name: "questions_per_minute", kind: Kind::Number(1, 100_000), project: Project::Lower },
    Key { name: "dwell_percent", kind: Kind::Number(100, 10_000), project: Project::Raise },
    Key { name: "call_timeout", kind: Kind::Span(1_000, 600_000), project: Project::Lower },
    Key { name: "output_bytes", kind: Kind::Number(1_024, 16 << 20), project: Project::Lower },
    Key { name: "kept_bytes", kind: Kind::Number(1_024, 256 << 20), project: Project::Lower },
    Key { name: "allow_delete", kind: Kind::Flag, project: Project::Earlier },
    Key { name: "mcp_elicitation", kind: Kind::Flag, project: Project::Earlier },
    Key { name: "waive", kind: Kind::Words(Some(guarantee)), project: Project::Never },
    Key { name: "color", kind: Kind::Choice(&["auto", "always", "never"]), project: Project::Free },
    Key { name: "notify", kind: Kind::Choice(&["off", "osc9", "command"]), project: Project::Earlier },
    Key { name: "notify_command", kind: Kind::Words(None), project: Project::Never },
    Key { name: "editor", kind: Kind::Text, project: Project::Never },
    Key { name: "state", kind: Kind::Text, project: Project::Never },
];

impl Key {
    /// The variable of the environment that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("BYLEAVE_{}", self.name.to_uppercase())
    }

    /// Whether a value is tighter than another, as far as a project may say.
    pub(super) fn is_tighter(&self, value: &Value, than: &Value) -> bool {
        match self.project {
            Project::Never | Project::Free => false,
            Project::Earlier => self.rank(value) < self.rank(than),
            Project::Lower => self.rank(value) < self.rank(than),
            Project::Raise => self.rank(value) > self.rank(than),
        }
    }

    fn rank(&self, value: &Value) -> u64 {
        match (self.kind, value) {
            (Kind::Choice(words), Value::Text(word)) => {
                words.iter().position(|known| known == word).map_or(u64::MAX, |at| at as u64)
            }
            (_, Value::Span(number) | Value::Number(number)) => *number,
            (_, Value::Flag(flag)) => u64::from(*flag),
            _ => u64::MAX,
        }
    }
}

/// What is wrong with the name of a guarantee.
fn guarantee(name: &str) -> Option<String> {
    if Guarantee::named(name).is_some() {
        return None;
    }
    Some(match nearest(name, Guarantee::ALL.map(Guarantee::name)) {
        Some(near) => format!("did you mean `{near}`? `byleave doctor` lists the guarantees"),
        None => "`byleave doctor` lists the guarantees".to_owned(),
    })
}
