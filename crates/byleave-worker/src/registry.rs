//! The roster: which owners are here, and for how long those are waited for who are away.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byleave::ledger::owner_locks::OwnerLiveness;
use byleave::ledger::{Ledger, LedgerError};
use byleave_core::id::{CallId, OwnerId};
use lru::LruCache;
use serde_json::Value;
use tokio::sync::{Notify, OnceCell, broadcast, mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use crate::assignment::{
    CallAssignment, Capabilities, DispatchOutcome, OfferedCall, WorkerHandle, WorkerInfo, choose,
};
use crate::permissions::Permissions;
use crate::protocol::LedgerResponseError;

/// How many answers of each owner are remembered: more than it has questions under way.
const ANSWERS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1_023);

/// How many calls are told of that nobody has heard of yet; then that they were too many.
const WRITTEN_MAX: usize = 1_024;

/// How many of the calls that a worker was offered are remembered: more than it drives at once.
const OFFERED_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2_047);
/// How many owners of one name may be known at once: one, and those who died within a lease.
const NAMESAKES_MAX: usize = 64;
/// How long those are waited for who were here before the office began: longer than they pause before they dial.
const ARRIVING: Duration = Duration::from_secs(3);

type OfferedCalls = Arc<Mutex<LruCache<CallId, ()>>>;

/// A store that writes for owners who are elsewhere.
pub trait OwnerBackend: Send + Sync + 'static {
    /// From now on an owner of which this says so lives, wherever it is; whoever writes on this store goes by it.
    fn watch(&self, is_alive: OwnerLiveness);

    /// A ledger that writes claims for this owner, who lives for at least as long as it is held.
    fn ledger_of(&self, owner: OwnerId) -> Result<Arc<dyn Ledger>, LedgerError>;

    /// Whether no other process answers for the same owners. While that is not sure, nobody is given up here, and no worker is told
    /// that it is heard.
    fn is_sure(&self) -> bool {
        true
    }
}

/// Who is here. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct WorkerRegistry(Arc<WorkerRegistryInner>);

struct WorkerRegistryInner {
    id: Uuid,
    deputy: Box<dyn OwnerBackend>,
    lease: Duration,
    began: Instant,
    owners: Mutex<HashMap<OwnerId, RegisteredOwner>>,
    written: broadcast::Sender<CallId>,
    came: Notify,
    /// Where calls work, where that is one place.
    dir: Option<String>,
}

struct RegisteredOwner {
    ledger: Arc<dyn Ledger>,
    answers: Arc<ResponseCache>,
    /// What it may do who came in as this owner first: nobody else comes in as the same.
    rights: Permissions,
    /// Where it wants calls.
    hand: Option<WorkerHandle>,
    /// The calls that it was offered, the newest of them.
    offered: OfferedCalls,
    wires: u32,
    /// When the last wire broke; counts only while there is none.
    left: Instant,
}

impl WorkerRegistry {
    /// An empty roster. Who is away for longer than the lease is gone.
    pub fn new(deputy: impl OwnerBackend, lease: Duration) -> Self {
        Self::with(deputy, lease, None)
    }

    /// The same for calls that all work in one directory: who works elsewhere is turned away.
    pub fn in_dir(deputy: impl OwnerBackend, lease: Duration, dir: String) -> Self {
        Self::with(deputy, lease, Some(dir))
    }

    fn with(deputy: impl OwnerBackend, lease: Duration, dir: Option<String>) -> Self {
        let inner = WorkerRegistryInner {
            id: Uuid::now_v7(),
            deputy: Box::new(deputy),
            lease,
            began: Instant::now(),
            owners: Mutex::default(),
            written: broadcast::channel(WRITTEN_MAX).0,
            came: Notify::new(),
            dir,
        };
        let roster = Self(Arc::new(inner));
        let watched = Arc::downgrade(&roster.0);
        let is_alive = move |owner| watched.upgrade().is_some_and(|inner| Self(inner).is_alive(owner));
        roster.0.deputy.watch(Arc::new(is_alive));
        roster
    }

    pub(crate) fn id(&self) -> Uuid {
        self.0.id
    }

    pub(crate) fn dir(&self) -> Option<&str> {
        self.0.dir.as_deref()
    }

    pub(crate) fn is_sure(&self) -> bool {
        self.0.deputy.is_sure()
    }

    pub(crate) fn lease(&self) -> Duration {
        self.0.lease
    }

    /// Whether an owner is here, or may still come back.
    ///
    /// Who was never seen may have been here before this process began, and is waited for as long as anyone.
    pub fn is_alive(&self, owner: OwnerId) -> bool {
        match self.owners().get(&owner) {
            _ if !self.is_sure() => true,
            Some(known) => known.wires > 0 || known.left.elapsed() < self.0.lease,
            None => self.0.began.elapsed() < self.0.lease,
        }
    }

    /// Forgets who has been away for too long. To be called now and then.
    pub fn sweep(&self) {
        let lease = self.0.lease;
        self.owners().retain(|_, known| known.wires > 0 || known.left.elapsed() < lease);
    }

    /// Hears of every call that a worker has written on.
    pub fn subscribe(&self) -> broadcast::Receiver<CallId> {
        self.0.written.subscribe()
    }

    /// Waits until somebody has come in, who may drive what nobody could.
    pub async fn until_someone_comes(&self) {
        self.0.came.notified().await;
    }

    /// Who is here, and who may come back.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.sweep();
        let owners = self.owners();
        let mut workers: Vec<WorkerInfo> = owners
            .iter()
            .filter_map(|(owner, known)| {
                // Who said goodbye does not come back.
                let hand = known.hand.as_ref().filter(|hand| known.wires > 0 || !hand.is_leaving)?;
                Some(WorkerInfo {
                    name: hand.name.clone(),
                    owner: *owner,
                    is_here: known.wires > 0,
                    is_leaving: hand.is_leaving,
                    busy: hand.busy(),
                    skills: hand.skills.clone(),
                })
            })
            .collect();
        workers.sort_by(|one, other| one.name.cmp(&other.name).then(one.owner.cmp(&other.owner)));
        workers
    }

    /// Whether so many wait for the worker whose a call is that it would not be taken up soon.
    pub fn is_crowded(&self, job: &CallAssignment<'_>) -> bool {
        let owners = self.owners();
        let hands = owners.values().filter_map(|known| known.hand.as_ref());
        choose(hands, job).is_some_and(WorkerHandle::is_crowded)
    }

    /// Has a call driven by the worker whose it is, to where it stands.
    ///
    /// A worker has room for so many; the others wait here. Whoever stops waiting stops nothing.
    pub async fn drive(&self, job: CallAssignment<'_>) -> DispatchOutcome {
        self.sweep();
        // Those who were here before this office was are about to come back, and their sessions are theirs.
        if self.0.began.elapsed() < ARRIVING.min(self.0.lease) {
            return DispatchOutcome::Away;
        }
        let (room, line, waits) = {
            let owners = self.owners();
            let hands = owners.values().filter_map(|known| known.hand.as_ref());
            let Some(hand) = choose(hands, &job) else { return DispatchOutcome::Nobody };
            match &hand.line {
                Some(line) if !hand.is_leaving && !hand.is_crowded() => {
                    (Arc::clone(&hand.room), line.clone(), Arc::clone(&hand.waiting))
                }
                _ => return DispatchOutcome::Away,
            }
        };
        let place = tokio::select! {
            place = room.acquire_owned() => place,
            () = line.closed() => return DispatchOutcome::Away,
        };
        let Ok(_place) = place else { return DispatchOutcome::Away };
        drop(waits);
        let (stood, standing) = oneshot::channel();
        if line.send(OfferedCall { call: job.call, stood }).await.is_err() {
            return DispatchOutcome::Away;
        }
        standing.await.map_or(DispatchOutcome::Away, |held_up_by| DispatchOutcome::Stood { held_up_by })
    }

    /// Tells who listens that a worker has written on a call.
    fn tell_written(&self, call: CallId) {
        // Nobody may listen.
        drop(self.0.written.send(call));
    }

    /// An owner comes in. Who it is, it says itself; that it is not another's, is looked at.
    pub(crate) fn enter(
        &self,
        (owner, skills): (OwnerId, Option<Capabilities>),
        rights: &Permissions,
    ) -> Result<(RegistrationGuard, mpsc::Receiver<OfferedCall>), LedgerError> {
        self.sweep();
        // Before anything is held: it may take a moment.
        let ledger = match self.owners().contains_key(&owner) {
            true => None,
            false => Some(self.0.deputy.ledger_of(owner)?),
        };
        let mut owners = self.owners();
        let namesakes = owners.values().filter(|known| known.rights == *rights).count();
        let known = match owners.entry(owner) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if *rights != Permissions::All && namesakes >= NAMESAKES_MAX => {
                let why = "too many have come in under this name; wait a while";
                return Err(LedgerError::new("cannot come in", why));
            }
            Entry::Vacant(place) => {
                let gone = || LedgerError::new("cannot come in", "the owner went away at this moment");
                let (ledger, answers) = (ledger.ok_or_else(gone)?, Arc::new(ResponseCache::default()));
                let hand = match (rights, skills) {
                    (Permissions::Worker { tenant, name }, Some(skills)) => {
                        Some(WorkerHandle::new(owner, (tenant.clone(), name.clone()), skills))
                    }
                    _ => None,
                };
                let (rights, left) = (rights.clone(), Instant::now());
                let offered = Arc::new(Mutex::new(LruCache::new(OFFERED_MAX)));
                place.insert(RegisteredOwner { ledger, answers, rights, hand, offered, wires: 0, left })
            }
        };
        if known.rights != *rights {
            return Err(LedgerError::new("cannot come in", format!("owner {owner} is another's")));
        }
        known.wires = known.wires.saturating_add(1);
        let (line, offers) = mpsc::channel(1);
        if let Some(hand) = &mut known.hand {
            hand.line = Some(line);
        }
        let (ledger, answers) = (Arc::clone(&known.ledger), Arc::clone(&known.answers));
        let offered = Arc::clone(&known.offered);
        drop(owners);
        // Kept for who looks next, if nobody waits for it now.
        self.0.came.notify_one();
        Ok((RegistrationGuard { roster: self.clone(), offered, owner, ledger, answers }, offers))
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<OwnerId, RegisteredOwner>> {
        self.0.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An owner who is here; away once this is dropped.
pub(crate) struct RegistrationGuard {
    roster: WorkerRegistry,
    offered: OfferedCalls,
    pub(crate) owner: OwnerId,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) answers: Arc<ResponseCache>,
}

impl RegistrationGuard {
    /// It takes nothing new.
    pub(crate) fn leaves(&self) {
        if let Some(hand) = self.roster.owners().get_mut(&self.owner).and_then(|known| known.hand.as_mut()) {
            hand.is_leaving = true;
        }
    }

    /// Remembers that a call was offered to it.
    pub(crate) fn note_offered(&self, call: CallId) {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).put(call, ());
    }

    pub(crate) fn was_offered(&self, call: CallId) -> bool {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).contains(&call)
    }

    pub(crate) fn is_sure(&self) -> bool {
        self.roster.is_sure()
    }

    /// Has those told who listen that it has written on a call.
    pub(crate) fn tell_written(&self, call: CallId) {
        self.roster.tell_written(call);
    }
}

/// What an owner was last told of what has an effect: said again over another wire, it is not done again.
pub(crate) struct ResponseCache(Mutex<LruCache<u64, Arc<OnceCell<LedgerResponse>>>>);

pub(crate) type LedgerResponse = Result<Value, LedgerResponseError>;

impl Default for ResponseCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(ANSWERS_MAX)))
    }
}

impl ResponseCache {
    /// The answer to a question, which is worked out once; whoever comes meanwhile waits for it.
    pub(crate) async fn once<W: Future<Output = LedgerResponse>>(
        &self,
        id: u64,
        work: impl FnOnce() -> W,
    ) -> LedgerResponse {
        let cell = {
            let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(answers.get_or_insert(id, Arc::default))
        };
        cell.get_or_init(work).await.clone()
    }
}

impl Drop for RegistrationGuard {
    fn drop(&mut self) {
        let mut owners = self.roster.owners();
        if let Some(known) = owners.get_mut(&self.owner) {
            known.wires = known.wires.saturating_sub(1);
            known.left = Instant::now();
            // The line of a wire that came later is another's.
            if let Some(hand) =
                known.hand.as_mut().filter(|hand| hand.line.as_ref().is_some_and(mpsc::Sender::is_closed))
            {
                hand.line = None;
            }
        }
    }
}
