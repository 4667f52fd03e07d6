//! The book of one machine as a store for workers elsewhere.

use std::sync::Arc;

use byleave::book::sqlite::SqliteBook;
use byleave::ledger::owners::IsAlive;
use byleave::ledger::{Ledger, LedgerFault};
use byleave_core::id::OwnerId;

use crate::roster::Deputy;

/// Writes for workers elsewhere into a book on this machine.
///
/// This process holds the locks of those workers: another one that shares the book goes by them. While no process does, nobody
/// knows that a worker lives but the worker.
pub struct SqliteDeputy(pub Arc<SqliteBook>);

impl Deputy for SqliteDeputy {
    fn watch(&self, is_alive: IsAlive) {
        if !self.0.watch(is_alive) {
            tracing::error!("two rosters on one book; the first counts");
        }
    }

    fn ledger_of(&self, owner: OwnerId) -> Result<Arc<dyn Ledger>, LedgerFault> {
        Ok(Arc::new(self.0.for_owner(owner)?))
    }
}
