//! The scheduler (E4): within a session, concurrency-safe calls run beside each other up to a limit, all others alone
//! and in the order in which they came. Between processes the ledger keeps order; this is the part of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use byleave_core::id::{SessionId, TenantId};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore};

use crate::boxed::BoxFuture;
use crate::lock::locked;

/// Who may run now, in this process.
#[derive(Debug)]
pub(crate) struct Scheduler {
    lanes: Mutex<HashMap<(TenantId, SessionId), Arc<SessionQueue>>>,
    max_concurrent: usize,
}

/// One session.
#[derive(Debug)]
struct SessionQueue {
    // Fair: turns are given in the order in which they were asked for.
    order: Arc<RwLock<()>>,
    together: Arc<Semaphore>,
}

/// The right to run, given back when dropped.
#[expect(dead_code, reason = "guards are held, not read")]
enum RunPermit {
    Alone(OwnedRwLockWriteGuard<()>),
    // Nobody closes the semaphore, so there is always a permit.
    Together(OwnedRwLockReadGuard<()>, Option<OwnedSemaphorePermit>),
}

/// A call among those of its session.
pub(crate) struct QueuedCall {
    lane: Arc<SessionQueue>,
    concurrency_safe: bool,
    place: QueueState,
}

enum QueueState {
    Out,
    Queued(BoxFuture<'static, RunPermit>),
    #[expect(dead_code, reason = "the turn is held, not read")]
    In(RunPermit),
}

impl QueuedCall {
    /// Takes a place in the order, without waiting for the turn.
    pub(crate) async fn queue(&mut self) {
        if !matches!(self.place, QueueState::Out) {
            return;
        }
        let mut turn = Box::pin(turn(self.lane.clone(), self.concurrency_safe));
        self.place = match futures::poll!(&mut turn) {
            Poll::Ready(turn) => QueueState::In(turn),
            Poll::Pending => QueueState::Queued(turn),
        };
    }

    /// Waits for the turn, in the place that was taken.
    pub(crate) async fn take(&mut self) {
        self.queue().await;
        if let QueueState::Queued(turn) = &mut self.place {
            self.place = QueueState::In(turn.await);
        }
    }

    /// Steps aside, and lets others go first.
    pub(crate) fn leave(&mut self) {
        self.place = QueueState::Out;
    }
}

/// Waits for a turn. Asking for it (the first poll) fixes the place in the order.
async fn turn(lane: Arc<SessionQueue>, concurrency_safe: bool) -> RunPermit {
    if !concurrency_safe {
        return RunPermit::Alone(lane.order.clone().write_owned().await);
    }
    let beside = lane.order.clone().read_owned().await;
    RunPermit::Together(beside, lane.together.clone().acquire_owned().await.ok())
}

impl Scheduler {
    pub(crate) fn new(max_concurrent: usize) -> Self {
        Self { lanes: Mutex::default(), max_concurrent: max_concurrent.max(1) }
    }

    /// A call of a session that will want its turn.
    pub(crate) fn spot(&self, tenant: &TenantId, session: &SessionId, concurrency_safe: bool) -> QueuedCall {
        QueuedCall { lane: self.lane(tenant, session), concurrency_safe, place: QueueState::Out }
    }

    fn lane(&self, tenant: &TenantId, session: &SessionId) -> Arc<SessionQueue> {
        let mut lanes = locked(&self.lanes);
        if lanes.len() >= 1_024 && lanes.len().is_power_of_two() {
            // A lane that nobody holds keeps no order.
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        let lane = lanes.entry((tenant.clone(), session.clone())).or_insert_with(|| {
            let together = Arc::new(Semaphore::new(self.max_concurrent));
            Arc::new(SessionQueue { order: Arc::default(), together })
        });
        lane.clone()
    }
}
