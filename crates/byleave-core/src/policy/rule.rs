//! Rules: verdicts on effects, written beforehand.

use std::fmt;

use serde::Serialize;

use super::condition::RuleCondition;
use crate::decision::{AskCause, Verdict};
use crate::effect::Effect;
use crate::host::{HostPattern, PortPattern, never_opened};
use crate::pattern::{MatchCertainty, Pattern, PatternError};

/// The id of the rule that stands in for a missing rule about undoable work.
pub const UNDOABLE: &str = "undoable";

/// The layer of a rule, which says where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Rules that are part of Byleave.
    Builtin,
    /// Rules of the organisation, for all of its people.
    Organisation,
    /// Rules of the user.
    User,
    /// Rules of a file in the workspace, which an agent may have written. They can tighten, and never loosen.
    Project,
    /// Rules that were given when the session was started.
    Session,
}

impl Layer {
    /// Returns the rank of the layer, which decides if several rules allow. An allow of a lower layer must not avoid the guarantees that
    /// the organisation requires for its allow. An allow of the user ranks above a built-in one.
    pub(super) const fn authority(self) -> u8 {
        match self {
            Self::Organisation => 4,
            Self::User => 3,
            Self::Session => 2,
            Self::Builtin => 1,
            Self::Project => 0,
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Builtin => "built-in",
            Self::Organisation => "organisation",
            Self::User => "user",
            Self::Project => "project",
            Self::Session => "session",
        })
    }
}

/// A verdict on every effect that fits one of the patterns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The id, unique within its layer.
    pub id: String,
    /// The layer.
    pub layer: Layer,
    /// The verdict.
    pub verdict: Verdict,
    /// The patterns. The rule applies to effects that fit any of them, or to all effects if a deny or an ask has none.
    pub patterns: Vec<Pattern>,
    /// The exceptions. The rule does not apply to effects that fit any of these.
    pub except: Vec<Pattern>,
    /// The condition that a call must meet.
    pub when: RuleCondition,
    /// No standing approval may answer the ask.
    pub firm: bool,
    /// The ask is about great harm. No standing approval may answer it, and it asks in confirm-dangerous too.
    pub dangerous: bool,
    /// The ask is a checkpoint: a person must release the call in every mode, and no standing approval may answer (R8).
    pub checkpoint: bool,
    /// The ask applies only where no other rule decides, and a yes counts for its host for the rest of the session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remember: bool,
    /// Somebody must first make the case against the call (R9). Every verdict but a deny can require it.
    pub challenge: bool,
    /// The rule stands in for a missing rule about undoable work (`undoable` in `[defaults]`). It has no patterns.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undoable: bool,
    /// The hosts that the rule names may lead to private addresses.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// The gate lends calls the Git transports to the hosts that the rule names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lends_git: bool,
    /// The guarantees that must hold for the allow to hold.
    pub guarantees: Vec<String>,
    /// Sub-agents whose names fit this glob may do it on behalf of those to whom the rule forbids it. They can delegate it, but not do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegate: Option<String>,
    /// The explanation, for the person who is asked.
    pub reason: String,
    /// The location: file and line.
    pub origin: Option<String>,
    /// Examples that the rule covers.
    pub matching_examples: Vec<Example>,
    /// Examples that the rule does not cover.
    pub non_matching_examples: Vec<Example>,
}

/// An example of a rule, checked when the rule is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// A command, a path, a host or a tool. A kind of effect and a colon come before it if the rule has several kinds.
    pub text: String,
    /// The position in its file, in bytes.
    pub span: std::ops::Range<usize>,
}

impl Rule {
    /// Checks whether an effect whose path is a glob of the program may name a file that the rule is about.
    pub(super) fn may_be_named_by(&self, effect: &Effect) -> bool {
        self.patterns.iter().any(|pattern| pattern.may_be_named_by(effect))
    }

    /// Creates a plain rule with a verdict and patterns only.
    pub fn new(id: impl Into<String>, layer: Layer, verdict: Verdict, patterns: Vec<Pattern>) -> Self {
        Self {
            id: id.into(),
            layer,
            verdict,
            patterns,
            except: Vec::new(),
            when: RuleCondition::default(),
            firm: false,
            dangerous: false,
            checkpoint: false,
            remember: false,
            challenge: false,
            undoable: false,
            private: false,
            lends_git: false,
            guarantees: Vec::new(),
            delegate: None,
            reason: String::new(),
            origin: None,
            matching_examples: Vec::new(),
            non_matching_examples: Vec::new(),
        }
    }

    /// Creates the rule that stands in for a missing rule about undoable work.
    pub fn for_undoable_work(layer: Layer, verdict: Verdict) -> Self {
        let reason =
            "it runs on a copy; changes inside the workspace can be undone, and others are asked about"
                .to_owned();
        Self { undoable: true, reason, ..Self::new(UNDOABLE, layer, verdict, Vec::new()) }
    }

    /// Returns how certain it must be that an effect fits. An allow needs proof.
    pub const fn certainty(&self) -> MatchCertainty {
        match self.verdict {
            Verdict::Allow => MatchCertainty::Certain,
            Verdict::Ask | Verdict::Deny => MatchCertainty::Possible,
        }
    }

    /// Returns how certain it must be that an effect is excepted. This is the opposite of [`Self::certainty`].
    pub const fn except_certainty(&self) -> MatchCertainty {
        match self.verdict {
            Verdict::Allow => MatchCertainty::Possible,
            Verdict::Ask | Verdict::Deny => MatchCertainty::Certain,
        }
    }

    /// Returns the cause with which it asks. `None` for a deny or an allow.
    pub fn cause(&self) -> Option<AskCause> {
        match self.verdict {
            Verdict::Allow | Verdict::Deny => None,
            Verdict::Ask if self.checkpoint => Some(AskCause::Checkpoint),
            Verdict::Ask if self.dangerous => Some(AskCause::Dangerous),
            Verdict::Ask if self.firm => Some(AskCause::FirmRule),
            Verdict::Ask => Some(AskCause::Rule),
        }
    }

    /// Returns whether a person or an organisation explicitly allowed this.
    pub(super) fn allows_explicitly(&self) -> bool {
        self.verdict == Verdict::Allow && self.layer != Layer::Builtin
    }

    /// Returns whether it applies to whole calls: it tightens, has a condition and names no effect.
    fn is_about_calls(&self) -> bool {
        let tightens = self.verdict != Verdict::Allow && self.delegate.is_none();
        tightens && self.patterns.is_empty() && self.when != RuleCondition::default() && !self.undoable
    }

    /// Returns whether it applies only to reaching hosts.
    fn is_only_about_hosts(&self) -> bool {
        !self.patterns.is_empty() && self.patterns.iter().all(|pattern| matches!(pattern, Pattern::Reach(_)))
    }

    /// Checks the rule by itself, apart from its patterns.
    pub(super) fn check(&self) -> Result<(), RuleError> {
        let asks = self.verdict == Verdict::Ask;
        let about = |except: &Pattern| self.patterns.iter().any(|pattern| pattern.kind() == except.kind());
        let fault = if self.id.is_empty() {
            RuleError::MissingId
        } else if (self.id == UNDOABLE) != self.undoable {
            RuleError::ReservedId
        } else if self.patterns.is_empty() && !self.is_about_calls() && !self.undoable {
            RuleError::NoPatterns
        } else if self.layer == Layer::Project && self.verdict == Verdict::Allow {
            RuleError::ProjectAllows
        } else if self.firm && !asks {
            RuleError::OnlyAsk("firm")
        } else if self.dangerous && !asks {
            RuleError::OnlyAsk("dangerous")
        } else if self.checkpoint && !asks {
            RuleError::OnlyAsk("checkpoint")
        } else if self.remember && !asks {
            RuleError::OnlyAsk("remember")
        } else if self.remember && !self.is_only_about_hosts() {
            RuleError::RemembersNoHost
        } else if self.remember && (self.firm || self.dangerous || self.checkpoint) {
            RuleError::RemembersNever
        } else if self.remember && self.layer == Layer::Project {
            RuleError::ProjectRemembers
        } else if self.firm && self.dangerous {
            RuleError::FirmAndDangerous
        } else if self.checkpoint && (self.firm || self.dangerous) {
            RuleError::CheckpointAlready(if self.firm { "firm" } else { "dangerous" })
        } else if self.challenge && self.verdict == Verdict::Deny {
            RuleError::ChallengeOnDeny
        } else if !self.guarantees.is_empty() && self.verdict != Verdict::Allow {
            RuleError::GuaranteesUnused
        } else if self.delegate.is_some() && self.verdict == Verdict::Allow {
            RuleError::DelegateOnAllow
        } else if self.delegate.is_some() && self.layer == Layer::Project {
            RuleError::ProjectDelegates
        } else if self.verdict == Verdict::Allow && self.patterns.iter().any(Pattern::is_any_program) {
            RuleError::AllowsEveryProgram
        } else if let Some(fault) = self.check_private().or_else(|| self.check_localhost()) {
            fault
        } else if let Some(fault) = self.check_lends() {
            fault
        } else if !self.except.iter().all(about) {
            RuleError::ExceptUnused
        } else if !self.patterns.is_empty() && self.patterns.iter().all(|pattern| self.is_excepted(pattern)) {
            RuleError::AllExcepted
        } else {
            return Ok(());
        };
        Err(fault)
    }

    /// Checks `private`: only an allow that names its hosts can have it.
    fn check_private(&self) -> Option<RuleError> {
        let hosts = self.patterns.iter().filter_map(Pattern::host_pattern);
        let names = |(host, _): (HostPattern, PortPattern)| !matches!(host, HostPattern::Any);
        match self.private {
            true if self.verdict != Verdict::Allow => Some(RuleError::PrivateUnused),
            true if hosts.clone().next().is_none() => Some(RuleError::PrivateUnused),
            true if !hosts.clone().all(names) => Some(RuleError::PrivateEveryHost),
            _ => None,
        }
    }

    /// Checks `lend`: only an allow or an ask that names its hosts can have it, and never one of a project.
    fn check_lends(&self) -> Option<RuleError> {
        let mut hosts = self.patterns.iter().filter_map(Pattern::host_pattern).peekable();
        match self.lends_git {
            true if self.layer == Layer::Project => Some(RuleError::ProjectLends),
            true if self.verdict == Verdict::Deny || hosts.peek().is_none() => Some(RuleError::LendUnused),
            true if hosts.any(|(host, _)| !matches!(host, HostPattern::Name(_))) => {
                Some(RuleError::LendEveryHost)
            }
            _ => None,
        }
    }

    /// Checks an allow of this machine's own ports. It names each port, and never one by which other programs are controlled.
    fn check_localhost(&self) -> Option<RuleError> {
        if self.verdict != Verdict::Allow {
            return None;
        }
        let local =
            self.patterns.iter().filter_map(Pattern::host_pattern).filter(|(host, _)| host.is_localhost());
        local.into_iter().find_map(|(_, ports)| match ports {
            PortPattern::One(0) | PortPattern::All => Some(RuleError::LocalhostWithoutPort),
            PortPattern::One(port) => never_opened(port).map(|why| RuleError::NeverOpened(port, why)),
            PortPattern::Unspecified => None,
        })
    }

    /// Checks whether an exception covers the whole pattern.
    fn is_excepted(&self, pattern: &Pattern) -> bool {
        let covers = |except: &Pattern| {
            except == pattern || except.is_any_program() && pattern.kind() == except.kind()
        };
        self.except.iter().any(covers)
    }

    /// Returns the error with the name and place of the rule.
    pub(super) fn to_policy_error(&self, fault: impl Into<RuleError>) -> PolicyError {
        PolicyError::Rule { id: self.id.clone(), location: self.location(), error: fault.into() }
    }

    /// Returns the location: the layer, and the file and line if they are known.
    pub(super) fn location(&self) -> String {
        match &self.origin {
            Some(origin) => format!("{}, {origin}", self.layer),
            None => self.layer.to_string(),
        }
    }
}

/// The reason why a policy cannot be used. A policy with any error is not used at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A rule is invalid.
    #[error("cannot use rule `{id}` ({location}): {error}")]
    Rule {
        /// The rule.
        id: String,
        /// The location: layer, file and line.
        location: String,
        /// The error.
        error: RuleError,
    },
    /// A directory that the built-in rules name is not an absolute resolved path.
    #[error("cannot build rules for the {name} `{path}`: give an absolute path without `.` and `..`")]
    Directory {
        /// The directory.
        name: &'static str,
        /// The path as it was given.
        path: String,
    },
    /// The built-in rules cannot be read. This is a bug in Byleave.
    #[error("cannot read the built-in rules: {0}; this is a bug in Byleave")]
    Builtin(String),
    /// Each rule is valid, but they cannot be compiled together.
    #[error("cannot compile the rules: {0}; use fewer or simpler globs")]
    TooLarge(String),
}

/// The error in a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The rule has no id.
    #[error("the rule has no id; add one")]
    MissingId,
    /// The id belongs to the default about undoable work.
    #[error("the id `{UNDOABLE}` belongs to the key `undoable` of `[defaults]`; choose another id")]
    ReservedId,
    /// The rule matches nothing.
    #[error("the rule matches nothing; add at least one effect, or add `when` to a `deny` or `ask` rule")]
    NoPatterns,
    /// One of the patterns is invalid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Another rule of the layer has the same id.
    #[error("another rule of the same layer has this id (the other: {0}); rename one of them")]
    DuplicateId(String),
    /// A project may only tighten.
    #[error("a project may contain only `deny` and `ask` rules; move the rule to your own policy file")]
    ProjectAllows,
    /// A flag that is valid only on an ask.
    #[error("`{0}` is valid only on an `ask`; remove it, or make the rule an `ask`")]
    OnlyAsk(&'static str),
    /// A yes can be remembered only for a host.
    #[error("`remember` is valid only on a rule about hosts; remove it, or name nothing but `reach`")]
    RemembersNoHost,
    /// The ask must be answered every time.
    #[error("a yes to a `firm`, `dangerous` or `checkpoint` rule cannot be remembered; remove `remember`")]
    RemembersNever,
    /// A project could make a yes count for longer.
    #[error("a project cannot decide that a yes is remembered; move the rule to your own policy file")]
    ProjectRemembers,
    /// Both flags at once.
    #[error("a `dangerous` rule is already firm; remove `firm`")]
    FirmAndDangerous,
    /// A checkpoint asks in every mode, so another flag adds nothing.
    #[error("`checkpoint` already asks in every mode; remove `{0}`")]
    CheckpointAlready(&'static str),
    /// A denied call does not run, so there is no case to make.
    #[error("`challenge` on a `deny` has no effect, because the call never runs; remove it")]
    ChallengeOnDeny,
    /// Guarantees on a rule that does not allow.
    #[error("guarantees are valid only on an `allow`; remove them, or make the rule an `allow`")]
    GuaranteesUnused,
    /// Delegation of something that is allowed anyway.
    #[error(
        "`delegate` is valid only on a `deny` or an `ask`; remove it, or make the rule a `deny` or an `ask`"
    )]
    DelegateOnAllow,
    /// A project may only tighten.
    #[error(
        "a project can only tighten the policy, but `delegate` allows; move the rule to your own policy file"
    )]
    ProjectDelegates,
    /// An allow of every program.
    #[error("an `allow` cannot name every program; name the programs, or write a `deny` with `except`")]
    AllowsEveryProgram,
    /// `private` on a rule that allows no host.
    #[error(
        "`private` is valid only on an `allow` with `reach` or `send`; remove it, or move it to such a rule"
    )]
    PrivateUnused,
    /// `private` for every host.
    #[error("`private` cannot be for every host, because each could lead into your network; name the hosts")]
    PrivateEveryHost,
    /// `lend` on a rule that names no host, or denies.
    #[error(
        "`lend` is valid only on an `allow` or an `ask` with `reach` or `send`; remove it, or move it to such a rule"
    )]
    LendUnused,
    /// `lend` for more than single hosts.
    #[error("`lend` is only for hosts that are named one by one; name the hosts")]
    LendEveryHost,
    /// A project may only tighten.
    #[error(
        "a project can only tighten the policy, but `lend` lends your credentials; move the rule to your own policy file"
    )]
    ProjectLends,
    /// An allow of every port of this machine.
    #[error("an `allow` opens a single port of this machine, not all; write `localhost:PORT`")]
    LocalhostWithoutPort,
    /// An allow of a port that nothing can open.
    #[error("`localhost:{0}` can never be opened to a command, because {1}; remove it")]
    NeverOpened(u16, &'static str),
    /// An exception for a kind of effect that the rule does not match.
    #[error("the rule excepts a kind of effect that no pattern of it matches; remove that exception")]
    ExceptUnused,
    /// The rule excepts everything that it matches.
    #[error("the rule excepts everything that it matches, so it can never match; remove an exception")]
    AllExcepted,
    /// The rule has the id of a built-in rule that cannot be replaced.
    #[error("a built-in `{}` has this id and only a built-in `ask` can be replaced; choose another id", .0.as_str())]
    NotReplaceable(Verdict),
}
