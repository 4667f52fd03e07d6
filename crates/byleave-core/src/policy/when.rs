//! Conditions: for which calls a rule holds, beyond the effects it is about.
//!
//! What a tool says of itself never loosens: where a rule allows, a condition must be proven, and a tool's label proves
//! nothing; where it denies or asks, it is enough that the condition may hold.

use globset::GlobMatcher;
use serde::Serialize;

use super::request::Request;
use crate::call::Mode;
use crate::manifest::Class;
use crate::pattern::{BadPattern, Sense, folded, glob_of};

/// For which calls a rule holds; what is left out holds for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct When {
    /// The call does nothing but read, or more than that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The tool is sensitive, or says that it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<bool>,
    /// The tool is of one of these classes; empty: of any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<Class>,
    /// The call is made in this mode or a looser one. Never in this one alone: a looser mode must not shake off a deny.
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

impl When {
    /// Whether it asks in which session or by which agent a call is made.
    pub const fn looks_at_the_caller(&self) -> bool {
        self.session.is_some() || self.agent.is_some()
    }
}

/// Conditions made ready.
#[derive(Debug)]
pub(super) struct Condition {
    read_only: Option<bool>,
    sensitive: Option<bool>,
    class: Vec<Class>,
    mode: Option<Mode>,
    server: Option<Name>,
    session: Option<Name>,
    agent: Option<Name>,
}

/// A glob over names, as it is and folded.
#[derive(Debug)]
pub(super) struct Name {
    exact: GlobMatcher,
    folded: GlobMatcher,
}

impl Condition {
    pub(super) fn new(when: &When) -> Result<Self, BadPattern> {
        let name = |glob: &Option<String>| glob.as_deref().map(Name::new).transpose();
        Ok(Self {
            read_only: when.read_only,
            sensitive: when.sensitive,
            class: when.class.clone(),
            mode: when.mode,
            server: name(&when.server)?,
            session: name(&when.session)?,
            agent: name(&when.agent)?,
        })
    }

    /// Whether it holds for the call, in this sense.
    pub(super) fn holds(&self, request: &Request<'_>, reads: bool, sense: Sense) -> bool {
        let manifest = request.manifest;
        let fits = |name: &Option<Name>, text: Option<&str>| {
            name.as_ref().is_none_or(|name| text.is_some_and(|text| name.fits(text, sense)))
        };
        // By the plan it reads only: that is known. By its label it does: that may be.
        let read_only = Known { yes: reads, no: !reads && !manifest.read_only };
        let sensitive =
            Known { yes: manifest.sensitive == Some(true), no: manifest.sensitive == Some(false) };
        self.read_only.is_none_or(|wanted| read_only.is(wanted, sense))
            && self.sensitive.is_none_or(|wanted| sensitive.is(wanted, sense))
            && (self.class.is_empty() || self.class.contains(&manifest.permission_class))
            && self.mode.is_none_or(|mode| request.mode.is_as_loose_as(mode))
            && fits(&self.server, manifest.server.as_deref())
            && fits(&self.session, Some(request.session.as_str()))
            && fits(&self.agent, Some(request.agent.as_str()))
    }
}

impl Name {
    pub(super) fn new(glob: &str) -> Result<Self, BadPattern> {
        Ok(Self {
            exact: glob_of(glob)?.compile_matcher(),
            folded: glob_of(&folded(glob))?.compile_matcher(),
        })
    }

    pub(super) fn fits(&self, text: &str, sense: Sense) -> bool {
        self.exact.is_match(text) || sense == Sense::Possibly && self.folded.is_match(folded(text).as_ref())
    }
}

/// What is known of a yes or no: one of them, or neither.
struct Known {
    yes: bool,
    no: bool,
}

impl Known {
    const fn is(&self, wanted: bool, sense: Sense) -> bool {
        match (wanted, sense) {
            (true, Sense::Surely) => self.yes,
            (false, Sense::Surely) => self.no,
            (true, Sense::Possibly) => !self.no,
            (false, Sense::Possibly) => !self.yes,
        }
    }
}
