//! Admin actions: actions of an administrator on the whole system, recorded in the audit log.

use serde::{Deserialize, Serialize};

use crate::call::Millis;
use crate::id::{AdminActionId, CallId, StandingApprovalId, TenantId};
use crate::session::SessionNode;

/// One admin action. Each is a record of its own, of one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminAction {
    /// Its id.
    pub id: AdminActionId,
    /// The time.
    pub at: Millis,
    /// The tenant whose audit log it belongs to.
    pub tenant: TenantId,
    /// The administrator.
    pub actor: String,
    /// The action.
    pub kind: AdminActionKind,
}

/// The kinds of admin actions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminActionKind {
    /// Stops all calls from beginning.
    Halt {
        /// The reason.
        reason: String,
    },
    /// Ends a halt, so that calls may begin again.
    Lift,
    /// Revokes a standing approval.
    Revoke {
        /// The standing approval.
        standing_approval: StandingApprovalId,
    },
    /// Gives a session its place in the tree. [`crate::session::opening_action_id`] is the id of this action.
    OpenSession(SessionNode),
    /// Deletes the contents of a call permanently. Its record stays.
    Forget {
        /// The call.
        call: CallId,
    },
    /// Records that a command runs with fewer guarantees than the sandbox gives. It is in the audit log before the command begins.
    Waive {
        /// The guarantees that were given up, by name.
        guarantees: Vec<String>,
        /// The reason.
        reason: String,
    },
}

impl AdminActionKind {
    /// Returns the action in a word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Halt { .. } => "halt",
            Self::Lift => "lift",
            Self::Revoke { .. } => "revoke",
            Self::OpenSession(_) => "open_session",
            Self::Forget { .. } => "forget",
            Self::Waive { .. } => "waive",
        }
    }
}
