//! The book for whoever has no key to it: takes what appends brought, and gives it back sealed as it came.
//!
//! For those who carry records and must not be able to read what they carry. It must never acknowledge what is not committed,
//! and never say that it has a record which it cannot give back.

use byleave::ledger::LedgerError;
use byleave_core::admin_action::AdminAction;
use byleave_core::digest::Digest;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::CallId;
use byleave_core::record::Record;
use sqlx_core::Error;
use sqlx_core::pool::PoolConnection;
use sqlx_core::query::query;
use sqlx_core::row::Row as _;
use sqlx_postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, Postgres};

use crate::batch::WriteOp;
use crate::ingest::{AdminActionRow, Ingest, IngestError, ValidatedIngest};
use crate::line_rows::{EntryRow, LINE_COLUMNS, LINES_ALONE, by_call, lines_of, rows_of, unsigned_long};
use crate::schema::{self, RECORD};
use crate::writer::PgWriter;

/// A book in Postgres, for those who have no key to it.
pub struct SealedAuditLog {
    pub(crate) readers: PgPool,
    writer: PgWriter,
}

/// A record as the book gives it back.
#[derive(Clone, Debug)]
pub struct SealedRecord {
    /// Its lines.
    pub lines: Vec<ChainedEntry>,
    /// Its wrapped key; absent where the contents were forgotten.
    pub key: Option<Vec<u8>>,
    /// What was sealed together, with the place of the lines that it came with.
    pub contents: Vec<(u32, Vec<u8>)>,
}

/// How much of a record the book holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordCompleteness {
    /// All of it, sound, and with the last link that was asked for.
    Whole,
    /// It has so many lines, and they are not what was asked for.
    Otherwise(u32),
}

/// What waits to be a part of the book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// So much waits in this process to be written. None of it is acknowledged.
    pub queued: u64,
    /// So many appends are kept, but those before them have not come: lists do not show them.
    pub early: u64,
    /// For how long the oldest of them has been there.
    pub early_ms: u64,
}

impl SealedAuditLog {
    /// Opens the book; makes its schema and its tables if they are not there.
    pub async fn open(connect: PgConnectOptions, readers_max: u32) -> Result<Self, LedgerError> {
        let connect = schema::by_key(schema::durable(connect));
        let readers = PgPoolOptions::new()
            .min_connections(0)
            .max_connections(readers_max.max(1))
            .connect_with(connect.clone())
            .await
            .map_err(|error| LedgerError::new("cannot reach the book", error))?;
        schema::prepare(&readers).await?;
        Ok(Self { readers, writer: PgWriter::start(connect) })
    }

    /// Takes what an append has brought. What it returns from is committed.
    ///
    /// The same may come again, and what comes early waits for those before it. What contradicts what is there is refused for
    /// good: it must not be cleared where it came from, and someone must look.
    pub async fn take(&self, taking: Ingest) -> Result<(), IngestError> {
        let checked = ValidatedIngest::new(taking)?;
        self.writer.submit(WriteOp::Take(Box::new(checked))).await
    }

    /// Takes an act of an administrator. The same may come again.
    pub async fn take_act(&self, act: AdminAction) -> Result<(), IngestError> {
        self.writer.submit(WriteOp::Act(Box::new(AdminActionRow::new(act)?))).await
    }

    /// How much of these records is there, each with the length and the last link that it should have. What merely came early is not.
    pub async fn holds(
        &self,
        wanted: &[(CallId, u32, Digest)],
    ) -> Result<Vec<RecordCompleteness>, LedgerError> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut reader = self.reader().await?;
        let calls: Vec<CallId> = wanted.iter().map(|(call, ..)| *call).collect();
        let rows = rows_of(&mut reader, &calls, LINES_ALONE)
            .await
            .map_err(|error| LedgerError::new("cannot read records back", error))?;
        let holding = |(call, length, head): &(CallId, u32, Digest)| {
            let rows = by_call(&rows)
                .find(|rows| rows.first().is_some_and(|first| first.call == *call && first.kind == RECORD));
            let lines = rows.map(lines_of).unwrap_or_default();
            let record = Record::read(*call, &lines);
            if record.damage().is_none() && (record.len(), record.head()) == (*length, *head) {
                return RecordCompleteness::Whole;
            }
            RecordCompleteness::Otherwise(u32::try_from(lines.len()).unwrap_or(u32::MAX))
        };
        Ok(wanted.iter().map(holding).collect())
    }

    /// Gives a record back; `None` where there is none.
    pub async fn record(&self, call: CallId) -> Result<Option<SealedRecord>, LedgerError> {
        self.read(call, LINES_ALONE).await
    }

    /// Gives a record back with its contents; `None` where there is none.
    pub async fn record_with_contents(&self, call: CallId) -> Result<Option<SealedRecord>, LedgerError> {
        self.read(call, LINE_COLUMNS).await
    }

    /// What waits to be a part of the book.
    pub async fn backlog(&self) -> Result<Backlog, LedgerError> {
        let mut reader = self.reader().await?;
        let sql = "SELECT count(*),
                coalesce((extract(epoch FROM clock_timestamp() - min(taken_at)) * 1000)::bigint, 0) FROM early";
        let read = async |connection: &mut PgConnection| -> Result<(i64, i64), Error> {
            let row = query(sql).fetch_one(connection).await?;
            Ok((row.try_get(0)?, row.try_get(1)?))
        };
        let (early, early_ms) = read(&mut reader)
            .await
            .map_err(|error| LedgerError::new("cannot tell how far the book is behind", error))?;
        Ok(Backlog {
            queued: self.writer.queued(),
            early: unsigned_long(early),
            early_ms: unsigned_long(early_ms),
        })
    }

    pub(crate) async fn reader(&self) -> Result<PoolConnection<Postgres>, LedgerError> {
        self.readers.acquire().await.map_err(|error| LedgerError::new("cannot reach the book", error))
    }

    async fn read(&self, call: CallId, columns: &str) -> Result<Option<SealedRecord>, LedgerError> {
        let mut reader = self.reader().await?;
        let read = async |connection: &mut PgConnection| -> Result<_, Error> {
            let rows = record_rows(connection, call, columns).await?;
            Ok((rows, key_of(connection, call).await?))
        };
        let (rows, key) =
            read(&mut reader).await.map_err(|error| LedgerError::new("cannot read a record", error))?;
        if rows.is_empty() {
            return Ok(None);
        }
        let lines = lines_of(&rows);
        let key = key.and_then(|(key, _)| key);
        let contents = rows.into_iter().filter(|row| !row.contents.is_empty());
        Ok(Some(SealedRecord { lines, key, contents: contents.map(|row| (row.seq, row.contents)).collect() }))
    }
}

/// The rows of a record, in order.
pub(crate) async fn record_rows(
    connection: &mut PgConnection,
    call: CallId,
    columns: &str,
) -> Result<Vec<EntryRow>, Error> {
    let mut rows = rows_of(connection, &[call], columns).await?;
    rows.retain(|row| row.kind == RECORD);
    Ok(rows)
}

/// The wrapped key of a record, and whether it was forgotten; `None` where there is no such record.
pub(crate) async fn key_of(
    connection: &mut PgConnection,
    call: CallId,
) -> Result<Option<(Option<Vec<u8>>, bool)>, Error> {
    let row = query("SELECT key, forgotten FROM record WHERE call = $1")
        .bind(call.uuid())
        .fetch_optional(connection)
        .await?;
    row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
}
