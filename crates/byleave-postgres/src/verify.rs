//! Verifies every entry, every content that can still be read, every segment and the anchor.
//!
//! It reads the entries themselves, as they are at one moment, and trusts no projection.

use std::collections::{HashMap, HashSet};

use byleave_core::admin_action::AdminActionKind;
use byleave_core::digest::{Digest, RecordKey};
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::id::{AdminActionId, CallId, TenantId};
use byleave_core::record::Record;
use byleave_gate::audit_log::approval_usage::{self, ApprovalEvent, ApprovalUsage};
use byleave_gate::audit_log::segment::{
    OLDER_THAN_ANCHOR, SealedRow, SegmentBody, has_valid_signature, hex, segment_digest,
};
use byleave_gate::audit_log::{Anchor, IntegrityError, LogPosition, Verification, admin_records};
use ed25519_dalek::VerifyingKey;
use sqlx_core::Error;
use sqlx_core::connection::Connection as _;
use sqlx_core::query::query;
use sqlx_core::query_scalar::query_scalar;
use sqlx_core::row::Row as _;
use sqlx_postgres::{PgConnection, PgRow};
use uuid::Uuid;

use crate::line_rows::{
    EntryRow, LINE_COLUMNS, LINE_COLUMNS_WITHOUT_CONTENTS, ROWS_PER_READ, decode_entries, log_position,
    to_u64,
};
use crate::schema::{KIND_ADMIN_ACTION, KIND_RECORD, SHARDS, allow_full_scans, shard_for_tenant};
use crate::seal::{SEGMENT_COLUMNS, SignedSegment, load_segment, sealed_row_from};
use crate::unsealer::Unsealer;

/// Verifies the whole audit log as it is at one moment.
pub(crate) async fn verify(
    connection: &mut PgConnection,
    unsealer: &dyn Unsealer,
    key: &VerifyingKey,
    anchor: Option<Anchor>,
) -> Result<Verification, Error> {
    let mut moment = connection.begin().await?;
    query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY").execute(&mut *moment).await?;
    allow_full_scans(&mut moment).await?;
    let mut check = LogVerifier {
        connection: &mut moment,
        unsealer,
        key,
        found: Verification::default(),
        tally: ApprovalUsage::default(),
        moves: Vec::new(),
        first: None,
    };
    check.everything(anchor.as_ref()).await?;
    let LogVerifier { mut found, first, .. } = check;
    moment.commit().await?;
    found.anchor = anchor;
    found.integrity_error = first.map(|(_, flaw)| flaw);
    Ok(found)
}

/// Position of errors that are reported only if the audit log itself has no other error.
const LAST: i64 = i64::MAX;

/// A gift or use of a standing approval in a record, to be compared with the projections.
struct ExpectedApprovalRow {
    call: CallId,
    seq: u32,
    tenant: TenantId,
    leave: Uuid,
    /// The tool of a standing approval that was given, or the attempt that used it.
    what: Result<String, Uuid>,
}

/// The first row of a record, with the data stored beside it.
struct RecordFirstRow {
    shard: i16,
    is_found: bool,
    key: Option<Vec<u8>>,
    forgotten: bool,
}

struct LogVerifier<'a> {
    connection: &'a mut PgConnection,
    unsealer: &'a dyn Unsealer,
    key: &'a VerifyingKey,
    found: Verification,
    tally: ApprovalUsage,
    moves: Vec<ExpectedApprovalRow>,
    /// The first error by its position in the audit log.
    first: Option<(i64, IntegrityError)>,
}

impl LogVerifier<'_> {
    async fn everything(&mut self, anchor: Option<&Anchor>) -> Result<(), Error> {
        let forgotten = self.acts().await?;
        self.records(&forgotten).await?;
        if let Some((place, why)) = self.tally.find_overused() {
            self.flaw(LAST, place, why);
        }
        self.moves().await?;
        self.segments().await?;
        let places = query_scalar::<_, Vec<i64>>("SELECT places FROM book_end");
        let places = places.fetch_one(&mut *self.connection).await?;
        for shard in 0..SHARDS {
            let end = usize::try_from(shard).ok().and_then(|shard| places.get(shard)).copied();
            self.shard(shard, end.unwrap_or_default()).await?;
        }
        if let Some(anchor) = anchor {
            self.anchor(anchor).await?;
        }
        Ok(())
    }

    fn flaw(&mut self, pos: i64, place: LogPosition, why: impl Into<String>) {
        if self.first.as_ref().is_none_or(|(first, _)| pos < *first) {
            self.first = Some((pos, IntegrityError { position: place, reason: why.into() }));
        }
    }

    /// Verifies the admin actions. Returns the erased calls, each with the tenant that erased it.
    async fn acts(&mut self) -> Result<HashSet<(CallId, TenantId)>, Error> {
        let sql = format!(
            "SELECT {LINE_COLUMNS_WITHOUT_CONTENTS}, line.shard FROM line WHERE line.kind = {KIND_ADMIN_ACTION} ORDER BY line.pos"
        );
        let rows = query(&sql).fetch_all(&mut *self.connection).await?;
        let mut forgotten = HashSet::new();
        for found in &rows {
            let row = EntryRow::from_row(found)?;
            let shard: i16 = found.try_get(8)?;
            self.found.admin_actions += 1;
            let place = LogPosition::AdminAction { action: AdminActionId::new(row.call.uuid()) };
            match admin_records::read_action(row.call, row.encoded_entries()) {
                Ok(act) => {
                    if shard_for_tenant(&act.tenant) != shard {
                        self.flaw(row.pos, place, "the admin action is in the shard of another tenant");
                    }
                    if let AdminActionKind::Forget { call } = act.kind {
                        forgotten.insert((call, act.tenant));
                    }
                }
                Err(why) => self.flaw(row.pos, place, why),
            }
        }
        Ok(forgotten)
    }

    /// Verifies every record: all its entries, its key and its contents.
    async fn records(&mut self, forgotten: &HashSet<(CallId, TenantId)>) -> Result<(), Error> {
        let sql = format!(
            "DECLARE verified NO SCROLL CURSOR FOR
             SELECT {LINE_COLUMNS}, line.shard, line.month, record.first IS NOT NULL, record.key,
                coalesce(record.forgotten, false)
             FROM line LEFT JOIN record
             ON record.call = line.call AND record.shard = line.shard AND record.month = line.month
             WHERE line.kind <> {KIND_ADMIN_ACTION} ORDER BY line.shard, line.month, line.call, line.seq"
        );
        query(&sql).execute(&mut *self.connection).await?;
        let mut current: Option<(RecordFirstRow, i32, Vec<EntryRow>)> = None;
        loop {
            let sql = format!("FETCH {ROWS_PER_READ} FROM verified");
            let rows = query(&sql).fetch_all(&mut *self.connection).await?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                let line = EntryRow::from_row(row)?;
                let (shard, month) = (row.try_get::<i16, _>(8)?, row.try_get::<i32, _>(9)?);
                match &mut current {
                    Some((opening, of, lines))
                        if (opening.shard, *of) == (shard, month)
                            && lines.first().is_some_and(|first| first.call == line.call) =>
                    {
                        lines.push(line);
                    }
                    _ => {
                        let opening = RecordFirstRow {
                            shard,
                            is_found: row.try_get(10)?,
                            key: row.try_get(11)?,
                            forgotten: row.try_get(12)?,
                        };
                        if let Some((opening, _, lines)) = current.replace((opening, month, vec![line])) {
                            self.record(&opening, &lines, forgotten);
                        }
                    }
                }
            }
        }
        if let Some((opening, _, lines)) = current {
            self.record(&opening, &lines, forgotten);
        }
        Ok(())
    }

    fn record(
        &mut self,
        opening: &RecordFirstRow,
        rows: &[EntryRow],
        forgotten: &HashSet<(CallId, TenantId)>,
    ) {
        let Some(first) = rows.first() else { return };
        let call = first.call;
        let lines = decode_entries(rows);
        self.found.records += 1;
        self.found.entries += lines.len() as u64;
        if let Some(row) = rows.iter().find(|row| row.kind != KIND_RECORD) {
            self.flaw(
                row.pos,
                LogPosition::Entry { call, seq: row.seq },
                "the entry is neither part of a record nor an admin action",
            );
        }
        let record = Record::from_stored_entries(call, &lines);
        if let Some(damage) = record.damage() {
            let seq = damage.seq();
            let row = rows.iter().rev().find(|row| row.seq <= seq).unwrap_or(first);
            self.flaw(row.pos, LogPosition::Entry { call, seq }, damage.to_string());
        }
        let whose = record.header().map(|heading| heading.tenant.clone());
        if whose.as_ref().is_some_and(|tenant| shard_for_tenant(tenant) != opening.shard) {
            let why = "the record is in the shard of another tenant";
            self.flaw(first.pos, LogPosition::Entry { call, seq: first.seq }, why);
        }
        let is_forgotten = whose.is_some_and(|tenant| forgotten.contains(&(call, tenant)));
        let key = self.record_key(first, opening, is_forgotten);
        self.contents(rows, key.as_ref(), opening);
        self.leaves(&record, rows);
    }

    fn record_key(
        &mut self,
        first: &EntryRow,
        opening: &RecordFirstRow,
        is_forgotten: bool,
    ) -> Option<RecordKey> {
        let call = first.call;
        let place = LogPosition::Key { call };
        if !opening.is_found {
            self.flaw(first.pos, place, "the record cannot be found by its id");
            return None;
        }
        let Some(wrapped) = &opening.key else {
            if opening.forgotten && !is_forgotten {
                // The action that erased it may be missing or damaged. That error then comes first.
                self.flaw(LAST, place, "the key was destroyed, but no admin action says so");
            }
            return None;
        };
        if is_forgotten || opening.forgotten {
            self.flaw(first.pos, place, "the call was forgotten, but its key still exists");
        }
        let key = self.unsealer.key(call, wrapped);
        if key.is_none() {
            self.flaw(first.pos, place, "the key was changed");
        }
        key
    }

    fn contents(&mut self, rows: &[EntryRow], key: Option<&RecordKey>, opening: &RecordFirstRow) {
        for row in rows {
            let place = LogPosition::Content { call: row.call, seq: row.seq };
            match key {
                // A destroyed or damaged key was already reported.
                None if opening.key.is_some() || opening.forgotten || row.contents.is_empty() => {}
                None => self.flaw(row.pos, place, "the key of the contents is missing"),
                Some(_) if row.contents.is_empty() && is_bare(row) => {}
                Some(_) if row.contents.is_empty() => {
                    self.flaw(row.pos, place, "the contents are missing");
                }
                Some(key) if self.unsealer.contents(key, row.call, row.seq, &row.contents).is_ok() => {}
                Some(_) => self.flaw(row.pos, place, "the contents were changed"),
            }
        }
    }

    /// Checks the projections of standing approvals. A use that is missing there could be repeated, and a gift that is
    /// missing could be renewed.
    fn leaves(&mut self, record: &Record, rows: &[EntryRow]) {
        self.tally.add_record(record, |seq| log_position(rows, seq));
        let Some(heading) = record.header() else { return };
        let moves = approval_usage::approval_events(record).map(|(seq, moved)| {
            let (leave, what) = match moved {
                ApprovalEvent::Granted(leave) => (leave.id, Ok(leave.tool.clone())),
                ApprovalEvent::Used(leave, attempt) => (leave, Err(attempt.uuid())),
            };
            ExpectedApprovalRow {
                call: record.call(),
                seq,
                tenant: heading.tenant.clone(),
                leave: leave.uuid(),
                what,
            }
        });
        self.moves.extend(moves);
    }

    async fn moves(&mut self) -> Result<(), Error> {
        for ExpectedApprovalRow { call, seq, tenant, leave, what } in std::mem::take(&mut self.moves) {
            let (word, listed) = match what {
                Ok(tool) => {
                    let sql = "SELECT EXISTS(SELECT FROM leave WHERE tenant = $1 AND id = $2 AND call = $3 AND tool = $4)";
                    let query =
                        query_scalar::<_, bool>(sql).bind(tenant.as_str()).bind(leave).bind(call.uuid());
                    ("grant", query.bind(tool).fetch_one(&mut *self.connection).await?)
                }
                Err(attempt) => {
                    let sql = "SELECT EXISTS(SELECT FROM leave_use
                        WHERE tenant = $1 AND leave = $2 AND call = $3 AND attempt = $4)";
                    let query =
                        query_scalar::<_, bool>(sql).bind(tenant.as_str()).bind(leave).bind(call.uuid());
                    ("use", query.bind(attempt).fetch_one(&mut *self.connection).await?)
                }
            };
            if !listed {
                let why = format!(
                    "the {word} of standing approval {leave} is not in the index; rebuild the projections"
                );
                self.flaw(LAST, LogPosition::Entry { call, seq }, why);
            }
        }
        Ok(())
    }

    /// Verifies the segments: each must be signed, and must follow its predecessor in the audit log and in its shard.
    async fn segments(&mut self) -> Result<(), Error> {
        let sql = format!(
            "DECLARE segments NO SCROLL CURSOR FOR SELECT {SEGMENT_COLUMNS} FROM segment ORDER BY number"
        );
        query(&sql).execute(&mut *self.connection).await?;
        let (mut number, mut before) = (1_u64, Digest::from_bytes([0; 32]));
        let mut places: HashMap<i16, i64> = HashMap::new();
        loop {
            let rows = query("FETCH 16 FROM segments").fetch_all(&mut *self.connection).await?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in &rows {
                let segment = SignedSegment::from_row(row)?;
                self.found.segments += 1;
                if segment.number != number {
                    self.flaw(0, LogPosition::Segment { number }, "the segment is missing");
                    number = segment.number;
                }
                let here = LogPosition::Segment { number };
                let place = places.entry(segment.shard).or_insert(1);
                let signed = has_valid_signature(self.key, &segment.body, &segment.signature);
                let why = match SegmentBody::parse(&segment.body).filter(|_| signed) {
                    None => Some("the signature is not valid"),
                    Some(seal) => {
                        let follows =
                            (seal.number, seal.prev_digest, seal.first_pos) == (number, before, *place);
                        *place = seal.end_pos();
                        (!follows).then_some("the segment does not follow the previous one")
                    }
                };
                if let Some(why) = why {
                    self.flaw(0, here, why);
                }
                before = segment_digest(&segment.body);
                number = number.saturating_add(1);
            }
        }
    }

    /// Compares the rows of a shard with its sealed segments, and looks for gaps in the rest.
    async fn shard(&mut self, shard: i16, end: i64) -> Result<(), Error> {
        let sql = format!(
            "DECLARE rows_{shard} NO SCROLL CURSOR FOR SELECT call, seq, count, head, place, pos FROM line
             WHERE shard = {shard} ORDER BY place, pos"
        );
        query(&sql).execute(&mut *self.connection).await?;
        let mut rows = ShardRows { name: format!("rows_{shard}"), read: Vec::new().into_iter(), last: 0 };
        let (mut number, mut place) = (0_i64, 1_i64);
        let sql = format!(
            "SELECT {SEGMENT_COLUMNS} FROM segment WHERE shard = $1 AND number > $2 ORDER BY number LIMIT 1"
        );
        let mut found = rows.next(self.connection).await?;
        loop {
            let next = query(&sql).bind(shard).bind(number).fetch_optional(&mut *self.connection).await?;
            let Some(segment) = next.as_ref().map(SignedSegment::from_row).transpose()? else { break };
            number = i64::try_from(segment.number).unwrap_or(i64::MAX);
            // A segment that cannot be parsed was already reported.
            let Some(seal) = SegmentBody::parse(&segment.body) else { continue };
            for (at, sealed) in (seal.first_pos..).zip(&seal.rows) {
                // A row before this position, or a second one at it, belongs to no segment.
                while let Some(row) = found.filter(|row| row.place < at) {
                    self.foreign(row);
                    found = rows.next(self.connection).await?;
                }
                let why = match found.filter(|row| row.place == at) {
                    Some(row) if row.row == *sealed => None,
                    Some(row) => Some((
                        row.pos,
                        format!("the entry differs from the one that segment {} sealed", seal.number),
                    )),
                    None => Some((
                        rows.last.saturating_add(1),
                        format!("the entry that segment {} sealed is missing", seal.number),
                    )),
                };
                if let Some((pos, why)) = why {
                    self.flaw(pos, LogPosition::Entry { call: sealed.call, seq: sealed.seq }, why);
                }
                if found.is_some_and(|row| row.place == at) {
                    found = rows.next(self.connection).await?;
                }
            }
            place = seal.end_pos();
        }
        while let Some(row) = found {
            self.found.unsealed += u64::from(row.row.count);
            if row.place == place {
                place = place.saturating_add(1);
            } else if row.place < place {
                self.foreign(row);
            } else {
                let here = LogPosition::Entry { call: row.row.call, seq: row.row.seq };
                self.flaw(row.pos, here, "the entry before it is missing");
                place = row.place.saturating_add(1);
            }
            found = rows.next(self.connection).await?;
        }
        if place != end.saturating_add(1) {
            let why = format!("shard {shard} has {} rows, but {end} were written", to_u64(place - 1));
            self.flaw(LAST, LogPosition::File, why);
        }
        Ok(())
    }

    fn foreign(&mut self, row: ScannedRow) {
        let here = LogPosition::Entry { call: row.row.call, seq: row.row.seq };
        self.flaw(row.pos, here, "another row already has this position");
    }

    async fn anchor(&mut self, anchor: &Anchor) -> Result<(), Error> {
        if anchor.public_key != hex(self.key.as_bytes()) {
            self.flaw(LAST, LogPosition::Anchor, "the anchor names another signing key");
        }
        match load_segment(self.connection, anchor.number).await? {
            None => self.flaw(LAST, LogPosition::Anchor, OLDER_THAN_ANCHOR),
            Some(segment) if segment_digest(&segment.body) != anchor.digest => {
                let why = format!("segment {} is not the one that was anchored", anchor.number);
                self.flaw(LAST, LogPosition::Anchor, why);
            }
            Some(_) => {}
        }
        Ok(())
    }
}

/// A row as it was found.
#[derive(Clone, Copy)]
struct ScannedRow {
    row: SealedRow,
    place: i64,
    pos: i64,
}

/// The rows of a shard, one after the other.
struct ShardRows {
    name: String,
    read: std::vec::IntoIter<PgRow>,
    /// The position in the audit log of the last row that was read.
    last: i64,
}

impl ShardRows {
    async fn next(&mut self, connection: &mut PgConnection) -> Result<Option<ScannedRow>, Error> {
        if self.read.len() == 0 {
            let sql = format!("FETCH 2000 FROM {}", self.name);
            self.read = query(&sql).fetch_all(connection).await?.into_iter();
        }
        let Some(row) = self.read.next() else { return Ok(None) };
        let found = ScannedRow { row: sealed_row_from(&row)?, place: row.try_get(4)?, pos: row.try_get(5)? };
        self.last = found.pos;
        Ok(Some(found))
    }
}

/// Checks whether a row has only entries that an engine without keys writes. Such a row can have no sealed contents.
fn is_bare(row: &EntryRow) -> bool {
    decode_entries(std::slice::from_ref(row)).iter().all(|line| {
        let entry: Option<Entry> = serde_json::from_str(line.body()).ok();
        entry.is_some_and(|entry| {
            matches!(entry.event, RecordEvent::Interrupted { .. } | RecordEvent::Expired { .. })
        })
    })
}
