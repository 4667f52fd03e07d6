//! What who is at the other end of a wire may ask.

use byleave::clock::fresh_id;
use byleave::ledger::{Batch, LedgerError};
use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::entry::RecordEvent;
use byleave_core::id::{AdminActionId, TenantId};

/// What who is at the other end of a wire may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// Everything that a ledger is asked: for ends that are one's own.
    All,
    /// To drive the calls of one tenant.
    ///
    /// A worker is believed about what its calls would do and did, for that happens where it is. It is not believed to be anyone
    /// else: it answers no question, makes no call, does nothing that is for administrators, and sees nothing of others.
    Worker {
        /// Whose calls.
        tenant: TenantId,
        /// Whom it was named by who let it in. Nobody comes in as another's owner.
        name: String,
    },
}

impl Permissions {
    pub(crate) fn may_see(&self, tenant: &TenantId) -> Result<(), LedgerError> {
        match self {
            Self::Worker { tenant: own, .. } if own != tenant => {
                Err(not_for_workers("to see what is another tenant's"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn may_append(&self, batch: &Batch) -> Result<(), LedgerError> {
        let Self::Worker { tenant: own, .. } = self else { return Ok(()) };
        if batch.at_len == 0 {
            return Err(not_for_workers("to make calls"));
        }
        if batch.listing.tenant != *own {
            return Err(not_for_workers("to write what is another tenant's"));
        }
        for entry in &batch.entries {
            match entry.fact {
                RecordEvent::Answered(_) => return Err(not_for_workers("to answer questions")),
                RecordEvent::Cancelled { .. } => return Err(not_for_workers("to call calls off")),
                _ => {}
            }
        }
        Ok(())
    }

    /// The act as it is written. What a worker does without is for it to say, of itself and under its own name.
    pub(crate) fn admit(&self, act: AdminAction) -> Result<AdminAction, LedgerError> {
        match (self, &act.deed) {
            (Self::All, _) => Ok(act),
            (Self::Worker { tenant, name }, AdminActionKind::Waive { .. }) => {
                // Of an id of ours: some ids stand for something.
                let id = AdminActionId::new(fresh_id());
                Ok(AdminAction { id, tenant: tenant.clone(), by: name.clone(), ..act })
            }
            (Self::Worker { .. }, _) => Err(not_for_workers("to do what is for administrators")),
        }
    }

    pub(crate) fn may_list(&self) -> Result<(), LedgerError> {
        if *self == Self::All { Ok(()) } else { Err(not_for_workers("to choose its calls")) }
    }
}

pub(crate) fn not_for_workers(what: &str) -> LedgerError {
    LedgerError::new("cannot be done for a worker", format!("it is not for workers {what}"))
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
            by: "ann".into(),
            deed,
        };
        let waive = AdminActionKind::Waive { guarantees: vec!["memory-limited".into()], why: "x".into() };
        let admitted = rights.admit(act(waive)).unwrap();
        assert_eq!((admitted.tenant, admitted.by), (tenant("acme"), "w".to_owned()));
        assert!(rights.admit(act(AdminActionKind::Lift)).is_err());
        assert!(Permissions::All.admit(act(AdminActionKind::Lift)).is_ok());
    }
}
