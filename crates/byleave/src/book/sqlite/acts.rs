//! Acts: what administrators did, read from their own lines. What does not verify stops everything rather than nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use byleave_core::act::{Act, Deed};
use byleave_core::id::{LeaveId, SessionId, TenantId};
use byleave_core::session::{Opening, act_of};
use rusqlite::{Connection, OptionalExtension as _};

use super::row::{LINE_COLUMNS, LineRow};
use super::schema::ACT;
use crate::book::deeds::place_of;
use crate::ledger::LedgerFault;
use crate::lock::locked;

/// What is in force.
#[derive(Clone, Default)]
pub(super) struct Force {
    upto: i64,
    halted: HashMap<TenantId, Act>,
    revoked: HashSet<(TenantId, LeaveId)>,
}

impl Force {
    /// The newest halt of a tenant, where it has not been lifted.
    pub(super) fn halted(&self, tenant: &TenantId) -> Option<&Act> {
        self.halted.get(tenant)
    }

    /// Whether a leave was revoked by those who gave it.
    pub(super) fn is_revoked(&self, tenant: &TenantId, leave: LeaveId) -> bool {
        self.revoked.contains(&(tenant.clone(), leave))
    }

    fn take(&mut self, pos: i64, act: Act) {
        self.upto = pos;
        match &act.deed {
            Deed::Halt { .. } => {
                self.halted.insert(act.tenant.clone(), act);
            }
            Deed::Lift => {
                self.halted.remove(&act.tenant);
            }
            Deed::Revoke { leave } => {
                let leave = *leave;
                self.revoked.insert((act.tenant, leave));
            }
            // Found by its id, and not kept in memory: there may be very many.
            Deed::Open(_) | Deed::Forget { .. } => {}
            // For one command, which has begun by now.
            Deed::Waive { .. } => {}
        }
    }
}

/// What is in force, remembered up to a place in the book so that only newer acts are read.
#[derive(Default)]
pub(super) struct Acts {
    known: Mutex<Arc<Force>>,
}

impl Acts {
    /// What is in force, if the newest act stands at that place and is known already.
    pub(super) fn known_upto(&self, newest: i64) -> Option<Arc<Force>> {
        let known = Arc::clone(&locked(&self.known));
        (known.upto == newest).then_some(known)
    }

    /// What is in force by everything this connection sees, and remembers it.
    ///
    /// Must not be called with something written and not yet committed: that could still be taken back.
    pub(super) fn refresh(&self, connection: &Connection) -> Result<Arc<Force>, LedgerFault> {
        let force = self.peek(connection)?;
        let mut known = locked(&self.known);
        if force.upto > known.upto {
            *known = Arc::clone(&force);
        }
        Ok(force)
    }

    /// What is in force by everything this connection sees, also of its own transaction.
    pub(super) fn peek(&self, connection: &Connection) -> Result<Arc<Force>, LedgerFault> {
        let known = Arc::clone(&locked(&self.known));
        let rows = newer(connection, known.upto)
            .map_err(|error| LedgerFault::new("cannot read the acts of the book", error))?;
        if rows.is_empty() {
            return Ok(known);
        }
        let mut force = Force::clone(&known);
        for row in rows {
            let act =
                read(&row).map_err(|why| LedgerFault::new(format!("act {} is damaged", row.call), why))?;
            force.take(row.pos, act);
        }
        Ok(Arc::new(force))
    }
}

fn newer(connection: &Connection, than: i64) -> Result<Vec<LineRow>, rusqlite::Error> {
    // The literal is what lets SQLite use the partial index.
    let sql = format!(
        "SELECT {LINE_COLUMNS} FROM line INDEXED BY line_act WHERE kind = {ACT} AND pos > ?1 ORDER BY pos"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([than], LineRow::read)?;
    rows.collect()
}

/// The opening of a session, if it was opened.
pub(super) fn opening(
    connection: &Connection,
    tenant: &TenantId,
    session: &SessionId,
) -> Result<Option<Opening>, LedgerFault> {
    let cannot =
        |why: String| LedgerFault::new(format!("cannot read the opening of session `{session}`"), why);
    let place = place_of(act_of(tenant, session));
    let sql = format!("SELECT {LINE_COLUMNS} FROM line WHERE call = ?1 AND seq = 0 AND kind = {ACT}");
    let found = connection
        .prepare_cached(&sql)
        .and_then(|mut statement| statement.query_row([place.as_bytes()], LineRow::read).optional())
        .map_err(|error| cannot(error.to_string()))?;
    let Some(row) = found else { return Ok(None) };
    let act = read(&row).map_err(cannot)?;
    match act.deed {
        Deed::Open(opening) if act.tenant == *tenant && opening.session == *session => Ok(Some(opening)),
        _ => Err(cannot("another act stands in its place".into())),
    }
}

/// Every act in the book, the oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<LineRow>, rusqlite::Error> {
    newer(connection, 0)
}

/// The act of a row, if it is as it was written.
pub(super) fn read(row: &LineRow) -> Result<Act, String> {
    if row.key.is_some() {
        return Err("it has a key".into());
    }
    crate::book::deeds::read(row.call, row.framed())
}
