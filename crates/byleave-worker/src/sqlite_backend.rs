//! The book of one machine as a store for workers elsewhere.

use std::sync::Arc;

use byleave::audit_log::sqlite::SqliteLedger;
use byleave::ledger::owner_locks::OwnerLiveness;
use byleave::ledger::{Ledger, LedgerError};
use byleave_core::id::OwnerId;

use crate::registry::OwnerBackend;

/// Writes for workers elsewhere into a book on this machine.
///
/// This process holds the locks of those workers: another one that shares the book goes by them. While no process does, nobody
/// knows that a worker lives but the worker.
pub struct SqliteOwnerBackend(pub Arc<SqliteLedger>);

impl OwnerBackend for SqliteOwnerBackend {
    fn watch(&self, is_alive: OwnerLiveness) {
        if !self.0.watch(is_alive) {
            tracing::error!("two rosters on one book; the first counts");
        }
    }

    fn ledger_of(&self, owner: OwnerId) -> Result<Arc<dyn Ledger>, LedgerError> {
        Ok(Arc::new(self.0.for_owner(owner)?))
    }
}
