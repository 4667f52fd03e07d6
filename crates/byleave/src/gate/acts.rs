//! What administrators do to the whole: an act in the book, in force in every process when it returns.

use byleave_core::act::{Act, Deed};
use byleave_core::id::{ActId, LeaveId, TenantId};

use super::Gate;
use crate::clock::fresh_id;
use crate::ledger::LedgerFault;

impl Gate {
    /// Refuses everything from now on, in every process, until it is lifted. What runs already goes on to its end.
    pub async fn halt(&self, tenant: &TenantId, by: &str, why: &str) -> Result<(), LedgerFault> {
        self.act(fresh_act(), tenant, by, Deed::Halt { why: why.to_owned() }).await
    }

    /// Lifts a halt.
    pub async fn lift(&self, tenant: &TenantId, by: &str) -> Result<(), LedgerFault> {
        self.act(fresh_act(), tenant, by, Deed::Lift).await
    }

    /// Makes a leave count no longer.
    pub async fn revoke(&self, tenant: &TenantId, by: &str, leave: LeaveId) -> Result<(), LedgerFault> {
        self.act(fresh_act(), tenant, by, Deed::Revoke { leave }).await
    }

    /// Writes down that a command runs with less than the sandbox gives. Must come before the command does.
    pub async fn waive(
        &self,
        tenant: &TenantId,
        by: &str,
        guarantees: Vec<String>,
        why: &str,
    ) -> Result<(), LedgerFault> {
        self.act(fresh_act(), tenant, by, Deed::Waive { guarantees, why: why.to_owned() }).await
    }

    /// Writes an act down under this id. Whatever calls have looked at before, they look at again.
    pub(super) async fn act(
        &self,
        id: ActId,
        tenant: &TenantId,
        by: &str,
        deed: Deed,
    ) -> Result<(), LedgerFault> {
        let act = Act { id, at: self.parts.now(), tenant: tenant.clone(), by: by.to_owned(), deed };
        let acted = self.parts.ledger.act(act).await;
        self.parts.bustle.stir();
        acted
    }
}

fn fresh_act() -> ActId {
    ActId::new(fresh_id())
}
