//! Runs the whole conformance suite on each ledger.

use std::sync::Arc;

use byleave_conformance::ledger::LedgerHarness;
use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::memory::MemoryLedger;
use byleave_gate::ledger::{Ledger, LedgerError};

// req: A1, E4
mod memory {
    byleave_conformance::ledger_conformance!(super::MemoryHarness(
        byleave_gate::ledger::memory::MemoryLedger::new()
    ));
}

// req: A1, E4
mod sqlite {
    byleave_conformance::ledger_conformance!(super::SqliteHarness::new());
}

/// A store in memory: it outlives its owners, but not the process.
pub(crate) struct MemoryHarness(pub(crate) MemoryLedger);

impl LedgerHarness for MemoryHarness {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Ledger>, LedgerError>> {
        let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::with_new_owner(&self.0));
        Box::pin(async move { Ok(ledger) })
    }

    fn kill(&self, ledger: Arc<dyn Ledger>) -> BoxFuture<'_, Result<(), LedgerError>> {
        drop(ledger);
        Box::pin(async { Ok(()) })
    }

    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}

/// An audit log in its own state directory. Owners are file locks, as between processes.
pub(crate) struct SqliteHarness(tempfile::TempDir);

impl SqliteHarness {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl LedgerHarness for SqliteHarness {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Ledger>, LedgerError>> {
        Box::pin(async {
            let book = SqliteLedger::open(
                self.0.path(),
                &SqliteOptions { seal_every: None, ..SqliteOptions::default() },
            )?;
            Ok(Arc::new(book) as Arc<dyn Ledger>)
        })
    }

    // The kernel releases the lock when the last handle is closed, as it does at process exit.
    fn kill(&self, ledger: Arc<dyn Ledger>) -> BoxFuture<'_, Result<(), LedgerError>> {
        drop(ledger);
        Box::pin(async { Ok(()) })
    }

    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn nothing_is_done_through_a_dead_owner() {
    let ledger = MemoryLedger::new();
    let beside = MemoryLedger::with_new_owner(&ledger);
    let tenant = "local".parse().unwrap();
    ledger.kill();
    let fault = ledger.active_halt(&tenant).await.unwrap_err();
    assert!(fault.to_string().ends_with("died"), "{fault}");
    assert!(beside.active_halt(&tenant).await.is_ok());
}

#[tokio::test]
async fn an_owner_lives_as_long_as_its_last_clone() {
    let ledger = MemoryLedger::new();
    let clone = ledger.clone();
    assert_eq!(ledger.owner(), clone.owner());
    drop(ledger);
    assert!(clone.active_halt(&"local".parse().unwrap()).await.is_ok());
}
