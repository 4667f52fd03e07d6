//! The ledger that a gate stands on, with its records in the engine.
//!
//! What can be checked here is checked here, contents are sealed here, and owners live and die here; all else is the
//! engine's to decide. It never keeps anything of a record that it could not do without.

use std::num::NonZeroUsize;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::call::Millis;
use byleave_core::digest::{ContentRef, RecordKey};
use byleave_core::effect::Plan;
use byleave_core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, TenantId};
use byleave_core::record::Record;
use byleave_core::session::SessionNode;
use byleave_core::standing_approval::{ANY_TOOL, StandingApproval};
use byleave_gate::audit_log::encryption::KeyVault;
use byleave_gate::audit_log::index_fields::ListNote;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::invariants;
use byleave_gate::ledger::owner_locks::{self, OwnerLock};
use byleave_gate::ledger::start_markers::{self, StartMarkers};
use byleave_gate::ledger::{
    AppendError, Batch, ContentError, IncomingCall, IncomingState, Interruption, Ledger, LedgerError,
    LoadedRecord, SessionContext, StartBlockedError,
};
use byleave_postgres::{IngestError, SealedAuditLog, SealedRecord};
use byleave_worker::{OwnerBackend, OwnerLiveness};
use futures::future::try_join_all;
use lru::LruCache;
use tokio::time::Instant;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::around::Looks;
use crate::books::Books;
use crate::engine::Engine;
use crate::keys;
use crate::packing::{Noted, lines};
use crate::sealing;
use crate::upkeep::{self, BookLag};
use crate::wire::{self, Append, Appended, Blob, Contents, Due, Found, Interrupt, NewAct, Passing};

/// How many keys of records are remembered, and how many questions; of the others they are asked for again.
const KEYS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);

/// How long a book that could not be read is left alone.
const AGAIN: Duration = Duration::from_millis(200);

/// What is read of a record.
#[derive(Clone, Copy)]
enum Wanted {
    Lines,
    Contents,
}

/// Where the records are, and where the owner lives.
#[derive(Clone)]
pub struct Options {
    /// The engine's ingress at each of its nodes, as `host:port`. It must be private: the engine asks nobody who they are.
    pub ingress: Vec<String>,
    /// The name of the ledger. Several may share one engine and see nothing of each other.
    pub name: String,
    /// A directory on this machine, for the locks and the marks of everyone here who works on this ledger.
    pub workers: PathBuf,
    /// Wraps the keys of records. The same for everyone who works on this ledger; never sent anywhere.
    pub master: Zeroizing<[u8; 32]>,
    /// How long an engine that does not answer is waited for.
    pub patience: Duration,
    /// Where its book is. The same for everyone who works on this ledger: with one, the engine gives settled calls up to it,
    /// and they are read there. Without one, the engine keeps everything.
    pub books: Option<Arc<Books>>,
}

/// A ledger on Restate. Each is an owner of its own.
pub struct RestateLedger {
    shared: Arc<Shared>,
    owner: OwnerId,
    /// Where the owner is this process.
    here: Option<Here>,
}

/// What all owners share that write from this process.
struct Shared {
    engine: Arc<Engine>,
    /// How long a book that does not answer is waited for, as the engine is.
    patience: Duration,
    looks: Arc<Looks>,
    name: String,
    vault: KeyVault,
    workers: PathBuf,
    books: Option<Arc<Books>>,
    keys: Mutex<LruCache<CallId, RecordKey>>,
    /// Which calls questions belong to, which never changes.
    questions: Mutex<LruCache<QuestionId, CallId>>,
    /// Says which owners live elsewhere.
    others: OnceLock<OwnerLiveness>,
}

struct Here {
    starts: StartMarkers,
    _lock: OwnerLock,
}

impl RestateLedger {
    /// Becomes an owner on a ledger. Asks the engine nothing yet.
    pub fn open(options: Options) -> Result<Self, LedgerError> {
        let Options { ingress, name, workers, master, patience, books } = options;
        let cannot = |error| LedgerError::new(format!("cannot use `{}`", workers.display()), error);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&workers).map_err(cannot)?;
        let owner = OwnerId::new(Uuid::now_v7());
        let lock = owner_locks::acquire(&workers, owner)
            .map_err(cannot)?
            .ok_or_else(|| LedgerError::new("cannot become an owner", "the id is taken"))?;
        let starts = StartMarkers::open(&workers, owner).map_err(cannot)?;
        let shared = Shared {
            engine: Arc::new(Engine::at(&ingress, patience)),
            patience,
            looks: Looks::new(),
            name,
            vault: KeyVault::new(master),
            workers,
            books,
            keys: Mutex::new(LruCache::new(KEYS_MAX)),
            questions: Mutex::new(LruCache::new(KEYS_MAX)),
            others: OnceLock::new(),
        };
        Ok(Self { shared: Arc::new(shared), owner, here: Some(Here { starts, _lock: lock }) })
    }

    /// Writes for owners who are elsewhere, and whom this process answers while it is sure that no other does.
    pub fn deputy(&self, is_sure: impl Fn() -> bool + Send + Sync + 'static) -> impl OwnerBackend {
        RestateDeputy { shared: Arc::clone(&self.shared), is_sure: Box::new(is_sure) }
    }

    /// Whether the worker that held a claim ever started it, by that worker's own disk; `None` where it is not this one.
    ///
    /// For whoever must decide about a call whose outcome is unknown: what was never started did nothing.
    pub fn was_started(&self, owner: OwnerId, attempt: AttemptId) -> Result<Option<bool>, LedgerError> {
        start_markers::was_started(&self.shared.workers, owner, attempt)
            .map_err(|error| LedgerError::new("cannot read what a worker has started", error))
    }

    /// How far the book is behind what was written by now.
    pub async fn book_lag(&self, now: Millis) -> Result<BookLag, LedgerError> {
        upkeep::lag(&self.shared.engine, &self.shared.name, now).await
    }

    /// Has everything sent to the book once more that the engine still holds, as after an old copy of the book was put back.
    /// Returns how many calls and acts that are. `admin` is the engine's port for administrators, as `host:port`.
    ///
    /// What the engine has given up to the book is not among it: a copy must be newer than the oldest call that may be lost.
    pub async fn send_again(&self, admin: &str) -> Result<u64, LedgerError> {
        upkeep::send_again(&self.shared.engine, admin, &self.shared.name).await
    }

    async fn load_call(&self, call: CallId) -> Result<Option<LoadedRecord>, LedgerError> {
        let key = keys::call(&self.shared.name, call);
        let found: Found<wire::Kept> = self.shared.engine.ask("Call", &key, "load", &()).await?;
        let (record, key) = match found {
            Found::Nowhere => return Ok(None),
            Found::Here(wire::Kept { key, bodies, head }) => {
                (Record::from_stored_entries(call, &lines(call, &bodies, head)), key)
            }
            Found::InBook => {
                let SealedRecord { chained_entries: lines, wrapped_key: key, .. } =
                    self.read_back(call, Wanted::Lines).await?;
                (cleared(Record::from_stored_entries(call, &lines))?, key.map(Blob))
            }
        };
        let key = key.and_then(|wrapped| self.shared.vault.unwrap(call, &wrapped.0));
        self.remember_key(call, key.as_ref(), record.outcome().is_some());
        Ok(Some(LoadedRecord { record, key }))
    }

    async fn append_batch(&self, batch: Batch) -> Result<(), AppendError> {
        let asks = invariants::check_batch(&batch, self.owner)?.questions;
        let append = self.prepare(&batch).await?;
        let key = keys::call(&self.shared.name, batch.call);
        let appended: Appended = self.shared.engine.ask("Call", &key, "append", &append).await?;
        match appended {
            Appended::Taken => {
                asks.into_iter().for_each(|question| self.remember_question(question, batch.call));
                let known = batch.key.as_ref();
                if known.is_some() || batch.is_final {
                    self.remember_key(batch.call, known, batch.is_final);
                }
                Ok(())
            }
            Appended::Stale => Err(AppendError::Stale),
            Appended::Halted { why } => Err(StartBlockedError::Halted { why }.into()),
            Appended::LeaveSpent => Err(StartBlockedError::ApprovalUsedUp.into()),
            Appended::SessionBusy { call, attempt } => {
                Err(StartBlockedError::SessionBusy { call, attempt }.into())
            }
            Appended::Refused { why } => Err(refused(why).into()),
        }
    }

    /// Turns a batch into what is sent: without contents in the clear, and without what can be worked out there.
    async fn prepare(&self, batch: &Batch) -> Result<Append, AppendError> {
        let head =
            batch.chained_entries.last().map(|line| line.link()).ok_or_else(|| refused("it has no lines"))?;
        let opens = batch.expected_len == 0;
        let wrapped = match &batch.key {
            Some(key) => Some(Blob(self.shared.vault.wrap(batch.call, key).map_err(refused)?)),
            None if opens && !batch.contents.is_empty() => {
                return Err(refused("it has contents and no key").into());
            }
            None => None,
        };
        let mut contents = Blob::default();
        let key = if opens { batch.key.clone() } else { self.key_of(batch).await? };
        if let Some(key) = key {
            invariants::check_contents(&batch.contents, &key)?;
            let note = ListNote::to_text(&batch.call_summary);
            let sealed = sealing::pack(&key, batch.call, batch.expected_len, &note, &batch.contents);
            contents.0 = sealed.map_err(refused)?;
        }
        Ok(Append {
            ledger: self.shared.name.clone(),
            call: batch.call,
            token: Uuid::now_v7(),
            owner: self.owner,
            at_len: batch.expected_len,
            before: batch.prev_link,
            head,
            bodies: batch.chained_entries.iter().map(|line| line.body().to_owned()).collect(),
            tenant: batch.call_summary.tenant.clone(),
            session: batch.call_summary.session.clone(),
            key: wrapped,
            contents,
            waits: batch.pending_question.as_ref().map(|waits| waits.effects.clone()),
            begins: batch.attempt_start.map(Into::into),
            settles: batch.is_final,
            noted: self.shared.books.as_ref().map(|_| Noted {
                agent: Some(batch.call_summary.agent.clone()),
                tool: batch.call_summary.tool.clone(),
                operation: batch.call_summary.operation.clone(),
                summary: batch.call_summary.summary.clone(),
            }),
        })
    }

    /// The book that the engine gives settled calls up to.
    async fn book(&self) -> Result<Arc<SealedAuditLog>, LedgerError> {
        let none = || LedgerError::new("cannot read the book", "this ledger was opened without one");
        self.shared.books.as_ref().ok_or_else(none)?.of(&self.shared.name).await
    }

    /// A record that the engine has given up. A book that is away for a moment is waited for, as the engine is: whoever asks for
    /// what is settled must not be told something else instead.
    async fn read_back(&self, call: CallId, wanted: Wanted) -> Result<SealedRecord, LedgerError> {
        let until = Instant::now() + self.shared.patience;
        loop {
            let read = async {
                let book = self.book().await?;
                match wanted {
                    Wanted::Lines => book.load_record(call).await,
                    Wanted::Contents => book.load_record_with_contents(call).await,
                }
            };
            match read.await {
                Ok(found) => return found.ok_or_else(lost),
                Err(fault) if Instant::now() + AGAIN > until => return Err(fault),
                Err(fault) => tracing::debug!(%fault, "reading from the book again"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The key of a record, as far as it is still there.
    async fn key_of(&self, batch: &Batch) -> Result<Option<RecordKey>, AppendError> {
        if let Some(key) = &batch.key {
            return Ok(Some(key.clone()));
        }
        if let Some(key) = self.shared.keys.lock().unwrap_or_else(PoisonError::into_inner).get(&batch.call) {
            return Ok(Some(key.clone()));
        }
        // No record, no key: someone is far ahead of what is there.
        let loaded = self.load_call(batch.call).await?.ok_or(AppendError::Stale)?;
        Ok(loaded.key)
    }

    fn remember_question(&self, question: QuestionId, call: CallId) {
        self.shared.questions.lock().unwrap_or_else(PoisonError::into_inner).put(question, call);
    }

    /// A call that is settled needs its key no more.
    fn remember_key(&self, call: CallId, key: Option<&RecordKey>, settled: bool) {
        let mut keys = self.shared.keys.lock().unwrap_or_else(PoisonError::into_inner);
        match key {
            Some(key) if !settled => {
                keys.put(call, key.clone());
            }
            _ => {
                keys.pop(&call);
            }
        }
    }

    async fn content_of(&self, call: CallId, held: ContentRef) -> Result<Vec<u8>, ContentError> {
        let key = keys::call(&self.shared.name, call);
        let found: Found<Contents> = self.shared.engine.ask("Call", &key, "contents", &()).await?;
        let Contents { key, sealed } = match found {
            Found::Nowhere => return Err(ContentError::Missing),
            Found::Here(contents) => contents,
            Found::InBook => {
                let record = self.read_back(call, Wanted::Contents).await?;
                let sealed = record.sealed_contents.into_iter().map(|(seq, sealed)| (seq, Blob(sealed)));
                Contents { key: record.wrapped_key.map(Blob), sealed: sealed.collect() }
            }
        };
        let key = key.ok_or(ContentError::Forgotten)?;
        let key = self.shared.vault.unwrap(call, &key.0).ok_or(ContentError::Corrupted)?;
        for (seq, sealed) in sealed {
            let unpacked = sealing::unpack(&key, call, seq, &sealed.0)?;
            if let Some(content) = unpacked.contents.into_iter().find(|content| content.content_ref == held) {
                return Ok(content.bytes);
            }
        }
        Err(ContentError::Missing)
    }

    async fn interrupt_call(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> Result<Interruption, LedgerError> {
        let Some(loaded) = self.load_call(call).await? else { return Ok(Interruption::NotOpen) };
        let owner = match invariants::open_attempt(&loaded.record) {
            Some((open, owner)) if open == attempt => owner,
            _ => return Ok(Interruption::NotOpen),
        };
        // Held until it is written, so that nobody can come to life under this id meanwhile.
        let _lock = if owner == self.owner {
            None
        } else {
            if self.shared.others.get().is_some_and(|is_alive| is_alive(owner)) {
                return Ok(Interruption::OwnerAlive);
            }
            let lock = owner_locks::remove_dead_owner(&self.shared.workers, owner)
                .map_err(|error| LedgerError::new("cannot look at the lock of an owner", error))?;
            match lock {
                Some(lock) => Some(lock),
                None => return Ok(Interruption::OwnerAlive),
            }
        };
        let interrupt = Interrupt { ledger: self.shared.name.clone(), call, attempt, at };
        let key = keys::call(&self.shared.name, call);
        let written: bool = self.shared.engine.ask("Call", &key, "interrupt", &interrupt).await?;
        Ok(if written { Interruption::Recorded } else { Interruption::NotOpen })
    }
}

impl Drop for RestateLedger {
    fn drop(&mut self) {
        if let Some(here) = &self.here {
            here.starts.remove_if_empty();
        }
    }
}

impl Ledger for RestateLedger {
    fn owner(&self) -> OwnerId {
        self.owner
    }

    fn load(&self, call: CallId) -> BoxFuture<'_, Result<Option<LoadedRecord>, LedgerError>> {
        Box::pin(self.load_call(call))
    }

    fn lookup_incoming<'a>(
        &'a self,
        comer: IncomingCall<'a>,
    ) -> BoxFuture<'a, Result<IncomingState, LedgerError>> {
        Box::pin(async move {
            let IncomingCall { call, tenant, session, tool, now } = comer;
            let Shared { looks, engine, name, .. } = &*self.shared;
            // Beside each other, so that it takes no longer than one of them.
            let look = looks.look(engine, name, (tenant, session, tool));
            let (loaded, seen) = tokio::try_join!(self.load_call(call), look)?;
            let (lineage, is_crowded) = seen.of_session(session)?;
            let leaves =
                seen.leaves(tool)?.filter(|leave| invariants::is_in_time(leave, now)).cloned().collect();
            let around = SessionContext {
                standing_approvals: leaves,
                halt: seen.halt.clone(),
                has_pending_calls: is_crowded,
            };
            Ok(IncomingState { record: loaded, lineage, session_context: Some(around) })
        })
    }

    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(self.append_batch(batch))
    }

    fn content(&self, call: CallId, held: ContentRef) -> BoxFuture<'_, Result<Vec<u8>, ContentError>> {
        Box::pin(self.content_of(call, held))
    }

    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> BoxFuture<'_, Result<Interruption, LedgerError>> {
        Box::pin(self.interrupt_call(call, attempt, at))
    }

    fn mark_started(&self, _call: CallId, attempt: AttemptId) -> BoxFuture<'_, Result<(), LedgerError>> {
        let starts = self.here.as_ref().map(|here| here.starts.clone());
        Box::pin(async move {
            let elsewhere =
                || LedgerError::new("cannot mark that an attempt starts", "its owner is elsewhere");
            starts.ok_or_else(elsewhere)?.mark_async(attempt).await
        })
    }

    fn record_admin_action(&self, act: AdminAction) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let key = keys::tenant(&self.shared.name, &act.tenant);
            let (ledger, book) = (self.shared.name.clone(), self.shared.books.is_some());
            let new = NewAct { ledger, act: act.clone(), book };
            let refused: Option<String> = self.shared.engine.ask("Tenant", &key, "act", &new).await?;
            if let Some(why) = refused {
                return Err(LedgerError::new("cannot write an act", why));
            }
            // The book will be told anyway, but not before this returns; and what it has may be all that there is of the call.
            if book && matches!(act.kind, AdminActionKind::Forget { .. }) {
                self.book().await?.ingest_action(act).await.map_err(|fault| match fault {
                    IngestError::Ledger(fault) => fault,
                    fault @ IngestError::Conflict { .. } => LedgerError::new("cannot forget a call", fault),
                })?;
            }
            Ok(())
        })
    }

    fn active_halt(&self, tenant: &TenantId) -> BoxFuture<'_, Result<Option<AdminAction>, LedgerError>> {
        let key = keys::tenant(&self.shared.name, tenant);
        Box::pin(async move { self.shared.engine.ask("Tenant", &key, "halted", &()).await })
    }

    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<SessionNode>, LedgerError>> {
        let key = keys::tenant(&self.shared.name, tenant);
        let of = (tenant.clone(), session.clone());
        Box::pin(async move { self.shared.engine.ask("Tenant", &key, "lineage", &of).await })
    }

    fn standing_approvals(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<Arc<StandingApproval>>, LedgerError>> {
        let list_of = |tool: &str| {
            let key = keys::leaves(&self.shared.name, tenant, tool);
            async move { self.shared.engine.ask::<Vec<StandingApproval>>("Leaves", &key, "list", &()).await }
        };
        let lists = (list_of(tool), list_of(ANY_TOOL));
        Box::pin(async move {
            let (named, for_any) = tokio::try_join!(lists.0, lists.1)?;
            Ok(named
                .into_iter()
                .chain(for_any)
                .filter(|leave| invariants::is_in_time(leave, now))
                .map(Arc::new)
                .collect())
        })
    }

    fn call_for_question(&self, question: QuestionId) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        Box::pin(async move {
            let known =
                self.shared.questions.lock().unwrap_or_else(PoisonError::into_inner).get(&question).copied();
            if known.is_some() {
                return Ok(known);
            }
            let key = keys::question(&self.shared.name, question);
            let call: Option<CallId> = self.shared.engine.ask("Question", &key, "call_of", &()).await?;
            call.into_iter().for_each(|call| self.remember_question(question, call));
            Ok(call)
        })
    }

    fn blocking_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        call: CallId,
        plan: &Plan,
        passed_over: &[CallId],
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        let key = keys::holds(&self.shared.name, tenant, session);
        let passing = Passing {
            session: session.clone(),
            call,
            effects: plan.effects.clone(),
            passed_over: passed_over.to_vec(),
        };
        Box::pin(async move {
            if passing.effects.is_empty() {
                return Ok(None);
            }
            self.shared.engine.ask("Holds", &key, "held_up_by", &passing).await
        })
    }

    fn resumable_calls(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, LedgerError>> {
        Box::pin(async move {
            let due = Due { now, limit };
            let shards = (0..keys::SHARDS).map(|shard| keys::shard(&self.shared.name, shard));
            let lists = try_join_all(shards.map(|key| async move {
                self.shared.engine.ask::<Vec<(Millis, CallId)>>("Unsettled", &key, "list", &due).await
            }));
            let mut calls: Vec<(Millis, CallId)> = lists.await?.into_iter().flatten().collect();
            calls.sort_unstable();
            Ok(calls.into_iter().take(limit).map(|(_, call)| call).collect())
        })
    }
}

struct RestateDeputy {
    shared: Arc<Shared>,
    is_sure: Box<dyn Fn() -> bool + Send + Sync>,
}

impl OwnerBackend for RestateDeputy {
    fn set_liveness_check(&self, is_alive: OwnerLiveness) {
        // One roster answers for all who are elsewhere: a second would not know the owners of the first.
        if self.shared.others.set(is_alive).is_err() {
            tracing::error!("two rosters on one ledger; the first counts");
        }
    }

    fn ledger_for_owner(&self, owner: OwnerId) -> Result<Arc<dyn Ledger>, LedgerError> {
        Ok(Arc::new(RestateLedger { shared: Arc::clone(&self.shared), owner, here: None }))
    }

    fn is_sole_registry(&self) -> bool {
        (self.is_sure)()
    }
}

/// A record that the engine has given up is settled; what is not was cut off in the book, and must not be driven on.
fn cleared(record: Record) -> Result<Record, LedgerError> {
    if record.outcome().is_some() || record.damage().is_some() { Ok(record) } else { Err(lost()) }
}

fn lost() -> LedgerError {
    LedgerError::new(
        "cannot read a call",
        "the engine has given it up to the book, and the book does not have it",
    )
}

fn refused(why: impl std::fmt::Display) -> LedgerError {
    LedgerError::new("cannot append this batch", why)
}
