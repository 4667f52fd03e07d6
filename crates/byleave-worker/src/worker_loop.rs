//! Executes the calls that the server offers, each in one task at a time, until the worker is asked to leave.

use std::collections::HashSet;
use std::sync::Arc;

use byleave_core::id::CallId;
use byleave_gate::gate::Gate;
use byleave_gate::result::CallStatus;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::assignment::{Capabilities, MAX_CAPACITY};
use crate::connection::{ConnectionStatus, WorkerNotice, WorkerRegistration};

/// The calls that the server offers to this worker.
pub struct CallOffers {
    offered: mpsc::Receiver<CallId>,
    say: mpsc::Sender<WorkerNotice>,
    reached: watch::Receiver<ConnectionStatus>,
}

impl CallOffers {
    pub(crate) fn new(skills: Capabilities) -> (WorkerRegistration, Self) {
        // The server offers no more calls at once than there is room for. After a broken connection, the same call may come
        // twice.
        let most = usize::try_from(MAX_CAPACITY).unwrap_or(usize::MAX).saturating_mul(2);
        let ((offers, offered), (say, says)) = (mpsc::channel(most), mpsc::channel(most));
        let (reach, reached) = watch::channel(ConnectionStatus::Unknown);
        (
            WorkerRegistration { capabilities: skills, offers, notices: says, status: reach },
            Self { offered, say, reached },
        )
    }

    /// Returns the status of the connection, now and whenever it changes.
    pub fn status(&self) -> watch::Receiver<ConnectionStatus> {
        self.reached.clone()
    }

    /// Executes the offered calls with this gate. After `leave` it accepts no new calls, and returns when all others were
    /// driven as far as possible.
    ///
    /// The gate must use the ledger that these offers came with.
    pub async fn run(mut self, gate: Gate, leave: CancellationToken) {
        let (tasks, driven) = (TaskTracker::new(), Arc::new(Mutex::new(HashSet::new())));
        loop {
            let call = tokio::select! {
                biased;
                () = leave.cancelled() => break,
                call = self.offered.recv() => match call {
                    Some(call) => call,
                    None => break,
                },
            };
            // Offered again: the running task reports its status.
            if !driven.lock().insert(call) {
                continue;
            }
            let (gate, say, driven) = (gate.clone(), self.say.clone(), Arc::clone(&driven));
            tasks.spawn(async move {
                let held_up_by = match gate.resume(call).await {
                    CallStatus::Blocked { blocked_by: by, .. } => Some(by),
                    _ => None,
                };
                // Removed first, because a server that learns the outcome may offer the call again immediately.
                driven.lock().remove(&call);
                say.send(WorkerNotice::Driven { call, blocked_by: held_up_by }).await.unwrap_or_default();
            });
        }
        self.say.send(WorkerNotice::Draining).await.unwrap_or_default();
        tasks.close();
        tasks.wait().await;
    }
}
