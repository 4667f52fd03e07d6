//! The engine that the tests share. `cargo nextest run` starts it before the first of them, with `scripts/fleet tests`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use byleave::ledger::conformance::Bench;
use byleave::ledger::{Ledger, LedgerFault};
use byleave::pending::Pending;
use byleave_fleet::{Options, RestateLedger};

/// Where the engine is, as `scripts/fleet` has written it down in the target directory.
pub(crate) fn ingress() -> String {
    let binary = std::env::current_exe().unwrap();
    let said = match std::env::var_os("BYLEAVE_FLEET_RUN") {
        Some(run) => PathBuf::from(run).join("ingress"),
        // This binary is target/debug/deps/all-….
        None => binary.ancestors().nth(3).expect("a target directory").join("fleet/ingress"),
    };
    let Ok(address) = std::fs::read_to_string(&said) else {
        panic!("there is no engine (nothing at `{}`); start it: scripts/fleet up", said.display())
    };
    address.trim().to_owned()
}

/// How every owner in the tests opens a ledger.
pub(crate) fn options(ingress: &str, name: &str, workers: &Path) -> Options {
    Options {
        ingress: ingress.to_owned(),
        name: name.to_owned(),
        workers: workers.to_owned(),
        master: [7; 32].into(),
        patience: Duration::from_secs(20),
    }
}

/// An empty ledger on the engine that is there, under a name of its own.
pub(crate) struct RestateBench {
    ingress: String,
    name: String,
    workers: tempfile::TempDir,
}

impl RestateBench {
    pub(crate) fn new() -> Self {
        let name = uuid::Uuid::now_v7().to_string();
        Self { ingress: ingress(), name, workers: tempfile::tempdir().unwrap() }
    }
}

impl Bench for RestateBench {
    fn open(&self) -> Pending<'_, Result<Arc<dyn Ledger>, LedgerFault>> {
        Box::pin(async {
            let ledger = RestateLedger::open(options(&self.ingress, &self.name, self.workers.path()))?;
            Ok(Arc::new(ledger) as Arc<dyn Ledger>)
        })
    }

    // The kernel drops the lock when the last handle is closed, as it does at death.
    fn kill(&self, ledger: Arc<dyn Ledger>) -> Pending<'_, Result<(), LedgerFault>> {
        drop(ledger);
        Box::pin(async { Ok(()) })
    }

    // The engine is shared by all tests, so it stays. It is killed for real in the proofs.
    fn restart(&self) -> Pending<'_, Result<(), LedgerFault>> {
        Box::pin(async { Ok(()) })
    }
}
