//! A ledger in memory, for tests and for gates whose audit log need not outlive the process.
//!
//! All state is one struct behind one lock, and no code waits while it holds the lock. Lines are never parsed on append. A record is
//! parsed, and so verified, when it is loaded.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard};

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::call::Millis;
use byleave_core::digest::{ContentRef, Digest, RecordKey};
use byleave_core::effect::{Effect, Plan};
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::hash_chain::{ChainedEntry, GENESIS};
use byleave_core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, StandingApprovalId, TenantId};
use byleave_core::outcome::Outcome;
use byleave_core::record::Record;
use byleave_core::session::SessionNode;
use byleave_core::standing_approval::{ANY_TOOL, StandingApproval};
use uuid::Uuid;

use crate::boxed::BoxFuture;
use crate::ledger::invariants::{self, BatchEffects, StartConditions};
use crate::ledger::{
    AppendError, Batch, CallSummary, ContentError, Interruption, Ledger, LedgerError, LoadedRecord,
    RecordContent, StartBlockedError,
};

/// A ledger in memory. Clones share one owner, which dies with the last clone.
#[derive(Clone, Debug)]
pub struct MemoryLedger {
    owner: Arc<MemoryOwner>,
}

#[derive(Debug)]
struct MemoryOwner {
    id: OwnerId,
    store: Arc<Mutex<MemoryStore>>,
}

impl MemoryLedger {
    /// Creates an empty store with a first owner.
    pub fn new() -> Self {
        Self::from_store(Arc::default())
    }

    /// Creates another owner on the same store, as another process would.
    pub fn with_new_owner(other: &Self) -> Self {
        Self::from_store(Arc::clone(&other.owner.store))
    }

    /// Creates the owner with this id on the same store. The owner may have existed before.
    pub fn with_owner(other: &Self, id: OwnerId) -> Self {
        Self::from_store_as(Arc::clone(&other.owner.store), id)
    }

    /// Kills the owner, as SIGKILL would kill its process. Its claims stay open, and all further operations through it fail.
    pub fn kill(&self) {
        self.owner.kill();
    }

    fn from_store(store: Arc<Mutex<MemoryStore>>) -> Self {
        Self::from_store_as(store, OwnerId::new(Uuid::now_v7()))
    }

    fn from_store_as(store: Arc<Mutex<MemoryStore>>, id: OwnerId) -> Self {
        if let Ok(mut store) = store.lock() {
            store.alive.insert(id);
        }
        Self { owner: Arc::new(MemoryOwner { id, store }) }
    }

    fn store(&self) -> Result<MutexGuard<'_, MemoryStore>, LedgerError> {
        let store = self.owner.store.lock();
        let store =
            store.map_err(|_| LedgerError::new("cannot use the ledger", "a panic interrupted a write"))?;
        if !store.alive.contains(&self.owner.id) {
            return Err(LedgerError::new("cannot use the ledger", format!("owner {} died", self.owner.id)));
        }
        Ok(store)
    }

    fn append_sync(&self, batch: Batch) -> Result<(), AppendError> {
        // Hashing is most of the work, so it is done before the lock is taken.
        let moves = invariants::check_batch(&batch, self.owner.id)?;
        if !batch.contents.is_empty() {
            self.check_contents(&batch)?;
        }
        let mut store = self.store()?;
        if store.position(batch.call) != (batch.expected_len, batch.prev_link) {
            return Err(AppendError::Stale);
        }
        if let Some(hindrance) = store.start_blocked(&batch, &moves)? {
            return Err(hindrance.into());
        }
        store.apply(&batch, &moves);
        drop(moves);
        store.store_batch(batch);
        Ok(())
    }

    fn check_contents(&self, batch: &Batch) -> Result<(), AppendError> {
        let key = match &batch.key {
            Some(key) => Some(key.clone()),
            None => self.store()?.calls.get(&batch.call).and_then(|kept| kept.key.clone()),
        };
        match key {
            Some(key) => Ok(invariants::check_contents(&batch.contents, &key)?),
            None if batch.expected_len == 0 => {
                Err(LedgerError::new("cannot append this batch", "the batch has contents but no key").into())
            }
            None => Ok(()),
        }
    }

    fn interrupt_sync(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> Result<Interruption, LedgerError> {
        let mut guard = self.store()?;
        let store = &mut *guard;
        let Some(kept) = store.calls.get_mut(&call) else { return Ok(Interruption::NotOpen) };
        let is_alive = |owner| store.alive.contains(&owner);
        if let Some(not) =
            invariants::check_interruptible(kept.open_attempt, attempt, self.owner.id, is_alive)
        {
            return Ok(not);
        }
        let mut record = Record::from_stored_entries(call, &kept.chained_entries);
        let (line, _) = invariants::interruption_entry(&mut record, attempt, at)?;
        kept.chained_entries.push(line);
        store.close_attempt(call);
        store.release_pending(call);
        Ok(Interruption::Recorded)
    }
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryOwner {
    fn kill(&self) {
        if let Ok(mut store) = self.store.lock() {
            store.alive.remove(&self.id);
        }
    }
}

impl Drop for MemoryOwner {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Ledger for MemoryLedger {
    fn owner(&self) -> OwnerId {
        self.owner.id
    }

    fn load(&self, call: CallId) -> BoxFuture<'_, Result<Option<LoadedRecord>, LedgerError>> {
        Box::pin(async move {
            let kept =
                self.store()?.calls.get(&call).map(|kept| (kept.chained_entries.clone(), kept.key.clone()));
            Ok(kept
                .map(|(lines, key)| LoadedRecord { record: Record::from_stored_entries(call, &lines), key }))
        })
    }

    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(async move { self.append_sync(batch) })
    }

    fn content(&self, call: CallId, held: ContentRef) -> BoxFuture<'_, Result<Vec<u8>, ContentError>> {
        Box::pin(async move {
            let store = self.store()?;
            let kept = store.calls.get(&call).ok_or(ContentError::Missing)?;
            if kept.key.is_none() {
                return Err(ContentError::Forgotten);
            }
            let content = kept.contents.iter().find(|content| content.content_ref == held);
            content.map(|content| content.bytes.clone()).ok_or(ContentError::Missing)
        })
    }

    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> BoxFuture<'_, Result<Interruption, LedgerError>> {
        Box::pin(async move { self.interrupt_sync(call, attempt, at) })
    }

    fn record_admin_action(&self, act: AdminAction) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let mut store = self.store()?;
            store.check_action(&act)?;
            store.apply_action(act);
            Ok(())
        })
    }

    fn active_halt(&self, tenant: &TenantId) -> BoxFuture<'_, Result<Option<AdminAction>, LedgerError>> {
        let halt = self.store().map(|store| store.tenants.get(tenant).and_then(|tenant| tenant.halt.clone()));
        Box::pin(ready(halt))
    }

    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<SessionNode>, LedgerError>> {
        let lineage = self.store().and_then(|store| {
            let opened = |session: &SessionId| Ok(store.session_node(tenant, session).cloned());
            invariants::lineage(session, opened)
        });
        Box::pin(ready(lineage))
    }

    fn standing_approvals(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<Arc<StandingApproval>>, LedgerError>> {
        let leaves = self.store().map(|store| {
            store.tenants.get(tenant).map(|tenant| tenant.approvals_for(tool, now)).unwrap_or_default()
        });
        Box::pin(ready(leaves))
    }

    fn call_for_question(&self, question: QuestionId) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        Box::pin(async move { self.store().map(|store| store.questions.get(&question).copied()) })
    }

    fn blocking_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        call: CallId,
        plan: &Plan,
        passed_over: &[CallId],
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        let by = self.store().map(|store| {
            let session = store.tenants.get(tenant)?.sessions.get(session)?;
            let holds_up = |(other, effects): &(&CallId, &Vec<Effect>)| {
                **other != call && !passed_over.contains(other) && invariants::blocks(effects, plan)
            };
            session.pending_effects.iter().find(holds_up).map(|(other, _)| *other)
        });
        Box::pin(ready(by))
    }

    fn latest_completed_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        tool: &str,
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        let origin = (session.clone(), tool.to_owned());
        let found = self.store().map(|store| {
            let (_, call) = store.tenants.get(tenant)?.completed.get(&origin)?;
            Some(*call)
        });
        Box::pin(ready(found))
    }

    fn has_read_foreign(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<bool, LedgerError>> {
        let found = self.store().map(|store| {
            store.tenants.get(tenant).is_some_and(|tenant| tenant.foreign_text.contains(session))
        });
        Box::pin(ready(found))
    }

    fn resumable_calls(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, LedgerError>> {
        Box::pin(async move { self.store().map(|store| store.resumable_calls(now, limit)) })
    }
}

#[derive(Debug, Default)]
struct MemoryStore {
    calls: HashMap<CallId, StoredRecord>,
    tenants: HashMap<TenantId, TenantState>,
    questions: HashMap<QuestionId, CallId>,
    alive: HashSet<OwnerId>,
    admin_actions: Vec<AdminAction>,
    /// Calls that are neither settled nor waiting, by arrival time.
    ready: BTreeSet<(Millis, CallId)>,
    /// Calls that wait for a person, by the time when the question expires.
    waiting: BTreeSet<(Millis, CallId)>,
}

/// The stored state of a call.
#[derive(Debug)]
struct StoredRecord {
    tenant: TenantId,
    session: SessionId,
    opened_at: Millis,
    /// Counts the calls in the order in which they were received.
    number: usize,
    chained_entries: Vec<ChainedEntry>,
    contents: Vec<RecordContent>,
    /// `None` if the contents were forgotten.
    key: Option<RecordKey>,
    /// The open attempt and its owner.
    open_attempt: Option<(AttemptId, OwnerId)>,
    /// When the open question expires.
    question_expires_at: Option<Millis>,
}

#[derive(Debug, Default)]
struct TenantState {
    halt: Option<AdminAction>,
    standing_approvals: HashMap<StandingApprovalId, ApprovalUse>,
    /// Standing approvals by tool that may have a use left.
    usable: HashMap<String, Vec<StandingApprovalId>>,
    revoked: HashSet<StandingApprovalId>,
    sessions: HashMap<SessionId, SessionState>,
    /// Sessions that were opened. They are never removed.
    opened_sessions: HashMap<SessionId, SessionNode>,
    /// The newest completed calls by session and tool, with their numbers.
    completed: HashMap<(SessionId, String), (usize, CallId)>,
    /// The sessions that have read text of strangers, and the sessions above them.
    foreign_text: HashSet<SessionId>,
}

/// A standing approval and the number of its uses.
#[derive(Debug)]
struct ApprovalUse {
    standing_approval: Arc<StandingApproval>,
    uses: u32,
}

#[derive(Debug, Default)]
struct SessionState {
    /// The open attempt that runs alone.
    exclusive_attempt: Option<(CallId, AttemptId)>,
    /// Calls that a person was asked about and that have not ended, with their planned effects.
    pending_effects: BTreeMap<CallId, Vec<Effect>>,
}

impl MemoryStore {
    /// Returns the length of a record and its last link.
    fn position(&self, call: CallId) -> (u32, Digest) {
        match self.calls.get(&call).and_then(|kept| kept.chained_entries.last()) {
            None => (0, GENESIS),
            Some(line) => (line.seq().saturating_add(1), line.link()),
        }
    }

    fn start_blocked(
        &self,
        batch: &Batch,
        moves: &BatchEffects<'_>,
    ) -> Result<Option<StartBlockedError>, LedgerError> {
        if let Some(kept) = self.calls.get(&batch.call)
            && (kept.tenant != batch.call_summary.tenant || kept.session != batch.call_summary.session)
        {
            return Err(LedgerError::new("cannot append this batch", "the call belongs to another session"));
        }
        if batch.attempt_start.is_none() && moves.approvals_used.is_empty() {
            return Ok(None);
        }
        let tenant = self.tenants.get(&batch.call_summary.tenant);
        let standing = StartConditions {
            halt: tenant.and_then(|tenant| tenant.halt.as_ref()),
            approval_usable: moves.approvals_used.is_empty()
                || tenant.is_some_and(|tenant| tenant.has_uses_left(batch, moves)),
            exclusive_attempt: tenant
                .and_then(|tenant| tenant.sessions.get(&batch.call_summary.session))
                .and_then(|session| session.exclusive_attempt),
        };
        Ok(invariants::start_blocked(batch.call, batch.attempt_start.as_ref(), standing))
    }

    /// Applies the effects of a batch, besides its lines. It cannot fail, because everything was checked before.
    fn apply(&mut self, batch: &Batch, moves: &BatchEffects<'_>) {
        if let Some((heading, at)) = moves.opening {
            let kept = StoredRecord {
                tenant: heading.tenant.clone(),
                session: heading.session.clone(),
                opened_at: at,
                number: self.calls.len(),
                chained_entries: Vec::new(),
                contents: Vec::new(),
                key: None,
                open_attempt: None,
                question_expires_at: None,
            };
            self.calls.insert(batch.call, kept);
            self.ready.insert((at, batch.call));
        }
        for question in &moves.questions {
            self.questions.insert(*question, batch.call);
        }
        if moves.closes_question {
            self.close_question(batch.call);
        }
        if moves.frees_session {
            self.close_attempt(batch.call);
            self.release_pending(batch.call);
        }
        if !moves.approvals_granted.is_empty() || !moves.approvals_used.is_empty() {
            let tenant = tenant_mut(&mut self.tenants, &batch.call_summary.tenant);
            moves.approvals_granted.iter().for_each(|leave| tenant.grant_approval(leave));
            moves.approvals_used.iter().for_each(|leave| tenant.count_use(*leave));
        }
        if let Some(waits) = &batch.pending_question {
            self.open_question(batch.call, waits.question.expires_at, &waits.effects);
        }
        if let (Some(claim), Some(begins)) = (moves.claim, &batch.attempt_start) {
            self.open_attempt(batch.call, (claim.attempt, claim.owner), begins.exclusive);
        }
        self.note_foreign_text(batch);
        if batch.is_final
            && let Some(kept) = self.calls.get(&batch.call)
        {
            self.ready.remove(&(kept.opened_at, batch.call));
            let number = kept.number;
            self.note_completed(batch, number);
        }
    }

    /// Notes that a session has read text of strangers. The sessions above it are told what it found.
    fn note_foreign_text(&mut self, batch: &Batch) {
        let reads =
            |entry: &Entry| matches!(&entry.event, RecordEvent::Ended { end, .. } if end.read_foreign);
        if !batch.entries.iter().any(reads) {
            return;
        }
        let CallSummary { tenant, session, .. } = &batch.call_summary;
        let opened = |session: &SessionId| Ok(self.session_node(tenant, session).cloned());
        let above = invariants::lineage(session, opened).unwrap_or_default();
        let all = std::iter::once(session.clone()).chain(above.into_iter().map(|node| node.session));
        tenant_mut(&mut self.tenants, tenant).foreign_text.extend(all);
    }

    /// Notes a completed call, unless a newer one of the same tool has completed.
    fn note_completed(&mut self, batch: &Batch, number: usize) {
        let last = batch.entries.last().map(|entry| &entry.event);
        if !matches!(last, Some(RecordEvent::Settled(Outcome::Completed { .. }))) {
            return;
        }
        let CallSummary { tenant, session, tool, .. } = &batch.call_summary;
        let origin = (session.clone(), tool.clone());
        let newest =
            tenant_mut(&mut self.tenants, tenant).completed.entry(origin).or_insert((number, batch.call));
        if newest.0 < number {
            *newest = (number, batch.call);
        }
    }

    fn store_batch(&mut self, mut batch: Batch) {
        let Some(kept) = self.calls.get_mut(&batch.call) else { return };
        if let Some(key) = batch.key.take() {
            kept.key = Some(key);
        }
        kept.chained_entries.append(&mut batch.chained_entries);
        // New contents of a forgotten record are dropped at once.
        if kept.key.is_some() {
            kept.contents.append(&mut batch.contents);
        }
    }

    fn open_question(&mut self, call: CallId, expires_at: Millis, effects: &[Effect]) {
        let Some(kept) = self.calls.get_mut(&call) else { return };
        kept.question_expires_at = Some(expires_at);
        self.ready.remove(&(kept.opened_at, call));
        self.waiting.insert((expires_at, call));
        let tenant = tenant_mut(&mut self.tenants, &kept.tenant);
        tenant.session(&kept.session).pending_effects.insert(call, effects.to_vec());
    }

    fn close_question(&mut self, call: CallId) {
        let Some(kept) = self.calls.get_mut(&call) else { return };
        let Some(expires_at) = kept.question_expires_at.take() else { return };
        self.waiting.remove(&(expires_at, call));
        self.ready.insert((kept.opened_at, call));
    }

    /// Removes a call from those that block others, because it will not run any more or has ended.
    fn release_pending(&mut self, call: CallId) {
        let Some(kept) = self.calls.get(&call) else { return };
        if let Some(tenant) = self.tenants.get_mut(&kept.tenant) {
            tenant.change_session(&kept.session, |session| {
                session.pending_effects.remove(&call);
            });
        }
    }

    fn open_attempt(&mut self, call: CallId, open: (AttemptId, OwnerId), exclusive: bool) {
        let Some(kept) = self.calls.get_mut(&call) else { return };
        kept.open_attempt = Some(open);
        if exclusive {
            let tenant = tenant_mut(&mut self.tenants, &kept.tenant);
            tenant.session(&kept.session).exclusive_attempt = Some((call, open.0));
        }
    }

    fn close_attempt(&mut self, call: CallId) {
        let Some(kept) = self.calls.get_mut(&call) else { return };
        if kept.open_attempt.take().is_none() {
            return;
        }
        if let Some(tenant) = self.tenants.get_mut(&kept.tenant) {
            tenant.change_session(&kept.session, |session| {
                session.exclusive_attempt = session.exclusive_attempt.filter(|(holder, _)| *holder != call);
            });
        }
    }

    fn session_node(&self, tenant: &TenantId, session: &SessionId) -> Option<&SessionNode> {
        self.tenants.get(tenant)?.opened_sessions.get(session)
    }

    fn check_action(&self, act: &AdminAction) -> Result<(), LedgerError> {
        let AdminActionKind::OpenSession(opening) = &act.kind else { return Ok(()) };
        let parent = opening.parent.as_ref();
        let known = parent.is_some_and(|parent| self.session_node(&act.tenant, parent).is_some());
        invariants::check_opening(act, opening, known)?;
        match self.session_node(&act.tenant, &opening.session) {
            Some(_) => Err(LedgerError::new("cannot write an admin action", "its id is already in use")),
            None => Ok(()),
        }
    }

    fn apply_action(&mut self, act: AdminAction) {
        let tenant = tenant_mut(&mut self.tenants, &act.tenant);
        match &act.kind {
            AdminActionKind::Halt { .. } => tenant.halt = Some(act.clone()),
            AdminActionKind::Lift => tenant.halt = None,
            AdminActionKind::Revoke { standing_approval: leave } => tenant.revoke(*leave),
            AdminActionKind::OpenSession(opening) => {
                tenant.opened_sessions.insert(opening.session.clone(), opening.clone());
            }
            AdminActionKind::Forget { call } => {
                if let Some(kept) = self.calls.get_mut(call).filter(|kept| kept.tenant == act.tenant) {
                    kept.key = None;
                    kept.contents = Vec::new();
                }
            }
            // A waiver applies to one command, which has begun by now.
            AdminActionKind::Waive { .. } => {}
        }
        self.admin_actions.push(act);
    }

    fn resumable_calls(&self, now: Millis, limit: usize) -> Vec<CallId> {
        let overdue =
            self.waiting.iter().take_while(|(expires_at, _)| invariants::is_overdue(*expires_at, now));
        let overdue = overdue.filter_map(|(_, call)| Some((self.calls.get(call)?.opened_at, *call)));
        let mut calls: Vec<(Millis, CallId)> = self.ready.iter().take(limit).copied().collect();
        calls.extend(overdue);
        calls.sort_unstable();
        calls.into_iter().take(limit).map(|(_, call)| call).collect()
    }
}

impl TenantState {
    fn has_uses_left(&self, batch: &Batch, moves: &BatchEffects<'_>) -> bool {
        moves.approvals_used.iter().all(|id| {
            let Some(given) = self.standing_approvals.get(id) else { return false };
            let more = moves.approvals_used.iter().filter(|other| *other == id).count();
            let asked = batch
                .attempt_start
                .and_then(|begins| begins.standing_approval)
                .filter(|(leave, _)| leave == id);
            let asked_max = asked.and_then(|(_, max)| max);
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            !self.revoked.contains(id)
                && invariants::has_uses_left(&given.standing_approval, given.uses, more, asked_max)
        })
    }

    /// Brings a standing approval into force. An id that was given before keeps its uses and its revocation.
    fn grant_approval(&mut self, leave: &StandingApproval) {
        if self.standing_approvals.contains_key(&leave.id) {
            return;
        }
        self.standing_approvals
            .insert(leave.id, ApprovalUse { standing_approval: Arc::new(leave.clone()), uses: 0 });
        if !self.revoked.contains(&leave.id) {
            self.usable.entry(leave.tool.clone()).or_default().push(leave.id);
        }
    }

    fn count_use(&mut self, id: StandingApprovalId) {
        let Some(given) = self.standing_approvals.get_mut(&id) else { return };
        given.uses = given.uses.saturating_add(1);
        if !invariants::has_uses_left(&given.standing_approval, given.uses, 1, None) {
            self.remove_usable(id);
        }
    }

    fn revoke(&mut self, id: StandingApprovalId) {
        self.revoked.insert(id);
        self.remove_usable(id);
    }

    fn remove_usable(&mut self, id: StandingApprovalId) {
        let Some(given) = self.standing_approvals.get(&id) else { return };
        if let Some(usable) = self.usable.get_mut(&given.standing_approval.tool) {
            usable.retain(|other| *other != id);
        }
    }

    fn approvals_for(&self, tool: &str, now: Millis) -> Vec<Arc<StandingApproval>> {
        let usable = [tool, ANY_TOOL].into_iter().filter_map(|tool| self.usable.get(tool));
        let given = usable.flatten().filter_map(|id| self.standing_approvals.get(id));
        given
            .map(|given| &given.standing_approval)
            .filter(|leave| invariants::is_in_time(leave, now))
            .cloned()
            .collect()
    }

    fn session(&mut self, id: &SessionId) -> &mut SessionState {
        self.sessions.entry(id.clone()).or_default()
    }

    /// Changes a session, and removes it if it is empty afterwards.
    fn change_session(&mut self, id: &SessionId, change: impl FnOnce(&mut SessionState)) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        change(session);
        if session.exclusive_attempt.is_none() && session.pending_effects.is_empty() {
            self.sessions.remove(id);
        }
    }
}

fn tenant_mut<'a>(tenants: &'a mut HashMap<TenantId, TenantState>, id: &TenantId) -> &'a mut TenantState {
    tenants.entry(id.clone()).or_default()
}
