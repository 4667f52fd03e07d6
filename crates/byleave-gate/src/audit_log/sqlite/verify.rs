//! Verifies every entry, every readable content, every segment and the anchor.
//!
//! It reads the entries themselves and must never rely on an index or a projection, which could omit rows.

use std::collections::HashSet;

use byleave_core::admin_action::AdminActionKind;
use byleave_core::digest::{Digest, RecordKey};
use byleave_core::id::{AdminActionId, CallId};
use byleave_core::record::Record;
use ed25519_dalek::VerifyingKey;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::admin_actions;
use super::row::{EntryRow, LINE_COLUMNS, decode_entries, to_u64};
use super::schema::{KIND_ADMIN_ACTION, KIND_RECORD};
use super::seal;
use crate::audit_log::approval_usage::{self, ApprovalEvent, ApprovalUsage};
use crate::audit_log::encryption::{self, KeyVault};
use crate::audit_log::segment::{OLDER_THAN_ANCHOR, SegmentBody, has_valid_signature, hex, segment_digest};
use crate::audit_log::{Anchor, IntegrityError, LogPosition, Verification};

/// Verifies the whole audit log in one snapshot of a connection.
pub(super) fn verify(
    connection: &Connection,
    vault: &KeyVault,
    key: &VerifyingKey,
    anchor: Option<Anchor>,
) -> Result<Verification, rusqlite::Error> {
    let moment = connection.unchecked_transaction()?;
    let found = Verification::default();
    let mut check = LogVerifier {
        connection,
        vault,
        key,
        report: found,
        approval_usage: ApprovalUsage::default(),
        first_error: None,
    };
    match check.check_all(anchor.as_ref()) {
        Ok(()) => {}
        // Byleave did not write data that SQLite itself cannot read.
        Err(error) if is_damage(&error) => check.add_error(0, LogPosition::File, error.to_string()),
        Err(error) => return Err(error),
    }
    moment.finish()?;
    let LogVerifier { report: mut found, first_error: first, .. } = check;
    found.anchor = anchor;
    found.integrity_error = first.map(|(_, flaw)| flaw);
    Ok(found)
}

/// The position of an error that is reported only if the audit log itself has no other error.
const POS_LAST: i64 = i64::MAX;

struct LogVerifier<'a> {
    connection: &'a Connection,
    vault: &'a KeyVault,
    key: &'a VerifyingKey,
    report: Verification,
    approval_usage: ApprovalUsage,
    /// The first error by its position in the audit log.
    first_error: Option<(i64, IntegrityError)>,
}

impl LogVerifier<'_> {
    fn check_all(&mut self, anchor: Option<&Anchor>) -> Result<(), rusqlite::Error> {
        let forgotten = self.check_actions()?;
        self.check_records(&forgotten)?;
        if let Some((place, why)) = self.approval_usage.find_overused() {
            self.add_error(POS_LAST, place, why);
        }
        let sealed_until = self.check_segments()?;
        self.count_unsealed(sealed_until)?;
        if let Some(anchor) = anchor {
            self.check_anchor(anchor)?;
        }
        Ok(())
    }

    fn add_error(&mut self, pos: i64, place: LogPosition, why: impl Into<String>) {
        if self.first_error.as_ref().is_none_or(|(first, _)| pos < *first) {
            self.first_error = Some((pos, IntegrityError { position: place, reason: why.into() }));
        }
    }

    /// Checks the admin actions, and returns the calls that were erased.
    fn check_actions(&mut self) -> Result<HashSet<CallId>, rusqlite::Error> {
        let sql = format!(
            "SELECT {LINE_COLUMNS} FROM batch NOT INDEXED WHERE kind = {KIND_ADMIN_ACTION} ORDER BY pos"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        let mut forgotten = HashSet::new();
        while let Some(row) = rows.next()? {
            let row = EntryRow::from_row(row)?;
            self.report.admin_actions += 1;
            match admin_actions::read_action(&row) {
                Ok(act) => {
                    if let AdminActionKind::Forget { call } = act.kind {
                        forgotten.insert(call);
                    }
                }
                Err(why) => self.add_error(
                    row.pos,
                    LogPosition::AdminAction { action: AdminActionId::new(row.call.uuid()) },
                    why,
                ),
            }
        }
        Ok(forgotten)
    }

    /// Checks every record: its entries from the first to the last, its key and its contents.
    fn check_records(&mut self, forgotten: &HashSet<CallId>) -> Result<(), rusqlite::Error> {
        let sql = format!(
            "SELECT call, pos FROM batch NOT INDEXED WHERE kind <> {KIND_ADMIN_ACTION} ORDER BY call, seq, pos"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let mut places = statement.query([])?;
        let mut rows: Vec<EntryRow> = Vec::new();
        while let Some(place) = places.next()? {
            let row = self.load_row(place.get(1)?)?;
            if rows.first().is_some_and(|first| first.call != row.call) {
                self.check_record(&rows, forgotten)?;
                rows.clear();
            }
            rows.push(row);
        }
        self.check_record(&rows, forgotten)
    }

    fn load_row(&self, pos: i64) -> Result<EntryRow, rusqlite::Error> {
        let sql = format!("SELECT {LINE_COLUMNS} FROM batch WHERE pos = ?1");
        self.connection.prepare_cached(&sql)?.query_row([pos], EntryRow::from_row)
    }

    fn check_record(
        &mut self,
        rows: &[EntryRow],
        forgotten: &HashSet<CallId>,
    ) -> Result<(), rusqlite::Error> {
        let Some(first) = rows.first() else { return Ok(()) };
        let call = first.call;
        let lines = decode_entries(rows);
        self.report.records += 1;
        self.report.entries += lines.len() as u64;
        if let Some(row) = rows.iter().find(|row| row.kind != KIND_RECORD) {
            self.add_error(
                row.pos,
                LogPosition::Entry { call, seq: row.seq },
                "the entry is neither part of a record nor an admin action",
            );
        }
        let record = Record::from_stored_entries(call, &lines);
        if let Some(damage) = record.damage() {
            let seq = damage.seq();
            let row = rows.iter().rev().find(|row| row.seq <= seq).unwrap_or(first);
            self.add_error(row.pos, LogPosition::Entry { call, seq }, damage.to_string());
        }
        for row in rows.iter().skip(1).filter(|row| row.key.is_some()) {
            self.add_error(
                row.pos,
                LogPosition::Key { call },
                "only the first entry of a record may have a key",
            );
        }
        let key = self.check_key(first, forgotten.contains(&call));
        self.check_contents(rows, key.as_ref(), first.key.is_some())?;
        self.check_approvals(&record, rows)
    }

    fn check_key(&mut self, first: &EntryRow, forgotten: bool) -> Option<RecordKey> {
        let call = first.call;
        let wrapped = first.key.as_deref()?;
        match (encryption::is_destroyed(wrapped), forgotten) {
            (true, true) => return None,
            (true, false) => {
                // The admin action for it may itself be missing or damaged. That error must be reported first.
                self.add_error(
                    POS_LAST,
                    LogPosition::Key { call },
                    "the key was destroyed, but no admin action says so",
                );
                return None;
            }
            (false, true) => self.add_error(
                first.pos,
                LogPosition::Key { call },
                "the call was forgotten, but its key still exists",
            ),
            (false, false) => {}
        }
        let key = self.vault.unwrap(call, wrapped);
        if key.is_none() {
            self.add_error(first.pos, LogPosition::Key { call }, "the key was changed");
        }
        key
    }

    fn check_contents(
        &mut self,
        rows: &[EntryRow],
        key: Option<&RecordKey>,
        had_key: bool,
    ) -> Result<(), rusqlite::Error> {
        for row in rows {
            let sql = "SELECT contents FROM batch WHERE pos = ?1";
            let packed: Vec<u8> =
                self.connection.prepare_cached(sql)?.query_row([row.pos], |found| found.get(0))?;
            let place = LogPosition::Content { call: row.call, seq: row.seq };
            match key {
                // The error for a destroyed or damaged key was already reported.
                None if had_key || packed.is_empty() => {}
                None => self.add_error(row.pos, place, "the key of the contents is missing"),
                Some(key) if encryption::unpack(key, row.call, row.seq, &packed).is_ok() => {}
                Some(_) => self.add_error(row.pos, place, "the contents were changed"),
            }
        }
        Ok(())
    }

    /// Checks the index of standing approvals. A use missing there could be repeated, and an approval missing there renewed.
    fn check_approvals(&mut self, record: &Record, rows: &[EntryRow]) -> Result<(), rusqlite::Error> {
        let call = record.call();
        self.approval_usage.add_record(record, |seq| {
            rows.iter().rfind(|row| row.seq <= seq).map_or(i64::MAX, |row| row.pos)
        });
        for (seq, moved) in approval_usage::approval_events(record) {
            let (what, id, sql, third) = match moved {
                ApprovalEvent::Granted(leave) => {
                    let sql = "SELECT 1 FROM standing_approval WHERE id = ?1 AND call = ?2 AND tool = ?3";
                    ("grant", leave.id, sql, Value::from(leave.tool.clone()))
                }
                ApprovalEvent::Used(leave, attempt) => {
                    let sql = "SELECT 1 FROM standing_approval_use WHERE approval = ?1 AND call = ?2 AND attempt = ?3";
                    ("use", leave, sql, Value::from(attempt.as_bytes().to_vec()))
                }
            };
            if !self.connection.prepare_cached(sql)?.exists(params![id.as_bytes(), call.as_bytes(), third])? {
                let why = format!(
                    "the {what} of standing approval {id} is not in the index; rebuild the projections"
                );
                self.add_error(POS_LAST, LogPosition::Entry { call, seq }, why);
            }
        }
        Ok(())
    }

    /// Checks the segments and the rows they sealed. Returns the position after the last sealed row.
    fn check_segments(&mut self) -> Result<i64, rusqlite::Error> {
        let mut statement =
            self.connection.prepare("SELECT number, body, signature FROM segment ORDER BY number")?;
        let mut rows = statement.query([])?;
        let (mut number, mut before, mut place) = (1_u64, Digest::from_bytes([0; 32]), 1_i64);
        while let Some(row) = rows.next()? {
            let segment = seal::read_segment(row)?;
            self.report.segments += 1;
            if segment.number != number {
                self.add_error(place, LogPosition::Segment { number }, "the segment is missing");
                number = segment.number;
            }
            let here = LogPosition::Segment { number };
            let digest = segment_digest(&segment.body);
            let signed = has_valid_signature(self.key, &segment.body, &segment.signature);
            match SegmentBody::parse(&segment.body).filter(|_| signed) {
                None => self.add_error(place, here, "the signature is not valid"),
                Some(seal) if (seal.number, seal.prev_digest, seal.first_pos) != (number, before, place) => {
                    self.add_error(place, here, "the segment does not follow the previous one");
                    place = seal.end_pos();
                }
                Some(seal) => {
                    self.check_sealed_rows(&seal)?;
                    place = seal.end_pos();
                }
            }
            before = digest;
            number = number.saturating_add(1);
        }
        Ok(place)
    }

    fn check_sealed_rows(&mut self, seal: &SegmentBody) -> Result<(), rusqlite::Error> {
        let sql = "SELECT call, seq, count, head FROM batch WHERE pos = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        for (pos, sealed) in (seal.first_pos..).zip(&seal.rows) {
            let found = statement.query_row([pos], seal::sealed_row_from).optional()?;
            if found.as_ref() == Some(sealed) {
                continue;
            }
            let why = match found {
                None => format!("the entry that segment {} sealed is missing", seal.number),
                Some(_) => format!("the entry differs from the one that segment {} sealed", seal.number),
            };
            self.add_error(pos, LogPosition::Entry { call: sealed.call, seq: sealed.seq }, why);
        }
        Ok(())
    }

    /// Counts unsealed rows, and checks them for gaps.
    fn count_unsealed(&mut self, from: i64) -> Result<(), rusqlite::Error> {
        let sql = "SELECT pos, count, call, seq FROM batch WHERE pos >= ?1 OR pos < 1 ORDER BY pos";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([from])?;
        let mut expected = from;
        while let Some(row) = rows.next()? {
            let pos: i64 = row.get(0)?;
            self.report.unsealed += to_u64(row.get(1)?);
            if pos != expected {
                let call = CallId::new(super::row::uuid_from_row(row, 2)?);
                self.add_error(
                    expected.min(pos),
                    LogPosition::Entry { call, seq: row.get(3)? },
                    "the entry before it is missing",
                );
            }
            expected = pos.saturating_add(1);
        }
        Ok(())
    }

    fn check_anchor(&mut self, anchor: &Anchor) -> Result<(), rusqlite::Error> {
        if anchor.public_key != hex(self.key.as_bytes()) {
            self.add_error(POS_LAST, LogPosition::Anchor, "the anchor names another signing key");
        }
        match seal::segment_at(self.connection, anchor.number)? {
            None => self.add_error(POS_LAST, LogPosition::Anchor, OLDER_THAN_ANCHOR),
            Some(segment) if segment_digest(&segment.body) != anchor.digest => {
                let why = format!("segment {} is not the one that was anchored", anchor.number);
                self.add_error(POS_LAST, LogPosition::Anchor, why);
            }
            Some(_) => {}
        }
        Ok(())
    }
}

/// Checks whether an error means that the file contains data that was never written.
fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        }
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..) => true,
        _ => false,
    }
}
