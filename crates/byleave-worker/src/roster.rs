//! The roster: which owners are here, and for how long those are waited for who are away.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byleave::ledger::{Ledger, LedgerFault};
use byleave_core::id::OwnerId;
use lru::LruCache;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::rights::Rights;
use crate::wire::Trouble;

/// How many answers of each owner are remembered: more than it has questions under way.
const ANSWERS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1_023);

/// Says whether an owner lives.
pub type IsAlive = Arc<dyn Fn(OwnerId) -> bool + Send + Sync>;

/// A store that writes for owners who are elsewhere.
pub trait Deputy: Send + Sync + 'static {
    /// From now on an owner of which this says so lives, wherever it is; whoever writes on this store goes by it.
    fn watch(&self, is_alive: IsAlive);

    /// A ledger that writes claims for this owner, who lives for at least as long as it is held.
    fn ledger_of(&self, owner: OwnerId) -> Result<Arc<dyn Ledger>, LedgerFault>;
}

/// Who is here. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Roster(Arc<Inner>);

struct Inner {
    deputy: Box<dyn Deputy>,
    lease: Duration,
    began: Instant,
    owners: Mutex<HashMap<OwnerId, Known>>,
}

struct Known {
    ledger: Arc<dyn Ledger>,
    answers: Arc<Answers>,
    /// What it may do who came in as this owner first: nobody else comes in as the same.
    rights: Rights,
    wires: u32,
    /// When the last wire broke; counts only while there is none.
    left: Instant,
}

impl Roster {
    /// An empty roster. Who is away for longer than the lease is gone.
    pub fn new(deputy: impl Deputy, lease: Duration) -> Self {
        let inner =
            Inner { deputy: Box::new(deputy), lease, began: Instant::now(), owners: Mutex::default() };
        let roster = Self(Arc::new(inner));
        let watched = Arc::downgrade(&roster.0);
        let is_alive = move |owner| watched.upgrade().is_some_and(|inner| Self(inner).is_alive(owner));
        roster.0.deputy.watch(Arc::new(is_alive));
        roster
    }

    pub(crate) fn lease(&self) -> Duration {
        self.0.lease
    }

    /// Whether an owner is here, or may still come back.
    ///
    /// Who was never seen may have been here before this process began, and is waited for as long as anyone.
    pub fn is_alive(&self, owner: OwnerId) -> bool {
        match self.owners().get(&owner) {
            Some(known) => known.wires > 0 || known.left.elapsed() < self.0.lease,
            None => self.0.began.elapsed() < self.0.lease,
        }
    }

    /// Forgets who has been away for too long. To be called now and then.
    pub fn sweep(&self) {
        let lease = self.0.lease;
        self.owners().retain(|_, known| known.wires > 0 || known.left.elapsed() < lease);
    }

    /// An owner comes in. Who it is, it says itself; that it is not another tenant's, is looked at.
    pub(crate) fn enter(&self, owner: OwnerId, rights: &Rights) -> Result<Present, LedgerFault> {
        self.sweep();
        let mut owners = self.owners();
        let known = match owners.entry(owner) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let (ledger, answers) = (self.0.deputy.ledger_of(owner)?, Arc::new(Answers::default()));
                let rights = rights.clone();
                place.insert(Known { ledger, answers, rights, wires: 0, left: Instant::now() })
            }
        };
        if known.rights != *rights {
            return Err(LedgerFault::new("cannot come in", format!("owner {owner} is another's")));
        }
        known.wires = known.wires.saturating_add(1);
        let (ledger, answers) = (Arc::clone(&known.ledger), Arc::clone(&known.answers));
        Ok(Present { roster: self.clone(), owner, ledger, answers })
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<OwnerId, Known>> {
        self.0.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An owner who is here; away once this is dropped.
pub(crate) struct Present {
    roster: Roster,
    owner: OwnerId,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) answers: Arc<Answers>,
}

/// What an owner was last told of what has an effect: said again over another wire, it is not done again.
pub(crate) struct Answers(Mutex<LruCache<u64, Arc<OnceCell<Answer>>>>);

pub(crate) type Answer = Result<Value, Trouble>;

impl Default for Answers {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(ANSWERS_MAX)))
    }
}

impl Answers {
    /// The answer to a question, which is worked out once; whoever comes meanwhile waits for it.
    pub(crate) async fn once<W: Future<Output = Answer>>(&self, id: u64, work: impl FnOnce() -> W) -> Answer {
        let cell = {
            let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(answers.get_or_insert(id, Arc::default))
        };
        cell.get_or_init(work).await.clone()
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut owners = self.roster.owners();
        if let Some(known) = owners.get_mut(&self.owner) {
            known.wires = known.wires.saturating_sub(1);
            known.left = Instant::now();
        }
    }
}
