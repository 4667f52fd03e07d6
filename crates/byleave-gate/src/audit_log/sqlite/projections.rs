//! Projections for lists, questions and call order. They are built from the entries, and `rebuild` builds them again.

use byleave_core::digest::RecordKey;
use byleave_core::effect::{Effect, Plan};
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::id::{AttemptId, CallId, OwnerId};
use byleave_core::pipeline::{NextStep, next_step};
use byleave_core::question::{Question, QuestionKind};
use byleave_core::record::Record;
use rusqlite::{Connection, params};

use super::row::{EntryRow, decode_entries, load_rows, to_i64, uuid_from_row};
use super::schema::{KIND_RECORD, PROJECTION_TABLES, PROJECTIONS};
use super::{admin_actions, pending_effects};
use crate::audit_log::CallState;
use crate::audit_log::encryption::{self, KeyVault};
use crate::audit_log::index_fields::{IndexFields, ListNote, call_summary, kind_to_number, state_to_number};
use crate::ledger::invariants;
use crate::ledger::{CallSummary, PendingQuestion};

/// The changes of one append to the projections.
pub(super) struct ProjectionUpdate {
    pub(super) call: CallId,
    /// Whether it is the first append of its record.
    pub(super) is_first: bool,
    pub(super) call_summary: CallSummary,
    pub(super) pending_question: Option<PendingQuestion>,
    /// The exclusive attempt that is open at the end of the append.
    pub(super) exclusive_attempt: Option<(AttemptId, OwnerId)>,
    pub(super) state: CallState,
    pub(super) index_fields: IndexFields,
}

/// Returns the owner of an attempt that these entries begin.
pub(super) fn attempt_owner(entries: &[Entry], attempt: AttemptId) -> Option<OwnerId> {
    entries.iter().find_map(|entry| match &entry.event {
        RecordEvent::Started(Ok(claim)) if claim.attempt == attempt => Some(claim.owner),
        _ => None,
    })
}

/// Applies the changes of an append at `pos`. `first` is the first row of its record.
pub(super) fn apply_change(
    connection: &Connection,
    first: i64,
    pos: i64,
    change: &ProjectionUpdate,
) -> Result<(), rusqlite::Error> {
    if !change.is_first {
        clear_waiting(connection, first)?;
        if change.index_fields.attempt_ended
            || change.state == CallState::Settled
            || change.pending_question.is_some()
        {
            pending_effects::clear_holds(connection, first)?;
        }
    }
    write_call(connection, first, change)?;
    if let Some(waits) = &change.pending_question {
        open_question(connection, first, pos, change, &waits.question)?;
        pending_effects::insert_holds(connection, first, &change.call_summary, &waits.effects)?;
    }
    write_exclusive_attempt(connection, change)?;
    if change.index_fields.read_foreign {
        write_foreign_text(connection, change)?;
    }
    write_approvals(connection, change)
}

/// Notes that a session has read text of strangers. The sessions above it are told what it found.
fn write_foreign_text(connection: &Connection, change: &ProjectionUpdate) -> Result<(), rusqlite::Error> {
    let CallSummary { tenant, session, .. } = &change.call_summary;
    let sql = "INSERT INTO foreign_text(tenant, session) VALUES(?1, ?2) ON CONFLICT DO NOTHING";
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute(params![tenant.as_str(), session.as_str()])?;
    // If the actions that opened the sessions cannot be read, no call of them is evaluated either.
    let above =
        invariants::lineage(session, |session| admin_actions::session_node(connection, tenant, session));
    for node in above.unwrap_or_default() {
        statement.execute(params![tenant.as_str(), node.session.as_str()])?;
    }
    Ok(())
}

fn write_call(connection: &Connection, first: i64, change: &ProjectionUpdate) -> Result<(), rusqlite::Error> {
    let ProjectionUpdate { call_summary: listing, index_fields: marks, .. } = change;
    let due = match change.state {
        CallState::Open => Some(0),
        CallState::Waiting => change.pending_question.as_ref().map(|waits| to_i64(waits.question.expires_at)),
        CallState::Settled | CallState::Damaged => None,
    };
    let (outcome, code) = marks.outcome.map_or((None, None), |(word, code)| (Some(word), code));
    let state = state_to_number(change.state);
    if change.is_first {
        let sql = "INSERT INTO call(pos, id, tenant, session, agent, tool, operation, summary, opened_at,
                changed_at, state, outcome, code, due)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        connection.prepare_cached(sql)?.execute(params![
            first,
            change.call.as_bytes(),
            listing.tenant.as_str(),
            listing.session.as_str(),
            listing.agent,
            listing.tool,
            listing.operation,
            listing.summary,
            to_i64(marks.opened_at),
            to_i64(marks.changed_at),
            state,
            outcome,
            code,
            due,
        ])?;
        return Ok(());
    }
    let sql =
        "UPDATE call SET tool = ?2, operation = ?3, summary = ?4, changed_at = ?5, state = ?6, outcome = ?7,
            code = ?8, due = ?9
         WHERE pos = ?1";
    connection.prepare_cached(sql)?.execute(params![
        first,
        listing.tool,
        listing.operation,
        listing.summary,
        to_i64(marks.changed_at),
        state,
        outcome,
        code,
        due,
    ])?;
    Ok(())
}

/// Closes the question that a call waited at, if any.
fn clear_waiting(connection: &Connection, first: i64) -> Result<(), rusqlite::Error> {
    let waiting = state_to_number(CallState::Waiting);
    let mut statement = connection.prepare_cached("SELECT 1 FROM call WHERE pos = ?1 AND state = ?2")?;
    if !statement.exists(params![first, waiting])? {
        return Ok(());
    }
    connection
        .prepare_cached("UPDATE question SET open = 0 WHERE call = ?1 AND open = 1")?
        .execute([first])?;
    Ok(())
}

fn open_question(
    connection: &Connection,
    first: i64,
    pos: i64,
    change: &ProjectionUpdate,
    question: &Question,
) -> Result<(), rusqlite::Error> {
    // The asker chooses the id of a question. Reusing one must not hide another caller's question.
    let sql = "INSERT INTO question(pos, id, call, tenant, session, kind, asked_at, expires_at, open)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1) ON CONFLICT DO NOTHING";
    connection.prepare_cached(sql)?.execute(params![
        pos,
        question.id.as_bytes(),
        first,
        change.call_summary.tenant.as_str(),
        change.call_summary.session.as_str(),
        kind_to_number(question.kind),
        to_i64(change.index_fields.asked_at),
        to_i64(question.expires_at),
    ])?;
    Ok(())
}

fn write_exclusive_attempt(
    connection: &Connection,
    change: &ProjectionUpdate,
) -> Result<(), rusqlite::Error> {
    let CallSummary { tenant, session, .. } = &change.call_summary;
    if !change.is_first && (change.index_fields.attempt_ended || change.state == CallState::Settled) {
        let sql = "DELETE FROM exclusive_attempt WHERE tenant = ?1 AND session = ?2 AND call = ?3";
        connection.prepare_cached(sql)?.execute(params![
            tenant.as_str(),
            session.as_str(),
            change.call.as_bytes()
        ])?;
    }
    if let Some((attempt, owner)) = &change.exclusive_attempt {
        let sql = "INSERT OR REPLACE INTO exclusive_attempt(tenant, session, call, attempt, owner) VALUES(?1, ?2, ?3, ?4, ?5)";
        connection.prepare_cached(sql)?.execute(params![
            tenant.as_str(),
            session.as_str(),
            change.call.as_bytes(),
            attempt.as_bytes(),
            owner.as_bytes(),
        ])?;
    }
    Ok(())
}

fn write_approvals(connection: &Connection, change: &ProjectionUpdate) -> Result<(), rusqlite::Error> {
    for (leave, tool) in &change.index_fields.approvals_granted {
        let sql = "INSERT INTO standing_approval(tenant, tool, id, call) VALUES(?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        let tenant = change.call_summary.tenant.as_str();
        connection.prepare_cached(sql)?.execute(params![
            tenant,
            tool,
            leave.as_bytes(),
            change.call.as_bytes()
        ])?;
    }
    for (leave, attempt) in &change.index_fields.approvals_used {
        let sql = "INSERT INTO standing_approval_use(approval, call, attempt) VALUES(?1, ?2, ?3) ON CONFLICT DO NOTHING";
        connection.prepare_cached(sql)?.execute(params![
            leave.as_bytes(),
            change.call.as_bytes(),
            attempt.as_bytes()
        ])?;
    }
    Ok(())
}

/// Deletes the listed summary of an erased call, except what its entries contain.
pub(super) fn forget(connection: &Connection, first: i64) -> Result<(), rusqlite::Error> {
    connection.execute("UPDATE call SET summary = '' WHERE pos = ?1", [first])?;
    pending_effects::clear_holds(connection, first)
}

/// Deletes all projections and builds them again from the entries.
pub(super) fn rebuild(connection: &Connection, vault: &KeyVault) -> Result<(), rusqlite::Error> {
    for table in PROJECTION_TABLES {
        connection.execute_batch(&format!("DROP TABLE IF EXISTS {table};"))?;
    }
    connection.execute_batch(PROJECTIONS)?;
    let mut calls = connection
        .prepare(&format!("SELECT call FROM batch WHERE kind = {KIND_RECORD} AND seq = 0 ORDER BY pos"))?;
    let mut calls = calls.query([])?;
    while let Some(row) = calls.next()? {
        let call = CallId::new(uuid_from_row(row, 0)?);
        rebuild_call(connection, vault, &load_rows(connection, call)?)?;
    }
    Ok(())
}

fn rebuild_call(connection: &Connection, vault: &KeyVault, rows: &[EntryRow]) -> Result<(), rusqlite::Error> {
    let Some(first) = rows.first() else { return Ok(()) };
    let key = first.key.as_deref().and_then(|wrapped| vault.unwrap(first.call, wrapped));
    let lines = decode_entries(rows);
    let mut written: usize = 0;
    let mut noted = None;
    for row in rows {
        let upto = written.saturating_add(usize::try_from(row.count).unwrap_or(usize::MAX));
        let record = Record::from_stored_entries(row.call, lines.get(..upto).unwrap_or(&lines));
        let packed = contents_at(connection, row.pos)?;
        if let Some(note) = key.as_ref().and_then(|key| read_note(key, row, &packed)) {
            noted = Some(note);
        }
        let Some(listing) = call_summary(&record, noted.as_ref()) else { return Ok(()) };
        let question = match next_step(&record) {
            NextStep::Wait(question) => Some(question),
            NextStep::Do(_) | NextStep::Settle(_) => None,
        };
        let effects = match (&question, &key) {
            (Some(question), Some(key)) if question.kind != QuestionKind::Release => {
                planned_effects(connection, &record, rows, key)?
            }
            _ => Vec::new(),
        };
        let state = match (&question, record.damage(), record.outcome()) {
            (_, Some(_), _) => CallState::Damaged,
            (_, None, Some(_)) => CallState::Settled,
            (Some(_), None, None) => CallState::Waiting,
            (None, None, None) => CallState::Open,
        };
        let change = ProjectionUpdate {
            call: row.call,
            is_first: row.seq == 0,
            call_summary: listing,
            pending_question: question.map(|question| PendingQuestion { question, effects }),
            exclusive_attempt: open_exclusive_attempt(&record),
            state,
            index_fields: IndexFields::from_entries(record.entries().get(written..).unwrap_or_default()),
        };
        apply_change(connection, first.pos, row.pos, &change)?;
        written = upto;
    }
    Ok(())
}

fn contents_at(connection: &Connection, pos: i64) -> Result<Vec<u8>, rusqlite::Error> {
    connection.prepare_cached("SELECT contents FROM batch WHERE pos = ?1")?.query_row([pos], |row| row.get(0))
}

fn read_note(key: &RecordKey, row: &EntryRow, packed: &[u8]) -> Option<ListNote> {
    ListNote::parse(&encryption::unpack(key, row.call, row.seq, packed).ok()?.note)
}

/// Returns the effects of the plan that a question is about.
fn planned_effects(
    connection: &Connection,
    record: &Record,
    rows: &[EntryRow],
    key: &RecordKey,
) -> Result<Vec<Effect>, rusqlite::Error> {
    let Some(Ok(head)) = record.draft().and_then(|draft| draft.plan()) else { return Ok(Vec::new()) };
    for row in rows {
        let packed = contents_at(connection, row.pos)?;
        let found = encryption::unpack(key, row.call, row.seq, &packed).ok().and_then(|unpacked| {
            let content = unpacked.contents.into_iter().find(|content| content.content_ref == head.plan)?;
            serde_json::from_slice::<Plan>(&content.bytes).ok()
        });
        if let Some(plan) = found {
            return Ok(plan.effects);
        }
    }
    Ok(Vec::new())
}

/// Returns the open attempt of a record, if its tool may not run concurrently with others.
fn open_exclusive_attempt(record: &Record) -> Option<(AttemptId, OwnerId)> {
    let Some(Ok(terms)) = record.resolved_tool() else { return None };
    invariants::open_attempt(record).filter(|_| !terms.concurrency_safe)
}
