//! Implements the audit log on the store: lists, verification and erasure.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::call::Millis;
use byleave_core::id::{AdminActionId, CallId, TenantId};
use byleave_core::record::Record;
use uuid::Uuid;

use super::row::{decode_entries, load_rows};
use super::write_op::WriteOp;
use super::{SqliteLedger, SqliteStore, admin_actions, queries, schema, verify};
use crate::audit_log::encryption;
use crate::audit_log::index_fields::call_summary;
use crate::audit_log::{
    Anchor, AuditLog, CallFilter, CallItem, Cursor, EraseReport, NewRecords, PageRequest, QuestionFilter,
    QuestionItem, StandingApprovalItem, StoredCall, Verification,
};
use crate::boxed::BoxFuture;
use crate::ledger::{AppendError, LedgerError, RecordContent};

impl AuditLog for SqliteLedger {
    fn calls(
        &self,
        filter: CallFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Vec<CallItem>, LedgerError>> {
        Box::pin(async move {
            self.store
                .readers
                .read("cannot list the calls", |connection| queries::list_calls(connection, &filter, page))
        })
    }

    fn records_since(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<NewRecords, LedgerError>> {
        Box::pin(async move {
            self.store.readers.read("cannot list new entries", |connection| {
                queries::records_since(connection, after, limit)
            })
        })
    }

    fn questions(
        &self,
        filter: QuestionFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Vec<QuestionItem>, LedgerError>> {
        Box::pin(async move {
            self.store.readers.read("cannot list the questions", |connection| {
                queries::list_questions(connection, &filter, page)
            })
        })
    }

    fn record(&self, call: CallId) -> BoxFuture<'_, Result<Option<StoredCall>, LedgerError>> {
        Box::pin(async move { self.store.stored_call(call) })
    }

    fn contents(&self, call: CallId) -> BoxFuture<'_, Result<Vec<RecordContent>, LedgerError>> {
        Box::pin(async move { self.store.contents(call) })
    }

    fn list_standing_approvals(
        &self,
        tenant: &TenantId,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<StandingApprovalItem>, LedgerError>> {
        let tenant = tenant.clone();
        Box::pin(async move {
            self.store.readers.with_connection(|connection| {
                let bench = &self.store.context;
                let force = bench.action_cache.refresh(connection)?;
                let listed = bench.approval_cache.list_all(connection, &force, &tenant, now);
                listed.map_err(|error| LedgerError::new("cannot list the standing approvals", error))
            })?
        })
    }

    fn admin_actions(&self) -> BoxFuture<'_, Result<Vec<AdminAction>, LedgerError>> {
        Box::pin(async move {
            let rows =
                self.store.readers.read("cannot read the admin actions", admin_actions::all_action_rows)?;
            let read = |row| {
                admin_actions::read_action(row)
                    .map_err(|why| LedgerError::new("an admin action is damaged", why))
            };
            rows.iter().map(read).collect()
        })
    }

    fn verify(&self) -> BoxFuture<'_, Result<Verification, LedgerError>> {
        Box::pin(async move { self.store.verify() })
    }

    fn forget(
        &self,
        call: CallId,
        by: String,
        at: Millis,
    ) -> BoxFuture<'_, Result<Option<EraseReport>, LedgerError>> {
        Box::pin(async move {
            let Some(kept) = self.store.stored_call(call)? else { return Ok(None) };
            let tenant = match (kept.record.header(), kept.call_summary) {
                (Some(heading), _) => heading.tenant.clone(),
                (None, Some(listing)) => listing.tenant,
                (None, None) => {
                    return Err(LedgerError::new("cannot forget a call", "its tenant is not known"));
                }
            };
            let act = AdminAction {
                id: AdminActionId::new(Uuid::now_v7()),
                at,
                tenant,
                actor: by,
                kind: AdminActionKind::Forget { call },
            };
            let scrubbed = self.store.act(&act).await?;
            Ok(Some(EraseReport { action: act, key_wiped: scrubbed }))
        })
    }

    fn rebuild(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            match self.store.writer.submit(WriteOp::Rebuild).await {
                Ok(()) => Ok(()),
                Err(AppendError::Ledger(fault)) => Err(fault),
                Err(other) => Err(LedgerError::new("cannot rebuild the projections", other)),
            }
        })
    }

    fn seal(&self) -> BoxFuture<'_, Result<u64, LedgerError>> {
        Box::pin(async move { self.store.sealer.seal(&self.store.readers, &self.store.writer) })
    }

    fn anchor(&self) -> BoxFuture<'_, Result<Option<Anchor>, LedgerError>> {
        Box::pin(async move { self.store.sealer.anchor() })
    }
}

impl SqliteStore {
    fn stored_call(&self, call: CallId) -> Result<Option<StoredCall>, LedgerError> {
        let rows = self.readers.read("cannot read a record", |connection| load_rows(connection, call))?;
        let Some(first) = rows.first() else { return Ok(None) };
        let lines = decode_entries(&rows);
        let record = Record::from_stored_entries(call, &lines);
        let forgotten = first.key.as_deref().is_some_and(encryption::is_destroyed);
        let listed = self
            .readers
            .read("cannot look up a call", |connection| queries::call_summary(connection, call))?;
        let listing = listed.or_else(|| call_summary(&record, None));
        Ok(Some(StoredCall { record, chained_entries: lines, call_summary: listing, forgotten }))
    }

    fn contents(&self, call: CallId) -> Result<Vec<RecordContent>, LedgerError> {
        let key =
            self.wrapped_key(call)?.flatten().and_then(|wrapped| self.context.vault.unwrap(call, &wrapped));
        let Some(key) = key else { return Ok(Vec::new()) };
        let batches = self
            .readers
            .read("cannot read contents", |connection| queries::packed_contents(connection, call))?;
        let mut contents = Vec::new();
        for (seq, packed) in batches.iter().filter(|(_, packed)| !packed.is_empty()) {
            let unpacked = encryption::unpack(&key, call, *seq, packed)
                .map_err(|fault| LedgerError::new("cannot read contents", fault))?;
            contents.extend(unpacked.contents);
        }
        Ok(contents)
    }

    /// Verifies with a new connection, so that no cache of this process affects the result.
    fn verify(&self) -> Result<Verification, LedgerError> {
        let cannot = |error| LedgerError::new("cannot verify the audit log", error);
        let connection = schema::connect_reader(&self.path, self.busy_timeout).map_err(cannot)?;
        let key = self.sealer.public_key();
        // Read before the entries: a concurrent seal must not make the anchor look newer than the audit log.
        let anchor = self.sealer.anchor()?;
        verify::verify(&connection, &self.context.vault, &key, anchor).map_err(cannot)
    }
}
