//! Attending: hears what is written, here and by others, and drives on what can be.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use byleave::audit_log::Cursor;
use byleave::clock::{Clock as _, SystemClock};
use byleave::core::id::CallId;
use byleave::event::GateEvent;
use byleave::ledger::LedgerError;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{StartError, Tenant};

/// How often the book is looked at for what others have written.
const POLL: Duration = Duration::from_millis(500);
/// How often it is looked for calls that can be driven on.
const LOOK: Duration = Duration::from_secs(2);
/// How many times as long as a look took nobody looks.
const REST: u32 = 4;
const AT_ONCE: usize = 1_000;
/// How many calls are remembered as not ours.
const OTHERS_MAX: usize = 10_000;

impl Tenant {
    /// Hears and drives until it is told to end.
    pub(crate) async fn attend(self: Arc<Self>, end: CancellationToken) {
        let all =
            async { tokio::join!(self.hear_own(), self.hear_others(), self.hear_crew(), self.drive_on()) };
        tokio::select! {
            biased;
            () = end.cancelled() => {}
            _ = all => {}
        }
    }

    async fn hear_own(&self) {
        let mut events = self.gate.subscribe();
        loop {
            match events.recv().await {
                Ok(GateEvent::Entry { call, .. }) => self.looks.stir(call),
                Ok(_) => {}
                // Too much was written to be heard.
                Err(RecvError::Lagged(_)) => self.looks.stir_all(),
                Err(RecvError::Closed) => return,
            }
        }
    }

    async fn hear_others(&self) {
        let mut after: Option<Cursor> = None;
        loop {
            tokio::time::sleep(POLL).await;
            if self.looks.is_idle() {
                // Who begins to listen looks at the record first, so nothing that was missed matters.
                after = None;
                continue;
            }
            match self.book.written(after, AT_ONCE).await {
                Ok(written) => {
                    if after.is_some() {
                        written.calls.into_iter().for_each(|call| self.looks.stir(call));
                    }
                    after = Some(written.upto);
                }
                Err(fault) => tracing::warn!(%fault, "what others write cannot be heard"),
            }
        }
    }

    async fn drive_on(self: &Arc<Self>) {
        let mut others = HashSet::new();
        loop {
            let began = Instant::now();
            if let Err(fault) = self.drive_all(&mut others).await {
                tracing::warn!(%fault, "it cannot be seen what there is to do");
            }
            // Every call that is settled is a reason to look, and the busier the book, the dearer each look.
            tokio::time::sleep((began.elapsed() * REST).min(LOOK)).await;
            drop(tokio::time::timeout(LOOK, self.wake.notified()).await);
        }
    }

    async fn drive_all(self: &Arc<Self>, others: &mut HashSet<CallId>) -> Result<(), LedgerError> {
        for call in self.ledger.drivable(SystemClock.now(), AT_ONCE).await? {
            if self.is_driven(call) || others.contains(&call) {
                continue;
            }
            let record = self.record(call).await?;
            let heading = record.as_ref().and_then(|record| record.heading());
            let ours =
                heading.is_some_and(|heading| self.took_in(&heading.tenant, &heading.session, &heading.cwd));
            if !ours {
                if others.len() >= OTHERS_MAX {
                    others.clear();
                }
                others.insert(call);
            } else if let Err(StartError::Busy) = self.go_on(call) {
                return Ok(());
            }
        }
        Ok(())
    }
}
