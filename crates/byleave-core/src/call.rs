//! A call: one request by one agent to use one tool.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{AgentId, CallId, SessionId, TenantId};

/// Milliseconds since the Unix epoch. Time enters core only as such values, on entries.
pub type Millis = u64;

/// How much a person wants to be asked. No mode overrules a deny or a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Everything asks, reading included.
    ConfirmAll,
    /// Sensitive, unknown and dangerous calls ask. The default for people.
    #[default]
    ConfirmSensitive,
    /// Only dangerous effects ask, and what could not be understood.
    ConfirmDangerous,
    /// Nothing asks. For autonomous work; must be asked for.
    Yolo,
    /// Nothing is changed: what would change something is denied, not asked about. Reading asks as by default.
    ReadOnly,
}

impl Mode {
    /// The modes of asking, from the most to the least. Read-only stands beside them: it denies.
    pub const ALL: [Self; 4] = [Self::ConfirmAll, Self::ConfirmSensitive, Self::ConfirmDangerous, Self::Yolo];

    /// The mode in a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ConfirmAll => "confirm-all",
            Self::ConfirmSensitive => "confirm-sensitive",
            Self::ConfirmDangerous => "confirm-dangerous",
            Self::Yolo => "yolo",
            Self::ReadOnly => "read-only",
        }
    }

    /// Whether as much passes in it without a question as in another, or more.
    pub fn is_as_loose_as(self, other: Self) -> bool {
        let looseness = |mode: Self| match mode {
            Self::ReadOnly => 0_u8,
            Self::ConfirmAll => 1,
            Self::ConfirmSensitive => 2,
            Self::ConfirmDangerous => 3,
            Self::Yolo => 4,
        };
        looseness(self) >= looseness(other)
    }

    /// How it asks, apart from what it denies.
    pub const fn asking(self) -> Self {
        match self {
            Self::ReadOnly => Self::ConfirmSensitive,
            asking => asking,
        }
    }
}

/// One request by one agent to use one tool. Never changes once received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Chosen by the caller: the same id is the same call.
    pub id: CallId,
    /// Whose book it belongs to.
    pub tenant: TenantId,
    /// The conversation or task it is part of.
    pub session: SessionId,
    /// Who asks.
    pub agent: AgentId,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The arguments as the model wrote them; untrusted.
    pub arguments: Value,
    /// The model's own words on why; untrusted, and always labelled as the model's.
    pub reason: Option<String>,
    /// The directory the call works in, absolute.
    pub cwd: String,
    /// How much is asked.
    pub mode: Mode,
    /// Say what would happen, and change nothing.
    pub dry_run: bool,
}
