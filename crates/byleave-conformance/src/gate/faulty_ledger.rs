//! A ledger that wraps a real one and injects failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use byleave_core::admin_action::AdminAction;
use byleave_core::call::Millis;
use byleave_core::digest::ContentRef;
use byleave_core::effect::Plan;
use byleave_core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, TenantId};
use byleave_core::session::SessionNode;
use byleave_core::standing_approval::StandingApproval;
use tokio::sync::Barrier;

use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::{
    AppendError, Batch, ContentError, Interruption, Ledger, LedgerError, LoadedRecord,
};

/// The delay after a settlement, long enough for every poll of the ledger.
const LINGERS: Duration = Duration::from_millis(60);

/// A failure of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppendFailure {
    /// It fails, and nothing was appended.
    NotTaken,
    /// It is appended, but reported as failed.
    Unacknowledged,
    /// It fails, and so does every operation after it.
    DiesBefore,
    /// It is appended, and every operation after it fails.
    DiesAfter,
}

impl AppendFailure {
    pub(super) const ALL: [Self; 4] =
        [Self::NotTaken, Self::Unacknowledged, Self::DiesBefore, Self::DiesAfter];
}

/// A ledger that injects failures.
pub(super) struct FaultyLedger {
    inner: Arc<dyn Ledger>,
    appends: AtomicUsize,
    trouble: Option<(usize, AppendFailure)>,
    dead: AtomicBool,
    lies: AtomicBool,
    forgets_starts: AtomicBool,
    meeting: Option<Arc<Barrier>>,
    lingers: bool,
}

impl FaultyLedger {
    /// Creates a ledger that fails at this append, counted from 1.
    pub(super) fn failing(inner: Arc<dyn Ledger>, trouble: Option<(usize, AppendFailure)>) -> Arc<Self> {
        Arc::new(Self { trouble, ..Self::new(inner) })
    }

    /// Creates a ledger whose readers of a missing record wait for each other.
    pub(super) fn meeting(inner: Arc<dyn Ledger>, meeting: Arc<Barrier>) -> Arc<Self> {
        Arc::new(Self { meeting: Some(meeting), ..Self::new(inner) })
    }

    /// Creates a ledger that delays the writer of a settlement until all others can see it.
    pub(super) fn lingering(inner: Arc<dyn Ledger>) -> Arc<Self> {
        Arc::new(Self { lingers: true, ..Self::new(inner) })
    }

    fn new(inner: Arc<dyn Ledger>) -> Self {
        let [dead, lies, forgets_starts] = [false; 3].map(AtomicBool::new);
        Self {
            inner,
            appends: AtomicUsize::new(0),
            trouble: None,
            dead,
            lies,
            forgets_starts,
            meeting: None,
            lingers: false,
        }
    }

    /// Returns the number of appends, including failed ones.
    pub(super) fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }

    /// From now on, returns contents with every `open` replaced by `shut`.
    pub(super) fn lie(&self) {
        self.lies.store(true, Ordering::SeqCst);
    }

    /// From now on, fails to note the start of an attempt.
    pub(super) fn forget_starts(&self) {
        self.forgets_starts.store(true, Ordering::SeqCst);
    }

    fn alive(&self) -> Result<&dyn Ledger, LedgerError> {
        if self.dead.load(Ordering::SeqCst) { Err(broken()) } else { Ok(&*self.inner) }
    }
}

fn broken() -> LedgerError {
    LedgerError::new("cannot use the ledger", "it broke on purpose")
}

impl Ledger for FaultyLedger {
    fn owner(&self) -> OwnerId {
        self.inner.owner()
    }

    fn load(&self, call: CallId) -> BoxFuture<'_, Result<Option<LoadedRecord>, LedgerError>> {
        Box::pin(async move {
            let loaded = self.alive()?.load(call).await?;
            if let (None, Some(meeting)) = (&loaded, &self.meeting) {
                meeting.wait().await;
            }
            Ok(loaded)
        })
    }

    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(async move {
            let inner = self.alive()?;
            let number = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
            let trouble = self.trouble.filter(|(at, _)| *at == number).map(|(_, trouble)| trouble);
            let Some(trouble) = trouble else {
                let lingers = self.lingers && batch.is_final;
                inner.append(batch).await?;
                if lingers {
                    tokio::time::sleep(LINGERS).await;
                }
                return Ok(());
            };
            if matches!(trouble, AppendFailure::Unacknowledged | AppendFailure::DiesAfter) {
                inner.append(batch).await?;
            }
            self.dead.store(
                matches!(trouble, AppendFailure::DiesBefore | AppendFailure::DiesAfter),
                Ordering::SeqCst,
            );
            Err(broken().into())
        })
    }

    fn content(&self, call: CallId, held: ContentRef) -> BoxFuture<'_, Result<Vec<u8>, ContentError>> {
        Box::pin(async move {
            let content = self.alive()?.content(call, held).await?;
            if !self.lies.load(Ordering::SeqCst) {
                return Ok(content);
            }
            Ok(String::from_utf8_lossy(&content).replace("open", "shut").into_bytes())
        })
    }

    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> BoxFuture<'_, Result<Interruption, LedgerError>> {
        Box::pin(async move { self.alive()?.interrupt(call, attempt, at).await })
    }

    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<SessionNode>, LedgerError>> {
        match self.alive() {
            Ok(inner) => inner.lineage(tenant, session),
            Err(fault) => Box::pin(std::future::ready(Err(fault))),
        }
    }

    fn mark_started(&self, call: CallId, attempt: AttemptId) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            if self.forgets_starts.load(Ordering::SeqCst) {
                return Err(broken());
            }
            self.alive()?.mark_started(call, attempt).await
        })
    }

    fn record_admin_action(&self, act: AdminAction) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move { self.alive()?.record_admin_action(act).await })
    }

    fn active_halt(&self, tenant: &TenantId) -> BoxFuture<'_, Result<Option<AdminAction>, LedgerError>> {
        let tenant = tenant.clone();
        Box::pin(async move { self.alive()?.active_halt(&tenant).await })
    }

    fn standing_approvals(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<Arc<StandingApproval>>, LedgerError>> {
        let (tenant, tool) = (tenant.clone(), tool.to_owned());
        Box::pin(async move { self.alive()?.standing_approvals(&tenant, &tool, now).await })
    }

    fn call_for_question(&self, question: QuestionId) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        Box::pin(async move { self.alive()?.call_for_question(question).await })
    }

    fn blocking_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        call: CallId,
        plan: &Plan,
        passed_over: &[CallId],
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        let (tenant, session, plan) = (tenant.clone(), session.clone(), plan.clone());
        let passed_over = passed_over.to_vec();
        Box::pin(
            async move { self.alive()?.blocking_call(&tenant, &session, call, &plan, &passed_over).await },
        )
    }

    fn latest_completed_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        tool: &str,
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        match self.alive() {
            Ok(inner) => inner.latest_completed_call(tenant, session, tool),
            Err(fault) => Box::pin(std::future::ready(Err(fault))),
        }
    }

    fn resumable_calls(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, LedgerError>> {
        Box::pin(async move { self.alive()?.resumable_calls(now, limit).await })
    }
}
