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
use byleave_core::hash_chain::{ChainedEntry, GENESIS};
use byleave_core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, StandingApprovalId, TenantId};
use byleave_core::record::Record;
use byleave_core::session::SessionNode;
use byleave_core::standing_approval::StandingApproval;
use uuid::Uuid;

use crate::boxed::BoxFuture;
use crate::ledger::invariants::{self, BatchEffects, StartConditions};
use crate::ledger::{
    AppendError, Batch, ContentError, Interruption, Ledger, LedgerError, LoadedRecord, RecordContent,
    StartBlockedError,
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
        Self::on(Arc::default())
    }

    /// Creates another owner on the same store, as another process would.
    pub fn beside(other: &Self) -> Self {
        Self::on(Arc::clone(&other.owner.store))
    }

    /// Creates the owner with this id on the same store. The owner may have existed before.
    pub fn beside_as(other: &Self, id: OwnerId) -> Self {
        Self::on_as(Arc::clone(&other.owner.store), id)
    }

    /// Kills the owner, as SIGKILL would kill its process. Its claims stay open, and all further operations through it fail.
    pub fn die(&self) {
        self.owner.die();
    }

    fn on(store: Arc<Mutex<MemoryStore>>) -> Self {
        Self::on_as(store, OwnerId::new(Uuid::now_v7()))
    }

    fn on_as(store: Arc<Mutex<MemoryStore>>, id: OwnerId) -> Self {
        if let Ok(mut store) = store.lock() {
            store.alive.insert(id);
        }
        Self { owner: Arc::new(MemoryOwner { id, store }) }
    }

    fn store(&self) -> Result<MutexGuard<'_, MemoryStore>, LedgerError> {
        let store = self.owner.store.lock();
        let store =
            store.map_err(|_| LedgerError::new("cannot use the ledger", "a panic left it half-written"))?;
        if !store.alive.contains(&self.owner.id) {
            return Err(LedgerError::new("cannot use the ledger", format!("owner {} died", self.owner.id)));
        }
        Ok(store)
    }

    fn append_now(&self, batch: Batch) -> Result<(), AppendError> {
        // Hashing is most of the work, so it is done before the lock is taken.
        let moves = invariants::moves(&batch, self.owner.id)?;
        if !batch.contents.is_empty() {
            self.check_contents(&batch)?;
        }
        let mut store = self.store()?;
        if store.place(batch.call) != (batch.at_len, batch.before) {
            return Err(AppendError::Stale);
        }
        if let Some(hindrance) = store.hindrance(&batch, &moves)? {
            return Err(hindrance.into());
        }
        store.make(&batch, &moves);
        drop(moves);
        store.keep(batch);
        Ok(())
    }

    fn check_contents(&self, batch: &Batch) -> Result<(), AppendError> {
        let key = match &batch.key {
            Some(key) => Some(key.clone()),
            None => self.store()?.calls.get(&batch.call).and_then(|kept| kept.key.clone()),
        };
        match key {
            Some(key) => Ok(invariants::check_contents(&batch.contents, &key)?),
            None if batch.at_len == 0 => {
                Err(LedgerError::new("cannot append this batch", "it has contents and no key").into())
            }
            None => Ok(()),
        }
    }

    fn interrupt_now(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> Result<Interruption, LedgerError> {
        let mut guard = self.store()?;
        let store = &mut *guard;
        let Some(kept) = store.calls.get_mut(&call) else { return Ok(Interruption::NotOpen) };
        let is_alive = |owner| store.alive.contains(&owner);
        if let Some(not) = invariants::not_interrupted(kept.open, attempt, self.owner.id, is_alive) {
            return Ok(not);
        }
        let mut record = Record::read(call, &kept.lines);
        let (line, _) = invariants::interrupted(&mut record, attempt, at)?;
        kept.lines.push(line);
        store.free_seat(call);
        store.let_others_pass(call);
        Ok(Interruption::Written)
    }
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryOwner {
    fn die(&self) {
        if let Ok(mut store) = self.store.lock() {
            store.alive.remove(&self.id);
        }
    }
}

impl Drop for MemoryOwner {
    fn drop(&mut self) {
        self.die();
    }
}

impl Ledger for MemoryLedger {
    fn owner(&self) -> OwnerId {
        self.owner.id
    }

    fn load(&self, call: CallId) -> BoxFuture<'_, Result<Option<LoadedRecord>, LedgerError>> {
        Box::pin(async move {
            let kept = self.store()?.calls.get(&call).map(|kept| (kept.lines.clone(), kept.key.clone()));
            Ok(kept.map(|(lines, key)| LoadedRecord { record: Record::read(call, &lines), key }))
        })
    }

    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(async move { self.append_now(batch) })
    }

    fn content(&self, call: CallId, held: ContentRef) -> BoxFuture<'_, Result<Vec<u8>, ContentError>> {
        Box::pin(async move {
            let store = self.store()?;
            let kept = store.calls.get(&call).ok_or(ContentError::Missing)?;
            if kept.key.is_none() {
                return Err(ContentError::Forgotten);
            }
            let content = kept.contents.iter().find(|content| content.held == held);
            content.map(|content| content.bytes.clone()).ok_or(ContentError::Missing)
        })
    }

    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> BoxFuture<'_, Result<Interruption, LedgerError>> {
        Box::pin(async move { self.interrupt_now(call, attempt, at) })
    }

    fn act(&self, act: AdminAction) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let mut store = self.store()?;
            store.may_act(&act)?;
            store.act(act);
            Ok(())
        })
    }

    fn halted(&self, tenant: &TenantId) -> BoxFuture<'_, Result<Option<AdminAction>, LedgerError>> {
        let halt = self.store().map(|store| store.tenants.get(tenant).and_then(|tenant| tenant.halt.clone()));
        Box::pin(ready(halt))
    }

    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<SessionNode>, LedgerError>> {
        let lineage = self.store().and_then(|store| {
            let opened = |session: &SessionId| Ok(store.opened(tenant, session).cloned());
            invariants::lineage(session, opened)
        });
        Box::pin(ready(lineage))
    }

    fn leaves(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<Arc<StandingApproval>>, LedgerError>> {
        let leaves = self.store().map(|store| {
            store.tenants.get(tenant).map(|tenant| tenant.leaves_for(tool, now)).unwrap_or_default()
        });
        Box::pin(ready(leaves))
    }

    fn call_of(&self, question: QuestionId) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        Box::pin(async move { self.store().map(|store| store.questions.get(&question).copied()) })
    }

    fn held_up_by(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        call: CallId,
        plan: &Plan,
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        let by = self.store().map(|store| {
            let session = store.tenants.get(tenant)?.sessions.get(session)?;
            let holds_up = |(other, effects): &(&CallId, &Vec<Effect>)| {
                **other != call && invariants::holds_up(effects, plan)
            };
            session.holding.iter().find(holds_up).map(|(other, _)| *other)
        });
        Box::pin(ready(by))
    }

    fn drivable(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, LedgerError>> {
        Box::pin(async move { self.store().map(|store| store.drivable(now, limit)) })
    }
}

#[derive(Debug, Default)]
struct MemoryStore {
    calls: HashMap<CallId, StoredRecord>,
    tenants: HashMap<TenantId, TenantState>,
    questions: HashMap<QuestionId, CallId>,
    alive: HashSet<OwnerId>,
    acts: Vec<AdminAction>,
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
    lines: Vec<ChainedEntry>,
    contents: Vec<RecordContent>,
    /// `None` if the contents were forgotten.
    key: Option<RecordKey>,
    /// The open attempt and its owner.
    open: Option<(AttemptId, OwnerId)>,
    /// When the open question expires.
    waits_until: Option<Millis>,
}

#[derive(Debug, Default)]
struct TenantState {
    halt: Option<AdminAction>,
    leaves: HashMap<StandingApprovalId, ApprovalUse>,
    /// Standing approvals by tool that may have a use left.
    usable: HashMap<String, Vec<StandingApprovalId>>,
    revoked: HashSet<StandingApprovalId>,
    sessions: HashMap<SessionId, SessionState>,
    /// Sessions that were opened. They are never removed.
    opened: HashMap<SessionId, SessionNode>,
}

/// A standing approval and the number of its uses.
#[derive(Debug)]
struct ApprovalUse {
    leave: Arc<StandingApproval>,
    used: u32,
}

#[derive(Debug, Default)]
struct SessionState {
    /// The open attempt that runs alone.
    seat: Option<(CallId, AttemptId)>,
    /// Calls that a person was asked about and that have not ended, with their planned effects.
    holding: BTreeMap<CallId, Vec<Effect>>,
}

impl MemoryStore {
    /// Returns the length of a record and its last link.
    fn place(&self, call: CallId) -> (u32, Digest) {
        match self.calls.get(&call).and_then(|kept| kept.lines.last()) {
            None => (0, GENESIS),
            Some(line) => (line.seq().saturating_add(1), line.link()),
        }
    }

    fn hindrance(
        &self,
        batch: &Batch,
        moves: &BatchEffects<'_>,
    ) -> Result<Option<StartBlockedError>, LedgerError> {
        if let Some(kept) = self.calls.get(&batch.call)
            && (kept.tenant != batch.listing.tenant || kept.session != batch.listing.session)
        {
            return Err(LedgerError::new("cannot append this batch", "the call is of another session"));
        }
        if batch.begins.is_none() && moves.uses.is_empty() {
            return Ok(None);
        }
        let tenant = self.tenants.get(&batch.listing.tenant);
        let standing = StartConditions {
            halt: tenant.and_then(|tenant| tenant.halt.as_ref()),
            leave_left: moves.uses.is_empty() || tenant.is_some_and(|tenant| tenant.can_use(batch, moves)),
            seat: tenant
                .and_then(|tenant| tenant.sessions.get(&batch.listing.session))
                .and_then(|session| session.seat),
        };
        Ok(invariants::hindrance(batch.call, batch.begins.as_ref(), standing))
    }

    /// Applies the effects of a batch, besides its lines. It cannot fail, because everything was checked before.
    fn make(&mut self, batch: &Batch, moves: &BatchEffects<'_>) {
        if let Some((heading, at)) = moves.opens {
            let kept = StoredRecord {
                tenant: heading.tenant.clone(),
                session: heading.session.clone(),
                opened_at: at,
                lines: Vec::new(),
                contents: Vec::new(),
                key: None,
                open: None,
                waits_until: None,
            };
            self.calls.insert(batch.call, kept);
            self.ready.insert((at, batch.call));
        }
        for question in &moves.asks {
            self.questions.insert(*question, batch.call);
        }
        if moves.closes_question {
            self.close_question(batch.call);
        }
        if moves.frees_seat {
            self.free_seat(batch.call);
            self.let_others_pass(batch.call);
        }
        if !moves.gives.is_empty() || !moves.uses.is_empty() {
            let tenant = tenant_of(&mut self.tenants, &batch.listing.tenant);
            moves.gives.iter().for_each(|leave| tenant.give(leave));
            moves.uses.iter().for_each(|leave| tenant.count_use(*leave));
        }
        if let Some(waits) = &batch.waits {
            self.open_question(batch.call, waits.question.expires_at, &waits.effects);
        }
        if let (Some(claim), Some(begins)) = (moves.claim, &batch.begins) {
            self.take_seat(batch.call, (claim.attempt, claim.owner), begins.exclusive);
        }
        if batch.settles
            && let Some(kept) = self.calls.get(&batch.call)
        {
            self.ready.remove(&(kept.opened_at, batch.call));
        }
    }

    fn keep(&mut self, mut batch: Batch) {
        let Some(kept) = self.calls.get_mut(&batch.call) else { return };
        if let Some(key) = batch.key.take() {
            kept.key = Some(key);
        }
        kept.lines.append(&mut batch.lines);
        // New contents of a forgotten record are dropped at once.
        if kept.key.is_some() {
            kept.contents.append(&mut batch.contents);
        }
    }

    fn open_question(&mut self, call: CallId, expires_at: Millis, effects: &[Effect]) {
        let Some(kept) = self.calls.get_mut(&call) else { return };
        kept.waits_until = Some(expires_at);
        self.ready.remove(&(kept.opened_at, call));
        self.waiting.insert((expires_at, call));
        let tenant = tenant_of(&mut self.tenants, &kept.tenant);
        tenant.session(&kept.session).holding.insert(call, effects.to_vec());
    }

    fn close_question(&mut self, call: CallId) {
        let Some(kept) = self.calls.get_mut(&call) else { return };
        let Some(expires_at) = kept.waits_until.take() else { return };
        self.waiting.remove(&(expires_at, call));
        self.ready.insert((kept.opened_at, call));
    }

    /// Removes a call from those that block others, because it will not run any more or has ended.
    fn let_others_pass(&mut self, call: CallId) {
        let Some(kept) = self.calls.get(&call) else { return };
        if let Some(tenant) = self.tenants.get_mut(&kept.tenant) {
            tenant.change_session(&kept.session, |session| {
                session.holding.remove(&call);
            });
        }
    }

    fn take_seat(&mut self, call: CallId, open: (AttemptId, OwnerId), exclusive: bool) {
        let Some(kept) = self.calls.get_mut(&call) else { return };
        kept.open = Some(open);
        if exclusive {
            let tenant = tenant_of(&mut self.tenants, &kept.tenant);
            tenant.session(&kept.session).seat = Some((call, open.0));
        }
    }

    fn free_seat(&mut self, call: CallId) {
        let Some(kept) = self.calls.get_mut(&call) else { return };
        if kept.open.take().is_none() {
            return;
        }
        if let Some(tenant) = self.tenants.get_mut(&kept.tenant) {
            tenant.change_session(&kept.session, |session| {
                session.seat = session.seat.filter(|(holder, _)| *holder != call);
            });
        }
    }

    fn opened(&self, tenant: &TenantId, session: &SessionId) -> Option<&SessionNode> {
        self.tenants.get(tenant)?.opened.get(session)
    }

    fn may_act(&self, act: &AdminAction) -> Result<(), LedgerError> {
        let AdminActionKind::Open(opening) = &act.deed else { return Ok(()) };
        let parent = opening.parent.as_ref();
        let known = parent.is_some_and(|parent| self.opened(&act.tenant, parent).is_some());
        invariants::check_opening(act, opening, known)?;
        match self.opened(&act.tenant, &opening.session) {
            Some(_) => Err(LedgerError::new("cannot write an act", "its id is taken")),
            None => Ok(()),
        }
    }

    fn act(&mut self, act: AdminAction) {
        let tenant = tenant_of(&mut self.tenants, &act.tenant);
        match &act.deed {
            AdminActionKind::Halt { .. } => tenant.halt = Some(act.clone()),
            AdminActionKind::Lift => tenant.halt = None,
            AdminActionKind::Revoke { leave } => tenant.revoke(*leave),
            AdminActionKind::Open(opening) => {
                tenant.opened.insert(opening.session.clone(), opening.clone());
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
        self.acts.push(act);
    }

    fn drivable(&self, now: Millis, limit: usize) -> Vec<CallId> {
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
    fn can_use(&self, batch: &Batch, moves: &BatchEffects<'_>) -> bool {
        moves.uses.iter().all(|id| {
            let Some(given) = self.leaves.get(id) else { return false };
            let more = moves.uses.iter().filter(|other| *other == id).count();
            let asked = batch.begins.and_then(|begins| begins.leave).filter(|(leave, _)| leave == id);
            let asked_max = asked.and_then(|(_, max)| max);
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            !self.revoked.contains(id) && invariants::leave_left(&given.leave, given.used, more, asked_max)
        })
    }

    /// Brings a standing approval into force. An id that was given before keeps its uses and its revocation.
    fn give(&mut self, leave: &StandingApproval) {
        if self.leaves.contains_key(&leave.id) {
            return;
        }
        self.leaves.insert(leave.id, ApprovalUse { leave: Arc::new(leave.clone()), used: 0 });
        if !self.revoked.contains(&leave.id) {
            self.usable.entry(leave.tool.clone()).or_default().push(leave.id);
        }
    }

    fn count_use(&mut self, id: StandingApprovalId) {
        let Some(given) = self.leaves.get_mut(&id) else { return };
        given.used = given.used.saturating_add(1);
        if !invariants::leave_left(&given.leave, given.used, 1, None) {
            self.strike(id);
        }
    }

    fn revoke(&mut self, id: StandingApprovalId) {
        self.revoked.insert(id);
        self.strike(id);
    }

    fn strike(&mut self, id: StandingApprovalId) {
        let Some(given) = self.leaves.get(&id) else { return };
        if let Some(usable) = self.usable.get_mut(&given.leave.tool) {
            usable.retain(|other| *other != id);
        }
    }

    fn leaves_for(&self, tool: &str, now: Millis) -> Vec<Arc<StandingApproval>> {
        let Some(usable) = self.usable.get(tool) else { return Vec::new() };
        let given = usable.iter().filter_map(|id| self.leaves.get(id));
        given.map(|given| &given.leave).filter(|leave| invariants::in_time(leave, now)).cloned().collect()
    }

    fn session(&mut self, id: &SessionId) -> &mut SessionState {
        self.sessions.entry(id.clone()).or_default()
    }

    /// Changes a session, and removes it if it is empty afterwards.
    fn change_session(&mut self, id: &SessionId, change: impl FnOnce(&mut SessionState)) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        change(session);
        if session.seat.is_none() && session.holding.is_empty() {
            self.sessions.remove(id);
        }
    }
}

fn tenant_of<'a>(tenants: &'a mut HashMap<TenantId, TenantState>, id: &TenantId) -> &'a mut TenantState {
    tenants.entry(id.clone()).or_default()
}
