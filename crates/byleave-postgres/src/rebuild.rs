//! Deletes all projections and rebuilds them from the entries, while no process writes.

use byleave_core::admin_action::AdminActionKind;
use byleave_core::id::CallId;
use byleave_core::record::Record;
use byleave_gate::audit_log::index_fields::{ListNote, call_summary};
use byleave_gate::audit_log::{CallState, admin_records};
use sqlx_core::Error;
use sqlx_core::connection::Connection as _;
use sqlx_core::query::query;
use sqlx_core::row::Row as _;
use sqlx_postgres::PgConnection;

use crate::call_projection::{AppendStep, ApprovalChanges, CallRow, ProjectionChanges, RecordLocation};
use crate::ingest::replace_nul_in_summary;
use crate::line_rows::{
    EntryRow, LINE_COLUMNS, LINE_COLUMNS_WITHOUT_CONTENTS, ROWS_PER_READ, decode_entries,
};
use crate::schema::{KIND_ADMIN_ACTION, KIND_RECORD, allow_full_scans};
use crate::unsealer::Unsealer;

/// The number of calls that are written at once.
const TOGETHER: usize = 500;

/// A record as it is read for the rebuild.
struct StoredRecordRows {
    rows: Vec<EntryRow>,
    at: RecordLocation,
    key: Option<Vec<u8>>,
    forgotten: bool,
}

pub(crate) async fn rebuild(connection: &mut PgConnection, unsealer: &dyn Unsealer) -> Result<(), Error> {
    let mut transaction = connection.begin().await?;
    allow_full_scans(&mut transaction).await?;
    query("SELECT pos FROM book_end FOR UPDATE").execute(&mut *transaction).await?;
    // Locations of records are repaired first, because their keys are found by them.
    let sql = "INSERT INTO record(call, shard, month, first, key, forgotten)
        SELECT call, shard, month, pos, NULL, false FROM line WHERE seq = 0
        ON CONFLICT (call) DO UPDATE SET shard = excluded.shard, month = excluded.month, first = excluded.first
        WHERE (record.shard, record.month, record.first) <> (excluded.shard, excluded.month, excluded.first)";
    query(sql).execute(&mut *transaction).await?;
    query("DELETE FROM month").execute(&mut *transaction).await?;
    query("INSERT INTO month(month, first) SELECT month, min(first) FROM record GROUP BY month")
        .execute(&mut *transaction)
        .await?;
    // Deleted instead of truncated, so that readers still see the old rows until the new ones are there.
    for table in ["call", "unsettled", "leave", "leave_use"] {
        query(&format!("DELETE FROM {table}")).execute(&mut *transaction).await?;
    }
    forgotten(&mut transaction).await?;
    let sql = format!(
        "DECLARE rebuilt NO SCROLL CURSOR FOR
         SELECT {LINE_COLUMNS}, line.shard, line.month, record.first, record.key, record.forgotten
         FROM line JOIN record ON record.call = line.call AND record.shard = line.shard AND record.month = line.month
         WHERE line.kind = {KIND_RECORD} ORDER BY line.shard, line.month, line.call, line.seq"
    );
    query(&sql).execute(&mut *transaction).await?;
    let (mut old, mut listed): (Option<StoredRecordRows>, Vec<(CallRow, Vec<ApprovalChanges>)>) =
        (None, Vec::new());
    loop {
        let rows = query(&format!("FETCH {ROWS_PER_READ} FROM rebuilt")).fetch_all(&mut *transaction).await?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            let line = EntryRow::from_row(row)?;
            match &mut old {
                Some(old) if old.rows.first().is_some_and(|first| first.call == line.call) => {
                    old.rows.push(line);
                }
                _ => {
                    let at = RecordLocation {
                        shard: row.try_get(8)?,
                        month: row.try_get(9)?,
                        first_pos: row.try_get(10)?,
                    };
                    let (key, forgotten) = (row.try_get(11)?, row.try_get(12)?);
                    let before = old.replace(StoredRecordRows { rows: vec![line], at, key, forgotten });
                    listed.extend(before.and_then(|old| list(&old, unsealer)));
                }
            }
        }
        if listed.len() >= TOGETHER {
            write(&mut transaction, &listed).await?;
            listed.clear();
        }
    }
    listed.extend(old.and_then(|old| list(&old, unsealer)));
    write(&mut transaction, &listed).await?;
    transaction.commit().await
}

/// Marks erased calls again, according to the admin actions.
async fn forgotten(connection: &mut PgConnection) -> Result<(), Error> {
    let sql = format!(
        "SELECT {LINE_COLUMNS_WITHOUT_CONTENTS} FROM line WHERE line.kind = {KIND_ADMIN_ACTION} ORDER BY line.pos"
    );
    for row in query(&sql).fetch_all(&mut *connection).await? {
        let row = EntryRow::from_row(&row)?;
        // `verify` reports damaged actions.
        let Ok(act) = admin_records::read_action(row.call, row.encoded_entries()) else { continue };
        if let AdminActionKind::Forget { call } = act.kind {
            query("INSERT INTO forgotten(call, tenant) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                .bind(call.uuid())
                .bind(act.tenant.as_str())
                .execute(&mut *connection)
                .await?;
        }
    }
    Ok(())
}

async fn write(
    connection: &mut PgConnection,
    listed: &[(CallRow, Vec<ApprovalChanges>)],
) -> Result<(), Error> {
    let mut changes = ProjectionChanges::default();
    for (listed, moved) in listed {
        changes.call(listed, None);
        for moved in moved {
            changes.add_approvals(listed, moved);
        }
    }
    changes.write(connection).await
}

/// Builds the row of a call from its entries; `None` if they do not name its tenant.
fn list(old: &StoredRecordRows, unsealer: &dyn Unsealer) -> Option<(CallRow, Vec<ApprovalChanges>)> {
    let call: CallId = old.rows.first()?.call;
    let key = old.key.as_deref().and_then(|wrapped| unsealer.key(call, wrapped));
    let lines = decode_entries(&old.rows);
    let record = Record::from_stored_entries(call, &lines);
    let (mut written, mut noted): (usize, Option<ListNote>) = (0, None);
    let (mut listed, mut moved): (Option<CallRow>, Vec<ApprovalChanges>) = (None, Vec::new());
    for row in &old.rows {
        let upto = written.saturating_add(usize::try_from(row.count).unwrap_or(usize::MAX));
        let note = key.as_ref().and_then(|key| unsealer.contents(key, call, row.seq, &row.contents).ok());
        noted = note.and_then(|unpacked| ListNote::parse(&unpacked.note)).or(noted);
        let so_far = Record::from_stored_entries(call, lines.get(..upto).unwrap_or(&lines));
        let listing = replace_nul_in_summary(call_summary(&so_far, noted.as_ref())?);
        let entries = record.entries();
        let step = AppendStep {
            pos: row.pos,
            length: row.seq.saturating_add(row.count),
            head: row.head,
            entries: entries.get(written..upto.min(entries.len())).unwrap_or_default(),
            call_summary: listing,
        };
        match &mut listed {
            Some(listed) => moved.push(listed.apply_append(step)),
            none => {
                let (opened, first) = CallRow::opened(call, old.at, old.forgotten, step);
                *none = Some(opened);
                moved.push(first);
            }
        }
        written = upto;
    }
    let mut listed = listed?;
    if record.damage().is_some() {
        (listed.state, listed.question) = (CallState::Damaged, None);
    }
    Some((listed, moved))
}
