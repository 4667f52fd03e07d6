//! Listens to new entries, of this process and of others, and continues calls that are ready.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::audit_log::Cursor;
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::id::CallId;
use byleave_gate::event::GateEvent;
use byleave_gate::ledger::LedgerError;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{StartError, Tenant};

/// How often to check the audit log for entries of other processes.
const POLL: Duration = Duration::from_millis(500);
/// How often to look for calls to continue.
const LOOK: Duration = Duration::from_secs(2);
/// The pause after a search, as a multiple of its duration.
const REST: u32 = 4;
const AT_ONCE: usize = 1_000;
/// The number of calls of other processes that are remembered.
const OTHERS_MAX: usize = 10_000;

impl Tenant {
    /// Listens and drives until `end` is cancelled.
    pub(crate) async fn run(self: Arc<Self>, end: CancellationToken) {
        let all = async {
            tokio::join!(
                self.watch_own_writes(),
                self.poll_other_writers(),
                self.watch_workers(),
                self.resume_calls()
            )
        };
        tokio::select! {
            biased;
            () = end.cancelled() => {}
            _ = all => {}
        }
    }

    async fn watch_own_writes(&self) {
        let mut events = self.gate.subscribe();
        loop {
            match events.recv().await {
                Ok(GateEvent::Entry { call, .. }) => self.watchers.notify(call),
                Ok(_) => {}
                // The receiver missed some entries.
                Err(RecvError::Lagged(_)) => self.watchers.notify_all(),
                Err(RecvError::Closed) => return,
            }
        }
    }

    async fn poll_other_writers(&self) {
        let mut after: Option<Cursor> = None;
        loop {
            tokio::time::sleep(POLL).await;
            if self.watchers.is_idle() {
                // A new follower reads the record first, so missed entries do not matter.
                after = None;
                continue;
            }
            match self.audit_log.records_since(after, AT_ONCE).await {
                Ok(written) => {
                    if after.is_some() {
                        written.calls.into_iter().for_each(|call| self.watchers.notify(call));
                    }
                    after = Some(written.cursor);
                }
                Err(fault) => tracing::warn!(%fault, "cannot read the entries of other writers"),
            }
        }
    }

    async fn resume_calls(self: &Arc<Self>) {
        let mut others = HashSet::new();
        loop {
            let began = Instant::now();
            if let Err(fault) = self.drive_all(&mut others).await {
                tracing::warn!(%fault, "cannot list the calls to resume");
            }
            // Every settled call causes a search, and the busier the audit log, the more expensive each search.
            tokio::time::sleep((began.elapsed() * REST).min(LOOK)).await;
            drop(tokio::time::timeout(LOOK, self.wake.notified()).await);
        }
    }

    async fn drive_all(self: &Arc<Self>, others: &mut HashSet<CallId>) -> Result<(), LedgerError> {
        for call in self.ledger.resumable_calls(SystemClock.now(), AT_ONCE).await? {
            if self.is_driven(call) || others.contains(&call) {
                continue;
            }
            let record = self.record(call).await?;
            let heading = record.as_ref().and_then(|record| record.header());
            let ours =
                heading.is_some_and(|heading| self.accepted(&heading.tenant, &heading.session, &heading.cwd));
            if !ours {
                if others.len() >= OTHERS_MAX {
                    others.clear();
                }
                others.insert(call);
            } else if let Err(StartError::Busy) = self.resume_call(call) {
                return Ok(());
            }
        }
        Ok(())
    }
}
