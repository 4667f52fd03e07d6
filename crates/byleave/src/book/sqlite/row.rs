//! How lines are laid out in a row, and how a record is read back from its rows.
//!
//! Reading never hides anything: what is not laid out as it was written becomes a line that does not fit its link, so
//! that the record is broken at that very place.

use byleave_core::chain::Line;
use byleave_core::digest::Digest;
use byleave_core::id::CallId;
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::schema::RECORD;

/// Lays the lines of one append out: each body after its length, and after each but the last its link.
///
/// The link of the last line is the row's head, which stands in a column of its own.
pub(super) fn frame(lines: &[Line]) -> Option<Vec<u8>> {
    let size = lines.iter().map(|line| line.body().len() + 36).sum();
    let mut body = Vec::with_capacity(size);
    let last = lines.len().checked_sub(1)?;
    for (place, line) in lines.iter().enumerate() {
        body.extend_from_slice(&u32::try_from(line.body().len()).ok()?.to_le_bytes());
        body.extend_from_slice(line.body().as_bytes());
        if place < last {
            body.extend_from_slice(line.link().as_bytes());
        }
    }
    Some(body)
}

/// Reads the lines of one row back into `lines`. What cannot be read becomes a line that fits no link.
pub(super) fn unframe(row: &LineRow, lines: &mut Vec<Line>) {
    let mut rest = row.body.as_slice();
    for place in 0..row.count {
        let seq = row.seq.saturating_add(place);
        let is_last = place + 1 == row.count;
        let line = take_line(&mut rest, seq, is_last.then_some(row.head));
        // Bytes after the last line are bytes that nobody wrote.
        let line = line.filter(|_| !is_last || rest.is_empty());
        let Some(line) = line else {
            lines.push(unreadable(seq));
            return;
        };
        lines.push(line);
    }
    if row.count == 0 {
        lines.push(unreadable(row.seq));
    }
}

fn take_line(rest: &mut &[u8], seq: u32, head: Option<Digest>) -> Option<Line> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (body, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let (link, after) = match head {
        Some(head) => (head, after),
        None => {
            let (link, after) = after.split_first_chunk::<32>()?;
            (Digest::from_bytes(*link), after)
        }
    };
    *rest = after;
    Some(Line::found(seq, std::str::from_utf8(body).ok()?.to_owned(), link))
}

/// A line whose link fits nothing.
fn unreadable(seq: u32) -> Line {
    Line::found(seq, String::new(), Digest::from_bytes([0; 32]))
}

/// One row of lines.
pub(super) struct LineRow {
    pub(super) pos: i64,
    pub(super) call: CallId,
    pub(super) kind: i64,
    pub(super) seq: u32,
    pub(super) count: u32,
    pub(super) head: Digest,
    pub(super) key: Option<Vec<u8>>,
    pub(super) body: Vec<u8>,
}

/// The columns that [`LineRow::read`] reads, in order.
pub(super) const LINE_COLUMNS: &str = "pos, call, kind, seq, count, head, key, body";

impl LineRow {
    pub(super) fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
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

/// The rows of a record, in order.
pub(super) fn rows_of(connection: &Connection, call: CallId) -> Result<Vec<LineRow>, rusqlite::Error> {
    let sql = format!("SELECT {LINE_COLUMNS} FROM line WHERE call = ?1 AND kind = {RECORD} ORDER BY seq");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([call.as_bytes()], LineRow::read)?;
    rows.collect()
}

/// All lines of some rows.
pub(super) fn lines_of(rows: &[LineRow]) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in rows {
        unframe(row, &mut lines);
    }
    lines
}

/// An id from its sixteen bytes.
pub(super) fn id_at(row: &Row<'_>, column: usize) -> Result<Uuid, rusqlite::Error> {
    row.get(column).map(Uuid::from_bytes)
}

/// A time or a size as SQLite has them.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A time or a size from SQLite.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
