//! Admin actions, read from their own entries. An entry that does not verify must block everything; it is never ignored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::id::{SessionId, StandingApprovalId, TenantId};
use byleave_core::session::{SessionNode, opening_action_id};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _};

use super::row::{EntryRow, LINE_COLUMNS};
use super::schema::KIND_ADMIN_ACTION;
use crate::audit_log::admin_records::record_id;
use crate::ledger::LedgerError;

/// The admin actions in force.
#[derive(Clone, Default)]
pub(super) struct ActiveActions {
    up_to_pos: i64,
    halts: HashMap<TenantId, AdminAction>,
    revoked: HashSet<(TenantId, StandingApprovalId)>,
}

impl ActiveActions {
    /// Returns the newest halt of a tenant that has not been lifted.
    pub(super) fn active_halt(&self, tenant: &TenantId) -> Option<&AdminAction> {
        self.halts.get(tenant)
    }

    /// Checks whether a standing approval was revoked by its own tenant.
    pub(super) fn is_revoked(&self, tenant: &TenantId, leave: StandingApprovalId) -> bool {
        self.revoked.contains(&(tenant.clone(), leave))
    }

    fn apply(&mut self, pos: i64, act: AdminAction) {
        self.up_to_pos = pos;
        match &act.kind {
            AdminActionKind::Halt { .. } => {
                self.halts.insert(act.tenant.clone(), act);
            }
            AdminActionKind::Lift => {
                self.halts.remove(&act.tenant);
            }
            AdminActionKind::Revoke { standing_approval: leave } => {
                let leave = *leave;
                self.revoked.insert((act.tenant, leave));
            }
            // Found by id and not kept in memory, because there may be very many.
            AdminActionKind::OpenSession(_) | AdminActionKind::Forget { .. } => {}
            // It applies to one command, which has begun by now.
            AdminActionKind::Waive { .. } => {}
        }
    }
}

/// A cache of the admin actions in force up to a position in the audit log, so that only newer ones are read.
#[derive(Default)]
pub(super) struct ActionCache {
    cached: Mutex<Arc<ActiveActions>>,
}

impl ActionCache {
    /// Returns the cached state if it includes the admin action at position `newest`.
    pub(super) fn cached_at(&self, newest: i64) -> Option<Arc<ActiveActions>> {
        let known = Arc::clone(&self.cached.lock());
        (known.up_to_pos == newest).then_some(known)
    }

    /// Returns the admin actions in force that this connection sees, and caches them.
    ///
    /// Must not be called with uncommitted writes, because those could still be rolled back.
    pub(super) fn refresh(&self, connection: &Connection) -> Result<Arc<ActiveActions>, LedgerError> {
        let force = self.read_uncached(connection)?;
        let mut known = self.cached.lock();
        if force.up_to_pos > known.up_to_pos {
            *known = Arc::clone(&force);
        }
        Ok(force)
    }

    /// Returns the admin actions in force that this connection sees, including those of its own transaction.
    pub(super) fn read_uncached(&self, connection: &Connection) -> Result<Arc<ActiveActions>, LedgerError> {
        let known = Arc::clone(&self.cached.lock());
        let rows = actions_after(connection, known.up_to_pos)
            .map_err(|error| LedgerError::new("cannot read the admin actions of the audit log", error))?;
        if rows.is_empty() {
            return Ok(known);
        }
        let mut force = ActiveActions::clone(&known);
        for row in rows {
            let act = read_action(&row)
                .map_err(|why| LedgerError::new(format!("admin action {} is damaged", row.call), why))?;
            force.apply(row.pos, act);
        }
        Ok(Arc::new(force))
    }
}

fn actions_after(connection: &Connection, than: i64) -> Result<Vec<EntryRow>, rusqlite::Error> {
    // The partial index is only used with a literal.
    let sql = format!(
        "SELECT {LINE_COLUMNS} FROM batch INDEXED BY batch_admin_action WHERE kind = {KIND_ADMIN_ACTION} AND pos > ?1 ORDER BY pos"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([than], EntryRow::from_row)?;
    rows.collect()
}

/// Returns the admin action that opened a session, if there is one.
pub(super) fn session_node(
    connection: &Connection,
    tenant: &TenantId,
    session: &SessionId,
) -> Result<Option<SessionNode>, LedgerError> {
    let cannot =
        |why: String| LedgerError::new(format!("cannot read how session `{session}` was opened"), why);
    let place = record_id(opening_action_id(tenant, session));
    let sql = format!(
        "SELECT {LINE_COLUMNS} FROM batch WHERE call = ?1 AND seq = 0 AND kind = {KIND_ADMIN_ACTION}"
    );
    let found = connection
        .prepare_cached(&sql)
        .and_then(|mut statement| statement.query_row([place.as_bytes()], EntryRow::from_row).optional())
        .map_err(|error| cannot(error.to_string()))?;
    let Some(row) = found else { return Ok(None) };
    let act = read_action(&row).map_err(cannot)?;
    match act.kind {
        AdminActionKind::OpenSession(opening) if act.tenant == *tenant && opening.session == *session => {
            Ok(Some(opening))
        }
        _ => Err(cannot("the entry is another admin action".into())),
    }
}

/// Returns every admin action in the audit log, the oldest first.
pub(super) fn all_action_rows(connection: &Connection) -> Result<Vec<EntryRow>, rusqlite::Error> {
    actions_after(connection, 0)
}

/// Decodes the admin action of a row. Fails if the row was altered.
pub(super) fn read_action(row: &EntryRow) -> Result<AdminAction, String> {
    if row.key.is_some() {
        return Err("an admin action must not have a key".into());
    }
    crate::audit_log::admin_records::read_action(row.call, row.encoded_batch())
}
