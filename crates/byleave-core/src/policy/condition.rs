//! Conditions: the calls that a rule applies to, in addition to its effects.
//!
//! A tool's own labels never loosen. If a rule allows, a condition must be proven, and a label of the tool proves nothing. If a rule denies
//! or asks, it is enough that the condition may hold.

use serde::Serialize;

use super::request::PolicyRequest;
use crate::call::Mode;
use crate::manifest::PermissionClass;
use crate::pattern::{GlobMatcher, MatchCertainty, PatternError, compile_globs, fold, parse_glob};

/// The calls that a rule applies to. An absent field applies to all calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleCondition {
    /// The call only reads, or does more than read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The session has read text from the web or from an MCP server, or has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_foreign: Option<bool>,
    /// The tool is sensitive, or declares that it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<bool>,
    /// The permission classes of the tool. Empty for any class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<PermissionClass>,
    /// The call is made in this mode or a looser one. It is never this mode alone, because a looser mode must not avoid a deny.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The tool is offered by an MCP server whose name fits this glob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The call is made in a session whose name fits this glob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The call is made by an agent whose name fits this glob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

impl RuleCondition {
    /// Returns whether it depends on the session or the agent of a call.
    pub const fn depends_on_caller(&self) -> bool {
        self.session.is_some() || self.agent.is_some()
    }
}

/// A compiled condition.
#[derive(Debug)]
pub(super) struct CompiledCondition {
    read_only: Option<bool>,
    read_foreign: Option<bool>,
    sensitive: Option<bool>,
    class: Vec<PermissionClass>,
    mode: Option<Mode>,
    server: Option<NameGlob>,
    session: Option<NameGlob>,
    agent: Option<NameGlob>,
}

/// A glob over names, exact and case-folded.
#[derive(Debug)]
pub(super) struct NameGlob {
    exact: GlobMatcher,
    folded: GlobMatcher,
}

impl CompiledCondition {
    pub(super) fn new(when: &RuleCondition) -> Result<Self, PatternError> {
        let name = |glob: &Option<String>| glob.as_deref().map(NameGlob::new).transpose();
        Ok(Self {
            read_only: when.read_only,
            read_foreign: when.read_foreign,
            sensitive: when.sensitive,
            class: when.class.clone(),
            mode: when.mode,
            server: name(&when.server)?,
            session: name(&when.session)?,
            agent: name(&when.agent)?,
        })
    }

    /// Checks whether it holds for the call with this certainty.
    pub(super) fn matches(&self, request: &PolicyRequest<'_>, reads: bool, sense: MatchCertainty) -> bool {
        let manifest = request.manifest;
        let fits = |name: &Option<NameGlob>, text: Option<&str>| {
            name.as_ref().is_none_or(|name| text.is_some_and(|text| name.matches(text, sense)))
        };
        // If the plan only reads, that is certain. If only the label says so, that is possible.
        let read_only = Tristate { yes: reads, no: !reads && !manifest.read_only };
        let sensitive =
            Tristate { yes: manifest.sensitive == Some(true), no: manifest.sensitive == Some(false) };
        self.read_only.is_none_or(|wanted| read_only.matches(wanted, sense))
            // This comes from the record of the session, so it is always certain.
            && self.read_foreign.is_none_or(|wanted| wanted == request.read_foreign)
            && self.sensitive.is_none_or(|wanted| sensitive.matches(wanted, sense))
            && (self.class.is_empty() || self.class.contains(&manifest.permission_class))
            && self.mode.is_none_or(|mode| request.mode.is_at_least_as_permissive(mode))
            && fits(&self.server, manifest.server.as_deref())
            && fits(&self.session, Some(request.session.as_str()))
            && fits(&self.agent, Some(request.agent.as_str()))
    }
}

impl NameGlob {
    pub(super) fn new(glob: &str) -> Result<Self, PatternError> {
        Ok(Self {
            exact: compile_globs(&[parse_glob(glob)?])?,
            folded: compile_globs(&[parse_glob(&fold(glob))?])?,
        })
    }

    pub(super) fn matches(&self, text: &str, sense: MatchCertainty) -> bool {
        self.exact.is_match(text)
            || sense == MatchCertainty::Possible && self.folded.is_match(fold(text).as_ref())
    }
}

/// The knowledge about a yes or no: one of them, or neither.
struct Tristate {
    yes: bool,
    no: bool,
}

impl Tristate {
    const fn matches(&self, wanted: bool, sense: MatchCertainty) -> bool {
        match (wanted, sense) {
            (true, MatchCertainty::Certain) => self.yes,
            (false, MatchCertainty::Certain) => self.no,
            (true, MatchCertainty::Possible) => !self.no,
            (false, MatchCertainty::Possible) => !self.yes,
        }
    }
}
