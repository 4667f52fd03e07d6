//! A call: one request by one agent to use one tool.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{AgentId, CallId, SessionId, TenantId};

/// Milliseconds since the Unix epoch. Time enters this crate only as such values, on entries.
pub type Millis = u64;

/// The mode of a session, which says how much a person is asked. No mode overrules a deny or a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Every call asks, including reads.
    ConfirmAll,
    /// Sensitive, unknown and dangerous calls ask. The default for people.
    #[default]
    ConfirmSensitive,
    /// Only dangerous effects and effects that were not understood ask.
    ConfirmDangerous,
    /// No call asks. For autonomous work. It must be chosen explicitly.
    Yolo,
    /// No call may change anything: a change is denied, not asked about. Reads ask as in the default mode.
    ReadOnly,
}

impl Mode {
    /// The modes of asking, from the most to the least. Read-only is not among them, because it denies.
    pub const ALL: [Self; 4] = [Self::ConfirmAll, Self::ConfirmSensitive, Self::ConfirmDangerous, Self::Yolo];

    /// Returns the mode in a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConfirmAll => "confirm-all",
            Self::ConfirmSensitive => "confirm-sensitive",
            Self::ConfirmDangerous => "confirm-dangerous",
            Self::Yolo => "yolo",
            Self::ReadOnly => "read-only",
        }
    }

    /// Returns whether this mode lets at least as much pass without a question as the other.
    pub fn is_at_least_as_permissive(self, other: Self) -> bool {
        let looseness = |mode: Self| match mode {
            Self::ReadOnly => 0_u8,
            Self::ConfirmAll => 1,
            Self::ConfirmSensitive => 2,
            Self::ConfirmDangerous => 3,
            Self::Yolo => 4,
        };
        looseness(self) >= looseness(other)
    }

    /// Returns the mode that says how much is asked, apart from what is denied.
    pub const fn question_mode(self) -> Self {
        match self {
            Self::ReadOnly => Self::ConfirmSensitive,
            asking => asking,
        }
    }
}

/// One request by one agent to use one tool. It never changes once received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The id, chosen by the caller. The same id is the same call.
    pub id: CallId,
    /// The tenant whose audit log it belongs to.
    pub tenant: TenantId,
    /// The conversation or task that it is part of.
    pub session: SessionId,
    /// The agent that makes the call.
    pub agent: AgentId,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The arguments as the model wrote them. Untrusted.
    pub arguments: Value,
    /// The model's own reason. Untrusted, and always labelled as the model's.
    pub reason: Option<String>,
    /// The working directory of the call, as an absolute path.
    pub cwd: String,
    /// The mode, which says how much is asked.
    pub mode: Mode,
    /// Only predict the effects, and change nothing.
    pub dry_run: bool,
}
