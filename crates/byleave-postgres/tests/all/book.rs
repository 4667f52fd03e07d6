//! Runs the whole conformance suite on the audit log, with an SQLite ledger that passes every append on to it.

use std::sync::Arc;

use byleave_conformance::audit_log::{AuditLogHarness, OpenedStore};
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::admin_action::AdminAction;
use byleave_gate::core::call::Millis;
use byleave_gate::core::digest::ContentRef;
use byleave_gate::core::effect::Plan;
use byleave_gate::core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, TenantId};
use byleave_gate::core::session::SessionNode;
use byleave_gate::core::standing_approval::StandingApproval;
use byleave_gate::ledger::{
    AppendError, Batch, ContentError, Interruption, Ledger, LedgerError, LoadedRecord,
};
use byleave_postgres::{Ingest, IngestError, PgAuditLog};
use tokio::sync::OnceCell;

use crate::server::{PgSchema, vault};

mod postgres {
    byleave_conformance::audit_log_conformance!(super::PgFixture::default());
}

/// An audit log in its own schema, and its ledger in its own directory.
#[derive(Default)]
struct PgFixture {
    ground: OnceCell<PgSchema>,
}

impl AuditLogHarness for PgFixture {
    fn open(&self) -> BoxFuture<'_, Result<OpenedStore, LedgerError>> {
        Box::pin(async {
            let ground = self.ground.get_or_init(PgSchema::new).await;
            let options = SqliteOptions { seal_every: None, ..SqliteOptions::default() };
            let inner = Arc::new(SqliteLedger::open(&ground.dir.path().join("ledger"), &options)?);
            let book = Arc::new(ground.open_with(Arc::clone(&inner) as Arc<dyn Ledger>).await?);
            let ledger = Arc::new(ProjectingLedger { inner, book: Arc::clone(&book) });
            Ok(OpenedStore { ledger, audit_log: book })
        })
    }

    // All tests share the server, so it is not restarted. Another test kills the writer.
    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A ledger that returns only after the audit log has ingested the append.
struct ProjectingLedger {
    inner: Arc<SqliteLedger>,
    book: Arc<PgAuditLog>,
}

impl ProjectingLedger {
    async fn project(&self, batch: &Batch) -> Result<(), LedgerError> {
        let key = match &batch.key {
            Some(key) => Some(key.clone()),
            None => self.inner.load(batch.call).await?.and_then(|loaded| loaded.key),
        };
        let taking = Ingest::seal_batch(batch, &vault(), key.as_ref())?;
        self.book.ingest(taking).await.map_err(fault)
    }
}

fn fault(fault: IngestError) -> LedgerError {
    LedgerError::new("the book has not taken it", fault)
}

impl Ledger for ProjectingLedger {
    fn owner(&self) -> OwnerId {
        self.inner.owner()
    }

    fn load(&self, call: CallId) -> BoxFuture<'_, Result<Option<LoadedRecord>, LedgerError>> {
        self.inner.load(call)
    }

    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(async move {
            self.inner.append(batch.clone()).await?;
            Ok(self.project(&batch).await?)
        })
    }

    fn content(&self, call: CallId, held: ContentRef) -> BoxFuture<'_, Result<Vec<u8>, ContentError>> {
        self.inner.content(call, held)
    }

    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> BoxFuture<'_, Result<Interruption, LedgerError>> {
        Box::pin(async move {
            let came = self.inner.interrupt(call, attempt, at).await?;
            if came == Interruption::Recorded {
                let kept = self.inner.record(call).await?.expect("it was just written");
                let at = kept.chained_entries.len() - 1;
                let taking = Ingest {
                    call,
                    prev_link: kept.chained_entries[at - 1].link(),
                    chained_entries: kept.chained_entries[at..].to_vec(),
                    key: None,
                    contents: Vec::new(),
                    call_summary: kept.call_summary.expect("it is listed"),
                };
                self.book.ingest(taking).await.map_err(fault)?;
            }
            Ok(came)
        })
    }

    fn record_admin_action(&self, act: AdminAction) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            self.inner.record_admin_action(act.clone()).await?;
            self.book.ingest_action(act).await.map_err(fault)
        })
    }

    fn active_halt(&self, tenant: &TenantId) -> BoxFuture<'_, Result<Option<AdminAction>, LedgerError>> {
        self.inner.active_halt(tenant)
    }

    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<SessionNode>, LedgerError>> {
        self.inner.lineage(tenant, session)
    }

    fn standing_approvals(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<Arc<StandingApproval>>, LedgerError>> {
        self.inner.standing_approvals(tenant, tool, now)
    }

    fn call_for_question(&self, question: QuestionId) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        self.inner.call_for_question(question)
    }

    fn blocking_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        call: CallId,
        plan: &Plan,
        passed_over: &[CallId],
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        self.inner.blocking_call(tenant, session, call, plan, passed_over)
    }

    fn latest_completed_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        tool: &str,
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        self.inner.latest_completed_call(tenant, session, tool)
    }

    fn resumable_calls(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, LedgerError>> {
        self.inner.resumable_calls(now, limit)
    }
}
