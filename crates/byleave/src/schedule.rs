//! The scheduler (E4): within a session, concurrency-safe calls run beside each other up to a limit, all others alone
//! and in the order in which they came. Between processes the ledger keeps order; this is the part of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use byleave_core::id::{SessionId, TenantId};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore};

use crate::parts::locked;

/// Who may run now, in this process.
#[derive(Debug)]
pub(crate) struct Schedule {
    lanes: Mutex<HashMap<(TenantId, SessionId), Arc<Lane>>>,
    max_concurrent: usize,
}

/// One session.
#[derive(Debug)]
struct Lane {
    // Fair: turns are given in the order in which they were asked for.
    order: Arc<RwLock<()>>,
    together: Arc<Semaphore>,
}

/// The right to run, given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _alone: Option<OwnedRwLockWriteGuard<()>>,
    _together: Option<(OwnedRwLockReadGuard<()>, Option<OwnedSemaphorePermit>)>,
    _lane: Arc<Lane>,
}

impl Schedule {
    pub(crate) fn new(max_concurrent: usize) -> Self {
        Self { lanes: Mutex::default(), max_concurrent: max_concurrent.max(1) }
    }

    /// Waits for a turn. Asking for it (the first poll) fixes the place in the order.
    pub(crate) async fn turn(&self, tenant: &TenantId, session: &SessionId, concurrency_safe: bool) -> Turn {
        let lane = self.lane(tenant, session);
        if !concurrency_safe {
            let alone = lane.order.clone().write_owned().await;
            return Turn { _alone: Some(alone), _together: None, _lane: lane };
        }
        let beside = lane.order.clone().read_owned().await;
        // Nobody closes the semaphore.
        let permit = lane.together.clone().acquire_owned().await.ok();
        Turn { _alone: None, _together: Some((beside, permit)), _lane: lane }
    }

    fn lane(&self, tenant: &TenantId, session: &SessionId) -> Arc<Lane> {
        let mut lanes = locked(&self.lanes);
        if lanes.len() >= 1_024 && lanes.len().is_power_of_two() {
            // A lane that nobody holds keeps no order.
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        let lane = lanes.entry((tenant.clone(), session.clone())).or_insert_with(|| {
            let together = Arc::new(Semaphore::new(self.max_concurrent));
            Arc::new(Lane { order: Arc::default(), together })
        });
        lane.clone()
    }
}
