//! The registry of connected workers, and how long an absent one keeps its claims.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use byleave_core::id::{CallId, OwnerId};
use byleave_gate::ledger::owner_locks::OwnerLiveness;
use byleave_gate::ledger::{Ledger, LedgerError};
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::{Notify, OnceCell, broadcast, mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use crate::assignment::{
    CallAssignment, Capabilities, DispatchOutcome, OfferedCall, WorkerHandle, WorkerInfo, choose_worker,
};
use crate::permissions::Permissions;
use crate::protocol::LedgerResponseError;

/// The number of answers that are remembered for each owner. It is larger than the number of its requests in flight.
const ANSWERS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1_023);

/// The capacity of the channel of changed calls. A slower listener learns that it missed some.
const WRITTEN_MAX: usize = 1_024;

/// The number of offered calls that are remembered for each worker. It is larger than the number that it executes at once.
const OFFERED_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2_047);
/// The maximum number of owners with one name: one, and those that died within a lease.
const NAMESAKES_MAX: usize = 64;
/// How long the registry waits for workers that were connected before the server started. It is longer than their reconnect
/// pause.
const ARRIVING: Duration = Duration::from_secs(3);

type OfferedCalls = Arc<Mutex<LruCache<CallId, ()>>>;

/// A store that writes for owners on other machines.
pub trait OwnerBackend: Send + Sync + 'static {
    /// Sets the function that decides whether a remote owner is alive. All writers on this store use it.
    fn set_liveness_check(&self, is_alive: OwnerLiveness);

    /// Returns a ledger that writes claims for this owner. The owner is alive for at least as long as the ledger is held.
    fn ledger_for_owner(&self, owner: OwnerId) -> Result<Arc<dyn Ledger>, LedgerError>;

    /// Checks that no other process is responsible for the same owners. While that is uncertain, no owner is considered gone,
    /// and no heartbeat is confirmed.
    fn is_sole_registry(&self) -> bool {
        true
    }
}

/// The connected workers. Clones are cheap and share their state.
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
    /// The directory of all calls, if there is a single one.
    dir: Option<String>,
}

struct RegisteredOwner {
    ledger: Arc<dyn Ledger>,
    answers: Arc<ResponseCache>,
    /// The permissions under which this owner connected first. No other peer may connect as the same owner.
    rights: Permissions,
    /// The worker's state, if it accepts calls.
    hand: Option<WorkerHandle>,
    /// The newest of the calls that it was offered.
    offered: OfferedCalls,
    wires: u32,
    /// When the last connection broke. Meaningful only while there is none.
    left: Instant,
}

impl WorkerRegistry {
    /// Creates an empty registry. A worker that is away for longer than the lease is gone.
    pub fn new(deputy: impl OwnerBackend, lease: Duration) -> Self {
        Self::with(deputy, lease, None)
    }

    /// Creates a registry for calls that all work in one directory. Workers of other directories are rejected.
    pub fn with_directory(deputy: impl OwnerBackend, lease: Duration, dir: String) -> Self {
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
        roster.0.deputy.set_liveness_check(Arc::new(is_alive));
        roster
    }

    pub(crate) fn id(&self) -> Uuid {
        self.0.id
    }

    pub(crate) fn dir(&self) -> Option<&str> {
        self.0.dir.as_deref()
    }

    pub(crate) fn is_sole_registry(&self) -> bool {
        self.0.deputy.is_sole_registry()
    }

    pub(crate) fn lease(&self) -> Duration {
        self.0.lease
    }

    /// Checks whether an owner is connected or may still come back.
    ///
    /// An unknown owner may have been connected before this process started. It gets the same lease as any other.
    pub fn is_alive(&self, owner: OwnerId) -> bool {
        match self.owners().get(&owner) {
            _ if !self.is_sole_registry() => true,
            Some(known) => known.wires > 0 || known.left.elapsed() < self.0.lease,
            None => self.0.began.elapsed() < self.0.lease,
        }
    }

    /// Removes owners that have been away for too long. Call this periodically.
    pub fn remove_expired(&self) {
        let lease = self.0.lease;
        self.owners().retain(|_, known| known.wires > 0 || known.left.elapsed() < lease);
    }

    /// Subscribes to the calls that workers have written to.
    pub fn subscribe(&self) -> broadcast::Receiver<CallId> {
        self.0.written.subscribe()
    }

    /// Waits until a worker has connected that may execute calls without a worker.
    pub async fn wait_for_worker(&self) {
        self.0.came.notified().await;
    }

    /// Returns the workers that are connected or may come back.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.remove_expired();
        let owners = self.owners();
        let mut workers: Vec<WorkerInfo> = owners
            .iter()
            .filter_map(|(owner, known)| {
                // A worker that announced its end does not come back.
                let hand = known.hand.as_ref().filter(|hand| known.wires > 0 || !hand.is_draining)?;
                Some(WorkerInfo {
                    name: hand.name.clone(),
                    owner: *owner,
                    is_connected: known.wires > 0,
                    is_draining: hand.is_draining,
                    pending_calls: hand.pending_calls(),
                    capabilities: hand.capabilities.clone(),
                })
            })
            .collect();
        workers.sort_by(|one, other| one.name.cmp(&other.name).then(one.owner.cmp(&other.owner)));
        workers
    }

    /// Checks whether the queue of the call's worker is full, so that the call would not start soon.
    pub fn has_too_many_waiters(&self, job: &CallAssignment<'_>) -> bool {
        let owners = self.owners();
        let hands = owners.values().filter_map(|known| known.hand.as_ref());
        choose_worker(hands, job).is_some_and(WorkerHandle::has_too_many_waiters)
    }

    /// Has the call's worker drive it as far as possible.
    ///
    /// A worker has limited room; further calls wait here. A caller that stops waiting stops no call.
    pub async fn drive(&self, job: CallAssignment<'_>) -> DispatchOutcome {
        self.remove_expired();
        // Workers that were connected before this server started are about to come back, and keep their sessions.
        if self.0.began.elapsed() < ARRIVING.min(self.0.lease) {
            return DispatchOutcome::WorkerUnavailable;
        }
        let (room, line, waits) = {
            let owners = self.owners();
            let hands = owners.values().filter_map(|known| known.hand.as_ref());
            let Some(hand) = choose_worker(hands, &job) else { return DispatchOutcome::NoWorker };
            match &hand.offer_sender {
                Some(line) if !hand.is_draining && !hand.has_too_many_waiters() => {
                    (Arc::clone(&hand.free_slots), line.clone(), Arc::clone(&hand.waiters))
                }
                _ => return DispatchOutcome::WorkerUnavailable,
            }
        };
        let place = tokio::select! {
            place = room.acquire_owned() => place,
            () = line.closed() => return DispatchOutcome::WorkerUnavailable,
        };
        let Ok(_place) = place else { return DispatchOutcome::WorkerUnavailable };
        drop(waits);
        let (stood, standing) = oneshot::channel();
        if line.send(OfferedCall { call: job.call, on_driven: stood }).await.is_err() {
            return DispatchOutcome::WorkerUnavailable;
        }
        standing.await.map_or(DispatchOutcome::WorkerUnavailable, |held_up_by| DispatchOutcome::Driven {
            blocked_by: held_up_by,
        })
    }

    /// Notifies listeners that a worker has written to a call.
    fn tell_written(&self, call: CallId) {
        // There may be no listener.
        drop(self.0.written.send(call));
    }

    /// Registers an owner. The owner names itself; this checks that the id does not belong to another peer.
    pub(crate) fn register(
        &self,
        (owner, skills): (OwnerId, Option<Capabilities>),
        rights: &Permissions,
    ) -> Result<(RegistrationGuard, mpsc::Receiver<OfferedCall>), LedgerError> {
        self.remove_expired();
        // Done before the lock is taken, because it may take a moment.
        let ledger = match self.owners().contains_key(&owner) {
            true => None,
            false => Some(self.0.deputy.ledger_for_owner(owner)?),
        };
        let mut owners = self.owners();
        let namesakes = owners.values().filter(|known| known.rights == *rights).count();
        let known = match owners.entry(owner) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if *rights != Permissions::All && namesakes >= NAMESAKES_MAX => {
                let why = "too many workers have registered under this name; try again later";
                return Err(LedgerError::new("cannot register the worker", why));
            }
            Entry::Vacant(place) => {
                let gone = || {
                    LedgerError::new("cannot register the worker", "the owner disconnected at this moment")
                };
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
            return Err(LedgerError::new(
                "cannot register the worker",
                format!("owner {owner} belongs to another worker"),
            ));
        }
        known.wires = known.wires.saturating_add(1);
        let (line, offers) = mpsc::channel(1);
        if let Some(hand) = &mut known.hand {
            hand.offer_sender = Some(line);
        }
        let (ledger, answers) = (Arc::clone(&known.ledger), Arc::clone(&known.answers));
        let offered = Arc::clone(&known.offered);
        drop(owners);
        // Stored for the next waiter if there is none now.
        self.0.came.notify_one();
        Ok((RegistrationGuard { roster: self.clone(), offered, owner, ledger, answers }, offers))
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<OwnerId, RegisteredOwner>> {
        self.0.owners.lock()
    }
}

/// A connected owner. It is away once this is dropped.
pub(crate) struct RegistrationGuard {
    roster: WorkerRegistry,
    offered: OfferedCalls,
    pub(crate) owner: OwnerId,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) answers: Arc<ResponseCache>,
}

impl RegistrationGuard {
    /// Notes that the worker accepts no new calls.
    pub(crate) fn set_draining(&self) {
        if let Some(hand) = self.roster.owners().get_mut(&self.owner).and_then(|known| known.hand.as_mut()) {
            hand.is_draining = true;
        }
    }

    /// Remembers that a call was offered to the worker.
    pub(crate) fn note_offered(&self, call: CallId) {
        self.offered.lock().put(call, ());
    }

    pub(crate) fn was_offered(&self, call: CallId) -> bool {
        self.offered.lock().contains(&call)
    }

    pub(crate) fn is_sole_registry(&self) -> bool {
        self.roster.is_sole_registry()
    }

    /// Notifies listeners that the worker has written to a call.
    pub(crate) fn notify_written(&self, call: CallId) {
        self.roster.tell_written(call);
    }
}

/// The last answers of requests with an effect. A request that is repeated over another connection is not executed again.
pub(crate) struct ResponseCache(Mutex<LruCache<u64, Arc<OnceCell<LedgerResponse>>>>);

pub(crate) type LedgerResponse = Result<Value, LedgerResponseError>;

impl Default for ResponseCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(ANSWERS_MAX)))
    }
}

impl ResponseCache {
    /// Returns the answer to a request, which is computed once. Concurrent repetitions wait for it.
    pub(crate) async fn get_or_compute<W: Future<Output = LedgerResponse>>(
        &self,
        id: u64,
        work: impl FnOnce() -> W,
    ) -> LedgerResponse {
        let cell = {
            let mut answers = self.0.lock();
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
            // The channel of a later connection belongs to that connection.
            if let Some(hand) = known
                .hand
                .as_mut()
                .filter(|hand| hand.offer_sender.as_ref().is_some_and(mpsc::Sender::is_closed))
            {
                hand.offer_sender = None;
            }
        }
    }
}
