//! Queries for lists of calls and questions, using the projections.

use std::collections::HashSet;

use byleave_core::id::{CallId, QuestionId, SessionId, TenantId};
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::row::{to_i64, to_u64, uuid_from_row};
use super::schema::KIND_RECORD;
use crate::audit_log::index_fields::{kind_from_number, kind_to_number, state_from_number, state_to_number};
use crate::audit_log::{
    CallFilter, CallItem, CallState, Cursor, NewRecords, PageRequest, QuestionFilter, QuestionItem,
};
use crate::ledger::CallSummary;

const SUMMARY_COLUMNS: &str =
    "call.tenant, call.session, call.agent, call.tool, call.operation, call.summary";

/// The conditions of a query with their values.
#[derive(Default)]
struct SqlConditions {
    sql: Vec<&'static str>,
    values: Vec<Value>,
}

impl SqlConditions {
    fn add(&mut self, sql: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.sql.push(sql);
            self.values.push(value.into());
        }
    }

    fn add_if(&mut self, sql: &'static str, wanted: bool) {
        if wanted {
            self.sql.push(sql);
        }
    }

    fn to_sql(&self) -> String {
        if self.sql.is_empty() { "1".into() } else { self.sql.join(" AND ") }
    }
}

/// Lists calls, the newest first.
pub(super) fn list_calls(
    connection: &Connection,
    filter: &CallFilter,
    page: PageRequest,
) -> Result<Vec<CallItem>, rusqlite::Error> {
    let mut conditions = SqlConditions::default();
    conditions.add("call.tenant = ?", filter.tenant.clone().map(String::from));
    conditions.add("call.session = ?", filter.session.clone().map(String::from));
    conditions.add("call.tool = ?", filter.tool.clone());
    conditions.add(
        "(SELECT call.agent = name OR instr(call.agent, 'sub-agent `' || name || '` of ') = 1
          FROM (SELECT ? AS name))",
        filter.agent.clone(),
    );
    conditions.add("call.state = ?", filter.state.map(state_to_number));
    conditions.add("call.outcome = ?", filter.outcome.clone());
    conditions.add("call.code = ?", filter.code.clone());
    conditions.add("instr(lower(call.summary), lower(?)) > 0", filter.text.clone());
    // Read once into a set: few calls have questions, and the index by call contains open questions only.
    conditions.add_if("call.pos IN (SELECT call FROM question)", filter.asked_only);
    conditions.add("call.opened_at >= ?", filter.since.map(to_i64));
    conditions.add("call.opened_at < ?", filter.until.map(to_i64));
    conditions.add("call.pos < ?", page.after.map(|cursor| cursor.0));
    // Other filters scan the list, because one more index would slow down every write.
    let unsettled = matches!(filter.state, Some(CallState::Open | CallState::Waiting));
    conditions.add_if("call.due IS NOT NULL", unsettled);
    let by = if unsettled { "INDEXED BY call_due" } else { "" };
    let sql = format!(
        "SELECT {SUMMARY_COLUMNS}, call.id, call.pos, call.state, call.outcome, call.code, call.opened_at, call.changed_at
         FROM call {by} WHERE {} ORDER BY call.pos DESC LIMIT {}",
        conditions.to_sql(),
        page.limit
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(conditions.values), |row| {
        Ok(CallItem {
            call: CallId::new(uuid_from_row(row, 6)?),
            cursor: Cursor(row.get(7)?),
            call_summary: summary_from_row(row)?,
            state: state_from_number(row.get(8)?),
            outcome: row.get(9)?,
            code: row.get(10)?,
            opened_at: to_u64(row.get(11)?),
            changed_at: to_u64(row.get(12)?),
        })
    })?;
    rows.collect()
}

/// Returns the calls written to after a position; see [`crate::audit_log::AuditLog::records_since`].
///
/// Rows are only appended, by one writer at a time. A reader that has seen a position has seen everything before it.
pub(super) fn records_since(
    connection: &Connection,
    after: Option<Cursor>,
    limit: usize,
) -> Result<NewRecords, rusqlite::Error> {
    let Some(after) = after else {
        let sql = "SELECT coalesce(max(pos), 0) FROM batch";
        let upto = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        return Ok(NewRecords { cursor: Cursor(upto), calls: Vec::new() });
    };
    let sql = "SELECT pos, kind, call FROM batch WHERE pos > ?1 ORDER BY pos LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![after.0, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let (mut upto, mut calls, mut seen) = (after, Vec::new(), HashSet::new());
    while let Some(row) = rows.next()? {
        upto = Cursor(row.get(0)?);
        let call = CallId::new(uuid_from_row(row, 2)?);
        if row.get::<_, i64>(1)? == KIND_RECORD && seen.insert(call) {
            calls.push(call);
        }
    }
    Ok(NewRecords { cursor: upto, calls })
}

/// Lists open questions, the newest first.
pub(super) fn list_questions(
    connection: &Connection,
    filter: &QuestionFilter,
    page: PageRequest,
) -> Result<Vec<QuestionItem>, rusqlite::Error> {
    let mut conditions = SqlConditions::default();
    conditions.add("question.tenant = ?", filter.tenant.clone().map(String::from));
    conditions.add("question.session = ?", filter.session.clone().map(String::from));
    conditions.add("question.kind = ?", filter.kind.map(kind_to_number));
    conditions.add("question.pos < ?", page.after.map(|cursor| cursor.0));
    let sql = format!(
        "SELECT {SUMMARY_COLUMNS}, call.id, question.pos, question.id, question.kind, question.asked_at, question.expires_at
         FROM question INDEXED BY question_open JOIN call ON call.pos = question.call
         WHERE question.open = 1 AND {} ORDER BY question.pos DESC LIMIT {}",
        conditions.to_sql(),
        page.limit
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(conditions.values), |row| {
        Ok(QuestionItem {
            question: QuestionId::new(uuid_from_row(row, 8)?),
            cursor: Cursor(row.get(7)?),
            kind: kind_from_number(row.get(9)?),
            call: CallId::new(uuid_from_row(row, 6)?),
            call_summary: summary_from_row(row)?,
            asked_at: to_u64(row.get(10)?),
            expires_at: to_u64(row.get(11)?),
        })
    })?;
    rows.collect()
}

/// Returns the summary of one call.
pub(super) fn call_summary(
    connection: &Connection,
    call: CallId,
) -> Result<Option<CallSummary>, rusqlite::Error> {
    let sql = format!(
        "SELECT {SUMMARY_COLUMNS} FROM batch JOIN call ON call.pos = batch.pos WHERE batch.call = ?1 AND batch.seq = 0"
    );
    connection.prepare_cached(&sql)?.query_row([call.as_bytes()], summary_from_row).optional()
}

/// Returns the newest completed call of a tool in a session.
///
/// It reads the list from its end. Only tools that want data pay for that; an index would slow down every write.
pub(super) fn latest_completed_call(
    connection: &Connection,
    tenant: &TenantId,
    session: &SessionId,
    tool: &str,
) -> Result<Option<CallId>, rusqlite::Error> {
    let sql = "SELECT id FROM call WHERE tenant = ?1 AND session = ?2 AND tool = ?3 AND outcome = 'completed' ORDER BY pos DESC LIMIT 1";
    let values = params![tenant.as_str(), session.as_str(), tool];
    let found = connection.prepare_cached(sql)?.query_row(values, |row| uuid_from_row(row, 0)).optional()?;
    Ok(found.map(CallId::new))
}

/// Returns the encrypted contents of a record by batch, each with the number of its first entry.
pub(super) fn packed_contents(
    connection: &Connection,
    call: CallId,
) -> Result<Vec<(u32, Vec<u8>)>, rusqlite::Error> {
    let sql =
        format!("SELECT seq, contents FROM batch WHERE call = ?1 AND kind = {KIND_RECORD} ORDER BY seq");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([call.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn summary_from_row(row: &Row<'_>) -> Result<CallSummary, rusqlite::Error> {
    let name = |column: usize, error: byleave_core::id::InvalidNameError| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    };
    Ok(CallSummary {
        tenant: TenantId::new(row.get::<_, String>(0)?).map_err(|error| name(0, error))?,
        session: SessionId::new(row.get::<_, String>(1)?).map_err(|error| name(1, error))?,
        agent: row.get(2)?,
        tool: row.get(3)?,
        operation: row.get(4)?,
        summary: row.get(5)?,
    })
}
