//! Acts: what an administrator does to the whole, in the book like everything else.

use serde::{Deserialize, Serialize};

use crate::call::Millis;
use crate::id::{AdminActionId, CallId, StandingApprovalId, TenantId};
use crate::session::SessionNode;

/// One act of an administrator. Each is a record of its own, of one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminAction {
    /// Its id.
    pub id: AdminActionId,
    /// When.
    pub at: Millis,
    /// Whose book.
    pub tenant: TenantId,
    /// Who.
    pub by: String,
    /// What.
    pub deed: AdminActionKind,
}

/// What an administrator can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminActionKind {
    /// Nothing begins any more.
    Halt {
        /// Why.
        why: String,
    },
    /// Things may begin again.
    Lift,
    /// A leave counts no longer.
    Revoke {
        /// Which.
        leave: StandingApprovalId,
    },
    /// A session takes its place in the tree; [`crate::session::act_of`] is its id.
    Open(SessionNode),
    /// The contents of a call are gone for good; its record stays.
    Forget {
        /// Which.
        call: CallId,
    },
    /// A command was run with less than the sandbox gives. Stands in the book before the command begins.
    Waive {
        /// The guarantees that were given up, by name.
        guarantees: Vec<String>,
        /// Why.
        why: String,
    },
}

impl AdminActionKind {
    /// The deed in a word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Halt { .. } => "halt",
            Self::Lift => "lift",
            Self::Revoke { .. } => "revoke",
            Self::Open(_) => "open",
            Self::Forget { .. } => "forget",
            Self::Waive { .. } => "waive",
        }
    }
}
