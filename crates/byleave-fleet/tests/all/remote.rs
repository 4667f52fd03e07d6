//! Workers far from the engine: the ledger over a wire to an office that stands on the engine, against the whole suite.

use std::sync::Arc;
use std::time::Duration;

use byleave_conformance::ledger::LedgerHarness;
use byleave_fleet::RestateLedger;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::{Ledger, LedgerError};
use byleave_worker::{
    ConnectError, Connector, FrameChannel, Permissions, RemoteLedger, RemoteLedgerOptions, WorkerRegistry,
    server,
};

use crate::engine::{ingress, options};

/// An office on the engine, and where its workers live.
struct Office {
    roster: WorkerRegistry,
    _ledger: RestateLedger,
    workers: tempfile::TempDir,
    _here: tempfile::TempDir,
}

impl Office {
    fn new() -> Self {
        let (workers, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let name = uuid::Uuid::now_v7().to_string();
        let ledger = RestateLedger::open(options(&ingress(), &name, here.path())).unwrap();
        let roster = WorkerRegistry::new(ledger.deputy(|| true), Duration::ZERO);
        Self { roster, _ledger: ledger, workers, _here: here }
    }
}

struct Dialling(WorkerRegistry);

impl Connector for Dialling {
    fn connect(&self) -> BoxFuture<'_, Result<FrameChannel, ConnectError>> {
        Box::pin(async {
            let ((ours, theirs), roster) = (FrameChannel::pair(), self.0.clone());
            tokio::spawn(async move { server::serve_worker(&roster, Permissions::All, theirs).await });
            Ok(ours)
        })
    }
}

impl LedgerHarness for Office {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Ledger>, LedgerError>> {
        Box::pin(async {
            let options = RemoteLedgerOptions {
                dir: self.workers.path().to_path_buf(),
                response_timeout: Duration::from_secs(20),
            };
            let ledger = RemoteLedger::open(&options, Dialling(self.roster.clone()))?;
            Ok(Arc::new(ledger) as Arc<dyn Ledger>)
        })
    }

    fn kill(&self, ledger: Arc<dyn Ledger>) -> BoxFuture<'_, Result<(), LedgerError>> {
        let owner = ledger.owner();
        drop(ledger);
        Box::pin(async move {
            // Until the office has noticed.
            while self.roster.is_alive(owner) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Ok(())
        })
    }

    // The engine is shared by all tests, so it stays.
    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}

// req: A1, E4
byleave_conformance::ledger_conformance!(Office::new());
