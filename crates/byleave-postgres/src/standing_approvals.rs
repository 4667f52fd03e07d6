//! Standing approvals: found through projections, but trusted only from the records that gave and used them.

use std::collections::{HashMap, HashSet};

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::call::Millis;
use byleave_core::id::{AttemptId, CallId, StandingApprovalId, TenantId};
use byleave_core::record::Record;
use byleave_gate::audit_log::admin_records;
use byleave_gate::audit_log::approval_usage::{self, ApprovalOrigin, find_origin};
use byleave_gate::audit_log::{StandingApprovalItem, StandingApprovalState};
use byleave_gate::ledger::{LedgerError, invariants};
use sqlx_core::Error;
use sqlx_core::query::query;
use sqlx_core::row::Row as _;
use sqlx_postgres::PgConnection;
use uuid::Uuid;

use crate::line_rows::{
    EntryRow, LINE_COLUMNS_WITHOUT_CONTENTS, decode_entries, group_by_call, load_rows, log_position,
};
use crate::schema::{KIND_ADMIN_ACTION, shard_for_tenant};

/// A record and the rows that contain its entries.
struct RecordWithRows {
    record: Record,
    rows: Vec<EntryRow>,
}

/// Returns every standing approval of a tenant, newest first, with its status.
pub(crate) async fn list_standing_approvals(
    connection: &mut PgConnection,
    tenant: &TenantId,
    now: Millis,
) -> Result<Vec<StandingApprovalItem>, LedgerError> {
    let cannot = |error: Error| LedgerError::new("cannot list the standing approvals", error);
    let acts = load_admin_actions(connection, Some(shard_for_tenant(tenant))).await?;
    let revoked: HashSet<StandingApprovalId> = acts
        .into_iter()
        .filter(|act| act.tenant == *tenant)
        .filter_map(|act| {
            if let AdminActionKind::Revoke { standing_approval: leave } = act.kind {
                Some(leave)
            } else {
                None
            }
        })
        .collect();
    let given = given(connection, tenant).await.map_err(cannot)?;
    let used = used(connection, tenant).await.map_err(cannot)?;
    let calls: Vec<CallId> =
        given.iter().map(|(_, call)| *call).chain(used.iter().map(|(_, call, _)| *call)).collect();
    let records = records(connection, &calls).await.map_err(cannot)?;

    let mut gifts: Vec<(i64, CallId, ApprovalOrigin<'_>)> = given
        .iter()
        .filter_map(|(id, call)| {
            let RecordWithRows { record, rows } = records.get(call)?;
            let gift = find_origin(record, tenant, *id)?;
            Some((log_position(rows, gift.seq), *call, gift))
        })
        .collect();
    // If one id was given twice for one tool, the first one is valid.
    gifts.sort_by_key(|(pos, ..)| *pos);
    let mut items: Vec<StandingApprovalItem> = Vec::new();
    for (_, call, ApprovalOrigin { at, answer: answered, standing_approval: leave, .. }) in gifts {
        if items
            .iter()
            .any(|item| item.standing_approval.id == leave.id && item.standing_approval.tool == leave.tool)
        {
            continue;
        }
        let uses = used
            .iter()
            .filter(|(id, call, attempt)| {
                *id == leave.id
                    && records
                        .get(call)
                        .is_some_and(|read| approval_usage::was_used(&read.record, *id, *attempt))
            })
            .count();
        let uses = u32::try_from(uses).unwrap_or(u32::MAX);
        let state = if revoked.contains(&leave.id) {
            StandingApprovalState::Revoked
        } else if !invariants::is_in_time(leave, now) {
            StandingApprovalState::Expired
        } else if !invariants::has_uses_left(leave, uses, 1, None) {
            StandingApprovalState::UsedUp
        } else {
            StandingApprovalState::Active
        };
        items.push(StandingApprovalItem {
            standing_approval: leave.clone(),
            call,
            approver: answered.approver.clone(),
            granted_at: at,
            // Not counted beyond the maximum.
            uses: leave.max_uses.map_or(uses, |max| uses.min(max)),
            state,
        });
    }
    items.reverse();
    Ok(items)
}

/// Returns all admin actions, or those of one shard, oldest first. A damaged one is an error and is not skipped.
pub(crate) async fn load_admin_actions(
    connection: &mut PgConnection,
    shard: Option<i16>,
) -> Result<Vec<AdminAction>, LedgerError> {
    let of_shard = if shard.is_some() { "AND line.shard = $1" } else { "AND $1::smallint IS NULL" };
    let sql = format!(
        "SELECT {LINE_COLUMNS_WITHOUT_CONTENTS} FROM line WHERE line.kind = {KIND_ADMIN_ACTION} {of_shard} ORDER BY line.pos"
    );
    let rows = query(&sql).bind(shard).fetch_all(connection).await;
    let rows =
        rows.map_err(|error| LedgerError::new("cannot read the admin actions of the audit log", error))?;
    rows.iter()
        .map(|row| {
            let row = EntryRow::from_row(row).map_err(|error| error.to_string())?;
            admin_records::read_action(row.call, row.encoded_entries())
                .map_err(|why| format!("admin action {}: {why}", row.call))
        })
        .map(|act| act.map_err(|why| LedgerError::new("an admin action is damaged", why)))
        .collect()
}

async fn given(
    connection: &mut PgConnection,
    tenant: &TenantId,
) -> Result<Vec<(StandingApprovalId, CallId)>, Error> {
    let sql = "SELECT DISTINCT id, call FROM leave WHERE tenant = $1";
    let rows = query(sql).bind(tenant.as_str()).fetch_all(connection).await?;
    rows.iter()
        .map(|row| Ok((StandingApprovalId::new(row.try_get(0)?), CallId::new(row.try_get(1)?))))
        .collect()
}

async fn used(
    connection: &mut PgConnection,
    tenant: &TenantId,
) -> Result<Vec<(StandingApprovalId, CallId, AttemptId)>, Error> {
    let sql = "SELECT leave, call, attempt FROM leave_use WHERE tenant = $1";
    let rows = query(sql).bind(tenant.as_str()).fetch_all(connection).await?;
    let read = |column: usize, row: &sqlx_postgres::PgRow| row.try_get::<Uuid, _>(column);
    rows.iter()
        .map(|row| {
            Ok((
                StandingApprovalId::new(read(0, row)?),
                CallId::new(read(1, row)?),
                AttemptId::new(read(2, row)?),
            ))
        })
        .collect()
}

async fn records(
    connection: &mut PgConnection,
    calls: &[CallId],
) -> Result<HashMap<CallId, RecordWithRows>, Error> {
    let rows = load_rows(connection, calls, LINE_COLUMNS_WITHOUT_CONTENTS).await?;
    let read = group_by_call(&rows).filter_map(|rows| {
        let call = rows.first()?.call;
        let record = Record::from_stored_entries(call, &decode_entries(rows));
        Some((call, RecordWithRows { record, rows: rows.to_vec() }))
    });
    Ok(read.collect())
}
