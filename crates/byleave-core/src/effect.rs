//! Effects: what a call would do, one thing to one target each; and the plan, which is all of them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::{ContentRef, Digest, RecordKey};

/// One thing a call would do to one target. Paths are absolute and resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Effect {
    /// Runs a program.
    Run {
        /// The resolved program.
        program: String,
        /// Its words, the program's own name first.
        argv: Vec<String>,
    },
    /// Reads a path.
    Read {
        /// Which.
        path: String,
    },
    /// Creates or changes a path.
    Write {
        /// Which.
        path: String,
    },
    /// Removes a path.
    Delete {
        /// Which.
        path: String,
    },
    /// Reaches a host.
    Reach {
        /// Its name, in punycode, lower case.
        host: String,
        /// The port.
        port: u16,
    },
    /// Uses a tool whose effects only the tool knows.
    Invoke {
        /// The tool.
        tool: String,
    },
    /// Leaves the sandbox in one respect.
    Unconfined {
        /// The guarantee that is given up.
        guarantee: String,
    },
    /// Something that could not be worked out.
    Unknown {
        /// Why not.
        why: String,
    },
}

impl Effect {
    /// The use of a tool of an MCP server.
    pub fn at_server(server: &str, tool: &str) -> Self {
        Self::Invoke { tool: Self::name_at_server(server, tool) }
    }

    /// What a tool of an MCP server is called in effects. No server has a `/` in its name, and no tool of ours a `:`.
    pub(crate) fn name_at_server(server: &str, tool: &str) -> String {
        format!("mcp:{server}/{tool}")
    }

    /// The word for this kind of effect.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Run { .. } => "run",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Delete { .. } => "delete",
            Self::Reach { .. } => "reach",
            Self::Invoke { .. } => "invoke",
            Self::Unconfined { .. } => "unconfined",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// Whether two effects of different calls must keep their order.
    ///
    /// Reading is in nobody's way but a writer's. What is not understood is in everybody's way.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown { .. } | Self::Unconfined { .. }, _)
            | (_, Self::Unknown { .. } | Self::Unconfined { .. }) => true,
            (Self::Read { .. }, Self::Read { .. }) => false,
            (Self::Invoke { tool: a }, Self::Invoke { tool: b }) => a == b,
            (Self::Reach { host: a, .. }, Self::Reach { host: b, .. }) => a == b,
            (a, b) => match (a.path(), b.path()) {
                (Some(a), Some(b)) => overlap(a, b),
                _ => false,
            },
        }
    }

    /// The path that this effect reads, writes or deletes; a run has none, not even that of its program.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Read { path } | Self::Write { path } | Self::Delete { path } => Some(path),
            Self::Run { .. } | Self::Reach { .. } | Self::Invoke { .. } => None,
            Self::Unconfined { .. } | Self::Unknown { .. } => None,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { program, argv } => write!(f, "run {program} {argv:?}"),
            Self::Read { path } => write!(f, "read {path}"),
            Self::Write { path } => write!(f, "write {path}"),
            Self::Delete { path } => write!(f, "delete {path}"),
            Self::Reach { host, port } => write!(f, "reach {host}:{port}"),
            Self::Invoke { tool } => write!(f, "invoke {tool}"),
            Self::Unconfined { guarantee } => write!(f, "leave the sandbox: {guarantee}"),
            Self::Unknown { why } => write!(f, "unknown: {why}"),
        }
    }
}

/// Whether one of two paths is the other, or lies beneath it.
fn overlap(a: &str, b: &str) -> bool {
    is_at_or_beneath(a, b) || is_at_or_beneath(b, a)
}

/// Whether a path is another one, or lies beneath it.
pub(crate) fn is_at_or_beneath(inner: &str, outer: &str) -> bool {
    let outer = outer.trim_end_matches('/');
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path is absolute and resolved as far as its text can tell: no `.`, no `..`, no empty step.
pub fn is_resolved(path: &str) -> bool {
    let Some(steps) = path.strip_prefix('/') else { return false };
    steps.is_empty() || steps.split('/').all(|step| !matches!(step, "" | "." | ".."))
}

/// Something outside the arguments that an approval depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// Where it is.
    pub path: String,
    /// What it was when the plan was made.
    pub state: BindingState,
}

/// What a bound path was when the plan was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BindingState {
    /// Not there.
    Missing,
    /// A file with this content.
    Content(Digest),
    /// This very directory.
    Directory {
        /// Device.
        device: u64,
        /// Inode.
        inode: u64,
    },
}

/// The effects of a draft, computed without doing them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What would be done.
    pub effects: Vec<Effect>,
    /// The effects that stand for something beneath their path, such as whatever `find` comes upon, and not for all of it. No
    /// standing approval is offered of these, except of the very same command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beneath: Vec<Effect>,
    /// The working directory, programs, scripts and edited files as they were when the plan was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bound: Vec<Binding>,
    /// No effect but reads, by the account of the class and not of the tool.
    #[serde(default)]
    pub reads_only: bool,
    /// What would be done cannot be taken back.
    #[serde(default)]
    pub irreversible: bool,
    /// What about it is dangerous, whatever its effects are permitted to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dangers: Vec<Danger>,
}

/// Something that is never silently allowed, and that no leave covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Danger {
    /// Its stable name.
    pub id: String,
    /// Why, in words for a person; never the plan's own.
    pub why: String,
    /// It is denied; otherwise a person is asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
}

impl Plan {
    /// What the record keeps of a plan whose content it holds.
    pub fn head(&self, key: &RecordKey, held: ContentRef) -> PlanSummary {
        PlanSummary {
            plan: held,
            effects: self.effects.iter().map(|effect| EffectDigest::of(effect, key)).collect(),
            reads_only: self.reads_only,
            irreversible: self.irreversible,
        }
    }

    /// Whether this effect of the plan stands for something beneath its path, and not for all of it.
    pub fn is_beneath(&self, effect: &Effect) -> bool {
        self.beneath.contains(effect)
    }

    /// Whether any effect of this plan must keep its order with any effect of the other.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.effects.iter().any(|a| other.effects.iter().any(|b| a.conflicts_with(b)))
    }
}

/// One effect, as the record knows it: enough to tell whether a person saw it, and nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EffectDigest(uuid::Uuid);

impl EffectDigest {
    /// The mark of an effect under the record's key: 128 bits of a keyed digest.
    pub fn of(effect: &Effect, key: &RecordKey) -> Self {
        let text = serde_json::to_vec(effect).unwrap_or_default();
        let digest = key.digest(&text);
        let (head, _) = digest.as_bytes().split_at(16);
        Self(uuid::Uuid::from_slice(head).unwrap_or_default())
    }

    /// A mark with a given number, for tests that write records by hand.
    pub const fn numbered(number: u128) -> Self {
        Self(uuid::Uuid::from_u128(number))
    }
}

/// What the record keeps of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSummary {
    /// The whole plan, kept under the record's key.
    pub plan: ContentRef,
    /// Its effects, one mark each.
    pub effects: Vec<EffectDigest>,
    /// No effect but reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_only: bool,
    /// Cannot be taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub irreversible: bool,
}

impl PlanSummary {
    /// Whether every effect of this plan was among those of the other.
    pub fn within(&self, seen: &Self) -> bool {
        self.effects.iter().all(|mark| seen.effects.contains(mark)) && self.irreversible <= seen.irreversible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Effect {
        Effect::Read { path: path.into() }
    }
    fn write(path: &str) -> Effect {
        Effect::Write { path: path.into() }
    }

    #[test]
    fn order_is_kept_where_it_matters() {
        let check = |a: &Effect, b: &Effect, conflict: bool| {
            assert_eq!(a.conflicts_with(b), conflict, "{a} / {b}");
            assert_eq!(b.conflicts_with(a), conflict, "{b} / {a}");
        };
        check(&read("/w/a"), &read("/w/a"), false);
        check(&read("/w/a"), &write("/w/a"), true);
        check(&write("/w/a"), &write("/w/ab"), false);
        check(&Effect::Delete { path: "/w/d".into() }, &read("/w/d/x"), true);
        check(&Effect::Delete { path: "/".into() }, &read("/w/d/x"), true);
        check(&Effect::Unknown { why: String::new() }, &read("/w/a"), true);
        let invoke = |tool: &str| Effect::Invoke { tool: tool.into() };
        check(&invoke("a"), &invoke("a"), true);
        check(&invoke("a"), &invoke("b"), false);
        let reach = |host: &str| Effect::Reach { host: host.into(), port: 443 };
        check(&reach("a"), &reach("a"), true);
        check(&reach("a"), &write("/w/a"), false);
    }

    // req: A8
    #[test]
    fn the_mark_is_in_the_record_and_a_record_without_it_can_be_read() {
        let delete = Effect::Delete { path: "/w".into() };
        let mut plan = Plan { effects: vec![delete.clone()], ..Plan::default() };
        let old = serde_json::to_string(&plan).unwrap();
        assert!(!old.contains("beneath"), "{old}");
        assert_eq!(serde_json::from_str::<Plan>(&old).unwrap(), plan);
        plan.beneath = vec![delete.clone()];
        let kept: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
        assert!(kept == plan && kept.is_beneath(&delete));
    }

    #[test]
    fn a_resolved_path_has_one_spelling() {
        for path in ["/", "/w", "/w/.a/..b", "/w/a b\n"] {
            assert!(is_resolved(path), "{path:?}");
        }
        for path in ["", "w", "./w", "/w/", "//w", "/w//a", "/w/./a", "/w/..", "/../w"] {
            assert!(!is_resolved(path), "{path:?}");
        }
    }
}
