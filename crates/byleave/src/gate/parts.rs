//! The parts a gate is made of, and what is going on in this process.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use byleave_core::call::Millis;
use byleave_core::digest::Digest;
use byleave_core::entry::Heading;
use byleave_core::id::{AttemptId, CallId, SessionId};
use byleave_core::policy::Policy;
use byleave_core::record::Record;
use byleave_core::ruling::Ruling;
use lru::LruCache;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::approve::Approver;
use crate::catalog::Catalog;
use crate::challenge::Challenger;
use crate::clock::Clock;
use crate::event::Events;
use crate::gate::schedule::Schedule;
use crate::ledger::Ledger;
use crate::lock::locked;
use crate::review::Reviewers;
use crate::settings::Settings;
use crate::tool::Site;

/// Says of a call whether it is for others to drive.
pub type Others = Arc<dyn Fn(&Heading) -> bool + Send + Sync>;

/// The parts a gate is made of.
pub(crate) struct Parts {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) catalog: Catalog,
    pub(crate) policy: ArcSwap<Policy>,
    pub(crate) reviewers: Reviewers,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) checkpoint: Option<Arc<dyn Approver>>,
    pub(crate) challenger: Option<Arc<dyn Challenger>>,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: Events,
    pub(crate) schedule: Schedule,
    pub(crate) bustle: Bustle,
    pub(crate) rulings: Rulings,
    /// Which calls are for others to drive.
    pub(crate) others: Option<Others>,
}

impl Parts {
    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Waits until it is time to look again at what other processes have written.
    pub(crate) async fn pause(&self) {
        tokio::time::sleep(self.settings.poll.max(Duration::from_millis(1))).await;
    }
}

/// Who asks, and where, as the record has it.
pub(crate) fn site(record: &Record) -> Option<Site> {
    let heading = record.heading()?;
    let cwd = PathBuf::from(&heading.cwd);
    let (tenant, session, agent) = (heading.tenant.clone(), heading.session.clone(), heading.agent.clone());
    Some(Site { tenant, session, agent, cwd })
}

/// What is going on in this process: who drives which call, and how to stop it.
#[derive(Debug, Default)]
pub(crate) struct Bustle {
    /// Each with how many are at it.
    driving: Mutex<HashMap<CallId, (Arc<Driving>, usize)>>,
    asked: Mutex<HashMap<SessionId, (Millis, u32)>>,
    declined: Declined,
    orphans: Mutex<Vec<CallId>>,
    stirs: AtomicU64,
}

/// A call that is being driven, or waited for, in this process.
#[derive(Debug, Default)]
pub(crate) struct Driving {
    /// Held by whoever drives it.
    pub(crate) wheel: tokio::sync::Mutex<()>,
    /// Stops it.
    pub(crate) cancel: CancellationToken,
    by: Mutex<Option<String>>,
    /// How long its record is, as far as this process has seen.
    len: watch::Sender<u32>,
}

impl Driving {
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
}

impl Bustle {
    /// Something is written that other calls must see.
    pub(crate) fn stir(&self) {
        self.stirs.fetch_add(1, Ordering::SeqCst);
    }

    /// How often something was written that other calls must see.
    pub(crate) fn stirs(&self) -> u64 {
        self.stirs.load(Ordering::SeqCst)
    }

    /// The one place of a call in this process.
    pub(crate) fn enter(&self, call: CallId) -> Place<'_> {
        let mut driving = locked(&self.driving);
        let (driving, users) = driving.entry(call).or_default();
        *users = users.saturating_add(1);
        Place { bustle: self, call, driving: driving.clone() }
    }

    /// The call's place, if it has one here.
    pub(crate) fn find(&self, call: CallId) -> Option<Place<'_>> {
        let mut driving = locked(&self.driving);
        let (driving, users) = driving.get_mut(&call)?;
        *users = users.saturating_add(1);
        Some(Place { bustle: self, call, driving: driving.clone() })
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
    pub(crate) fn may_ask(&self, session: &SessionId, now: Millis, per_minute: u32) -> bool {
        let mut asked = locked(&self.asked);
        asked.retain(|_, (since, _)| now.saturating_sub(*since) < 60_000);
        let (_, count) = asked.entry(session.clone()).or_insert((now, 0));
        *count = count.saturating_add(1);
        *count <= per_minute
    }

    /// What a person said no to, and is not asked about again.
    pub(crate) const fn declined(&self) -> &Declined {
        &self.declined
    }
}

/// So many refusals are remembered; of the oldest a person may be asked again.
const DECLINED_MAX: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

/// What was declined, by the digest of exactly that in its session, with the words that it was declined with.
#[derive(Debug)]
pub(crate) struct Declined(Mutex<LruCache<Digest, String>>);

impl Default for Declined {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(DECLINED_MAX)))
    }
}

impl Declined {
    pub(crate) fn get(&self, of: &Digest) -> Option<String> {
        locked(&self.0).get(of).cloned()
    }

    pub(crate) fn put(&self, of: Digest, why: String) {
        locked(&self.0).put(of, why);
    }
}

/// The place of a call in this process, given up when dropped: also by a caller that goes away.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    bustle: &'a Bustle,
    call: CallId,
    driving: Arc<Driving>,
}

impl std::ops::Deref for Place<'_> {
    type Target = Driving;

    fn deref(&self) -> &Driving {
        &self.driving
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut driving = locked(&self.bustle.driving);
        let Some((_, users)) = driving.get_mut(&self.call) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            driving.remove(&self.call);
        }
    }
}

/// Rulings that were made before on the same digest (P9).
#[derive(Debug)]
pub(crate) struct Rulings(Option<Mutex<LruCache<Digest, Ruling>>>);

impl Rulings {
    pub(crate) fn new(entries: usize) -> Self {
        Self(NonZeroUsize::new(entries).map(|entries| Mutex::new(LruCache::new(entries))))
    }

    /// Whether anything is remembered at all.
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn get(&self, key: &Digest) -> Option<Ruling> {
        let mut ruling = locked(self.0.as_ref()?).get(key).cloned()?;
        ruling.cached = true;
        Some(ruling)
    }

    pub(crate) fn put(&self, key: Digest, ruling: &Ruling) {
        if let Some(cache) = &self.0 {
            locked(cache).put(key, ruling.clone());
        }
    }
}

/// An attempt of this drive.
pub(crate) fn fresh_attempt() -> AttemptId {
    AttemptId::new(crate::clock::fresh_id())
}
