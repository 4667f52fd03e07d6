//! The scheduler (E4): within a session, concurrency-safe calls run beside each other up to a limit, all others alone
//! and in the order in which they came. Between processes the ledger keeps order; this is the part of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use byleave_core::id::{SessionId, TenantId};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore};

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

impl Schedule {
    pub(crate) fn new(max_concurrent: usize) -> Self {
        Self { lanes: Mutex::default(), together: Arc::new(Semaphore::new(max_concurrent.max(1))) }
    }

    /// Waits for a turn. Asking for it (the first poll) fixes the place in the order.
    pub(crate) async fn turn(&self, tenant: &TenantId, session: &SessionId, concurrency_safe: bool) -> Turn {
        let lane = self.lane(tenant, session);
        if !concurrency_safe {
            return Turn::Alone(lane.write_owned().await);
        }
        let guard = lane.read_owned().await;
        match self.together.clone().acquire_owned().await {
            Ok(permit) => Turn::Together(guard, permit),
            Err(_) => Turn::Unlimited(guard),
        }
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
