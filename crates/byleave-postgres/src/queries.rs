//! Queries of calls and questions, based on the projections.

use std::collections::{HashMap, HashSet};

use byleave_core::id::{CallId, QuestionId};
use byleave_gate::audit_log::index_fields::{kind_from_number, kind_to_number, state_from_number};
use byleave_gate::audit_log::{
    CallFilter, CallItem, CallState, Cursor, NewRecords, PageRequest, QuestionFilter, QuestionItem,
};
use byleave_gate::ledger::CallSummary;
use sqlx_core::Error;
use sqlx_core::query::query;
use sqlx_core::query_builder::QueryBuilder;
use sqlx_core::query_scalar::query_scalar;
use sqlx_core::row::Row as _;
use sqlx_postgres::{PgConnection, PgPool, PgRow, Postgres};

use crate::call_projection::{PartitionKey, RecordLocation, state_to_i16};
use crate::ingest::replace_nul;
use crate::line_rows::{session_from_row, tenant_from_row, to_i64, to_u64};
use crate::schema::{KIND_RECORD, shard_for_tenant};

const LISTING: &str = "call.tenant, call.session, call.agent, call.tool, call.operation, call.summary";

/// Lists calls, newest first. Goes month by month, because later calls are in later months.
pub(crate) async fn list_calls(
    pool: &PgPool,
    filter: CallFilter,
    page: PageRequest,
) -> Result<Vec<CallItem>, Error> {
    let sql = "SELECT month FROM month WHERE first < $1 ORDER BY first DESC";
    let before = page.after.map_or(i64::MAX, |after| after.0);
    let months = query_scalar::<_, i32>(sql).bind(before).fetch_all(pool).await?;
    let mut listed = Vec::new();
    for month in months {
        let left = page.limit.saturating_sub(listed.len());
        if left == 0 {
            break;
        }
        listed.extend(calls_of(pool, &filter, PageRequest { limit: left, ..page }, month).await?);
    }
    Ok(listed)
}

async fn calls_of(
    pool: &PgPool,
    filter: &CallFilter,
    page: PageRequest,
    month: i32,
) -> Result<Vec<CallItem>, Error> {
    let mut sql = QueryBuilder::<Postgres>::new(format!(
        "SELECT {LISTING}, call.id, call.pos, call.state, call.outcome, call.code, call.opened_at, call.changed_at FROM "
    ));
    // Few calls are unsettled, and they have a table of their own. The month is written out, so that the planner considers no
    // other partition.
    let (table, place) = if matches!(filter.state, Some(CallState::Open | CallState::Waiting)) {
        sql.push(format!(
            "unsettled JOIN call ON call.shard = unsettled.shard AND call.pos = unsettled.first
             WHERE unsettled.month = {month} AND call.month = {month}"
        ));
        ("unsettled", "unsettled.first")
    } else {
        sql.push(format!("call WHERE call.month = {month}"));
        ("call", "call.pos")
    };
    if let Some(tenant) = &filter.tenant {
        sql.push(format!(" AND {table}.shard = ")).push_bind(shard_for_tenant(tenant));
        sql.push(format!(" AND {table}.tenant = ")).push_bind(tenant.as_str().to_owned());
    }
    if let Some(session) = &filter.session {
        sql.push(format!(" AND {table}.session = ")).push_bind(session.as_str().to_owned());
    }
    if let Some(tool) = filter.tool.clone() {
        sql.push(" AND call.tool = ").push_bind(replace_nul(tool));
    }
    if let Some(agent) = filter.agent.clone().map(replace_nul) {
        sql.push(" AND (call.agent = ").push_bind(agent.clone());
        sql.push(" OR starts_with(call.agent, ").push_bind(format!("sub-agent `{agent}` of ")).push("))");
    }
    if let Some(state) = filter.state {
        sql.push(" AND call.state = ").push_bind(state_to_i16(state));
    }
    if let Some(outcome) = filter.outcome.clone() {
        sql.push(" AND call.outcome = ").push_bind(replace_nul(outcome));
    }
    if let Some(code) = filter.code.clone() {
        sql.push(" AND call.code = ").push_bind(replace_nul(code));
    }
    if let Some(text) = filter.text.clone() {
        // In this collation `lower` affects only ASCII.
        sql.push(" AND position(").push_bind(replace_nul(text).to_ascii_lowercase());
        sql.push(" IN lower(call.summary COLLATE \"C\")) > 0");
    }
    if filter.asked_only {
        sql.push(" AND call.asked");
    }
    if let Some(since) = filter.since {
        sql.push(" AND call.opened_at >= ").push_bind(to_i64(since));
    }
    if let Some(until) = filter.until {
        sql.push(" AND call.opened_at < ").push_bind(to_i64(until));
    }
    if let Some(after) = page.after {
        sql.push(format!(" AND {place} < ")).push_bind(after.0);
    }
    sql.push(format!(" ORDER BY {place} DESC LIMIT ")).push_bind(limit_of(page.limit));
    let rows = sql.build().fetch_all(pool).await?;
    rows.iter()
        .map(|row| {
            Ok(CallItem {
                call: CallId::new(row.try_get(6)?),
                cursor: Cursor(row.try_get(7)?),
                call_summary: listing_at(row)?,
                state: state_from_number(row.try_get::<i16, _>(8)?.into()),
                outcome: row.try_get(9)?,
                code: row.try_get(10)?,
                opened_at: to_u64(row.try_get(11)?),
                changed_at: to_u64(row.try_get(12)?),
            })
        })
        .collect()
}

/// Lists open questions, newest first. Reads one page of questions, then their calls, each from its partition.
pub(crate) async fn list_questions(
    pool: &PgPool,
    filter: QuestionFilter,
    page: PageRequest,
) -> Result<Vec<QuestionItem>, Error> {
    let mut open = QueryBuilder::<Postgres>::new(
        "SELECT shard, month, first, asked, question, kind, asked_at, expires_at, call
         FROM unsettled WHERE asked IS NOT NULL",
    );
    if let Some(tenant) = filter.tenant {
        open.push(" AND shard = ").push_bind(shard_for_tenant(&tenant));
        open.push(" AND tenant = ").push_bind(String::from(tenant));
    }
    if let Some(session) = filter.session {
        open.push(" AND session = ").push_bind(String::from(session));
    }
    if let Some(kind) = filter.kind {
        // Written out, because only then does the planner know that the index covers it.
        open.push(format!(" AND kind = {}", kind_to_number(kind)));
    }
    if let Some(after) = page.after {
        open.push(" AND asked < ").push_bind(after.0);
    }
    open.push(" ORDER BY asked DESC LIMIT ").push_bind(limit_of(page.limit));
    let mut connection = pool.acquire().await?;
    let rows = open.build().fetch_all(&mut *connection).await?;
    let mut firsts: HashMap<PartitionKey, Vec<i64>> = HashMap::new();
    for row in &rows {
        let at =
            RecordLocation { shard: row.try_get(0)?, month: row.try_get(1)?, first_pos: row.try_get(2)? };
        firsts.entry(at.partition()).or_default().push(at.first_pos);
    }
    let mut listings: HashMap<i64, CallSummary> = HashMap::new();
    for (leaf, firsts) in firsts {
        let sql = format!(
            "SELECT {LISTING}, call.pos FROM {} AS call WHERE call.pos = ANY($1)",
            leaf.partition_name("call")
        );
        for row in query(&sql).bind(firsts).fetch_all(&mut *connection).await? {
            listings.insert(row.try_get(6)?, listing_at(&row)?);
        }
    }
    let mut items = Vec::with_capacity(rows.len());
    for row in &rows {
        // A question without a listed call is skipped. `rebuild` repairs this.
        let Some(listing) = listings.remove(&row.try_get(2)?) else { continue };
        items.push(QuestionItem {
            question: QuestionId::new(row.try_get(4)?),
            cursor: Cursor(row.try_get(3)?),
            kind: kind_from_number(row.try_get::<i16, _>(5)?.into()),
            call: CallId::new(row.try_get(8)?),
            call_summary: listing,
            asked_at: to_u64(row.try_get(6)?),
            expires_at: to_u64(row.try_get(7)?),
        });
    }
    Ok(items)
}

/// Returns the calls that were appended to after a position; see [`byleave_gate::audit_log::AuditLog::records_since`].
///
/// Positions are assigned under a lock that is held until the commit. A reader that has seen one position has seen all before
/// it.
pub(crate) async fn records_since(
    pool: &PgPool,
    after: Option<Cursor>,
    limit: usize,
) -> Result<NewRecords, Error> {
    let Some(after) = after else {
        let upto = query_scalar::<_, i64>("SELECT pos FROM book_end").fetch_one(pool).await?;
        return Ok(NewRecords { cursor: Cursor(upto), calls: Vec::new() });
    };
    let sql = "SELECT pos, kind, call FROM line WHERE pos > $1 ORDER BY pos LIMIT $2";
    let rows = query(sql).bind(after.0).bind(limit_of(limit)).fetch_all(pool).await?;
    let (mut upto, mut calls, mut seen) = (after, Vec::new(), HashSet::new());
    for row in rows {
        upto = Cursor(row.try_get(0)?);
        let call = CallId::new(row.try_get(2)?);
        if row.try_get::<i16, _>(1)? == KIND_RECORD && seen.insert(call) {
            calls.push(call);
        }
    }
    Ok(NewRecords { cursor: upto, calls })
}

/// Returns the list data of one call.
pub(crate) async fn call_summary(
    connection: &mut PgConnection,
    call: CallId,
) -> Result<Option<CallSummary>, Error> {
    let sql = format!(
        "SELECT {LISTING} FROM record JOIN call
         ON call.shard = record.shard AND call.month = record.month AND call.pos = record.first
         WHERE record.call = $1"
    );
    query(&sql).bind(call.uuid()).fetch_optional(connection).await?.as_ref().map(listing_at).transpose()
}

fn listing_at(row: &PgRow) -> Result<CallSummary, Error> {
    Ok(CallSummary {
        tenant: tenant_from_row(row, 0)?,
        session: session_from_row(row, 1)?,
        agent: row.try_get(2)?,
        tool: row.try_get(3)?,
        operation: row.try_get(4)?,
        summary: row.try_get(5)?,
    })
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
