//! Typed ids, unique without a central authority.
//!
//! This crate never creates an id, because that would need a clock and a random number. Drivers create UUIDv7 ids and pass them in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps an id that was created elsewhere.
            pub const fn new(id: Uuid) -> Self {
                Self(id)
            }
            /// Returns the id as it is stored.
            pub const fn uuid(&self) -> Uuid {
                self.0
            }
            /// Returns the sixteen bytes of the id.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    )*};
}

uuid_id! {
    /// One call. The caller chooses the id: the same id is the same call.
    CallId;
    /// One question put to a person.
    QuestionId;
    /// One attempt at executing a call.
    AttemptId;
    /// One standing approval.
    StandingApprovalId;
    /// One driver that may hold claims. It is alive as long as its kernel lock is held.
    OwnerId;
    /// One admin action: a halt, its lifting, a revocation, the opening of a session, a forgetting or a waiver.
    AdminActionId;
}

/// The error for a name that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {kind} must have 1 to 128 visible characters, got {value}")]
pub struct InvalidNameError {
    kind: &'static str,
    value: String,
}

macro_rules! text_id {
    ($($(#[$doc:meta])* $name:ident, $kind:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Accepts 1 to 128 visible characters without spaces.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidNameError> {
                let text = text.into();
                let visible = text.chars().all(|c| !c.is_control() && !c.is_whitespace());
                if text.is_empty() || text.chars().count() > 128 || !visible {
                    return Err(InvalidNameError { kind: $kind, value: text.escape_debug().to_string() });
                }
                Ok(Self(text))
            }
            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl TryFrom<String> for $name {
            type Error = InvalidNameError;
            fn try_from(text: String) -> Result<Self, InvalidNameError> {
                Self::new(text)
            }
        }
        impl FromStr for $name {
            type Err = InvalidNameError;
            fn from_str(text: &str) -> Result<Self, InvalidNameError> {
                Self::new(text)
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

text_id! {
    /// One conversation or task of an agent. Calls of one session are ordered.
    SessionId, "session";
    /// An agent that makes calls.
    AgentId, "agent";
    /// The owner of an audit log. A single person has one tenant, `local`.
    TenantId, "tenant";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_visible_and_bounded() {
        for bad in ["", "a b", "a\nb", "a\u{1b}b", &"x".repeat(129)] {
            assert!(SessionId::new(bad).is_err(), "{bad:?}");
            assert!(serde_json::from_value::<SessionId>(serde_json::json!(bad)).is_err(), "{bad:?}");
        }
        assert_eq!(SessionId::new("work/1").unwrap().as_str(), "work/1");
    }
}
