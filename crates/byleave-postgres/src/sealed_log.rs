//! The audit log for processes without a key: accepts appends and returns them sealed as they came.
//!
//! It is for processes that carry records and must not be able to read them. It must never acknowledge an append that is not
//! committed. It must never claim to have a record that it cannot return.

use byleave_core::admin_action::AdminAction;
use byleave_core::digest::Digest;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::CallId;
use byleave_core::record::Record;
use byleave_gate::ledger::LedgerError;
use sqlx_core::Error;
use sqlx_core::pool::PoolConnection;
use sqlx_core::query::query;
use sqlx_core::row::Row as _;
use sqlx_postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, Postgres};

use crate::batch::WriteOp;
use crate::ingest::{AdminActionRow, Ingest, IngestError, ValidatedIngest};
use crate::line_rows::{
    EntryRow, LINE_COLUMNS, LINE_COLUMNS_WITHOUT_CONTENTS, decode_entries, group_by_call, load_rows, to_u64,
};
use crate::schema::{self, KIND_RECORD};
use crate::writer::PgWriter;

/// An audit log in Postgres, for processes that have no key to it.
pub struct SealedAuditLog {
    pub(crate) reader_pool: PgPool,
    writer: PgWriter,
}

/// A record as the audit log returns it.
#[derive(Clone, Debug)]
pub struct SealedRecord {
    /// Its entries.
    pub chained_entries: Vec<ChainedEntry>,
    /// Its wrapped key; `None` if the contents were erased.
    pub wrapped_key: Option<Vec<u8>>,
    /// The sealed contents, each with the position of the entries that it came with.
    pub sealed_contents: Vec<(u32, Vec<u8>)>,
}

/// How much of a record the audit log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordCompleteness {
    /// The whole record, valid, and with the expected last chain digest.
    Complete,
    /// A record with this many entries, which are not the expected ones.
    Mismatch(u32),
}

/// Appends that are not yet part of the audit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The number of operations in this process that wait to be written. None of them is acknowledged.
    pub queued_writes: u64,
    /// The number of appends that are stored but whose predecessors have not arrived. Lists do not show them.
    pub out_of_order: u64,
    /// The age of the oldest of them.
    pub oldest_out_of_order_ms: u64,
}

impl SealedAuditLog {
    /// Opens the audit log and creates its schema and tables if they are missing.
    pub async fn open(connect: PgConnectOptions, readers_max: u32) -> Result<Self, LedgerError> {
        let connect = schema::with_index_scans(schema::with_durable_commits(connect));
        let readers = PgPoolOptions::new()
            .min_connections(0)
            .max_connections(readers_max.max(1))
            .connect_with(connect.clone())
            .await
            .map_err(|error| LedgerError::new("cannot reach the audit log", error))?;
        schema::create_tables(&readers).await?;
        Ok(Self { reader_pool: readers, writer: PgWriter::start(connect) })
    }

    /// Accepts one append. It is committed when this returns.
    ///
    /// The same append may arrive more than once, and an early one waits for its predecessors. An append that contradicts the
    /// stored entries is rejected permanently. Its sender must not clear it, and a person must investigate.
    pub async fn ingest(&self, taking: Ingest) -> Result<(), IngestError> {
        let checked = ValidatedIngest::new(taking)?;
        self.writer.submit(WriteOp::Ingest(Box::new(checked))).await
    }

    /// Accepts an admin action. The same action may arrive more than once.
    pub async fn ingest_action(&self, act: AdminAction) -> Result<(), IngestError> {
        self.writer.submit(WriteOp::AdminAction(Box::new(AdminActionRow::new(act)?))).await
    }

    /// Returns how much of these records is stored, given the expected length and last chain digest of each. Appends that
    /// arrived early are not included.
    pub async fn check_completeness(
        &self,
        wanted: &[(CallId, u32, Digest)],
    ) -> Result<Vec<RecordCompleteness>, LedgerError> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut reader = self.acquire_reader().await?;
        let calls: Vec<CallId> = wanted.iter().map(|(call, ..)| *call).collect();
        let rows = load_rows(&mut reader, &calls, LINE_COLUMNS_WITHOUT_CONTENTS)
            .await
            .map_err(|error| LedgerError::new("cannot read records", error))?;
        let holding = |(call, length, head): &(CallId, u32, Digest)| {
            let rows = group_by_call(&rows).find(|rows| {
                rows.first().is_some_and(|first| first.call == *call && first.kind == KIND_RECORD)
            });
            let lines = rows.map(decode_entries).unwrap_or_default();
            let record = Record::from_stored_entries(*call, &lines);
            if record.damage().is_none() && (record.len(), record.head()) == (*length, *head) {
                return RecordCompleteness::Complete;
            }
            RecordCompleteness::Mismatch(u32::try_from(lines.len()).unwrap_or(u32::MAX))
        };
        Ok(wanted.iter().map(holding).collect())
    }

    /// Returns a record without its contents; `None` if there is no such record.
    pub async fn load_record(&self, call: CallId) -> Result<Option<SealedRecord>, LedgerError> {
        self.read(call, LINE_COLUMNS_WITHOUT_CONTENTS).await
    }

    /// Returns a record with its contents; `None` if there is no such record.
    pub async fn load_record_with_contents(&self, call: CallId) -> Result<Option<SealedRecord>, LedgerError> {
        self.read(call, LINE_COLUMNS).await
    }

    /// Returns the appends that are not yet part of the audit log.
    pub async fn backlog(&self) -> Result<Backlog, LedgerError> {
        let mut reader = self.acquire_reader().await?;
        let sql = "SELECT count(*),
                coalesce((extract(epoch FROM clock_timestamp() - min(taken_at)) * 1000)::bigint, 0) FROM early";
        let read = async |connection: &mut PgConnection| -> Result<(i64, i64), Error> {
            let row = query(sql).fetch_one(connection).await?;
            Ok((row.try_get(0)?, row.try_get(1)?))
        };
        let (early, early_ms) = read(&mut reader)
            .await
            .map_err(|error| LedgerError::new("cannot read the backlog of the audit log", error))?;
        Ok(Backlog {
            queued_writes: self.writer.queued(),
            out_of_order: to_u64(early),
            oldest_out_of_order_ms: to_u64(early_ms),
        })
    }

    pub(crate) async fn acquire_reader(&self) -> Result<PoolConnection<Postgres>, LedgerError> {
        self.reader_pool
            .acquire()
            .await
            .map_err(|error| LedgerError::new("cannot reach the audit log", error))
    }

    async fn read(&self, call: CallId, columns: &str) -> Result<Option<SealedRecord>, LedgerError> {
        let mut reader = self.acquire_reader().await?;
        let read = async |connection: &mut PgConnection| -> Result<_, Error> {
            let rows = load_record_rows(connection, call, columns).await?;
            Ok((rows, load_wrapped_key(connection, call).await?))
        };
        let (rows, key) =
            read(&mut reader).await.map_err(|error| LedgerError::new("cannot read a record", error))?;
        if rows.is_empty() {
            return Ok(None);
        }
        let lines = decode_entries(&rows);
        let key = key.and_then(|(key, _)| key);
        let contents = rows.into_iter().filter(|row| !row.contents.is_empty());
        Ok(Some(SealedRecord {
            chained_entries: lines,
            wrapped_key: key,
            sealed_contents: contents.map(|row| (row.seq, row.contents)).collect(),
        }))
    }
}

/// Returns the rows of a record, in order.
pub(crate) async fn load_record_rows(
    connection: &mut PgConnection,
    call: CallId,
    columns: &str,
) -> Result<Vec<EntryRow>, Error> {
    let mut rows = load_rows(connection, &[call], columns).await?;
    rows.retain(|row| row.kind == KIND_RECORD);
    Ok(rows)
}

/// Returns the wrapped key of a record, and whether it was erased; `None` if there is no such record.
pub(crate) async fn load_wrapped_key(
    connection: &mut PgConnection,
    call: CallId,
) -> Result<Option<(Option<Vec<u8>>, bool)>, Error> {
    let row = query("SELECT key, forgotten FROM record WHERE call = $1")
        .bind(call.uuid())
        .fetch_optional(connection)
        .await?;
    row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
}
