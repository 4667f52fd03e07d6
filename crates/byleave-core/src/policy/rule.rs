//! Rules: what someone wrote down beforehand about some effects.

use std::fmt;

use serde::Serialize;

use super::condition::RuleCondition;
use crate::decision::{AskCause, Verdict};
use crate::pattern::{MatchCertainty, Pattern, PatternError};

/// Who wrote a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Comes with Byleave.
    Builtin,
    /// The organisation, for all of its people.
    Organisation,
    /// The person.
    User,
    /// A file in the workspace, which an agent may have written: tightens, and never loosens.
    Project,
    /// Given when the session was started.
    Session,
}

impl Layer {
    /// Which layer's allow decides where several allow: the guarantees that an organisation wants for its allow cannot
    /// be had cheaper by an allow from below, and a person's own word stands above ours.
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

/// A verdict on every effect that fits one of some patterns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Its name, unique within its layer.
    pub id: String,
    /// Who wrote it.
    pub layer: Layer,
    /// What it says.
    pub verdict: Verdict,
    /// The effects it is about: those that fit any of these, or all of them where a deny or an ask has none,
    pub patterns: Vec<Pattern>,
    /// and none of these,
    pub except: Vec<Pattern>,
    /// of calls for which this holds.
    pub when: RuleCondition,
    /// No leave may answer the ask.
    pub firm: bool,
    /// The ask is about great harm: no leave may answer it, and it asks in confirm-dangerous too.
    pub dangerous: bool,
    /// What must be guaranteed for the allow to hold.
    pub guarantees: Vec<String>,
    /// Sub-agents whose names fit this glob may do it, for those to whom the rule forbids it: may be delegated, not held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegate: Option<String>,
    /// In words, for the person who is asked.
    pub why: String,
    /// Where it is written: file and line.
    pub origin: Option<String>,
    /// Examples of what it is about.
    pub yes: Vec<Example>,
    /// Examples of what it is not about.
    pub no: Vec<Example>,
}

/// An example that stands with a rule and is checked when the rule is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// A command, a path, a host or a tool; with a kind of effect and a colon before it where the rule has several.
    pub text: String,
    /// Where it stands in its file, in bytes.
    pub at: std::ops::Range<usize>,
}

impl Rule {
    /// A plain rule, with nothing more to it than its verdict.
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
            guarantees: Vec::new(),
            delegate: None,
            why: String::new(),
            origin: None,
            yes: Vec::new(),
            no: Vec::new(),
        }
    }

    /// How sure it must be that an effect fits: an allow needs a proof.
    pub const fn sense(&self) -> MatchCertainty {
        match self.verdict {
            Verdict::Allow => MatchCertainty::Surely,
            Verdict::Ask | Verdict::Deny => MatchCertainty::Possibly,
        }
    }

    /// How sure it must be that an effect is excepted: the other way around.
    pub const fn sense_of_except(&self) -> MatchCertainty {
        match self.verdict {
            Verdict::Allow => MatchCertainty::Possibly,
            Verdict::Ask | Verdict::Deny => MatchCertainty::Surely,
        }
    }

    /// The cause with which it asks; none for a deny or an allow.
    pub fn cause(&self) -> Option<AskCause> {
        match self.verdict {
            Verdict::Allow | Verdict::Deny => None,
            Verdict::Ask if self.dangerous => Some(AskCause::Dangerous),
            Verdict::Ask if self.firm => Some(AskCause::FirmRule),
            Verdict::Ask => Some(AskCause::Rule),
        }
    }

    /// Whether a person or an organisation allowed this in so many words.
    pub(super) fn allows_explicitly(&self) -> bool {
        self.verdict == Verdict::Allow && self.layer != Layer::Builtin
    }

    /// Whether it is about whole calls: it tightens, says when, and names no effect.
    fn is_about_calls(&self) -> bool {
        let tightens = self.verdict != Verdict::Allow && self.delegate.is_none();
        tightens && self.patterns.is_empty() && self.when != RuleCondition::default()
    }

    /// What is wrong with it taken by itself, apart from its patterns.
    pub(super) fn check(&self) -> Result<(), RuleError> {
        let asks = self.verdict == Verdict::Ask;
        let about = |except: &Pattern| self.patterns.iter().any(|pattern| pattern.kind() == except.kind());
        let fault = if self.id.is_empty() {
            RuleError::Unnamed
        } else if self.patterns.is_empty() && !self.is_about_calls() {
            RuleError::NoPatterns
        } else if self.layer == Layer::Project && self.verdict == Verdict::Allow {
            RuleError::ProjectAllows
        } else if self.firm && !asks {
            RuleError::OnlyAsk("firm")
        } else if self.dangerous && !asks {
            RuleError::OnlyAsk("dangerous")
        } else if self.firm && self.dangerous {
            RuleError::FirmTwice
        } else if !self.guarantees.is_empty() && self.verdict != Verdict::Allow {
            RuleError::GuaranteesUnused
        } else if self.delegate.is_some() && self.verdict == Verdict::Allow {
            RuleError::DelegateHeld
        } else if self.delegate.is_some() && self.layer == Layer::Project {
            RuleError::ProjectDelegates
        } else if !self.except.iter().all(about) {
            RuleError::ExceptUnused
        } else if !self.patterns.is_empty()
            && self.patterns.iter().all(|pattern| self.except.contains(pattern))
        {
            RuleError::AllExcepted
        } else {
            return Ok(());
        };
        Err(fault)
    }

    /// The fault, with the rule's name and place.
    pub(super) fn fault(&self, fault: impl Into<RuleError>) -> PolicyError {
        PolicyError::Rule { id: self.id.clone(), place: self.place(), fault: fault.into() }
    }

    /// Where it stands: layer, and file and line where there are any.
    pub(super) fn place(&self) -> String {
        match &self.origin {
            Some(origin) => format!("{}, {origin}", self.layer),
            None => self.layer.to_string(),
        }
    }
}

/// Why a policy cannot be used. A policy that cannot be used in full is not used at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A rule is wrong.
    #[error("cannot use rule `{id}` ({place}): {fault}")]
    Rule {
        /// The rule.
        id: String,
        /// Where it stands: layer, file and line.
        place: String,
        /// What is wrong with it.
        fault: RuleError,
    },
    /// A directory that the built-in rules are about is not known well enough.
    #[error("cannot make rules for the {what} `{path}`: give an absolute path without `.` and `..`")]
    Place {
        /// Which directory.
        what: &'static str,
        /// As it was given.
        path: String,
    },
    /// The built-in rules cannot be read, which is our fault.
    #[error("cannot read the built-in rules: {0}; this is a fault of the program, not of yours")]
    Builtin(String),
    /// The rules are right one by one, but cannot be made ready together.
    #[error("cannot make the rules ready: {0}; use fewer or simpler globs")]
    TooLarge(String),
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It has no id.
    #[error("it has no id; give it one")]
    Unnamed,
    /// It is about nothing.
    #[error("it is about nothing; name at least one effect, or for a deny or an ask say when it holds")]
    NoPatterns,
    /// One of its patterns is wrong.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Its layer has another of that name.
    #[error("another rule of the same layer has this id (the other: {0}); rename one of them")]
    Twice(String),
    /// A project may only tighten.
    #[error("a project holds only `deny` and `ask`; move it to the rules of the user")]
    ProjectAllows,
    /// A mark that means something on an ask alone.
    #[error("`{0}` means something on an `ask` only; drop it, or make the rule an `ask`")]
    OnlyAsk(&'static str),
    /// Both marks at once.
    #[error("a `dangerous` rule is firm already; drop `firm`")]
    FirmTwice,
    /// Guarantees on a rule that allows nothing.
    #[error("only an `allow` depends on guarantees; drop them, or make the rule an `allow`")]
    GuaranteesUnused,
    /// Delegation of what is allowed anyway.
    #[error(
        "`delegate` is for what a rule denies or asks about; drop it, or make the rule a `deny` or an `ask`"
    )]
    DelegateHeld,
    /// A project may only tighten.
    #[error("a project only tightens, and `delegate` allows; move the rule to your own policy file")]
    ProjectDelegates,
    /// An exception from nothing.
    #[error("it excepts a kind of effect that none of its patterns is about; drop that exception")]
    ExceptUnused,
    /// It excepts all that it is about.
    #[error("it excepts everything it is about, so it can never match; drop an exception")]
    AllExcepted,
    /// It has the id of a built-in rule that nobody may replace.
    #[error("a built-in `{}` has this id and only a built-in `ask` can be replaced; choose another id", .0.word())]
    NotReplaceable(Verdict),
}
