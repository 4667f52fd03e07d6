//! Runs the whole conformance suite on each audit log.

use std::sync::Arc;

use byleave_conformance::audit_log::{AuditLogHarness, OpenedStore};
use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::LedgerError;

// req: A1
mod sqlite {
    byleave_conformance::audit_log_conformance!(super::SqliteHarness::new());
}

/// An audit log in its own state directory.
struct SqliteHarness(tempfile::TempDir);

impl SqliteHarness {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl AuditLogHarness for SqliteHarness {
    fn open(&self) -> BoxFuture<'_, Result<OpenedStore, LedgerError>> {
        Box::pin(async {
            let options = SqliteOptions { seal_every: None, ..SqliteOptions::default() };
            let book = Arc::new(SqliteLedger::open(self.0.path(), &options)?);
            Ok(OpenedStore { ledger: Arc::clone(&book) as Arc<_>, audit_log: book })
        })
    }

    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}
