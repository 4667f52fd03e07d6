//! The interface of the audit log for readers: lists, records, erasure.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::call::Millis;
use byleave_core::id::{AdminActionId, CallId, TenantId};
use byleave_core::record::Record;
use byleave_gate::audit_log::index_fields::call_summary;
use byleave_gate::audit_log::{
    Anchor, AuditLog, CallFilter, CallItem, Cursor, EraseReport, NewRecords, PageRequest, QuestionFilter,
    QuestionItem, StandingApprovalItem, StoredCall, Verification,
};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::{LedgerError, RecordContent};
use sqlx_core::Error;
use sqlx_postgres::PgConnection;
use uuid::Uuid;

use crate::audit_log::PgAuditLog;
use crate::ingest::IngestError;
use crate::line_rows::{LINE_COLUMNS, LINE_COLUMNS_WITHOUT_CONTENTS, decode_entries};
use crate::sealed_log::{load_record_rows, load_wrapped_key};
use crate::{queries, rebuild, standing_approvals, verify};

impl AuditLog for PgAuditLog {
    fn calls(
        &self,
        filter: CallFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Vec<CallItem>, LedgerError>> {
        Box::pin(async move {
            let listed = queries::list_calls(&self.sealed_log.reader_pool, filter, page).await;
            listed.map_err(|error| LedgerError::new("cannot list the calls", error))
        })
    }

    fn records_since(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<NewRecords, LedgerError>> {
        Box::pin(async move {
            let written = queries::records_since(&self.sealed_log.reader_pool, after, limit).await;
            written.map_err(|error| LedgerError::new("cannot list new entries", error))
        })
    }

    fn questions(
        &self,
        filter: QuestionFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Vec<QuestionItem>, LedgerError>> {
        Box::pin(async move {
            let listed = queries::list_questions(&self.sealed_log.reader_pool, filter, page).await;
            listed.map_err(|error| LedgerError::new("cannot list the questions", error))
        })
    }

    fn record(&self, call: CallId) -> BoxFuture<'_, Result<Option<StoredCall>, LedgerError>> {
        Box::pin(self.kept(call))
    }

    fn contents(&self, call: CallId) -> BoxFuture<'_, Result<Vec<RecordContent>, LedgerError>> {
        Box::pin(self.contents_of(call))
    }

    fn list_standing_approvals(
        &self,
        tenant: &TenantId,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<StandingApprovalItem>, LedgerError>> {
        let tenant = tenant.clone();
        Box::pin(async move {
            standing_approvals::list_standing_approvals(
                &mut *self.sealed_log.acquire_reader().await?,
                &tenant,
                now,
            )
            .await
        })
    }

    fn admin_actions(&self) -> BoxFuture<'_, Result<Vec<AdminAction>, LedgerError>> {
        Box::pin(async move {
            standing_approvals::load_admin_actions(&mut *self.sealed_log.acquire_reader().await?, None).await
        })
    }

    fn verify(&self) -> BoxFuture<'_, Result<Verification, LedgerError>> {
        Box::pin(async move {
            // The anchor is read before the audit log. Otherwise rows that are sealed meanwhile would look like an anchor
            // that is ahead.
            let anchor = self.sealer.read_anchor().await?;
            let mut reader = self.sealed_log.acquire_reader().await?;
            let (unsealer, key) = (&*self.unsealer, self.sealer.public_key());
            let verified = verify::verify(&mut reader, unsealer, &key, anchor).await;
            verified.map_err(|error| LedgerError::new("cannot verify the audit log", error))
        })
    }

    fn forget(
        &self,
        call: CallId,
        by: String,
        at: Millis,
    ) -> BoxFuture<'_, Result<Option<EraseReport>, LedgerError>> {
        Box::pin(self.forget_call(call, by, at))
    }

    fn rebuild(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let rebuilt =
                rebuild::rebuild(&mut *self.sealed_log.acquire_reader().await?, &*self.unsealer).await;
            rebuilt.map_err(|error| LedgerError::new("cannot rebuild the projections", error))
        })
    }

    fn seal(&self) -> BoxFuture<'_, Result<u64, LedgerError>> {
        Box::pin(self.sealer.seal())
    }

    fn anchor(&self) -> BoxFuture<'_, Result<Option<Anchor>, LedgerError>> {
        Box::pin(self.sealer.read_anchor())
    }
}

impl PgAuditLog {
    async fn kept(&self, call: CallId) -> Result<Option<StoredCall>, LedgerError> {
        let mut reader = self.sealed_log.acquire_reader().await?;
        let read = async |connection: &mut PgConnection| -> Result<_, Error> {
            let rows = load_record_rows(connection, call, LINE_COLUMNS_WITHOUT_CONTENTS).await?;
            Ok((
                rows,
                load_wrapped_key(connection, call).await?,
                queries::call_summary(connection, call).await?,
            ))
        };
        let (rows, key, listed) =
            read(&mut reader).await.map_err(|error| LedgerError::new("cannot read a record", error))?;
        if rows.is_empty() {
            return Ok(None);
        }
        let lines = decode_entries(&rows);
        let record = Record::from_stored_entries(call, &lines);
        let listing = listed.or_else(|| call_summary(&record, None));
        Ok(Some(StoredCall {
            record,
            chained_entries: lines,
            call_summary: listing,
            forgotten: key.is_some_and(|(_, forgotten)| forgotten),
        }))
    }

    async fn contents_of(&self, call: CallId) -> Result<Vec<RecordContent>, LedgerError> {
        let mut reader = self.sealed_log.acquire_reader().await?;
        let cannot = |error: Error| LedgerError::new("cannot read contents", error);
        let wrapped = load_wrapped_key(&mut reader, call).await.map_err(cannot)?.and_then(|(key, _)| key);
        let Some(key) = wrapped.and_then(|wrapped| self.unsealer.key(call, &wrapped)) else {
            return Ok(Vec::new());
        };
        let rows = load_record_rows(&mut reader, call, LINE_COLUMNS).await.map_err(cannot)?;
        let mut contents = Vec::new();
        for row in rows.iter().filter(|row| !row.contents.is_empty()) {
            let unpacked = self
                .unsealer
                .contents(&key, call, row.seq, &row.contents)
                .map_err(|fault| LedgerError::new("cannot read contents", fault))?;
            contents.extend(unpacked.contents);
        }
        Ok(contents)
    }

    async fn forget_call(
        &self,
        call: CallId,
        by: String,
        at: Millis,
    ) -> Result<Option<EraseReport>, LedgerError> {
        let Some(kept) = self.kept(call).await? else { return Ok(None) };
        let tenant = match (kept.record.header(), kept.call_summary) {
            (Some(heading), _) => heading.tenant.clone(),
            (None, Some(listing)) => listing.tenant,
            (None, None) => {
                return Err(LedgerError::new(
                    "cannot erase the contents of a call",
                    "the tenant of the call is unknown",
                ));
            }
        };
        let act = AdminAction {
            id: AdminActionId::new(Uuid::now_v7()),
            at,
            tenant,
            actor: by,
            kind: AdminActionKind::Forget { call },
        };
        // The ledger erases first, because it could send contents again that the audit log has erased.
        if let Some(ledger) = &self.ledger {
            ledger.record_admin_action(act.clone()).await?;
        }
        match self.sealed_log.ingest_action(act.clone()).await {
            Ok(()) => {}
            Err(IngestError::Ledger(fault)) => return Err(fault),
            Err(other) => return Err(LedgerError::new("cannot erase the contents of a call", other)),
        }
        // Old row versions stay in the files until they are vacuumed, and longer in the WAL and in backups. The wrapped key
        // is useless without the master key, but it would be wrong to report that it is gone.
        Ok(Some(EraseReport { action: act, key_wiped: false }))
    }
}
