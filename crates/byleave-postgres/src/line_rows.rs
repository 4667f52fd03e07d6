//! Rows of entries, and the functions that read a record back from them.

use byleave_core::digest::Digest;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{CallId, SessionId, TenantId};
use byleave_gate::audit_log::batch_encoding::{EncodedBatch, decode};
use sqlx_core::Error;
use sqlx_core::query::query;
use sqlx_core::row::Row as _;
use sqlx_postgres::{PgConnection, PgRow};
use uuid::Uuid;

/// One row of entries.
#[derive(Clone, Debug)]
pub(crate) struct EntryRow {
    pub(crate) call: CallId,
    pub(crate) seq: u32,
    pub(crate) count: u32,
    pub(crate) kind: i16,
    pub(crate) pos: i64,
    pub(crate) head: Digest,
    pub(crate) body: Vec<u8>,
    pub(crate) contents: Vec<u8>,
}

/// The columns that [`EntryRow::from_row`] reads, in order.
pub(crate) const LINE_COLUMNS: &str =
    "line.call, line.seq, line.count, line.kind, line.pos, line.head, line.body, line.contents";
/// The same columns without the contents, which may be large.
pub(crate) const LINE_COLUMNS_WITHOUT_CONTENTS: &str =
    "line.call, line.seq, line.count, line.kind, line.pos, line.head, line.body, ''::bytea";

/// How many rows are read at once, with contents, during a full scan.
pub(crate) const ROWS_PER_READ: usize = 200;

impl EntryRow {
    pub(crate) fn from_row(row: &PgRow) -> Result<Self, Error> {
        Ok(Self {
            call: CallId::new(row.try_get::<Uuid, _>(0)?),
            seq: to_u32(row.try_get(1)?),
            count: to_u32(row.try_get(2)?),
            kind: row.try_get(3)?,
            pos: row.try_get(4)?,
            head: digest_from_bytes(row.try_get(5)?),
            body: row.try_get(6)?,
            contents: row.try_get(7)?,
        })
    }

    /// Returns its entries in their stored encoding.
    pub(crate) fn encoded_entries(&self) -> EncodedBatch<'_> {
        EncodedBatch { seq: self.seq, count: self.count, head: self.head, body: &self.body }
    }
}

/// Returns all entries of some rows.
pub(crate) fn decode_entries(rows: &[EntryRow]) -> Vec<ChainedEntry> {
    let mut lines = Vec::new();
    for row in rows {
        decode(row.encoded_entries(), &mut lines);
    }
    lines
}

/// Returns the position in the audit log of the row that contains an entry of a record.
pub(crate) fn log_position(rows: &[EntryRow], seq: u32) -> i64 {
    rows.iter().rfind(|row| row.seq <= seq).map_or(i64::MAX, |row| row.pos)
}

/// Returns the rows of some records and admin actions, grouped by call and in order.
pub(crate) async fn load_rows(
    connection: &mut PgConnection,
    calls: &[CallId],
    columns: &str,
) -> Result<Vec<EntryRow>, Error> {
    let ids: Vec<Uuid> = calls.iter().map(CallId::uuid).collect();
    let sql = format!(
        "SELECT {columns} FROM record JOIN line
         ON line.shard = record.shard AND line.month = record.month AND line.call = record.call
         WHERE record.call = ANY($1) ORDER BY line.call, line.seq"
    );
    query(&sql).bind(ids).fetch_all(connection).await?.iter().map(EntryRow::from_row).collect()
}

/// Splits rows where the record changes.
pub(crate) fn group_by_call(rows: &[EntryRow]) -> impl Iterator<Item = &[EntryRow]> {
    rows.chunk_by(|one, next| one.call == next.call)
}

/// Reads a tenant from its column.
pub(crate) fn tenant_from_row(row: &PgRow, column: usize) -> Result<TenantId, Error> {
    TenantId::new(row.try_get::<String, _>(column)?).map_err(|bad| Error::Decode(Box::new(bad)))
}

/// Reads a session from its column.
pub(crate) fn session_from_row(row: &PgRow, column: usize) -> Result<SessionId, Error> {
    SessionId::new(row.try_get::<String, _>(column)?).map_err(|bad| Error::Decode(Box::new(bad)))
}

/// Converts bytes to a digest. Bytes of the wrong length give a digest that matches nothing.
pub(crate) fn digest_from_bytes(bytes: Vec<u8>) -> Digest {
    Digest::from_bytes(<[u8; 32]>::try_from(bytes).unwrap_or([0; 32]))
}

/// Converts a position or a number to the integer type of Postgres.
pub(crate) fn to_i32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Converts a position or a number from Postgres.
pub(crate) fn to_u32(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Converts a time or a size to the integer type of Postgres.
pub(crate) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a time or a size from Postgres.
pub(crate) fn to_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
