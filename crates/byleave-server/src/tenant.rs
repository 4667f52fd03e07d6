//! A tenancy: one tenant's gate and book, and the calls of it that are driven here.
//!
//! A call that came in is driven by a task of ours, not by the request that brought it: a client that goes away stops nothing.
//! A call that waits for a person has no task. What was answered, has expired or was left by a process that died is found again
//! by looking at the book. Where there is a crew, our tasks only have calls driven by workers. Only calls that came in here are
//! driven: a book may also have calls that are for others to begin.

mod client_tool_calls;
mod driver;
mod event_loop;
mod verification;
mod worker_dispatch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use byleave::audit_log::{AuditLog, QuestionFilter};
use byleave::core::call::Mode;
use byleave::core::digest::Digest;
use byleave::core::entry::CallHeader;
use byleave::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave::core::policy::Policy;
use byleave::core::record::Record;
use byleave::gate::Gate;
use byleave::ledger::{Ledger, LedgerError};
use byleave::policy_files::PolicyLoadError;
use byleave::result::CallStatus;
use byleave_worker::WorkerRegistry;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::call_watchers::CallWatchers;
use crate::client_tools::{ClientTools, is_own};
use crate::limits::ServerLimits;
use crate::stream_limit::StreamLimiter;
use crate::trace_parents::TraceParents;

pub(crate) use client_tool_calls::ClaimResult;
pub(crate) use driver::{ClientCallStatus, StartError};
pub(crate) use verification::{VerificationError, VerificationResult};

/// What the sessions of calls begin with that came in over HTTP.
pub(crate) const SESSIONS: &str = "api/";

/// How many wires workers may have open, and how many of them with one token: one, and some that are about to break.
const WIRES_MAX: usize = 1_024;
const WIRES_EACH_MAX: usize = 4;

/// Whether a call that came in over HTTP is for workers, where there are any: all are but those of agents' own tools.
pub fn is_for_workers(heading: &CallHeader) -> bool {
    heading.session.as_str().starts_with(SESSIONS) && !is_own(&heading.tool)
}

/// The policy of a tenant with these rules in the place of the person's own, for trying out.
pub type TrialPolicyBuilder = Arc<dyn Fn(&str) -> Result<Policy, PolicyLoadError> + Send + Sync>;

/// One tenant's gate and book.
pub struct Tenant {
    id: TenantId,
    pub(crate) gate: Gate,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) book: Arc<dyn AuditLog>,
    pub(crate) cwd: String,
    pub(crate) mode: Mode,
    pub(crate) seats: StreamLimiter,
    /// The wires of workers.
    pub(crate) wires: StreamLimiter,
    /// What runs in agents' own processes, where the gate was built for it.
    pub(crate) own: Option<ClientTools>,
    /// Who drives calls, where it is not us.
    pub(crate) crew: Option<WorkerRegistry>,
    /// How other rules are tried on past calls, where they can be.
    pub(crate) tried: Option<TrialPolicyBuilder>,
    /// Reading a whole book, to check it, to count it or to try rules on it, is costly: one at a time.
    pub(crate) reading_all: Arc<Semaphore>,
    checked: Mutex<Option<VerificationResult>>,
    driven: Mutex<HashMap<CallId, DrivenCall>>,
    room: Arc<Semaphore>,
    /// The calls that are followed: told of each whose record has grown, in this process or another.
    pub(crate) looks: CallWatchers,
    /// What the calls are beneath in their clients' traces.
    pub(crate) parents: TraceParents,
    /// Wakes who looks for calls that can be driven on.
    wake: Notify,
    tasks: TaskTracker,
}

/// A call that is driven here.
struct DrivenCall {
    task: Uuid,
    /// What came in, where this process took it in, and from whom; the same id with another body is another call.
    came: Option<(Digest, AgentId)>,
    stood: watch::Receiver<Option<CallStatus>>,
}

impl Tenant {
    /// A tenant's gate, with the ledger that it stands on and the same as a book.
    ///
    /// Each tenancy has a ledger of its own. Calls work in `cwd`, and never in a looser mode than `mode`.
    pub fn new(
        id: TenantId,
        gate: Gate,
        (ledger, book): (Arc<dyn Ledger>, Arc<dyn AuditLog>),
        cwd: String,
        mode: Mode,
    ) -> Self {
        let limits = ServerLimits::default();
        Self {
            id,
            gate,
            ledger,
            book,
            cwd,
            mode,
            seats: StreamLimiter::new(limits.streams, limits.streams_each),
            wires: StreamLimiter::new(WIRES_MAX, WIRES_EACH_MAX),
            own: None,
            crew: None,
            tried: None,
            reading_all: Arc::new(Semaphore::new(1)),
            checked: Mutex::default(),
            driven: Mutex::default(),
            room: Arc::new(Semaphore::new(limits.calls)),
            looks: CallWatchers::default(),
            parents: TraceParents::default(),
            wake: Notify::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// The same with tools that run in agents' own processes. The gate must have been built with [`ClientTools::behind`].
    #[must_use]
    pub fn own_tools(self, own: ClientTools) -> Self {
        Self { own: Some(own), ..self }
    }

    /// The same with calls driven by workers: here they only come in, are answered and are looked at. The gate must have been built
    /// to leave them, by [`is_for_workers`].
    #[must_use]
    pub fn crewed(self, crew: WorkerRegistry) -> Self {
        Self { crew: Some(crew), ..self }
    }

    /// The same with other rules that can be tried on past calls.
    #[must_use]
    pub fn trying(self, tried: TrialPolicyBuilder) -> Self {
        Self { tried: Some(tried), ..self }
    }

    /// The same within these limits.
    pub(crate) fn within(self, limits: &ServerLimits) -> Self {
        let seats = StreamLimiter::new(limits.streams, limits.streams_each);
        Self { seats, room: Arc::new(Semaphore::new(limits.calls)), ..self }
    }

    /// Whose it is.
    pub const fn id(&self) -> &TenantId {
        &self.id
    }

    /// Whether a call came in here, or in a server like this one: others of the same book are for others to drive.
    pub(crate) fn took_in(&self, tenant: &TenantId, session: &SessionId, cwd: &str) -> bool {
        *tenant == self.id && session.as_str().starts_with(SESSIONS) && cwd == self.cwd
    }

    /// What lists the open questions of the tenant.
    pub(crate) fn open_questions(&self) -> QuestionFilter {
        QuestionFilter { tenant: Some(self.id.clone()), ..QuestionFilter::default() }
    }

    /// The record of a call; `None` where there is none.
    pub(crate) async fn record(&self, call: CallId) -> Result<Option<Record>, LedgerError> {
        Ok(self.ledger.load(call).await?.map(|loaded| loaded.record))
    }

    /// Waits until nothing is driven here any more.
    pub(crate) async fn until_idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
