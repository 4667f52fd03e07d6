//! Leaves: found through projections, believed only from the records that gave and used them.

use std::collections::{HashMap, HashSet};

use byleave::book::deeds;
use byleave::book::tally::{self, Gift, gift};
use byleave::book::{LeaveItem, LeaveState};
use byleave::ledger::{LedgerFault, floor};
use byleave_core::act::{Act, Deed};
use byleave_core::call::Millis;
use byleave_core::id::{AttemptId, CallId, LeaveId, TenantId};
use byleave_core::record::Record;
use sqlx_core::Error;
use sqlx_core::query::query;
use sqlx_core::row::Row as _;
use sqlx_postgres::PgConnection;
use uuid::Uuid;

use crate::rows::{LINES_ALONE, LineRow, by_call, lines_of, place_of, rows_of};
use crate::schema::{ACT, shard_of};

/// A record, and where its lines stand.
struct Read {
    record: Record,
    rows: Vec<LineRow>,
}

/// Every leave that a tenant was given, the newest first, with what has become of it.
pub(crate) async fn all(
    connection: &mut PgConnection,
    tenant: &TenantId,
    now: Millis,
) -> Result<Vec<LeaveItem>, LedgerFault> {
    let cannot = |error: Error| LedgerFault::new("cannot list the leaves", error);
    let acts = acts(connection, Some(shard_of(tenant))).await?;
    let revoked: HashSet<LeaveId> = acts
        .into_iter()
        .filter(|act| act.tenant == *tenant)
        .filter_map(|act| if let Deed::Revoke { leave } = act.deed { Some(leave) } else { None })
        .collect();
    let given = given(connection, tenant).await.map_err(cannot)?;
    let used = used(connection, tenant).await.map_err(cannot)?;
    let calls: Vec<CallId> =
        given.iter().map(|(_, call)| *call).chain(used.iter().map(|(_, call, _)| *call)).collect();
    let records = records(connection, &calls).await.map_err(cannot)?;

    let mut gifts: Vec<(i64, CallId, Gift<'_>)> = given
        .iter()
        .filter_map(|(id, call)| {
            let Read { record, rows } = records.get(call)?;
            let gift = gift(record, tenant, *id)?;
            Some((place_of(rows, gift.seq), *call, gift))
        })
        .collect();
    // Given twice under one id for one tool, the first counts.
    gifts.sort_by_key(|(pos, ..)| *pos);
    let mut items: Vec<LeaveItem> = Vec::new();
    for (_, call, Gift { at, answered, leave, .. }) in gifts {
        if items.iter().any(|item| item.leave.id == leave.id && item.leave.tool == leave.tool) {
            continue;
        }
        let uses = used
            .iter()
            .filter(|(id, call, attempt)| {
                *id == leave.id
                    && records.get(call).is_some_and(|read| tally::was_used(&read.record, *id, *attempt))
            })
            .count();
        let uses = u32::try_from(uses).unwrap_or(u32::MAX);
        let state = if revoked.contains(&leave.id) {
            LeaveState::Revoked
        } else if !floor::in_time(leave, now) {
            LeaveState::Expired
        } else if !floor::leave_left(leave, uses, 1, None) {
            LeaveState::Spent
        } else {
            LeaveState::Standing
        };
        items.push(LeaveItem {
            leave: leave.clone(),
            call,
            by: answered.by.clone(),
            given_at: at,
            // Counted no further than it matters.
            uses: leave.uses_max.map_or(uses, |max| uses.min(max)),
            state,
        });
    }
    items.reverse();
    Ok(items)
}

/// All acts, or those of one shard, the oldest first. One that is damaged stops everything rather than nothing.
pub(crate) async fn acts(connection: &mut PgConnection, shard: Option<i16>) -> Result<Vec<Act>, LedgerFault> {
    let of_shard = if shard.is_some() { "AND line.shard = $1" } else { "AND $1::smallint IS NULL" };
    let sql = format!("SELECT {LINES_ALONE} FROM line WHERE line.kind = {ACT} {of_shard} ORDER BY line.pos");
    let rows = query(&sql).bind(shard).fetch_all(connection).await;
    let rows = rows.map_err(|error| LedgerFault::new("cannot read the acts of the book", error))?;
    rows.iter()
        .map(|row| {
            let row = LineRow::read(row).map_err(|error| error.to_string())?;
            deeds::read(row.call, row.framed()).map_err(|why| format!("act {}: {why}", row.call))
        })
        .map(|act| act.map_err(|why| LedgerFault::new("an act is damaged", why)))
        .collect()
}

async fn given(connection: &mut PgConnection, tenant: &TenantId) -> Result<Vec<(LeaveId, CallId)>, Error> {
    let sql = "SELECT DISTINCT id, call FROM leave WHERE tenant = $1";
    let rows = query(sql).bind(tenant.as_str()).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((LeaveId::new(row.try_get(0)?), CallId::new(row.try_get(1)?)))).collect()
}

async fn used(
    connection: &mut PgConnection,
    tenant: &TenantId,
) -> Result<Vec<(LeaveId, CallId, AttemptId)>, Error> {
    let sql = "SELECT leave, call, attempt FROM leave_use WHERE tenant = $1";
    let rows = query(sql).bind(tenant.as_str()).fetch_all(connection).await?;
    let read = |column: usize, row: &sqlx_postgres::PgRow| row.try_get::<Uuid, _>(column);
    rows.iter()
        .map(|row| {
            Ok((LeaveId::new(read(0, row)?), CallId::new(read(1, row)?), AttemptId::new(read(2, row)?)))
        })
        .collect()
}

async fn records(connection: &mut PgConnection, calls: &[CallId]) -> Result<HashMap<CallId, Read>, Error> {
    let rows = rows_of(connection, calls, LINES_ALONE).await?;
    let read = by_call(&rows).filter_map(|rows| {
        let call = rows.first()?.call;
        let record = Record::read(call, &lines_of(rows));
        Some((call, Read { record, rows: rows.to_vec() }))
    });
    Ok(read.collect())
}
