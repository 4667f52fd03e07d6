//! The audit log of one machine as a store for remote workers.

use std::sync::Arc;

use byleave_core::id::OwnerId;
use byleave_gate::audit_log::sqlite::SqliteLedger;
use byleave_gate::ledger::owner_locks::OwnerLiveness;
use byleave_gate::ledger::{Ledger, LedgerError};

use crate::registry::OwnerBackend;

/// Writes for remote workers into an audit log on this machine.
///
/// This process holds the locks of those workers, and other processes that share the audit log respect them. While no process
/// holds them, only the worker itself knows that it is alive.
pub struct SqliteOwnerBackend(pub Arc<SqliteLedger>);

impl OwnerBackend for SqliteOwnerBackend {
    fn set_liveness_check(&self, is_alive: OwnerLiveness) {
        if !self.0.set_remote_owner_check(is_alive) {
            tracing::error!("a worker registry already exists for this ledger; ignoring the second");
        }
    }

    fn ledger_for_owner(&self, owner: OwnerId) -> Result<Arc<dyn Ledger>, LedgerError> {
        Ok(Arc::new(self.0.for_owner(owner)?))
    }
}
