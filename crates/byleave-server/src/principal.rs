//! Principals and their permissions.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use byleave_gate::core::id::TenantId;
use serde::{Deserialize, Serialize};

/// The maximum length of a principal's or tenant's name.
pub const MAX_NAME_CHARS: usize = 64;

/// The kind of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalKind {
    /// A program that makes calls. If it may answer, it answers as a program.
    Agent,
    /// A person.
    Person,
}

/// A permission of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessScope {
    /// Make calls, and see the results of its own.
    Submit,
    /// See open questions in full, and answer those of others.
    Answer,
    /// Read the audit log: all calls of the tenant, its standing approvals, and its questions in short form.
    Read,
    /// Halt and lift, revoke standing approvals, and cancel any call.
    Administer,
    /// Execute the calls of the tenant, as a worker. It excludes all other scopes, because a worker must not make or answer
    /// calls.
    Work,
}

impl AccessScope {
    /// All scopes.
    pub const ALL: [Self; 5] = [Self::Submit, Self::Answer, Self::Read, Self::Administer, Self::Work];

    /// Returns the name of the scope.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Answer => "answer",
            Self::Read => "read",
            Self::Administer => "administer",
            Self::Work => "work",
        }
    }
}

impl PrincipalKind {
    /// Returns the name of the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Person => "person",
        }
    }
}

/// An unambiguous name: 1 to 64 lower-case letters, digits, `.`, `-` and `_`, beginning with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(String);

/// The error for a text that is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a valid name; use 1 to 64 lower-case letters, digits, `.`, `-` and `_`, and begin with a letter or digit"
)]
pub struct SlugError(String);

impl Slug {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Slug {
    type Err = SlugError;
    fn from_str(text: &str) -> Result<Self, SlugError> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_');
        let first = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !first || text.len() > MAX_NAME_CHARS || !text.chars().all(plain) {
            return Err(SlugError(text.escape_debug().to_string()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Slug {
    type Error = SlugError;
    fn try_from(text: String) -> Result<Self, SlugError> {
        text.parse()
    }
}

impl From<Slug> for String {
    fn from(name: Slug) -> Self {
        name.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A principal and its permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The tenant. The principal sees and does only things of this tenant.
    pub tenant: TenantId,
    /// Its name, under which its calls and answers are recorded. Nobody answers questions under their own name.
    pub name: Slug,
    /// Its kind.
    pub kind: PrincipalKind,
    /// Its permissions.
    pub scopes: BTreeSet<AccessScope>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_spelling_and_are_no_path() {
        for good in ["ann", "agent-7", "0", "a.b_c"] {
            assert_eq!(good.parse::<Slug>().map(String::from), Ok(good.to_owned()));
        }
        let long = "a".repeat(65);
        for bad in ["", "Ann", "a b", "a/b", "..", ".a", "-a", "\u{430}nn", "a\0", &long] {
            assert!(bad.parse::<Slug>().is_err(), "{bad:?}");
            assert!(serde_json::from_value::<Slug>(serde_json::json!(bad)).is_err(), "{bad:?}");
        }
    }
}
