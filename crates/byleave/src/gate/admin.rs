//! What administrators do to the whole: an act in the book, in force in every process when it returns.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::id::{AdminActionId, StandingApprovalId, TenantId};

use super::Gate;
use crate::clock::fresh_id;
use crate::ledger::LedgerError;

impl Gate {
    /// Refuses everything from now on, in every process, until it is lifted. What runs already goes on to its end.
    pub async fn halt(&self, tenant: &TenantId, by: &str, why: &str) -> Result<(), LedgerError> {
        self.act(fresh_act(), tenant, by, AdminActionKind::Halt { why: why.to_owned() }).await
    }

    /// Lifts a halt.
    pub async fn lift(&self, tenant: &TenantId, by: &str) -> Result<(), LedgerError> {
        self.act(fresh_act(), tenant, by, AdminActionKind::Lift).await
    }

    /// Makes a leave count no longer.
    pub async fn revoke(
        &self,
        tenant: &TenantId,
        by: &str,
        leave: StandingApprovalId,
    ) -> Result<(), LedgerError> {
        self.act(fresh_act(), tenant, by, AdminActionKind::Revoke { leave }).await
    }

    /// Writes down that a command runs with less than the sandbox gives. Must come before the command does.
    pub async fn waive(
        &self,
        tenant: &TenantId,
        by: &str,
        guarantees: Vec<String>,
        why: &str,
    ) -> Result<(), LedgerError> {
        self.act(fresh_act(), tenant, by, AdminActionKind::Waive { guarantees, why: why.to_owned() }).await
    }

    /// Writes an act down under this id. Whatever calls have looked at before, they look at again.
    pub(super) async fn act(
        &self,
        id: AdminActionId,
        tenant: &TenantId,
        by: &str,
        deed: AdminActionKind,
    ) -> Result<(), LedgerError> {
        let act = AdminAction { id, at: self.parts.now(), tenant: tenant.clone(), by: by.to_owned(), deed };
        let acted = self.parts.ledger.act(act).await;
        self.parts.bustle.stir();
        acted
    }
}

fn fresh_act() -> AdminActionId {
    AdminActionId::new(fresh_id())
}
