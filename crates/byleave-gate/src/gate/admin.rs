//! Admin actions on a whole tenant. Each is recorded in the audit log, and is in force in every process on return.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::id::{AdminActionId, StandingApprovalId, TenantId};

use super::Gate;
use crate::clock::fresh_id;
use crate::ledger::LedgerError;

impl Gate {
    /// Refuses all calls of a tenant from now on, in every process, until the halt is lifted. Running calls continue to their end.
    pub async fn halt(&self, tenant: &TenantId, by: &str, why: &str) -> Result<(), LedgerError> {
        self.record_action(new_action_id(), tenant, by, AdminActionKind::Halt { reason: why.to_owned() })
            .await
    }

    /// Lifts a halt.
    pub async fn lift(&self, tenant: &TenantId, by: &str) -> Result<(), LedgerError> {
        self.record_action(new_action_id(), tenant, by, AdminActionKind::Lift).await
    }

    /// Revokes a standing approval.
    pub async fn revoke(
        &self,
        tenant: &TenantId,
        by: &str,
        leave: StandingApprovalId,
    ) -> Result<(), LedgerError> {
        self.record_action(new_action_id(), tenant, by, AdminActionKind::Revoke { standing_approval: leave })
            .await
    }

    /// Records that a command runs with fewer guarantees than the sandbox gives. Must be called before the command runs.
    pub async fn waive(
        &self,
        tenant: &TenantId,
        by: &str,
        guarantees: Vec<String>,
        why: &str,
    ) -> Result<(), LedgerError> {
        self.record_action(
            new_action_id(),
            tenant,
            by,
            AdminActionKind::Waive { guarantees, reason: why.to_owned() },
        )
        .await
    }

    /// Records an admin action under this id. Snapshots that calls took before become invalid.
    pub(super) async fn record_action(
        &self,
        id: AdminActionId,
        tenant: &TenantId,
        by: &str,
        deed: AdminActionKind,
    ) -> Result<(), LedgerError> {
        let act = AdminAction {
            id,
            at: self.inner.now(),
            tenant: tenant.clone(),
            actor: by.to_owned(),
            kind: deed,
        };
        let acted = self.inner.ledger.record_admin_action(act).await;
        self.inner.in_flight.bump_epoch();
        acted
    }
}

fn new_action_id() -> AdminActionId {
    AdminActionId::new(fresh_id())
}
