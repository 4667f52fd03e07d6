//! Rows of entries, and the functions that read a record from its rows.

use byleave_core::digest::Digest;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::CallId;
use byleave_core::record::Record;
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::schema::KIND_RECORD;
use crate::audit_log::batch_encoding::{EncodedBatch, decode};

/// One row of entries.
pub(super) struct EntryRow {
    pub(super) pos: i64,
    pub(super) call: CallId,
    pub(super) kind: i64,
    pub(super) seq: u32,
    pub(super) count: u32,
    pub(super) head: Digest,
    pub(super) key: Option<Vec<u8>>,
    pub(super) body: Vec<u8>,
}

/// The columns that [`EntryRow::from_row`] reads, in order.
pub(super) const LINE_COLUMNS: &str = "pos, call, kind, seq, count, head, key, body";

impl EntryRow {
    /// Returns its entries in encoded form.
    pub(super) fn encoded_batch(&self) -> EncodedBatch<'_> {
        EncodedBatch { seq: self.seq, count: self.count, head: self.head, body: &self.body }
    }

    pub(super) fn from_row(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            pos: row.get(0)?,
            call: CallId::new(Uuid::from_bytes(row.get(1)?)),
            kind: row.get(2)?,
            seq: row.get(3)?,
            count: row.get(4)?,
            head: Digest::from_bytes(row.get(5)?),
            key: row.get(6)?,
            body: row.get(7)?,
        })
    }
}

/// Reads the rows of a record, in order.
pub(super) fn load_rows(connection: &Connection, call: CallId) -> Result<Vec<EntryRow>, rusqlite::Error> {
    let sql =
        format!("SELECT {LINE_COLUMNS} FROM batch WHERE call = ?1 AND kind = {KIND_RECORD} ORDER BY seq");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([call.as_bytes()], EntryRow::from_row)?;
    rows.collect()
}

/// Decodes all entries of some rows.
pub(super) fn decode_entries(rows: &[EntryRow]) -> Vec<ChainedEntry> {
    let mut lines = Vec::new();
    for row in rows {
        decode(row.encoded_batch(), &mut lines);
    }
    lines
}

/// Reads the record of a call as this connection sees it.
pub(super) fn load_record(connection: &Connection, call: CallId) -> Result<Record, rusqlite::Error> {
    Ok(Record::from_stored_entries(call, &decode_entries(&load_rows(connection, call)?)))
}

/// Reads an id from its sixteen bytes.
pub(super) fn uuid_from_row(row: &Row<'_>, column: usize) -> Result<Uuid, rusqlite::Error> {
    row.get(column).map(Uuid::from_bytes)
}

/// Converts a time or a size for SQLite.
pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a time or a size from SQLite.
pub(super) fn to_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
