//! The permissions of the peer of a connection.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::entry::RecordEvent;
use byleave_core::id::{AdminActionId, TenantId};
use byleave_gate::clock::fresh_id;
use byleave_gate::ledger::{Batch, LedgerError};

/// The permissions of the peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// Every request to a ledger, for peers of the same trust.
    All,
    /// Executing the calls of one tenant.
    ///
    /// A worker is trusted about what its calls would do and did, because that happens where it is. It is not trusted to be
    /// anyone else. It answers no question, makes no call, performs no administrator's action and sees nothing of other
    /// tenants.
    Worker {
        /// The tenant of the calls.
        tenant: TenantId,
        /// The name that the server gave it. No worker connects under another worker's owner id.
        name: String,
    },
}

impl Permissions {
    pub(crate) fn check_tenant(&self, tenant: &TenantId) -> Result<(), LedgerError> {
        match self {
            Self::Worker { tenant: own, .. } if own != tenant => {
                Err(not_allowed_error("see calls of another tenant"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_append(&self, batch: &Batch) -> Result<(), LedgerError> {
        let Self::Worker { tenant: own, .. } = self else { return Ok(()) };
        if batch.expected_len == 0 {
            return Err(not_allowed_error("make calls"));
        }
        if batch.call_summary.tenant != *own {
            return Err(not_allowed_error("write to calls of another tenant"));
        }
        for entry in &batch.entries {
            match entry.event {
                RecordEvent::Answered(_) => return Err(not_allowed_error("answer questions")),
                RecordEvent::Cancelled { .. } => return Err(not_allowed_error("cancel calls")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the admin action as it is written. A worker may record only its own waived guarantees, under its own name.
    pub(crate) fn check_admin_action(&self, act: AdminAction) -> Result<AdminAction, LedgerError> {
        match (self, &act.kind) {
            (Self::All, _) => Ok(act),
            (Self::Worker { tenant, name }, AdminActionKind::Waive { .. }) => {
                // With a fresh id, because some ids have a meaning.
                let id = AdminActionId::new(fresh_id());
                Ok(AdminAction { id, tenant: tenant.clone(), actor: name.clone(), ..act })
            }
            (Self::Worker { .. }, _) => Err(not_allowed_error("perform admin actions")),
        }
    }

    pub(crate) fn check_may_list(&self) -> Result<(), LedgerError> {
        if *self == Self::All { Ok(()) } else { Err(not_allowed_error("choose its calls")) }
    }
}

pub(crate) fn not_allowed_error(what: &str) -> LedgerError {
    LedgerError::new("request refused", format!("a worker must not {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_waives_for_itself_under_its_own_name_and_does_nothing_else() {
        let tenant = |name: &str| TenantId::new(name).unwrap();
        let rights = Permissions::Worker { tenant: tenant("acme"), name: "w".into() };
        let act = |deed| AdminAction {
            id: AdminActionId::new(uuid::Uuid::nil()),
            at: 1,
            tenant: tenant("other"),
            actor: "ann".into(),
            kind: deed,
        };
        let waive = AdminActionKind::Waive { guarantees: vec!["memory-limited".into()], reason: "x".into() };
        let admitted = rights.check_admin_action(act(waive)).unwrap();
        assert_eq!((admitted.tenant, admitted.actor), (tenant("acme"), "w".to_owned()));
        assert!(rights.check_admin_action(act(AdminActionKind::Lift)).is_err());
        assert!(Permissions::All.check_admin_action(act(AdminActionKind::Lift)).is_ok());
    }
}
