//! A worker registry on a store in memory, with connections that can be made to break.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use byleave_conformance::ledger::LedgerHarness;
use byleave_core::id::{OwnerId, TenantId};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::memory::MemoryLedger;
use byleave_gate::ledger::{Ledger, LedgerError};
use byleave_worker::{
    CallOffers, Capabilities, ConnectError, Connector, FrameChannel, OwnerBackend, OwnerLiveness,
    Permissions, RemoteLedger, RemoteLedgerOptions, WorkerRegistry, server,
};

/// A store in memory that writes for remote owners.
pub(crate) struct MemoryOwnerBackend(pub(crate) MemoryLedger);

impl OwnerBackend for MemoryOwnerBackend {
    // An owner is alive as long as its ledger is held, which the registry does.
    fn set_liveness_check(&self, _is_alive: OwnerLiveness) {}

    fn ledger_for_owner(&self, owner: OwnerId) -> Result<Arc<dyn Ledger>, LedgerError> {
        Ok(Arc::new(MemoryLedger::with_owner(&self.0, owner)))
    }
}

/// The permissions of a worker with this name.
pub(crate) fn worker_of(tenant: &str, name: &str) -> Permissions {
    Permissions::Worker { tenant: TenantId::new(tenant).unwrap(), name: name.to_owned() }
}

/// A worker registry, with its store.
pub(crate) struct RegistryFixture {
    pub(crate) roster: WorkerRegistry,
    pub(crate) store: MemoryLedger,
    pub(crate) dialled: Arc<AtomicU64>,
    workers: tempfile::TempDir,
    /// The number of messages after which a connection breaks.
    breaks_after: Option<u64>,
}

impl RegistryFixture {
    pub(crate) fn new() -> Self {
        Self::with(Duration::ZERO, None)
    }

    /// Every connection breaks after a few messages, in either direction.
    pub(crate) fn with_bad_wires() -> Self {
        // A worker that reconnects at once keeps its claims.
        Self::with(Duration::from_millis(300), Some(7))
    }

    pub(crate) fn with(lease: Duration, breaks_after: Option<u64>) -> Self {
        let store = MemoryLedger::new();
        let roster = WorkerRegistry::new(MemoryOwnerBackend(store.clone()), lease);
        let workers = tempfile::tempdir().unwrap();
        Self { roster, store, dialled: Arc::default(), workers, breaks_after }
    }

    /// A worker of this registry with its own connector.
    pub(crate) fn worker_by(&self, dial: impl Connector) -> RemoteLedger {
        RemoteLedger::open(&self.options(), dial).unwrap()
    }

    fn options(&self) -> RemoteLedgerOptions {
        RemoteLedgerOptions {
            dir: self.workers.path().to_path_buf(),
            response_timeout: Duration::from_secs(20),
        }
    }

    /// A worker of this registry.
    pub(crate) fn worker(&self, rights: Permissions) -> RemoteLedger {
        self.worker_by(self.dialling(rights))
    }

    /// A worker of this registry that accepts calls.
    pub(crate) fn hire(&self, rights: Permissions, skills: Capabilities) -> (RemoteLedger, CallOffers) {
        RemoteLedger::open_as_worker(&self.options(), skills, self.dialling(rights)).unwrap()
    }

    fn dialling(&self, rights: Permissions) -> FaultyConnector {
        FaultyConnector {
            roster: self.roster.clone(),
            rights,
            dialled: Arc::clone(&self.dialled),
            breaks_after: self.breaks_after,
        }
    }
}

/// Opens connections to the registry, some of them faulty.
struct FaultyConnector {
    roster: WorkerRegistry,
    rights: Permissions,
    dialled: Arc<AtomicU64>,
    breaks_after: Option<u64>,
}

impl Connector for FaultyConnector {
    fn connect(&self) -> BoxFuture<'_, Result<FrameChannel, ConnectError>> {
        Box::pin(async move {
            let number = self.dialled.fetch_add(1, Ordering::SeqCst);
            let (ours, theirs) = FrameChannel::pair();
            let (roster, rights) = (self.roster.clone(), self.rights.clone());
            let ours = match self.breaks_after {
                // Long enough for the first messages, and not always at the same point.
                Some(words) => breaking(ours, 3 + (number * 5) % words),
                None => ours,
            };
            tokio::spawn(async move { server::serve_worker(&roster, rights, theirs).await });
            Ok(ours)
        })
    }
}

/// A connection that breaks after this many messages, from either side.
pub(crate) fn breaking(mut far: FrameChannel, words: u64) -> FrameChannel {
    let (near, mut middle) = FrameChannel::pair();
    tokio::spawn(async move {
        for _ in 0..words {
            tokio::select! {
                said = middle.receiver.recv() => match said {
                    Some(text) => far.sender.send(text).await.unwrap_or_default(),
                    None => return,
                },
                heard = far.receiver.recv() => match heard {
                    Some(text) => middle.sender.send(text).await.unwrap_or_default(),
                    None => return,
                },
            }
        }
    });
    near
}

impl LedgerHarness for RegistryFixture {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Ledger>, LedgerError>> {
        Box::pin(async { Ok(Arc::new(self.worker(Permissions::All)) as Arc<dyn Ledger>) })
    }

    fn kill(&self, ledger: Arc<dyn Ledger>) -> BoxFuture<'_, Result<(), LedgerError>> {
        let owner = ledger.owner();
        drop(ledger);
        Box::pin(async move {
            // Waits until the registry has noticed, and the lease has expired.
            while self.roster.is_alive(owner) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            self.roster.remove_expired();
            Ok(())
        })
    }

    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}
