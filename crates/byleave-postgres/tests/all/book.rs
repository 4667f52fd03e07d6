//! The book against the whole conformance suite, beside a ledger in SQLite that gives it everything that it takes.

use std::sync::Arc;

use byleave::book::Book as _;
use byleave::book::conformance::{Bench, Opened};
use byleave::book::sqlite::{Options, SqliteBook};
use byleave::core::act::Act;
use byleave::core::call::Millis;
use byleave::core::digest::Held;
use byleave::core::effect::Plan;
use byleave::core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, TenantId};
use byleave::core::leave::Leave;
use byleave::core::session::Opening;
use byleave::ledger::{AppendFault, Batch, ContentFault, Interruption, Ledger, LedgerFault, Loaded};
use byleave::pending::Pending;
use byleave_postgres::{PgBook, TakeFault, Taking};
use tokio::sync::OnceCell;

use crate::server::{Ground, vault};

mod postgres {
    byleave::book_conformance!(super::PgBench::default());
}

/// A book in a schema of its own, and its ledger in a directory of its own.
#[derive(Default)]
struct PgBench {
    ground: OnceCell<Ground>,
}

impl Bench for PgBench {
    fn open(&self) -> Pending<'_, Result<Opened, LedgerFault>> {
        Box::pin(async {
            let ground = self.ground.get_or_init(Ground::new).await;
            let options = Options { seal_every: None, ..Options::default() };
            let inner = Arc::new(SqliteBook::open(&ground.dir.path().join("ledger"), &options)?);
            let book = Arc::new(ground.open_with(Arc::clone(&inner) as Arc<dyn Ledger>).await?);
            let ledger = Arc::new(Projecting { inner, book: Arc::clone(&book) });
            Ok(Opened { ledger, book })
        })
    }

    // The server is shared by all tests, so it stays. Whoever writes is killed for real elsewhere.
    fn restart(&self) -> Pending<'_, Result<(), LedgerFault>> {
        Box::pin(async { Ok(()) })
    }
}

/// A ledger that returns only once the book has what it took.
struct Projecting {
    inner: Arc<SqliteBook>,
    book: Arc<PgBook>,
}

impl Projecting {
    async fn project(&self, batch: &Batch) -> Result<(), LedgerFault> {
        let key = match &batch.key {
            Some(key) => Some(key.clone()),
            None => self.inner.load(batch.call).await?.and_then(|loaded| loaded.key),
        };
        let taking = Taking::seal(batch, &vault(), key.as_ref())?;
        self.book.take(taking).await.map_err(fault)
    }
}

fn fault(fault: TakeFault) -> LedgerFault {
    LedgerFault::new("the book has not taken it", fault)
}

impl Ledger for Projecting {
    fn owner(&self) -> OwnerId {
        self.inner.owner()
    }

    fn load(&self, call: CallId) -> Pending<'_, Result<Option<Loaded>, LedgerFault>> {
        self.inner.load(call)
    }

    fn append(&self, batch: Batch) -> Pending<'_, Result<(), AppendFault>> {
        Box::pin(async move {
            self.inner.append(batch.clone()).await?;
            Ok(self.project(&batch).await?)
        })
    }

    fn content(&self, call: CallId, held: Held) -> Pending<'_, Result<Vec<u8>, ContentFault>> {
        self.inner.content(call, held)
    }

    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> Pending<'_, Result<Interruption, LedgerFault>> {
        Box::pin(async move {
            let came = self.inner.interrupt(call, attempt, at).await?;
            if came == Interruption::Written {
                let kept = self.inner.record(call).await?.expect("it was just written");
                let at = kept.lines.len() - 1;
                let taking = Taking {
                    call,
                    before: kept.lines[at - 1].link(),
                    lines: kept.lines[at..].to_vec(),
                    key: None,
                    contents: Vec::new(),
                    listing: kept.listing.expect("it is listed"),
                };
                self.book.take(taking).await.map_err(fault)?;
            }
            Ok(came)
        })
    }

    fn act(&self, act: Act) -> Pending<'_, Result<(), LedgerFault>> {
        Box::pin(async move {
            self.inner.act(act.clone()).await?;
            self.book.take_act(act).await.map_err(fault)
        })
    }

    fn halted(&self, tenant: &TenantId) -> Pending<'_, Result<Option<Act>, LedgerFault>> {
        self.inner.halted(tenant)
    }

    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> Pending<'_, Result<Vec<Opening>, LedgerFault>> {
        self.inner.lineage(tenant, session)
    }

    fn leaves(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> Pending<'_, Result<Vec<Arc<Leave>>, LedgerFault>> {
        self.inner.leaves(tenant, tool, now)
    }

    fn call_of(&self, question: QuestionId) -> Pending<'_, Result<Option<CallId>, LedgerFault>> {
        self.inner.call_of(question)
    }

    fn held_up_by(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        call: CallId,
        plan: &Plan,
    ) -> Pending<'_, Result<Option<CallId>, LedgerFault>> {
        self.inner.held_up_by(tenant, session, call, plan)
    }

    fn drivable(&self, now: Millis, limit: usize) -> Pending<'_, Result<Vec<CallId>, LedgerFault>> {
        self.inner.drivable(now, limit)
    }
}
