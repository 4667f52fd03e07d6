//! The parts of a gate.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use byleave_core::call::Millis;
use byleave_core::decision::PolicyDecision;
use byleave_core::digest::{Digest, RecordKey};
use byleave_core::entry::CallHeader;
use byleave_core::id::{AttemptId, CallId};
use byleave_core::policy::Policy;
use byleave_core::record::Record;
use lru::LruCache;
use parking_lot::{Mutex, RwLock};

use crate::approver::Approver;
use crate::catalog::Catalog;
use crate::challenge::Challenger;
use crate::clock::Clock;
use crate::event::EventBus;
use crate::gate::in_flight::InFlight;
use crate::gate::scheduler::Scheduler;
use crate::ledger::Ledger;
use crate::review::Reviewers;
use crate::settings::GateSettings;
use crate::tool::ToolContext;

/// A function that returns whether a call is left to other processes.
pub type SkipCall = Arc<dyn Fn(&CallHeader) -> bool + Send + Sync>;

/// A function that returns whether no process attends a call any more: none waits for its answer, and none runs it.
pub type UnattendedCall = Arc<dyn Fn(CallId) -> bool + Send + Sync>;

/// The parts of a gate.
pub(crate) struct GateInner {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) catalog: Catalog,
    pub(crate) policy: ArcSwap<Policy>,
    pub(crate) reviewers: Reviewers,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) checkpoint: Option<Arc<dyn Approver>>,
    /// A person answers questions: at a terminal, or in the inbox.
    pub(crate) has_person: bool,
    pub(crate) challenger: RwLock<Option<Arc<dyn Challenger>>>,
    pub(crate) settings: GateSettings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: EventBus,
    pub(crate) scheduler: Scheduler,
    pub(crate) in_flight: InFlight,
    pub(crate) decision_cache: DecisionCache,
    /// Selects the calls that other processes drive.
    pub(crate) skip_calls: Option<SkipCall>,
    /// Selects the calls that hold up no others, because nobody attends them.
    pub(crate) unattended_calls: Option<UnattendedCall>,
}

impl GateInner {
    /// Returns the challenger, if there is one.
    pub(crate) fn challenger(&self) -> Option<Arc<dyn Challenger>> {
        self.challenger.read().clone()
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Waits for the poll interval, before the next check for writes of other processes.
    pub(crate) async fn wait_poll_interval(&self) {
        tokio::time::sleep(self.settings.poll_interval.max(Duration::from_millis(1))).await;
    }
}

/// Returns the caller and the working directory from the record.
pub(crate) fn tool_context(record: &Record) -> Option<ToolContext> {
    let heading = record.header()?;
    let cwd = PathBuf::from(&heading.cwd);
    let (tenant, session, agent) = (heading.tenant.clone(), heading.session.clone(), heading.agent.clone());
    Some(ToolContext { tenant, session, agent, cwd })
}

/// A cache of decisions by the digest of everything that they depend on (P9).
#[derive(Debug)]
pub(crate) struct DecisionCache(Option<Mutex<LruCache<Digest, PolicyDecision>>>);

impl DecisionCache {
    pub(crate) fn new(entries: usize) -> Self {
        Self(NonZeroUsize::new(entries).map(|entries| Mutex::new(LruCache::new(entries))))
    }

    /// Returns whether the cache is enabled.
    pub(crate) const fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn get(&self, key: &Digest) -> Option<PolicyDecision> {
        let mut ruling = self.0.as_ref()?.lock().get(key).cloned()?;
        ruling.cached = true;
        Some(ruling)
    }

    pub(crate) fn put(&self, key: Digest, ruling: &PolicyDecision) {
        if let Some(cache) = &self.0 {
            cache.lock().put(key, ruling.clone());
        }
    }
}

/// Creates an attempt id.
pub(crate) fn new_attempt_id() -> AttemptId {
    AttemptId::new(crate::clock::fresh_id())
}

/// Creates a random key for a new record.
pub(crate) fn new_record_key() -> Result<RecordKey, getrandom::Error> {
    let mut key = [0_u8; 32];
    getrandom::fill(&mut key)?;
    Ok(RecordKey::from_bytes(key))
}
