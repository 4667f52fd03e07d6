//! Keeps the order of calls within a session (E4). Concurrency-safe calls run concurrently up to a limit. All others run alone, in
//! the order of their arrival.
//!
//! This module covers one process only. The ledger keeps the order between processes.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Poll;

use byleave_core::id::{SessionId, TenantId};
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore};

use crate::boxed::BoxFuture;

/// The queues of all sessions in this process.
#[derive(Debug)]
pub(crate) struct Scheduler {
    sessions: Mutex<HashMap<(TenantId, SessionId), Arc<SessionQueue>>>,
    max_concurrent: usize,
}

/// The queue of one session.
#[derive(Debug)]
struct SessionQueue {
    // Fair: turns are granted in the order of the requests.
    order: Arc<RwLock<()>>,
    concurrent: Arc<Semaphore>,
}

/// The permission to run, released on drop.
#[expect(dead_code, reason = "guards are only held")]
enum RunPermit {
    Exclusive(OwnedRwLockWriteGuard<()>),
    // The semaphore is never closed, so there is always a permit.
    Shared(OwnedRwLockReadGuard<()>, Option<OwnedSemaphorePermit>),
}

/// A call in the queue of its session.
pub(crate) struct QueuedCall {
    session: Arc<SessionQueue>,
    concurrency_safe: bool,
    state: QueueState,
}

enum QueueState {
    Idle,
    Queued(BoxFuture<'static, RunPermit>),
    #[expect(dead_code, reason = "the guard is only held")]
    Running(RunPermit),
}

impl QueuedCall {
    /// Takes a place in the queue without waiting for the turn.
    pub(crate) async fn enqueue(&mut self) {
        if !matches!(self.state, QueueState::Idle) {
            return;
        }
        let mut turn = Box::pin(acquire(self.session.clone(), self.concurrency_safe));
        self.state = match futures::poll!(&mut turn) {
            Poll::Ready(turn) => QueueState::Running(turn),
            Poll::Pending => QueueState::Queued(turn),
        };
    }

    /// Waits for the turn, at the place in the queue.
    pub(crate) async fn wait_for_turn(&mut self) {
        self.enqueue().await;
        if let QueueState::Queued(turn) = &mut self.state {
            self.state = QueueState::Running(turn.await);
        }
    }

    /// Leaves the queue, so that other calls can go first.
    pub(crate) fn release(&mut self) {
        self.state = QueueState::Idle;
    }
}

/// Waits for a turn. The first poll fixes the place in the queue.
async fn acquire(lane: Arc<SessionQueue>, concurrency_safe: bool) -> RunPermit {
    if !concurrency_safe {
        return RunPermit::Exclusive(lane.order.clone().write_owned().await);
    }
    let beside = lane.order.clone().read_owned().await;
    RunPermit::Shared(beside, lane.concurrent.clone().acquire_owned().await.ok())
}

impl Scheduler {
    pub(crate) fn new(max_concurrent: usize) -> Self {
        Self { sessions: Mutex::default(), max_concurrent: max_concurrent.max(1) }
    }

    /// Creates the queue handle of a call. The call is not in the queue yet.
    pub(crate) fn queued_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        concurrency_safe: bool,
    ) -> QueuedCall {
        QueuedCall { session: self.session_queue(tenant, session), concurrency_safe, state: QueueState::Idle }
    }

    fn session_queue(&self, tenant: &TenantId, session: &SessionId) -> Arc<SessionQueue> {
        let mut lanes = self.sessions.lock();
        if lanes.len() >= 1_024 && lanes.len().is_power_of_two() {
            // A queue that no call references has no order to keep.
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        let lane = lanes.entry((tenant.clone(), session.clone())).or_insert_with(|| {
            let together = Arc::new(Semaphore::new(self.max_concurrent));
            Arc::new(SessionQueue { order: Arc::default(), concurrent: together })
        });
        lane.clone()
    }
}
