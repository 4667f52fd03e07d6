//! Effects: one thing done to one target each; and the plan, which lists all effects of a call.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::{ContentRef, Digest, RecordKey};
use crate::host::{LOCALHOST, is_localhost, never_opened};
use crate::id::CallId;
use crate::manifest::{Manifest, PermissionClass};

/// One thing that a call would do to one target. Paths are absolute and resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Effect {
    /// Runs a program.
    Run {
        /// The resolved program.
        program: String,
        /// The arguments, beginning with the program's own name.
        argv: Vec<String>,
    },
    /// Reads a path.
    Read {
        /// The path.
        path: String,
    },
    /// Creates or changes a path.
    Write {
        /// The path.
        path: String,
    },
    /// Removes a path.
    Delete {
        /// The path.
        path: String,
    },
    /// Reaches a host.
    Reach {
        /// The host name, in punycode and lower case.
        host: String,
        /// The port.
        port: u16,
    },
    /// Sends content to a host: a request with a body, an upload, a push. It includes reaching the host.
    Send {
        /// The host name, in punycode and lower case.
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
    /// Does something that could not be predicted.
    Unknown {
        /// The reason.
        reason: String,
    },
}

/// The host of an effect if only the run shows it. No rule that allows matches it.
pub const UNKNOWN_HOST: &str = "…";

impl Effect {
    /// Returns the effect of using a tool of an MCP server.
    pub fn mcp_invoke(server: &str, tool: &str) -> Self {
        Self::Invoke { tool: Self::mcp_tool_name(server, tool) }
    }

    /// Returns the effect of sending to a host that is known only when the call runs. No allow matches it.
    pub fn send_to_unknown_host() -> Self {
        Self::Send { host: "…".to_owned(), port: 0 }
    }

    /// Returns the name of a tool of an MCP server in effects. No server has a `/` in its name, and none of our tools has a `:`.
    pub(crate) fn mcp_tool_name(server: &str, tool: &str) -> String {
        format!("mcp:{server}/{tool}")
    }

    /// Returns the name of this kind of effect.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Run { .. } => "run",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Delete { .. } => "delete",
            Self::Reach { .. } => "reach",
            Self::Send { .. } => "send",
            Self::Invoke { .. } => "invoke",
            Self::Unconfined { .. } => "unconfined",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// Checks whether two effects of different calls must keep their order.
    ///
    /// A read conflicts only with a change of the same path, or of a path above or beneath it. An unknown effect conflicts with every
    /// effect, and so does one that leaves the sandbox.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown { .. } | Self::Unconfined { .. }, _)
            | (_, Self::Unknown { .. } | Self::Unconfined { .. }) => true,
            (Self::Read { .. }, Self::Read { .. }) => false,
            (Self::Invoke { tool: a }, Self::Invoke { tool: b }) => a == b,
            (a, b) => match (a.host(), b.host()) {
                (Some((a, _)), Some((b, _))) => a == b,
                _ => matches!((a.path(), b.path()), (Some(a), Some(b)) if overlap(a, b)),
            },
        }
    }

    /// Returns the host and the port that this effect reaches or sends to.
    pub fn host(&self) -> Option<(&str, u16)> {
        match self {
            Self::Reach { host, port } | Self::Send { host, port } => Some((host, *port)),
            _ => None,
        }
    }

    /// Returns the path that this effect reads, writes or deletes. A run has none, not even that of its program.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Read { path } | Self::Write { path } | Self::Delete { path } => Some(path),
            Self::Run { .. } | Self::Reach { .. } | Self::Send { .. } | Self::Invoke { .. } => None,
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
            Self::Reach { host, port } => write!(f, "reach {}", Target(host, *port)),
            Self::Send { host, port } => write!(f, "send to {}", Target(host, *port)),
            Self::Invoke { tool } => write!(f, "invoke {tool}"),
            Self::Unconfined { guarantee } => write!(f, "leave the sandbox: {guarantee}"),
            Self::Unknown { reason: why } => write!(f, "unknown: {why}"),
        }
    }
}

/// A host and a port, for people. Either may be unknown.
struct Target<'a>(&'a str, u16);

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(UNKNOWN_HOST, _) => f.write_str("a host that is not known"),
            Self(host, 0) => f.write_str(host),
            Self(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// Checks whether one of two paths is equal to the other or beneath it.
fn overlap(a: &str, b: &str) -> bool {
    is_at_or_beneath(a, b) || is_at_or_beneath(b, a)
}

/// Checks whether a path is equal to another one or beneath it.
pub fn is_at_or_beneath(inner: &str, outer: &str) -> bool {
    let outer = outer.trim_end_matches('/');
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Checks whether a path is absolute and resolved as far as its text can show: no `.`, no `..`, no empty step.
pub fn is_resolved(path: &str) -> bool {
    let Some(steps) = path.strip_prefix('/') else { return false };
    steps.is_empty() || steps.split('/').all(|step| !matches!(step, "" | "." | ".."))
}

/// Something outside the arguments that an approval depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// The path.
    pub path: String,
    /// The state when the plan was made.
    pub state: BindingState,
}

/// The state of a bound path when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BindingState {
    /// Nothing exists at the path.
    Missing,
    /// A file with this content.
    Content(Digest),
    /// Exactly this directory.
    Directory {
        /// The device number.
        device: u64,
        /// The inode number.
        inode: u64,
    },
    /// The path is a port of this machine, as in `localhost:5432`, on which this program listens.
    Listener {
        /// The program, in words.
        program: String,
    },
}

impl Binding {
    /// Returns the binding of a port of this machine to the program that listens there.
    pub fn for_local_port(port: u16, program: String) -> Self {
        Self { path: format!("{LOCALHOST}:{port}"), state: BindingState::Listener { program } }
    }

    /// Returns the port of this machine and the program that listened there, if that is what is bound.
    pub fn local_port(&self) -> Option<(u16, &str)> {
        let BindingState::Listener { program } = &self.state else { return None };
        let port = self.path.strip_prefix(LOCALHOST)?.strip_prefix(':')?;
        Some((port.parse().ok()?, program))
    }
}

/// The temporary directory that each session has for itself.
pub const SESSION_TMP: &str = "/tmp";

/// The effects of a draft, predicted without running it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The predicted effects.
    pub effects: Vec<Effect>,
    /// The effects that mean something beneath their path, and not all of it, such as whatever `find` finds. No standing approval is
    /// offered for these, except for exactly the same command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partial_effects: Vec<Effect>,
    /// The effects that a word may have, but that nothing proves: the path in an argument whose meaning is not known, the program that
    /// `npx` runs. Rules that deny them or ask about them apply. Without such a rule they need no allow, if they are runs or in the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tentative_effects: Vec<Effect>,
    /// The effects on the contents of a directory that is deleted, copied or moved as a whole. Denies and asks apply to them, an allow
    /// need not name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contained_effects: Vec<Effect>,
    /// The working directory, programs, scripts and edited files as they were when the plan was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bindings: Vec<Binding>,
    /// The plan has no effect but reads. The permission class determines this, not the tool.
    #[serde(default)]
    pub read_only: bool,
    /// The effects cannot be undone.
    #[serde(default)]
    pub irreversible: bool,
    /// Every host that the call needs is among the effects, so that a sandbox gives it no other network. False if nobody knows what its
    /// programs do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub names_all_hosts: bool,
    /// The call sees a directory of its session in the place of [`SESSION_TMP`], and of the root only what every sandbox shows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_session_tmp: bool,
    /// The dangers of the call, whatever its effects are permitted to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dangers: Vec<Danger>,
    /// The data of earlier calls that the tool is given. The gate sets it; a planner cannot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<EarlierDataRef>,
}

/// A reference to the data of an earlier call that a tool is given (T4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierDataRef {
    /// The own name of the tool that returned the data.
    pub tool: String,
    /// The call that returned it.
    pub call: CallId,
    /// The output of that call after review, stored under the key of that call.
    pub output: ContentRef,
}

/// A danger that is never silently allowed, and that no standing approval covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Danger {
    /// The stable name.
    pub id: String,
    /// The reason, in words for a person; never the plan's own.
    pub reason: String,
    /// The call is denied. Otherwise a person is asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
}

impl Plan {
    /// Returns the recorded form of a plan whose content is stored.
    pub fn summarize(&self, key: &RecordKey, held: ContentRef) -> PlanSummary {
        PlanSummary {
            plan: held,
            effects: self.effects.iter().map(|effect| EffectDigest::new(effect, key)).collect(),
            read_only: self.read_only,
            irreversible: self.irreversible,
            data: self.data.clone(),
        }
    }

    /// Checks whether the plan affects paths only, and every path passes the test. A plan without effects fails, and so does any effect
    /// that is not on a path, such as a program or a host.
    pub fn only_affects_paths(&self, test: impl Fn(&str) -> bool) -> bool {
        !self.effects.is_empty() && self.effects.iter().all(|effect| effect.path().is_some_and(&test))
    }

    /// Returns the ports of this machine's loopback that the plan reaches, in order and without duplicates.
    pub fn local_ports(&self) -> Vec<u16> {
        let hosts = self.effects.iter().filter_map(Effect::host);
        let local = hosts.filter(|(host, port)| *port != 0 && is_localhost(host)).map(|(_, port)| port);
        local.collect::<BTreeSet<u16>>().into_iter().collect()
    }

    /// Adds a danger for each port of this machine that nothing can open to a command, so that the call is denied before anybody is asked.
    pub fn deny_control_ports(&mut self) {
        for port in self.local_ports() {
            if let Some(why) = never_opened(port) {
                let reason = format!("nothing can open `{LOCALHOST}:{port}` to a command, because {why}");
                self.dangers.push(Danger { id: "control-port".to_owned(), reason, denied: true });
            }
        }
    }

    /// Checks whether the call sends something to a host that is known only when it runs, such as that of `git push origin`.
    pub fn sends_to_unknown_host(&self) -> bool {
        self.effects.contains(&Effect::send_to_unknown_host())
    }

    /// Checks whether the result of a call with this plan may hold text of strangers: from the web, or from an MCP server. A turn of the
    /// model reaches a host, too, but its text is that of the agent.
    pub fn reads_foreign(&self, manifest: &Manifest) -> bool {
        let is_mcp = |effect: &Effect| matches!(effect, Effect::Invoke { tool } if tool.starts_with("mcp:"));
        let fetches = matches!(manifest.permission_class, PermissionClass::Bash | PermissionClass::Webfetch);
        manifest.server.is_some()
            || self.effects.iter().any(|effect| is_mcp(effect) || fetches && effect.host().is_some())
    }

    /// Checks whether this effect of the plan means something beneath its path, and not all of it.
    pub fn is_partial(&self, effect: &Effect) -> bool {
        self.partial_effects.contains(effect)
    }

    /// Checks whether the plan only reads and runs programs. Such a call needs no answer to the question of an earlier call: it sees the files
    /// as they are.
    pub fn only_reads(&self) -> bool {
        self.effects.iter().all(|effect| matches!(effect, Effect::Read { .. } | Effect::Run { .. }))
    }

    /// Checks whether an effect stays in the temporary directory of the session, or lists the root, of which a sandbox shows nothing secret.
    pub fn stays_in_session_tmp(&self, effect: &Effect) -> bool {
        let is_there = match effect {
            Effect::Read { path } => path == "/" || is_at_or_beneath(path, SESSION_TMP),
            Effect::Write { path } | Effect::Delete { path } => {
                path != SESSION_TMP && is_at_or_beneath(path, SESSION_TMP)
            }
            _ => false,
        };
        self.has_session_tmp && is_there
    }

    /// Checks whether this effect of the plan is only one that a word may have.
    pub fn is_tentative(&self, effect: &Effect) -> bool {
        self.tentative_effects.contains(effect)
    }

    /// Returns the effects that are certain: those that the arguments name, without the other names of the same files.
    pub fn named_effects(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter().filter(|effect| !self.is_tentative(effect))
    }

    /// Adds predicted effects. An effect that is certain for one part of a call is certain for the call.
    pub fn add_predicted(&mut self, effects: Vec<Effect>, tentative: &[Effect]) {
        for effect in effects {
            if !tentative.contains(&effect) {
                self.tentative_effects.retain(|known| *known != effect);
            } else if !self.effects.contains(&effect) {
                self.tentative_effects.push(effect.clone());
            }
            self.effects.push(effect);
        }
    }

    /// Returns the effects on the contents of the directory that this effect deletes or writes as a whole.
    pub fn contents_of<'a>(&'a self, effect: &'a Effect) -> impl Iterator<Item = &'a Effect> {
        let directory = match effect {
            Effect::Delete { path } | Effect::Write { path } => Some(path.as_str()),
            _ => None,
        };
        self.contained_effects.iter().filter(move |inner| {
            let path = inner.path();
            directory.zip(path).is_some_and(|(outer, inner)| inner != outer && is_at_or_beneath(inner, outer))
        })
    }

    /// Checks whether any effect of this plan must keep its order with any effect of the other.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.effects.iter().any(|a| other.effects.iter().any(|b| a.conflicts_with(b)))
    }
}

/// The recorded form of one effect: enough to check whether a person saw it, and nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EffectDigest(uuid::Uuid);

impl EffectDigest {
    /// Returns the digest of an effect under the record's key: 128 bits of a keyed digest.
    pub fn new(effect: &Effect, key: &RecordKey) -> Self {
        let text = serde_json::to_vec(effect).unwrap_or_default();
        let digest = key.digest(&text);
        let (head, _) = digest.as_bytes().split_at(16);
        Self(uuid::Uuid::from_slice(head).unwrap_or_default())
    }

    /// Returns a digest with a given number, for tests that write records by hand.
    pub const fn from_number(number: u128) -> Self {
        Self(uuid::Uuid::from_u128(number))
    }
}

/// The recorded form of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSummary {
    /// The complete plan, stored under the record's key.
    pub plan: ContentRef,
    /// The digests of its effects.
    pub effects: Vec<EffectDigest>,
    /// The plan has no effect but reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The effects cannot be undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub irreversible: bool,
    /// The data of earlier calls that the tool is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<EarlierDataRef>,
}

impl PlanSummary {
    /// Checks whether every effect and all data of this plan were among those of the other, and whether it is irreversible only if the
    /// other is.
    pub fn is_subset_of(&self, seen: &Self) -> bool {
        self.effects.iter().all(|mark| seen.effects.contains(mark))
            && self.data.iter().all(|given| seen.data.contains(given))
            && self.irreversible <= seen.irreversible
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
    fn an_unknown_host_or_port_is_not_shown_as_a_number() {
        let send = |host: &str, port| Effect::Send { host: host.into(), port }.to_string();
        assert_eq!(Effect::send_to_unknown_host().to_string(), "send to a host that is not known");
        assert_eq!(
            [send("h.example", 0), send("h.example", 443)],
            ["send to h.example", "send to h.example:443"]
        );
    }

    #[test]
    fn a_plan_with_an_effect_that_is_not_on_a_path_does_not_affect_paths_only() {
        let logs = |effects: &[Effect]| {
            let plan = Plan { effects: effects.to_vec(), ..Plan::default() };
            plan.only_affects_paths(|path| path.ends_with(".log"))
        };
        assert!(logs(&[read("/w/a.log"), write("/w/b.log")]));
        assert!(!logs(&[read("/w/a.log"), write("/w/b.txt")]));
        assert!(!logs(&[read("/w/a.log"), Effect::Reach { host: "h".into(), port: 443 }]));
        assert!(!logs(&[Effect::Unknown { reason: "r".into() }]));
        assert!(!logs(&[]));
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
        check(&Effect::Unknown { reason: String::new() }, &read("/w/a"), true);
        let invoke = |tool: &str| Effect::Invoke { tool: tool.into() };
        check(&invoke("a"), &invoke("a"), true);
        check(&invoke("a"), &invoke("b"), false);
        let reach = |host: &str| Effect::Reach { host: host.into(), port: 443 };
        check(&reach("a"), &reach("a"), true);
        let send = |host: &str| Effect::Send { host: host.into(), port: 443 };
        check(&send("a"), &reach("a"), true);
        check(&send("a"), &reach("b"), false);
        check(&reach("a"), &write("/w/a"), false);
    }

    // req: T4
    #[test]
    fn a_plan_with_other_data_shows_something_new() {
        let key = RecordKey::from_bytes([1; 32]);
        let output = |text: &str| key.content_ref(text.as_bytes());
        let summary = |text: Option<&str>| {
            let given = |text| EarlierDataRef {
                tool: "t".into(),
                call: CallId::new(uuid::Uuid::nil()),
                output: output(text),
            };
            let plan = Plan { data: text.map(given).into_iter().collect(), ..Plan::default() };
            plan.summarize(&key, output("the plan"))
        };
        assert!(summary(Some("a")).is_subset_of(&summary(Some("a"))));
        assert!(summary(None).is_subset_of(&summary(Some("a"))));
        assert!(!summary(Some("b")).is_subset_of(&summary(Some("a"))));
        assert!(!summary(Some("a")).is_subset_of(&summary(None)));
    }

    // req: A8
    #[test]
    fn the_mark_is_in_the_record_and_a_record_without_it_can_be_read() {
        let delete = Effect::Delete { path: "/w".into() };
        let mut plan = Plan { effects: vec![delete.clone()], ..Plan::default() };
        let old = serde_json::to_string(&plan).unwrap();
        assert!(!old.contains("beneath"), "{old}");
        assert_eq!(serde_json::from_str::<Plan>(&old).unwrap(), plan);
        plan.partial_effects = vec![delete.clone()];
        let kept: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
        assert!(kept == plan && kept.is_partial(&delete));
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
