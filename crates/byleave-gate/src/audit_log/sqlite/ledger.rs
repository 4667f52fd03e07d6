//! Implements the ledger on SQLite: appends, claims and the admin actions in force.

use std::sync::Arc;

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::call::Millis;
use byleave_core::digest::{ContentRef, RecordKey};
use byleave_core::effect::Plan;
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, TenantId};
use byleave_core::record::{Attempt, Record};
use byleave_core::session::{SessionNode, opening_action_id};
use byleave_core::standing_approval::StandingApproval;
use rusqlite::{Connection, OptionalExtension, params};

use super::projections::{ProjectionUpdate, attempt_owner};
use super::row::{decode_entries, load_rows, to_i64, uuid_from_row};
use super::write_op::{NewAdminAction, RecordAppend, WriteOp};
use super::{SqliteLedger, SqliteStore, admin_actions, owner_locks, pending_effects, queries};
use crate::audit_log::batch_encoding::encode;
use crate::audit_log::index_fields::{IndexFields, ListNote, call_summary};
use crate::audit_log::{CallState, admin_records, encryption};
use crate::boxed::BoxFuture;
use crate::ledger::{
    AppendError, Batch, CallSummary, ContentError, IncomingCall, IncomingState, Interruption, Ledger,
    LedgerError, LoadedRecord, SessionContext, invariants,
};

/// The maximum size of one append. It is below SQLite's own limit.
const APPEND_BYTES_MAX: usize = 512 * 1024 * 1024;

impl Ledger for SqliteLedger {
    fn owner(&self) -> OwnerId {
        self.owner
    }

    fn load(&self, call: CallId) -> BoxFuture<'_, Result<Option<LoadedRecord>, LedgerError>> {
        Box::pin(async move { self.store.load(call) })
    }

    fn lookup_incoming<'a>(
        &'a self,
        comer: IncomingCall<'a>,
    ) -> BoxFuture<'a, Result<IncomingState, LedgerError>> {
        Box::pin(async move {
            match self.store.lookup_new_call(comer)? {
                Some(around) => {
                    Ok(IncomingState { record: None, lineage: Vec::new(), session_context: Some(around) })
                }
                None => {
                    let loaded = self.store.load(comer.call)?;
                    let lineage = match &loaded {
                        Some(_) => Vec::new(),
                        None => self.store.lineage(comer.tenant, comer.session)?,
                    };
                    Ok(IncomingState { record: loaded, lineage, session_context: None })
                }
            }
        })
    }

    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(async move {
            invariants::check_batch(&batch, self.owner)?;
            let append = self.store.prepare(batch)?;
            self.store.writer.submit(WriteOp::Append(Box::new(append))).await
        })
    }

    fn content(&self, call: CallId, held: ContentRef) -> BoxFuture<'_, Result<Vec<u8>, ContentError>> {
        Box::pin(async move { self.store.content(call, held) })
    }

    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> BoxFuture<'_, Result<Interruption, LedgerError>> {
        Box::pin(self.store.interrupt(call, attempt, at, self.owner))
    }

    fn record_admin_action(&self, act: AdminAction) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move { self.store.act(&act).await.map(|_| ()) })
    }

    fn active_halt(&self, tenant: &TenantId) -> BoxFuture<'_, Result<Option<AdminAction>, LedgerError>> {
        let tenant = tenant.clone();
        Box::pin(async move {
            let force = self
                .store
                .readers
                .with_connection(|connection| self.store.context.action_cache.refresh(connection))??;
            Ok(force.active_halt(&tenant).cloned())
        })
    }

    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<SessionNode>, LedgerError>> {
        let lineage = self.store.lineage(tenant, session);
        Box::pin(async move { lineage })
    }

    fn standing_approvals(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<Arc<StandingApproval>>, LedgerError>> {
        let (tenant, tool) = (tenant.clone(), tool.to_owned());
        Box::pin(async move {
            self.store.readers.with_connection(|connection| {
                let bench = &self.store.context;
                let force = bench.action_cache.refresh(connection)?;
                bench
                    .approval_cache
                    .usable(connection, &force, &tenant, &tool, now)
                    .map_err(|error| LedgerError::new("cannot read the standing approvals", error))
            })?
        })
    }

    fn call_for_question(&self, question: QuestionId) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        Box::pin(async move {
            self.store.readers.read("cannot look up a question", |connection| {
                let sql = "SELECT call.id FROM question JOIN call ON call.pos = question.call WHERE question.id = ?1";
                let mut statement = connection.prepare_cached(sql)?;
                let found = statement.query_row([question.as_bytes()], |row| uuid_from_row(row, 0)).optional()?;
                Ok(found.map(CallId::new))
            })
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
        let found = self.store.readers.read("cannot look up waiting calls", |connection| {
            let place = (tenant.as_str(), session.as_str());
            pending_effects::blocking_call(connection, place, call, plan, passed_over)
        });
        Box::pin(async move { found })
    }

    fn latest_completed_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        tool: &str,
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        let found = self.store.readers.read("cannot find the data of earlier calls", |connection| {
            queries::latest_completed_call(connection, tenant, session, tool)
        });
        Box::pin(async move { found })
    }

    fn has_read_foreign(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<bool, LedgerError>> {
        let found = self.store.readers.read("cannot look up what a session has read", |connection| {
            let sql = "SELECT 1 FROM foreign_text WHERE tenant = ?1 AND session = ?2";
            connection.prepare_cached(sql)?.exists(params![tenant.as_str(), session.as_str()])
        });
        Box::pin(async move { found })
    }

    fn resumable_calls(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, LedgerError>> {
        Box::pin(async move {
            self.store.readers.read("cannot list the calls that can be resumed", |connection| {
                let sql = "SELECT id FROM call INDEXED BY call_due WHERE due <= ?1 ORDER BY pos LIMIT ?2";
                let mut statement = connection.prepare_cached(sql)?;
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                let rows = statement.query_map(params![to_i64(now), limit], |row| uuid_from_row(row, 0))?;
                rows.map(|id| id.map(CallId::new)).collect()
            })
        })
    }
}

impl SqliteStore {
    /// Returns a session and its ancestors, from the admin actions that opened them.
    fn lineage(&self, tenant: &TenantId, session: &SessionId) -> Result<Vec<SessionNode>, LedgerError> {
        self.readers.with_connection(|connection| {
            invariants::lineage(session, |session| admin_actions::session_node(connection, tenant, session))
        })?
    }

    /// Handles the usual case in one query, or returns `None`. In that case the call is new and no admin action is unread. Its
    /// session was not opened by an admin action and has no waiting call, and its tool has no standing approval.
    fn lookup_new_call(&self, comer: IncomingCall<'_>) -> Result<Option<SessionContext>, LedgerError> {
        let look = |connection: &Connection| {
            let sql = "SELECT EXISTS(SELECT 1 FROM batch WHERE call = ?1),
                EXISTS(SELECT 1 FROM pending_effect WHERE tenant = ?2 AND session = ?3),
                EXISTS(SELECT 1 FROM standing_approval WHERE tenant = ?2 AND tool IN (?4, '*')),
                EXISTS(SELECT 1 FROM batch WHERE call = ?5),
                (SELECT coalesce(max(pos), 0) FROM batch INDEXED BY batch_admin_action WHERE kind = 1)";
            let IncomingCall { call, tenant, session, tool, .. } = comer;
            let opened = admin_records::record_id(opening_action_id(tenant, session));
            connection.prepare_cached(sql)?.query_row(
                params![call.as_bytes(), tenant.as_str(), session.as_str(), tool, opened.as_bytes()],
                |row| {
                    let is_anything = row.get::<_, bool>(0)? || row.get(1)? || row.get(2)? || row.get(3)?;
                    Ok((is_anything, row.get::<_, i64>(4)?))
                },
            )
        };
        let seen = match self.writer.read_if_idle(look) {
            Some(seen) => seen.map_err(|error| LedgerError::new("cannot read the audit log", error)),
            None => self.readers.read("cannot read the audit log", look),
        };
        let (is_anything, newest_act) = seen?;
        let force = if is_anything { None } else { self.context.action_cache.cached_at(newest_act) };
        Ok(force.map(|force| SessionContext {
            standing_approvals: Vec::new(),
            halt: force.active_halt(comer.tenant).cloned(),
            has_pending_calls: false,
        }))
    }

    pub(super) fn load(&self, call: CallId) -> Result<Option<LoadedRecord>, LedgerError> {
        let rows = self.readers.read("cannot read a record", |connection| load_rows(connection, call))?;
        if rows.is_empty() {
            return Ok(None);
        }
        let record = Record::from_stored_entries(call, &decode_entries(&rows));
        let wrapped = rows.first().and_then(|row| row.key.as_deref());
        let key = wrapped.and_then(|wrapped| self.context.vault.unwrap(call, wrapped));
        Ok(Some(LoadedRecord { record, key }))
    }

    /// Prepares a batch for writing: encodes it, encrypts it, and computes everything that the writer need not compute.
    fn prepare(&self, batch: Batch) -> Result<RecordAppend, AppendError> {
        let cannot = |why: &str| AppendError::Ledger(LedgerError::new("cannot append to a record", why));
        let body = encode(&batch.chained_entries)
            .ok_or_else(|| cannot("there are no entries, or an entry is too long"))?;
        let head = batch
            .chained_entries
            .last()
            .map(|line| line.link())
            .ok_or_else(|| cannot("there are no entries"))?;
        let count =
            u32::try_from(batch.chained_entries.len()).map_err(|_| cannot("there are too many entries"))?;

        let opens = batch.expected_len == 0;
        let key = match batch.key {
            Some(key) => Some(key),
            None if opens => None,
            // A missing record has no key: the caller is ahead of the stored state.
            None => self.record_key(batch.call)?.ok_or(AppendError::Stale)?,
        };
        let (wrapped, contents) = match &key {
            None if opens && !batch.contents.is_empty() => {
                return Err(cannot("the batch has contents but no key"));
            }
            // Contents added to an erased record are dropped at once.
            None => (None, Vec::new()),
            Some(key) => {
                invariants::check_contents(&batch.contents, key)?;
                let unsealable = |error: encryption::VaultError| cannot(&error.to_string());
                let note = ListNote::to_text(&batch.call_summary);
                let packed = encryption::pack(key, batch.call, batch.expected_len, &note, &batch.contents);
                let wrapped = opens.then(|| self.context.vault.wrap(batch.call, key)).transpose();
                (wrapped.map_err(unsealable)?, packed.map_err(unsealable)?)
            }
        };
        if body.len().saturating_add(contents.len()) > APPEND_BYTES_MAX {
            return Err(cannot("the batch is too large"));
        }
        self.remember_key(batch.call, key, batch.is_final);

        let state = match (batch.is_final, &batch.pending_question) {
            (true, _) => CallState::Settled,
            (false, Some(_)) => CallState::Waiting,
            (false, None) => CallState::Open,
        };
        let exclusive = batch.attempt_start.filter(|begins| begins.exclusive);
        let seat = exclusive
            .map(|begins| {
                let owner = attempt_owner(&batch.entries, begins.attempt);
                owner
                    .map(|owner| (begins.attempt, owner))
                    .ok_or_else(|| cannot("the batch begins an attempt without a claim"))
            })
            .transpose()?;
        Ok(RecordAppend {
            expected_len: batch.expected_len,
            prev_link: batch.prev_link,
            count,
            head,
            key: wrapped,
            body,
            contents,
            attempt_start: batch.attempt_start,
            change: ProjectionUpdate {
                call: batch.call,
                is_first: opens,
                call_summary: batch.call_summary,
                pending_question: batch.pending_question,
                exclusive_attempt: seat,
                state,
                index_fields: IndexFields::from_entries(&batch.entries),
            },
        })
    }

    /// Returns the key of a record: `None` without such a record, `Some(None)` if its key can no longer be read.
    fn record_key(&self, call: CallId) -> Result<Option<Option<RecordKey>>, LedgerError> {
        if let Some(key) = self.key_cache.lock().get(&call) {
            return Ok(Some(Some(key.clone())));
        }
        let wrapped = self.wrapped_key(call)?;
        Ok(wrapped.map(|wrapped| wrapped.and_then(|wrapped| self.context.vault.unwrap(call, &wrapped))))
    }

    /// Returns the stored wrapped key of a record: `None` without such a record.
    pub(super) fn wrapped_key(&self, call: CallId) -> Result<Option<Option<Vec<u8>>>, LedgerError> {
        self.readers.read("cannot read the key of a record", |connection| {
            let sql = "SELECT key FROM batch WHERE call = ?1 AND seq = 0";
            let mut statement = connection.prepare_cached(sql)?;
            let found = statement.query_row([call.as_bytes()], |row| row.get::<_, Option<Vec<u8>>>(0));
            found.optional()
        })
    }

    /// Caches the key of a call. A settled call no longer needs its key.
    fn remember_key(&self, call: CallId, key: Option<RecordKey>, settles: bool) {
        let mut keys = self.key_cache.lock();
        match key {
            Some(key) if !settles => {
                keys.put(call, key);
            }
            _ => {
                keys.pop(&call);
            }
        }
    }

    fn content(&self, call: CallId, held: ContentRef) -> Result<Vec<u8>, ContentError> {
        let wrapped = self.wrapped_key(call)?.ok_or(ContentError::Missing)?;
        let Some(wrapped) = wrapped else { return Err(ContentError::Forgotten) };
        if encryption::is_destroyed(&wrapped) {
            return Err(ContentError::Forgotten);
        }
        let key = self.context.vault.unwrap(call, &wrapped).ok_or(ContentError::Corrupted)?;
        let batches = self
            .readers
            .read("cannot read a content", |connection| queries::packed_contents(connection, call))?;
        for (seq, packed) in batches.iter().filter(|(_, packed)| !packed.is_empty()) {
            let unpacked = encryption::unpack(&key, call, *seq, packed)?;
            if let Some(content) = unpacked.contents.into_iter().find(|content| content.content_ref == held) {
                return Ok(content.bytes);
            }
        }
        Err(ContentError::Missing)
    }

    async fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
        by: OwnerId,
    ) -> Result<Interruption, LedgerError> {
        loop {
            let Some(LoadedRecord { mut record, key }) = self.load(call)? else {
                return Ok(Interruption::NotOpen);
            };
            let owner = match record.attempt() {
                Some(Attempt::Open(claim)) if claim.attempt == attempt => claim.owner,
                _ => return Ok(Interruption::NotOpen),
            };
            let _lock = if owner == by {
                None
            } else {
                if self.remote_owner_check.get().is_some_and(|is_alive| is_alive(owner)) {
                    return Ok(Interruption::OwnerAlive);
                }
                let taken = owner_locks::remove_dead_owner(&self.owners_dir, owner)
                    .map_err(|error| LedgerError::new("cannot check the lock of an owner", error))?;
                match taken {
                    Some(lock) => Some(lock),
                    None => return Ok(Interruption::OwnerAlive),
                }
            };
            let (at_len, before) = (record.len(), record.head());
            let entry = Entry { at, event: RecordEvent::Interrupted { attempt } };
            let line = match record.push(entry.clone()) {
                Ok(line) => line,
                Err(misplaced) => return Err(LedgerError::new("cannot interrupt an attempt", misplaced)),
            };
            let batch = Batch {
                call,
                expected_len: at_len,
                prev_link: before,
                chained_entries: vec![line],
                entries: vec![entry],
                contents: Vec::new(),
                key,
                call_summary: self.call_summary(call, &record)?,
                pending_question: None,
                attempt_start: None,
                is_final: false,
            };
            let written = match self.prepare(batch) {
                Ok(append) => self.writer.submit(WriteOp::Append(Box::new(append))).await,
                Err(fault) => Err(fault),
            };
            match written {
                Ok(()) => return Ok(Interruption::Recorded),
                // Another process was faster: the call may no longer be open.
                Err(AppendError::Stale) => {}
                Err(AppendError::Ledger(fault)) => return Err(fault),
                Err(AppendError::StartBlocked(hindrance)) => {
                    return Err(LedgerError::new("cannot interrupt an attempt", hindrance));
                }
            }
        }
    }

    /// Returns the current summary of a call.
    fn call_summary(&self, call: CallId, record: &Record) -> Result<CallSummary, LedgerError> {
        let known = self
            .readers
            .read("cannot look up a call", |connection| queries::call_summary(connection, call))?;
        known
            .or_else(|| call_summary(record, None))
            .ok_or_else(|| LedgerError::new("cannot look up a call", "the record does not begin with a call"))
    }

    /// Records an admin action and applies it. Returns whether nothing is left of what it destroys.
    pub(super) async fn act(&self, act: &AdminAction) -> Result<bool, LedgerError> {
        let line = admin_records::to_chained_entry(act)?;
        let body = encode(std::slice::from_ref(&line))
            .ok_or_else(|| LedgerError::new("cannot write an admin action", "the entry is too long"))?;
        let new = NewAdminAction {
            record_id: admin_records::record_id(act.id),
            head: line.link(),
            body,
            action: act.clone(),
        };
        match self.writer.submit(WriteOp::AdminAction(Box::new(new))).await {
            Ok(()) => {}
            Err(AppendError::Ledger(fault)) => return Err(fault),
            Err(other) => return Err(LedgerError::new("cannot write an admin action", other)),
        }
        match &act.kind {
            AdminActionKind::Forget { call } => {
                self.forget_key(*call);
                self.scrub()
            }
            AdminActionKind::Halt { .. }
            | AdminActionKind::Lift
            | AdminActionKind::Revoke { .. }
            | AdminActionKind::OpenSession(_)
            | AdminActionKind::Waive { .. } => Ok(true),
        }
    }

    /// Truncates the write-ahead log, which still contains old pages. Returns whether that succeeded.
    fn scrub(&self) -> Result<bool, LedgerError> {
        let busy = self.writer.with_connection(|connection| {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        });
        let busy = busy.map_err(|error| {
            LedgerError::new("cannot truncate the write-ahead log of the audit log", error)
        })?;
        if busy != 0 {
            tracing::warn!(
                "the key is destroyed, but another process still reads an old copy of it; run `forget` again later"
            );
        }
        Ok(busy == 0)
    }
}
