//! The bustle: what is going on in this process. Who drives which call and how to stop it, how much was asked and declined, and
//! whether something was written that other calls must see.
//!
//! Nothing of it outlives the process, and nothing of it need: what counts is on the record.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use byleave_core::call::Millis;
use byleave_core::digest::Digest;
use byleave_core::id::{CallId, SessionId, TenantId};
use lru::LruCache;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::lock::locked;

/// What is going on in this process: who drives which call, and how to stop it.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Each with how many are at it.
    driving: Mutex<HashMap<CallId, (Arc<ActiveCall>, usize)>>,
    asked: Mutex<HashMap<(TenantId, SessionId), (Millis, u32)>>,
    declined: DeclinedCache,
    orphans: Mutex<Vec<CallId>>,
    stirs: AtomicU64,
}

/// A call that is being driven, or waited for, in this process.
#[derive(Debug, Default)]
pub(crate) struct ActiveCall {
    /// Held by whoever drives it.
    pub(crate) wheel: tokio::sync::Mutex<()>,
    /// Stops it.
    pub(crate) cancel: CancellationToken,
    by: Mutex<Option<String>>,
    /// The calls of the same turn, itself among them.
    turn: Mutex<Vec<Weak<ActiveCall>>>,
    /// How long its record is, as far as this process has seen.
    len: watch::Sender<u32>,
}

impl ActiveCall {
    /// Who asked for it to be stopped.
    pub(crate) fn cancelled_by(&self) -> Option<String> {
        if !self.cancel.is_cancelled() {
            return None;
        }
        Some(locked(&self.by).clone().unwrap_or_else(|| "the caller".into()))
    }

    /// How long the record is, as far as this process has seen while somebody was at it.
    pub(crate) fn seen_len(&self) -> u32 {
        *self.len.borrow()
    }

    /// Waits until the record is longer than it was.
    pub(crate) async fn grown_beyond(&self, len: u32) {
        // The sender is our own, so it cannot go away while we wait.
        drop(self.len.subscribe().wait_for(|now| *now > len).await);
    }

    /// Waits until the record grows from now on.
    pub(crate) async fn grown(&self) {
        drop(self.len.subscribe().changed().await);
    }

    pub(crate) fn stop(&self, by: &str) {
        locked(&self.by).get_or_insert_with(|| by.to_owned());
        self.cancel.cancel();
    }

    /// Stops the other calls of the same turn, because a person stopped everything.
    pub(crate) fn stop_others_of_turn(&self) {
        let turn = locked(&self.turn).clone();
        for other in turn.iter().filter_map(Weak::upgrade).filter(|other| !std::ptr::eq(&**other, self)) {
            other.stop("a person who stopped everything");
        }
    }
}

impl InFlight {
    /// Something is written that other calls must see.
    pub(crate) fn stir(&self) {
        self.stirs.fetch_add(1, Ordering::SeqCst);
    }

    /// How often something was written that other calls must see.
    pub(crate) fn stirs(&self) -> u64 {
        self.stirs.load(Ordering::SeqCst)
    }

    /// The one place of a call in this process.
    pub(crate) fn enter(&self, call: CallId) -> ActiveCallGuard<'_> {
        let mut driving = locked(&self.driving);
        let (driving, users) = driving.entry(call).or_default();
        *users = users.saturating_add(1);
        ActiveCallGuard { bustle: self, call, driving: driving.clone() }
    }

    /// The places of the calls of one turn.
    pub(crate) fn enter_turn(&self, calls: impl Iterator<Item = CallId>) -> Vec<ActiveCallGuard<'_>> {
        let places: Vec<ActiveCallGuard<'_>> = calls.map(|call| self.enter(call)).collect();
        let turn: Vec<Weak<ActiveCall>> = places.iter().map(|place| Arc::downgrade(&place.driving)).collect();
        for place in &places {
            locked(&place.driving.turn).clone_from(&turn);
        }
        places
    }

    /// The call's place, if it has one here.
    pub(crate) fn find(&self, call: CallId) -> Option<ActiveCallGuard<'_>> {
        let mut driving = locked(&self.driving);
        let (driving, users) = driving.get_mut(&call)?;
        *users = users.saturating_add(1);
        Some(ActiveCallGuard { bustle: self, call, driving: driving.clone() })
    }

    /// Tells whoever waits for a call here how long its record now is.
    pub(crate) fn ring(&self, call: CallId, len: u32) {
        if let Some(driving) = self.find(call) {
            driving.len.send_replace(len);
        }
    }

    /// Remembers a call that was interrupted and that nobody drives.
    pub(crate) fn orphan(&self, call: CallId) {
        locked(&self.orphans).push(call);
    }

    /// A call that someone should drive to its end.
    pub(crate) fn take_orphan(&self) -> Option<CallId> {
        locked(&self.orphans).pop()
    }

    /// Counts a question of a session; false if there were too many in this minute.
    pub(crate) fn may_ask(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        now: Millis,
        per_minute: u32,
    ) -> bool {
        let mut asked = locked(&self.asked);
        asked.retain(|_, (since, _)| now.saturating_sub(*since) < 60_000);
        let (_, count) = asked.entry((tenant.clone(), session.clone())).or_insert((now, 0));
        *count = count.saturating_add(1);
        *count <= per_minute
    }

    /// What a person said no to, and is not asked about again.
    pub(crate) const fn declined(&self) -> &DeclinedCache {
        &self.declined
    }
}

/// So many refusals are remembered; of the oldest a person may be asked again.
const DECLINED_MAX: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

/// What was declined, by the digest of exactly that in its session, with the words that it was declined with.
#[derive(Debug)]
pub(crate) struct DeclinedCache(Mutex<LruCache<Digest, String>>);

impl Default for DeclinedCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(DECLINED_MAX)))
    }
}

impl DeclinedCache {
    pub(crate) fn get(&self, of: &Digest) -> Option<String> {
        locked(&self.0).get(of).cloned()
    }

    pub(crate) fn put(&self, of: Digest, why: String) {
        locked(&self.0).put(of, why);
    }
}

/// The place of a call in this process, given up when dropped: also by a caller that goes away.
#[derive(Debug)]
pub(crate) struct ActiveCallGuard<'a> {
    bustle: &'a InFlight,
    call: CallId,
    driving: Arc<ActiveCall>,
}

impl std::ops::Deref for ActiveCallGuard<'_> {
    type Target = ActiveCall;

    fn deref(&self) -> &ActiveCall {
        &self.driving
    }
}

impl Drop for ActiveCallGuard<'_> {
    fn drop(&mut self) {
        let mut driving = locked(&self.bustle.driving);
        let Some((_, users)) = driving.get_mut(&self.call) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            driving.remove(&self.call);
        }
    }
}
