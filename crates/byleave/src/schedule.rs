//! The scheduler (E4): within a session, concurrency-safe calls run beside each other up to a limit, all others alone
//! and in the order in which they came. Between processes the ledger keeps order; this is the part of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use std::task::Poll;

use byleave_core::id::{SessionId, TenantId};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore};

use crate::pending::Pending;

type Lanes = HashMap<(TenantId, SessionId), Arc<RwLock<()>>>;

/// Who may run now, in this process.
#[derive(Debug)]
pub(crate) struct Schedule {
    // Fair: turns are given in the order in which they were asked for.
    lanes: Mutex<Lanes>,
    together: Arc<Semaphore>,
}

/// The right to run, given back when dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "guards are held, not read")]
pub(crate) enum Turn {
    Alone(OwnedRwLockWriteGuard<()>),
    Together(OwnedRwLockReadGuard<()>, OwnedSemaphorePermit),
    /// The semaphore is never closed; were it so, nothing runs beside it.
    Unlimited(OwnedRwLockReadGuard<()>),
}

/// A call in the line of its session.
pub(crate) struct Line {
    lane: Arc<RwLock<()>>,
    together: Arc<Semaphore>,
    concurrency_safe: bool,
    place: Place,
}

enum Place {
    Out,
    Queued(Pending<'static, Turn>),
    #[expect(dead_code, reason = "guards are held, not read")]
    In(Turn),
}

impl Line {
    /// Takes a place in the line, without waiting for the turn.
    pub(crate) async fn queue(&mut self) {
        if !matches!(self.place, Place::Out) {
            return;
        }
        let mut turn = Box::pin(turn(self.lane.clone(), self.together.clone(), self.concurrency_safe));
        self.place = match futures::poll!(&mut turn) {
            Poll::Ready(turn) => Place::In(turn),
            Poll::Pending => Place::Queued(turn),
        };
    }

    /// Waits for the turn, in the place that was taken.
    pub(crate) async fn take(&mut self) {
        self.queue().await;
        if let Place::Queued(turn) = &mut self.place {
            self.place = Place::In(turn.await);
        }
    }

    /// Steps out of the line, and lets others go first.
    pub(crate) fn leave(&mut self) {
        self.place = Place::Out;
    }
}

/// Waits for a turn. Asking for it (the first poll) fixes the place in the order.
async fn turn(lane: Arc<RwLock<()>>, together: Arc<Semaphore>, concurrency_safe: bool) -> Turn {
    if !concurrency_safe {
        return Turn::Alone(lane.write_owned().await);
    }
    let guard = lane.read_owned().await;
    match together.acquire_owned().await {
        Ok(permit) => Turn::Together(guard, permit),
        Err(_) => Turn::Unlimited(guard),
    }
}

impl Schedule {
    pub(crate) fn new(max_concurrent: usize) -> Self {
        Self { lanes: Mutex::default(), together: Arc::new(Semaphore::new(max_concurrent.max(1))) }
    }

    /// A call of a session that will want its turn.
    pub(crate) fn line(&self, tenant: &TenantId, session: &SessionId, concurrency_safe: bool) -> Line {
        let (lane, together) = (self.lane(tenant, session), self.together.clone());
        Line { lane, together, concurrency_safe, place: Place::Out }
    }

    fn lane(&self, tenant: &TenantId, session: &SessionId) -> Arc<RwLock<()>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() > 1_024 {
            // A lane that nobody holds keeps no order.
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        lanes.entry((tenant.clone(), session.clone())).or_default().clone()
    }
}
