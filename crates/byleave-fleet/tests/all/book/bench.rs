//! A ledger with a book, on the engine and the Postgres that the tests share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_conformance::audit_log::OpenedStore;
use byleave_conformance::ledger::record_script::{CallScript, ScriptSettings};
use byleave_fleet::{Books, FleetUnsealer, Options, RestateLedger};
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::audit_log::anchor_file::AnchorFile;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::admin_action::AdminAction;
use byleave_gate::core::call::Millis;
use byleave_gate::core::digest::{ContentRef, Digest};
use byleave_gate::core::effect::Plan;
use byleave_gate::core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, TenantId};
use byleave_gate::core::question::Answer;
use byleave_gate::core::session::SessionNode;
use byleave_gate::core::standing_approval::StandingApproval;
use byleave_gate::ledger::{
    AppendError, Batch, ContentError, IncomingCall, IncomingState, Interruption, Ledger, LedgerError,
    LoadedRecord,
};
use byleave_postgres::{
    Ingest, PgAuditLog, PgAuditLogOptions as BookOptions, RecordCompleteness, SealedAuditLog,
};

use tokio::sync::OnceCell;

use crate::engine::{self, ingress, options};

/// How long the book may take to have something, on a machine with other work.
const SOON: Duration = Duration::from_secs(120);

/// Where the Postgres is, as `scripts/postgres` has written it down in the target directory.
pub(crate) fn url() -> String {
    let binary = std::env::current_exe().unwrap();
    // This binary is target/debug/deps/all-….
    let said = binary.ancestors().nth(3).expect("a target directory").join("postgres.url");
    let Ok(url) = std::fs::read_to_string(&said) else {
        panic!("there is no Postgres (nothing at `{}`); start it: scripts/postgres up", said.display())
    };
    url.trim().to_owned()
}

/// A ledger of its own, with a book of its own.
pub(crate) struct Ground {
    pub(crate) ingress: String,
    pub(crate) name: String,
    pub(crate) books: Arc<Books>,
    pub(crate) dir: PathBuf,
    keyed: OnceCell<PgAuditLog>,
}

impl Ground {
    pub(crate) fn at(ingress: String, url: &str, dir: &Path) -> Self {
        let name = uuid::Uuid::now_v7().to_string();
        let books = Arc::new(Books::parse(url).unwrap());
        Self { ingress, name, books, dir: dir.to_owned(), keyed: OnceCell::new() }
    }

    pub(crate) fn shared(dir: &Path) -> Self {
        Self::at(ingress(), &url(), dir)
    }

    /// How an owner opens the ledger.
    pub(crate) fn options(&self) -> Options {
        let options = options(&self.ingress, &self.name, &self.dir.join("workers"));
        Options { books: Some(Arc::clone(&self.books)), ..options }
    }

    pub(crate) fn ledger(&self) -> Arc<RestateLedger> {
        Arc::new(RestateLedger::open(self.options()).unwrap())
    }

    /// The book with its keys, as whoever lists and verifies it opens it.
    pub(crate) async fn book(&self, ledger: Option<Arc<dyn Ledger>>) -> Result<PgAuditLog, LedgerError> {
        let options = BookOptions {
            connect: self.books.connect_to(&self.name),
            unsealer: Arc::new(FleetUnsealer::new(engine::MASTER.into())),
            signing_key: [5; 32].into(),
            anchor_store: Arc::new(AnchorFile::new(self.dir.join("anchor.json"))),
            ledger,
            seal_interval: None,
            lease: Duration::from_secs(10),
            max_readers: 2,
        };
        PgAuditLog::open(options).await
    }

    /// The same, opened once.
    pub(crate) async fn keyed(&self) -> &PgAuditLog {
        self.keyed.get_or_init(async || self.book(None).await.unwrap()).await
    }

    pub(crate) async fn sealed(&self) -> Arc<SealedAuditLog> {
        self.books.of(&self.name).await.unwrap()
    }

    /// Whether the engine has given a call up to the book.
    pub(crate) async fn is_cleared(&self, call: CallId) -> bool {
        engine::load(&self.ingress, &self.name, call).await == "\"in_book\""
    }

    /// A call that waits for an answer, and of which the book has another end than the engine will have.
    pub(crate) async fn contradicted(&self, ledger: &RestateLedger) -> CallScript {
        let mut script = CallScript::waiting(ScriptSettings::asking()).unwrap();
        ledger.append(script.batch()).await.unwrap();
        self.until_held(script.call(), script.record.len(), script.record.head()).await;
        self.until_quiet().await;
        let mut fork = script.clone();
        fork.answer(Answer::No { feedback: None }).unwrap();
        let vault = byleave_gate::audit_log::encryption::KeyVault::new(engine::MASTER.into());
        let forged = Ingest::seal_batch(&fork.batch(), &vault, Some(&fork.key.clone())).unwrap();
        self.sealed().await.ingest(forged).await.unwrap();
        script
    }

    /// Until the book has acknowledged everything, and everyone knows.
    pub(crate) async fn until_quiet(&self) {
        let wait = Wait::until("nothing is on its way".into());
        while !engine::is_quiet(&self.ingress, &self.name).await {
            wait.a_little().await;
        }
    }

    pub(crate) async fn until_cleared(&self, call: CallId) {
        let wait = Wait::until(format!("call {call} is given up"));
        while !self.is_cleared(call).await {
            wait.a_little().await;
        }
    }

    pub(crate) async fn until_held(&self, call: CallId, length: u32, head: Digest) {
        let book = self.sealed().await;
        let wanted = [(call, length, head)];
        let wait = Wait::until(format!("call {call} with {length} lines is in the book"));
        while book.check_completeness(&wanted).await.unwrap() != [RecordCompleteness::Complete] {
            wait.a_little().await;
        }
    }
}

/// Waits for something that must come.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = Wait::until(what.to_owned());
    while !is_so().await {
        wait.a_little().await;
    }
}

/// For how long something was waited for.
struct Wait {
    what: String,
    began: Instant,
}

impl Wait {
    fn until(what: String) -> Self {
        Self { what, began: Instant::now() }
    }

    async fn a_little(&self) {
        assert!(self.began.elapsed() < SOON, "not within {SOON:?}: {}", self.what);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An empty ledger with an empty book.
pub(crate) struct BookBench {
    ground: Arc<Ground>,
    is_patient: bool,
    _dir: tempfile::TempDir,
}

impl BookBench {
    pub(crate) fn new() -> Self {
        Self::patient(true)
    }

    /// One whose ledgers wait for the book, or one where that comes when it comes.
    pub(crate) fn patient(is_patient: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { ground: Arc::new(Ground::shared(dir.path())), is_patient, _dir: dir }
    }

    fn ledger(&self) -> Result<Arc<dyn Ledger>, LedgerError> {
        let (ground, inner) = (Arc::clone(&self.ground), RestateLedger::open(self.ground.options())?);
        Ok(if self.is_patient { Arc::new(Patient { inner, ground }) } else { Arc::new(inner) })
    }
}

impl byleave_conformance::ledger::LedgerHarness for BookBench {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Ledger>, LedgerError>> {
        Box::pin(async { self.ledger() })
    }

    fn kill(&self, ledger: Arc<dyn Ledger>) -> BoxFuture<'_, Result<(), LedgerError>> {
        drop(ledger);
        Box::pin(async { Ok(()) })
    }

    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}

impl byleave_conformance::audit_log::AuditLogHarness for BookBench {
    fn open(&self) -> BoxFuture<'_, Result<OpenedStore, LedgerError>> {
        Box::pin(async {
            let ledger = self.ledger()?;
            let book = self.ground.book(Some(Arc::clone(&ledger))).await?;
            Ok(OpenedStore { ledger, audit_log: Arc::new(book) })
        })
    }

    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A ledger that returns only once the book has what was written and, where that settles a call, the engine has given it up:
/// so whoever looks afterwards looks into the book.
struct Patient {
    inner: RestateLedger,
    ground: Arc<Ground>,
}

impl Ledger for Patient {
    fn owner(&self) -> OwnerId {
        self.inner.owner()
    }

    fn load(&self, call: CallId) -> BoxFuture<'_, Result<Option<LoadedRecord>, LedgerError>> {
        self.inner.load(call)
    }

    fn lookup_incoming<'a>(
        &'a self,
        comer: IncomingCall<'a>,
    ) -> BoxFuture<'a, Result<IncomingState, LedgerError>> {
        self.inner.lookup_incoming(comer)
    }

    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(async move {
            let (call, settles) = (batch.call, batch.is_final);
            let end = batch.chained_entries.last().map(|line| (line.seq() + 1, line.link()));
            self.inner.append(batch).await?;
            let (length, head) = end.expect("what has no lines is refused");
            // Someone else may have gone on with it by now.
            let book = self.ground.sealed().await;
            let wait = Wait::until(format!("call {call} with {length} lines is in the book"));
            loop {
                let held = book.load_record(call).await?;
                let line = held.as_ref().and_then(|record| record.chained_entries.get(length as usize - 1));
                if line.is_some_and(|line| line.link() == head) {
                    break;
                }
                wait.a_little().await;
            }
            if settles {
                self.ground.until_cleared(call).await;
            }
            Ok(())
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
                let record = self.inner.load(call).await?.expect("it was just written").record;
                if record.outcome().is_none() {
                    self.ground.until_held(call, record.len(), record.head()).await;
                }
            }
            Ok(came)
        })
    }

    fn mark_started(&self, call: CallId, attempt: AttemptId) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.inner.mark_started(call, attempt)
    }

    fn record_admin_action(&self, act: AdminAction) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            self.inner.record_admin_action(act.clone()).await?;
            let book = self.ground.keyed().await;
            let wait = Wait::until("an act is in the book".into());
            while !book.admin_actions().await?.contains(&act) {
                wait.a_little().await;
            }
            Ok(())
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

    fn resumable_calls(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, LedgerError>> {
        self.inner.resumable_calls(now, limit)
    }
}
