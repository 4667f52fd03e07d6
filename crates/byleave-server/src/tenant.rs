//! The gate and audit log of one tenant, and its calls that are driven here.
//!
//! A task drives an accepted call, not the request that brought it, so a client that disconnects stops nothing. A call that
//! waits for a person has no task. Calls that were answered, have expired or were left by a dead process are found in the
//! audit log. If there are workers, the tasks only have them drive the calls. Only calls that were accepted here are driven,
//! because an audit log may also contain calls for other processes.

mod client_tool_calls;
mod driver;
mod event_loop;
mod verification;
mod worker_dispatch;

use std::collections::HashMap;
use std::sync::Arc;

use byleave_gate::audit_log::{AuditLog, QuestionFilter};
use byleave_gate::core::call::Mode;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::entry::CallHeader;
use byleave_gate::core::id::{AgentId, CallId, QuestionId, SessionId, TenantId};
use byleave_gate::core::policy::Policy;
use byleave_gate::core::record::Record;
use byleave_gate::gate::Gate;
use byleave_gate::ledger::{Ledger, LedgerError};
use byleave_gate::policy_files::PolicyLoadError;
use byleave_gate::result::CallStatus;
use byleave_worker::WorkerRegistry;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::call_watchers::CallWatchers;
use crate::client_tools::{ClientTools, is_client_tool};
use crate::limits::ServerLimits;
use crate::stream_limit::StreamLimiter;
use crate::trace_parents::TraceParents;

pub(crate) use client_tool_calls::ClaimResult;
pub(crate) use driver::{ClientCallStatus, StartError};
pub(crate) use verification::{VerificationError, VerificationResult};

/// The prefix of the sessions of calls that came over HTTP.
pub(crate) const SESSION_PREFIX: &str = "api/";

/// The maximum number of worker connections, in total and with one token: one, and some that are about to break.
const WIRES_MAX: usize = 1_024;
const WIRES_EACH_MAX: usize = 4;

/// Checks whether workers, if there are any, execute a call that came over HTTP. They execute all calls except those of
/// client tools.
pub fn is_for_workers(heading: &CallHeader) -> bool {
    heading.session.as_str().starts_with(SESSION_PREFIX) && !is_client_tool(&heading.tool)
}

/// Builds the policy of a tenant with these rules in place of the person's own, for a replay.
pub type TrialPolicyBuilder = Arc<dyn Fn(&str) -> Result<Policy, PolicyLoadError> + Send + Sync>;

/// The gate and audit log of one tenant.
pub struct Tenant {
    id: TenantId,
    pub(crate) gate: Gate,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) audit_log: Arc<dyn AuditLog>,
    pub(crate) cwd: String,
    pub(crate) mode: Mode,
    pub(crate) streams: StreamLimiter,
    /// The connections of workers.
    pub(crate) worker_connections: StreamLimiter,
    /// The client tools, if the gate was built for them.
    pub(crate) client_tools: Option<ClientTools>,
    /// The workers, if they execute the calls.
    pub(crate) workers: Option<WorkerRegistry>,
    /// Builds policies for replays, if they are supported.
    pub(crate) trial_policy: Option<TrialPolicyBuilder>,
    /// Allows one full read of the audit log at a time. Verification, statistics and replays are expensive.
    pub(crate) full_read_permit: Arc<Semaphore>,
    /// The open questions in one line each, as far as they were needed.
    pub(crate) short_texts: Mutex<HashMap<QuestionId, String>>,
    checked: Mutex<Option<VerificationResult>>,
    driven: Mutex<HashMap<CallId, DrivenCall>>,
    room: Arc<Semaphore>,
    /// The followed calls. They are notified when a record grows, in this process or another.
    pub(crate) watchers: CallWatchers,
    /// The parent spans of calls in their clients' traces.
    pub(crate) trace_parents: TraceParents,
    /// Wakes the task that looks for calls to continue.
    wake: Notify,
    tasks: TaskTracker,
}

/// A call that is driven here.
struct DrivenCall {
    task: Uuid,
    /// The digest of the request and its agent, if this process accepted it. The same id with another body is another call.
    came: Option<(Digest, AgentId)>,
    stood: watch::Receiver<Option<CallStatus>>,
}

impl Tenant {
    /// Creates a tenant from its gate, with the gate's ledger, and the same store as an audit log.
    ///
    /// Each tenant has a ledger of its own. Calls work in `cwd`, and never in a looser mode than `mode`.
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
            audit_log: book,
            cwd,
            mode,
            streams: StreamLimiter::new(limits.max_streams, limits.max_streams_per_principal),
            worker_connections: StreamLimiter::new(WIRES_MAX, WIRES_EACH_MAX),
            client_tools: None,
            workers: None,
            trial_policy: None,
            full_read_permit: Arc::new(Semaphore::new(1)),
            short_texts: Mutex::default(),
            checked: Mutex::default(),
            driven: Mutex::default(),
            room: Arc::new(Semaphore::new(limits.max_calls)),
            watchers: CallWatchers::default(),
            trace_parents: TraceParents::default(),
            wake: Notify::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Adds client tools. The gate must have been built with [`ClientTools::attach_reviewers`].
    #[must_use]
    pub fn with_client_tools(self, own: ClientTools) -> Self {
        Self { client_tools: Some(own), ..self }
    }

    /// Lets workers drive the calls. This server then only accepts, answers and shows them. The gate must have been built to
    /// leave such calls to workers, by [`is_for_workers`].
    #[must_use]
    pub fn with_workers(self, crew: WorkerRegistry) -> Self {
        Self { workers: Some(crew), ..self }
    }

    /// Adds replays of past calls under other rules.
    #[must_use]
    pub fn with_trial_policy(self, tried: TrialPolicyBuilder) -> Self {
        Self { trial_policy: Some(tried), ..self }
    }

    /// Applies these limits.
    pub(crate) fn with_limits(self, limits: &ServerLimits) -> Self {
        let seats = StreamLimiter::new(limits.max_streams, limits.max_streams_per_principal);
        Self { streams: seats, room: Arc::new(Semaphore::new(limits.max_calls)), ..self }
    }

    /// Returns the id of the tenant.
    pub const fn id(&self) -> &TenantId {
        &self.id
    }

    /// Checks whether a call was accepted here, or by a server like this one. Other processes drive the other calls of the
    /// same audit log.
    pub(crate) fn accepted(&self, tenant: &TenantId, session: &SessionId, cwd: &str) -> bool {
        *tenant == self.id && session.as_str().starts_with(SESSION_PREFIX) && cwd == self.cwd
    }

    /// Returns the filter for the open questions of the tenant.
    pub(crate) fn open_questions(&self) -> QuestionFilter {
        QuestionFilter { tenant: Some(self.id.clone()), ..QuestionFilter::default() }
    }

    /// Returns the record of a call; `None` if there is none.
    pub(crate) async fn record(&self, call: CallId) -> Result<Option<Record>, LedgerError> {
        Ok(self.ledger.load(call).await?.map(|loaded| loaded.record))
    }

    /// Waits until no call is driven here any more.
    pub(crate) async fn wait_until_idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
