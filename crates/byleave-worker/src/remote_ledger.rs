//! The ledger of a worker. It sends every request to the server, except for those that only the worker's own disk can answer.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use byleave_core::admin_action::AdminAction;
use byleave_core::call::Millis;
use byleave_core::digest::{ContentRef, Digest};
use byleave_core::effect::Plan;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, TenantId};
use byleave_core::session::SessionNode;
use byleave_core::standing_approval::StandingApproval;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::invariants;
use byleave_gate::ledger::owner_locks::{self, OwnerLock};
use byleave_gate::ledger::start_markers::StartMarkers;
use byleave_gate::ledger::{
    AppendError, Batch, ContentError, IncomingCall, IncomingState, Interruption, Ledger, LedgerError,
    LoadedRecord, StartBlockedError,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::assignment::Capabilities;
use crate::connection::{Connection, Connector, RequestOutcome, WorkerRegistration};
use crate::protocol::{
    Base64Bytes, LedgerRequest, LedgerResponseError, WireIncomingState, WireInterruption, WireRecord,
};
use crate::worker_loop::CallOffers;

/// Options of a worker's ledger.
#[derive(Clone, Debug)]
pub struct RemoteLedgerOptions {
    /// A directory on this machine, for the lock and for the marks of started attempts. It must outlive the worker.
    pub dir: PathBuf,
    /// How long to wait for a server that does not answer.
    pub response_timeout: Duration,
}

/// A ledger over a connection. Each one is an owner of its own.
pub struct RemoteLedger {
    link: Connection,
    owner: OwnerId,
    starts: StartMarkers,
    _lock: OwnerLock,
}

impl RemoteLedger {
    /// Creates an owner and starts to connect. Requires a runtime.
    pub fn open(options: &RemoteLedgerOptions, dial: impl Connector) -> Result<Self, LedgerError> {
        Self::with(options, dial, None)
    }

    /// Opens the ledger of a worker that accepts calls. They arrive as offers.
    pub fn open_as_worker(
        options: &RemoteLedgerOptions,
        skills: Capabilities,
        dial: impl Connector,
    ) -> Result<(Self, CallOffers), LedgerError> {
        let (hire, offers) = CallOffers::new(skills);
        Ok((Self::with(options, dial, Some(hire))?, offers))
    }

    fn with(
        options: &RemoteLedgerOptions,
        dial: impl Connector,
        hire: Option<WorkerRegistration>,
    ) -> Result<Self, LedgerError> {
        let dir = &options.dir;
        let cannot = |error| LedgerError::new(format!("cannot use `{}`", dir.display()), error);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(cannot)?;
        let owner = OwnerId::new(Uuid::now_v7());
        let lock = owner_locks::acquire(dir, owner)
            .map_err(cannot)?
            .ok_or_else(|| LedgerError::new("cannot register as an owner", "the id is already used"))?;
        let starts = StartMarkers::open(dir, owner).map_err(cannot)?;
        Ok(Self {
            link: Connection::open(dial, owner, options.response_timeout, hire),
            owner,
            starts,
            _lock: lock,
        })
    }

    /// Sends a request that can fail only because the ledger fails.
    async fn asked<T: DeserializeOwned>(&self, ask: LedgerRequest) -> Result<T, LedgerError> {
        let RequestOutcome { result: told, .. } = self.link.send_request(ask).await?;
        read(told.map_err(LedgerResponseError::into_ledger_error)?)
    }

    async fn append_batch(&self, batch: Batch) -> Result<(), AppendError> {
        invariants::check_batch(&batch, self.owner)?;
        let (call, at_len) = (batch.call, batch.expected_len);
        let last = batch.chained_entries.last().map(ChainedEntry::link);
        let RequestOutcome { result: told, may_have_run_before: again } =
            self.link.send_request(LedgerRequest::Append(Box::new(batch.into()))).await?;
        match told {
            Ok(_) => Ok(()),
            // If the server restarted between two sends of one append, the second send is the one that is stale.
            Err(LedgerResponseError::Stale) if again && self.is_taken(call, at_len, last).await? => Ok(()),
            Err(LedgerResponseError::Stale) => Err(AppendError::Stale),
            Err(LedgerResponseError::Halted { reason: why }) => Err(StartBlockedError::Halted { why }.into()),
            Err(LedgerResponseError::ApprovalUsedUp) => Err(StartBlockedError::ApprovalUsedUp.into()),
            Err(LedgerResponseError::SessionBusy { call, attempt }) => {
                Err(StartBlockedError::SessionBusy { call, attempt }.into())
            }
            Err(other) => Err(other.into_ledger_error().into()),
        }
    }

    /// Checks whether the record has exactly these entries. A chain digest covers its entry and all before it.
    async fn is_taken(&self, call: CallId, at_len: u32, last: Option<Digest>) -> Result<bool, LedgerError> {
        let read: Option<WireRecord> = self.asked(LedgerRequest::Load { call }).await?;
        Ok(read.is_some_and(|read| read.links(call).skip(at_len as usize).any(|link| Some(link) == last)))
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, LedgerError> {
    serde_json::from_value(value)
        .map_err(|error| LedgerError::new("unexpected response from the server", error))
}

impl Drop for RemoteLedger {
    fn drop(&mut self) {
        self.starts.remove_if_empty();
    }
}

impl Ledger for RemoteLedger {
    fn owner(&self) -> OwnerId {
        self.owner
    }

    fn load(&self, call: CallId) -> BoxFuture<'_, Result<Option<LoadedRecord>, LedgerError>> {
        Box::pin(async move {
            let read: Option<WireRecord> = self.asked(LedgerRequest::Load { call }).await?;
            read.map(|read| read.into_loaded_record(call)).transpose()
        })
    }

    fn lookup_incoming<'a>(
        &'a self,
        comer: IncomingCall<'a>,
    ) -> BoxFuture<'a, Result<IncomingState, LedgerError>> {
        Box::pin(async move {
            let IncomingCall { call, tenant, session, tool, now } = comer;
            let (tenant, session, tool) = (tenant.clone(), session.clone(), tool.to_owned());
            let arrived: WireIncomingState =
                self.asked(LedgerRequest::LookupIncoming { call, tenant, session, tool, now }).await?;
            let loaded = arrived.record.map(|read| read.into_loaded_record(call)).transpose()?;
            Ok(IncomingState {
                record: loaded,
                lineage: arrived.lineage,
                session_context: arrived.session_context.map(Into::into),
            })
        })
    }

    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(self.append_batch(batch))
    }

    fn content(&self, call: CallId, held: ContentRef) -> BoxFuture<'_, Result<Vec<u8>, ContentError>> {
        Box::pin(async move {
            let RequestOutcome { result: told, .. } =
                self.link.send_request(LedgerRequest::Content { call, content_ref: held }).await?;
            let Base64Bytes(bytes) = read(told.map_err(LedgerResponseError::into_content_error)?)?;
            Ok(bytes)
        })
    }

    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> BoxFuture<'_, Result<Interruption, LedgerError>> {
        Box::pin(async move {
            let interrupted: WireInterruption =
                self.asked(LedgerRequest::Interrupt { call, attempt, at }).await?;
            Ok(interrupted.into())
        })
    }

    fn mark_started(&self, _call: CallId, attempt: AttemptId) -> BoxFuture<'_, Result<(), LedgerError>> {
        let starts = self.starts.clone();
        Box::pin(async move {
            starts.mark_async(attempt).await?;
            // The last moment for this check: a process that was paused until now may have lost its claim.
            if self.link.may_be_presumed_dead() {
                let why =
                    "the server was not reachable for longer than a lease, and may have given up the call";
                return Err(LedgerError::new("cannot start an attempt", why));
            }
            Ok(())
        })
    }

    fn record_admin_action(&self, act: AdminAction) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(self.asked(LedgerRequest::RecordAdminAction(Box::new(act))))
    }

    fn active_halt(&self, tenant: &TenantId) -> BoxFuture<'_, Result<Option<AdminAction>, LedgerError>> {
        Box::pin(self.asked(LedgerRequest::ActiveHalt { tenant: tenant.clone() }))
    }

    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<SessionNode>, LedgerError>> {
        Box::pin(self.asked(LedgerRequest::Lineage { tenant: tenant.clone(), session: session.clone() }))
    }

    fn standing_approvals(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<Arc<StandingApproval>>, LedgerError>> {
        let ask = LedgerRequest::StandingApprovals { tenant: tenant.clone(), tool: tool.to_owned(), now };
        Box::pin(async move {
            let leaves: Vec<StandingApproval> = self.asked(ask).await?;
            Ok(leaves.into_iter().map(Arc::new).collect())
        })
    }

    fn call_for_question(&self, question: QuestionId) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        Box::pin(self.asked(LedgerRequest::CallForQuestion { question }))
    }

    fn blocking_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        call: CallId,
        plan: &Plan,
        passed_over: &[CallId],
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        let (tenant, session, effects) = (tenant.clone(), session.clone(), plan.effects.clone());
        let passed_over = passed_over.to_vec();
        Box::pin(async move {
            if effects.is_empty() {
                return Ok(None);
            }
            self.asked(LedgerRequest::BlockingCall { tenant, session, call, effects, passed_over }).await
        })
    }

    fn latest_completed_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        tool: &str,
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        let (tenant, session, tool) = (tenant.clone(), session.clone(), tool.to_owned());
        Box::pin(self.asked(LedgerRequest::LatestCompletedCall { tenant, session, tool }))
    }

    fn resumable_calls(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, LedgerError>> {
        Box::pin(self.asked(LedgerRequest::ResumableCalls { now, limit }))
    }
}
