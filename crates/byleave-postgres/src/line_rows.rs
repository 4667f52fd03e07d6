//! Rows of lines, and how a record is read back from them.

use byleave::audit_log::batch_encoding::{EncodedBatch, unframe};
use byleave_core::digest::Digest;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{CallId, SessionId, TenantId};
use sqlx_core::Error;
use sqlx_core::query::query;
use sqlx_core::row::Row as _;
use sqlx_postgres::{PgConnection, PgRow};
use uuid::Uuid;

/// One row of lines.
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

/// The columns that [`LineRow::read`] reads, in order.
pub(crate) const LINE_COLUMNS: &str =
    "line.call, line.seq, line.count, line.kind, line.pos, line.head, line.body, line.contents";
/// The same without the contents, which may be large.
pub(crate) const LINES_ALONE: &str =
    "line.call, line.seq, line.count, line.kind, line.pos, line.head, line.body, ''::bytea";

/// So many of them are read at once, with their contents, by whoever goes over all of them.
pub(crate) const AT_ONCE: usize = 200;

impl EntryRow {
    pub(crate) fn read(row: &PgRow) -> Result<Self, Error> {
        Ok(Self {
            call: CallId::new(row.try_get::<Uuid, _>(0)?),
            seq: unsigned(row.try_get(1)?),
            count: unsigned(row.try_get(2)?),
            kind: row.try_get(3)?,
            pos: row.try_get(4)?,
            head: digest(row.try_get(5)?),
            body: row.try_get(6)?,
            contents: row.try_get(7)?,
        })
    }

    /// Its lines, as they lie in it.
    pub(crate) fn framed(&self) -> EncodedBatch<'_> {
        EncodedBatch { seq: self.seq, count: self.count, head: self.head, body: &self.body }
    }
}

/// All lines of some rows.
pub(crate) fn lines_of(rows: &[EntryRow]) -> Vec<ChainedEntry> {
    let mut lines = Vec::new();
    for row in rows {
        unframe(row.framed(), &mut lines);
    }
    lines
}

/// The place in the book of the row that a line of a record stands in.
pub(crate) fn place_of(rows: &[EntryRow], seq: u32) -> i64 {
    rows.iter().rfind(|row| row.seq <= seq).map_or(i64::MAX, |row| row.pos)
}

/// The rows of some records and acts, each one's together and in order.
pub(crate) async fn rows_of(
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
    query(&sql).bind(ids).fetch_all(connection).await?.iter().map(EntryRow::read).collect()
}

/// Rows cut where the record changes.
pub(crate) fn by_call(rows: &[EntryRow]) -> impl Iterator<Item = &[EntryRow]> {
    rows.chunk_by(|one, next| one.call == next.call)
}

/// A tenant from its column.
pub(crate) fn tenant(row: &PgRow, column: usize) -> Result<TenantId, Error> {
    TenantId::new(row.try_get::<String, _>(column)?).map_err(|bad| Error::Decode(Box::new(bad)))
}

/// A session from its column.
pub(crate) fn session(row: &PgRow, column: usize) -> Result<SessionId, Error> {
    SessionId::new(row.try_get::<String, _>(column)?).map_err(|bad| Error::Decode(Box::new(bad)))
}

/// A digest from its bytes. What is none fits nothing.
pub(crate) fn digest(bytes: Vec<u8>) -> Digest {
    Digest::from_bytes(<[u8; 32]>::try_from(bytes).unwrap_or([0; 32]))
}

/// A place or a count as Postgres has them.
pub(crate) fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A place or a count from Postgres.
pub(crate) fn unsigned(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// A time or a size as Postgres has them.
pub(crate) fn signed_long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A time or a size from Postgres.
pub(crate) fn unsigned_long(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
