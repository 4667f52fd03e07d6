//! Queries: lists of calls and questions, by the projections.

use byleave_core::id::{CallId, QuestionId, SessionId, TenantId};
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use super::projections::{kind_from, kind_number, state_from, state_number};
use super::row::{id_at, signed, unsigned};
use super::schema::RECORD;
use crate::book::{CallFilter, CallItem, Cursor, Page, QuestionFilter, QuestionItem};
use crate::ledger::Listing;

const LISTING: &str = "call.tenant, call.session, call.agent, call.tool, call.operation, call.summary";

/// The conditions of a query, and the values in them.
#[derive(Default)]
struct Conditions {
    sql: Vec<&'static str>,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, sql: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.sql.push(sql);
            self.values.push(value.into());
        }
    }

    fn all(&self) -> String {
        if self.sql.is_empty() { "1".into() } else { self.sql.join(" AND ") }
    }
}

/// Lists calls, the newest first.
pub(super) fn calls(
    connection: &Connection,
    filter: &CallFilter,
    page: Page,
) -> Result<Vec<CallItem>, rusqlite::Error> {
    let mut conditions = Conditions::default();
    conditions.add("call.tenant = ?", filter.tenant.clone().map(String::from));
    conditions.add("call.session = ?", filter.session.clone().map(String::from));
    conditions.add("call.tool = ?", filter.tool.clone());
    conditions.add("call.state = ?", filter.state.map(state_number));
    conditions.add("call.outcome = ?", filter.outcome.clone());
    conditions.add("call.opened_at >= ?", filter.since.map(signed));
    conditions.add("call.opened_at < ?", filter.until.map(signed));
    conditions.add("call.pos < ?", page.after.map(|cursor| cursor.0));
    let sql = format!(
        "SELECT {LISTING}, call.id, call.pos, call.state, call.outcome, call.code, call.opened_at, call.changed_at
         FROM call WHERE {} ORDER BY call.pos DESC LIMIT {}",
        conditions.all(),
        page.limit
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(conditions.values), |row| {
        Ok(CallItem {
            call: CallId::new(id_at(row, 6)?),
            cursor: Cursor(row.get(7)?),
            listing: listing_at(row)?,
            state: state_from(row.get(8)?),
            outcome: row.get(9)?,
            code: row.get(10)?,
            opened_at: unsigned(row.get(11)?),
            changed_at: unsigned(row.get(12)?),
        })
    })?;
    rows.collect()
}

/// Lists open questions, the newest first.
pub(super) fn questions(
    connection: &Connection,
    filter: &QuestionFilter,
    page: Page,
) -> Result<Vec<QuestionItem>, rusqlite::Error> {
    let mut conditions = Conditions::default();
    conditions.add("question.tenant = ?", filter.tenant.clone().map(String::from));
    conditions.add("question.session = ?", filter.session.clone().map(String::from));
    conditions.add("question.kind = ?", filter.kind.map(kind_number));
    conditions.add("question.pos < ?", page.after.map(|cursor| cursor.0));
    let sql = format!(
        "SELECT {LISTING}, call.id, question.pos, question.id, question.kind, question.asked_at, question.expires_at
         FROM question INDEXED BY question_open JOIN call ON call.pos = question.call
         WHERE question.open = 1 AND {} ORDER BY question.pos DESC LIMIT {}",
        conditions.all(),
        page.limit
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(conditions.values), |row| {
        Ok(QuestionItem {
            question: QuestionId::new(id_at(row, 8)?),
            cursor: Cursor(row.get(7)?),
            kind: kind_from(row.get(9)?),
            call: CallId::new(id_at(row, 6)?),
            listing: listing_at(row)?,
            asked_at: unsigned(row.get(10)?),
            expires_at: unsigned(row.get(11)?),
        })
    })?;
    rows.collect()
}

/// What a list shows of one call.
pub(super) fn listing(connection: &Connection, call: CallId) -> Result<Option<Listing>, rusqlite::Error> {
    let sql = format!(
        "SELECT {LISTING} FROM line JOIN call ON call.pos = line.pos WHERE line.call = ?1 AND line.seq = 0"
    );
    connection.prepare_cached(&sql)?.query_row([call.as_bytes()], listing_at).optional()
}

/// The encrypted contents of a record, batch by batch, each with the place of its first line.
pub(super) fn packed_contents(
    connection: &Connection,
    call: CallId,
) -> Result<Vec<(u32, Vec<u8>)>, rusqlite::Error> {
    let sql = format!("SELECT seq, contents FROM line WHERE call = ?1 AND kind = {RECORD} ORDER BY seq");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([call.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn listing_at(row: &Row<'_>) -> Result<Listing, rusqlite::Error> {
    let name = |column: usize, error: byleave_core::id::BadName| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    };
    Ok(Listing {
        tenant: TenantId::new(row.get::<_, String>(0)?).map_err(|error| name(0, error))?,
        session: SessionId::new(row.get::<_, String>(1)?).map_err(|error| name(1, error))?,
        agent: row.get(2)?,
        tool: row.get(3)?,
        operation: row.get(4)?,
        summary: row.get(5)?,
    })
}
