//! Registry of calls in flight in this process.
//!
//! It knows the calls that this process drives, and how to stop them. It counts questions and remembers declined calls. It notes
//! writes that other calls must see. It is not persisted, because the record is authoritative.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use byleave_core::call::Millis;
use byleave_core::digest::Digest;
use byleave_core::id::{CallId, SessionId, TenantId};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The calls in flight in this process, and how to stop them.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Each call with the number of its users.
    active: Mutex<HashMap<CallId, (Arc<ActiveCall>, usize)>>,
    question_counts: Mutex<HashMap<(TenantId, SessionId), (Millis, u32)>>,
    declined: DeclinedCache,
    orphans: Mutex<Vec<CallId>>,
    epoch: AtomicU64,
}

/// A call that this process drives or waits for.
#[derive(Debug, Default)]
pub(crate) struct ActiveCall {
    /// Held by the task that drives the call.
    pub(crate) drive_lock: tokio::sync::Mutex<()>,
    /// Cancels the call.
    pub(crate) cancel: CancellationToken,
    cancelled_by: Mutex<Option<String>>,
    /// The calls of the same turn, including this one.
    turn_calls: Mutex<Vec<Weak<ActiveCall>>>,
    /// The length of the record, as far as this process has seen it.
    len: watch::Sender<u32>,
}

impl ActiveCall {
    /// Returns who cancelled the call, if it was cancelled.
    pub(crate) fn cancelled_by(&self) -> Option<String> {
        if !self.cancel.is_cancelled() {
            return None;
        }
        Some(self.cancelled_by.lock().clone().unwrap_or_else(|| "the caller".into()))
    }

    /// Returns the length of the record, as far as this process has seen it while the call was in the registry.
    pub(crate) fn seen_len(&self) -> u32 {
        *self.len.borrow()
    }

    /// Waits until the record is longer than this.
    pub(crate) async fn wait_longer_than(&self, len: u32) {
        // This value owns the sender, so the channel cannot close during the wait.
        drop(self.len.subscribe().wait_for(|now| *now > len).await);
    }

    /// Waits until the record grows from now on.
    pub(crate) async fn wait_for_growth(&self) {
        drop(self.len.subscribe().changed().await);
    }

    pub(crate) fn stop(&self, by: &str) {
        self.cancelled_by.lock().get_or_insert_with(|| by.to_owned());
        self.cancel.cancel();
    }

    /// Stops the other calls of the same turn, because a person aborted.
    pub(crate) fn stop_turn_siblings(&self) {
        let turn = self.turn_calls.lock().clone();
        for other in turn.iter().filter_map(Weak::upgrade).filter(|other| !std::ptr::eq(&**other, self)) {
            other.stop("a person who aborted the turn");
        }
    }
}

impl InFlight {
    /// Notes that something was written that other calls must see.
    pub(crate) fn bump_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of writes that other calls must see.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Returns the registry entry of a call and creates it if needed.
    pub(crate) fn register(&self, call: CallId) -> ActiveCallGuard<'_> {
        let mut driving = self.active.lock();
        let (driving, users) = driving.entry(call).or_default();
        *users = users.saturating_add(1);
        ActiveCallGuard { in_flight: self, call, active_call: driving.clone() }
    }

    /// Enters all calls of one turn and links them.
    pub(crate) fn register_turn(&self, calls: impl Iterator<Item = CallId>) -> Vec<ActiveCallGuard<'_>> {
        let places: Vec<ActiveCallGuard<'_>> = calls.map(|call| self.register(call)).collect();
        let turn: Vec<Weak<ActiveCall>> =
            places.iter().map(|place| Arc::downgrade(&place.active_call)).collect();
        for place in &places {
            place.active_call.turn_calls.lock().clone_from(&turn);
        }
        places
    }

    /// Returns the registry entry of a call, if it has one.
    pub(crate) fn find(&self, call: CallId) -> Option<ActiveCallGuard<'_>> {
        let mut driving = self.active.lock();
        let (driving, users) = driving.get_mut(&call)?;
        *users = users.saturating_add(1);
        Some(ActiveCallGuard { in_flight: self, call, active_call: driving.clone() })
    }

    /// Publishes the new length of a record to everything in this process that waits for its call.
    pub(crate) fn notify(&self, call: CallId, len: u32) {
        if let Some(driving) = self.find(call) {
            driving.len.send_replace(len);
        }
    }

    /// Remembers a call that was interrupted and that no process drives.
    pub(crate) fn add_orphan(&self, call: CallId) {
        self.orphans.lock().push(call);
    }

    /// Takes a call that must be driven until it is settled.
    pub(crate) fn take_orphan(&self) -> Option<CallId> {
        self.orphans.lock().pop()
    }

    /// Counts a question of a session. Returns `false` if there were too many in this minute.
    pub(crate) fn count_question(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        now: Millis,
        per_minute: u32,
    ) -> bool {
        let mut asked = self.question_counts.lock();
        asked.retain(|_, (since, _)| now.saturating_sub(*since) < 60_000);
        let (_, count) = asked.entry((tenant.clone(), session.clone())).or_insert((now, 0));
        *count = count.saturating_add(1);
        *count <= per_minute
    }

    /// Returns the cache of declined calls, about which a person is not asked again.
    pub(crate) const fn declined(&self) -> &DeclinedCache {
        &self.declined
    }
}

/// The number of remembered refusals. Beyond it, the least recently used is dropped, and a person may be asked again.
const DECLINED_MAX: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

/// Declined calls by the digest of the exact call in its session, each with the text of the refusal.
#[derive(Debug)]
pub(crate) struct DeclinedCache(Mutex<LruCache<Digest, String>>);

impl Default for DeclinedCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(DECLINED_MAX)))
    }
}

impl DeclinedCache {
    pub(crate) fn get(&self, of: &Digest) -> Option<String> {
        self.0.lock().get(of).cloned()
    }

    pub(crate) fn put(&self, of: Digest, why: String) {
        self.0.lock().put(of, why);
    }
}

/// A reference to the registry entry of a call, released on drop, even if the caller goes away.
#[derive(Debug)]
pub(crate) struct ActiveCallGuard<'a> {
    in_flight: &'a InFlight,
    call: CallId,
    active_call: Arc<ActiveCall>,
}

impl std::ops::Deref for ActiveCallGuard<'_> {
    type Target = ActiveCall;

    fn deref(&self) -> &ActiveCall {
        &self.active_call
    }
}

impl Drop for ActiveCallGuard<'_> {
    fn drop(&mut self) {
        let mut driving = self.in_flight.active.lock();
        let Some((_, users)) = driving.get_mut(&self.call) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            driving.remove(&self.call);
        }
    }
}
