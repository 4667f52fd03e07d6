//! Acts: what an administrator does to the whole, in the book like everything else.

use serde::{Deserialize, Serialize};

use crate::call::Millis;
use crate::id::{ActId, CallId, LeaveId, TenantId};
use crate::session::Opening;

/// One act of an administrator. Each is a record of its own, of one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Act {
    /// Its id.
    pub id: ActId,
    /// When.
    pub at: Millis,
    /// Whose book.
    pub tenant: TenantId,
    /// Who.
    pub by: String,
    /// What.
    pub deed: Deed,
}

/// What an administrator can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
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
        leave: LeaveId,
    },
    /// A session takes its place in the tree; [`crate::session::act_of`] is its id.
    Open(Opening),
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

impl Deed {
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
