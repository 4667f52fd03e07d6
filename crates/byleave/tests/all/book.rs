//! Runs the whole conformance suite on each audit log.

use std::sync::Arc;

use byleave::audit_log::conformance::{AuditLogHarness, OpenedStore};
use byleave::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave::boxed::BoxFuture;
use byleave::ledger::LedgerError;

// req: A1
mod sqlite {
    byleave::book_conformance!(super::SqliteHarness::new());
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
