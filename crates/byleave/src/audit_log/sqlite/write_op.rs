//! Write operations and the checks that run directly before them, within one transaction.
//!
//! An operation makes all its checks before it writes its first row. One operation can therefore be rejected without
//! affecting the others in the same transaction.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::digest::Digest;
use byleave_core::id::{AttemptId, CallId, TenantId};
use byleave_core::session::SessionNode;
use rusqlite::{Connection, OptionalExtension, params};

use super::admin_actions::{self, ActionCache, ActiveActions};
use super::projections::{self, ProjectionUpdate};
use super::row::{id_at, record_of, signed};
use super::schema::{ACT, RECORD};
use super::standing_approvals::ApprovalCache;
use crate::audit_log::encryption::{self, KeyVault, WRAPPED_BYTES};
use crate::ledger::invariants::{self, StartConditions};
use crate::ledger::{AppendError, AttemptStart, LedgerError, StartBlockedError};

/// An operation to write.
pub(super) enum WriteOp {
    /// Entries of a record.
    Append(Box<RecordAppend>),
    /// An admin action.
    Act(Box<NewAdminAction>),
    /// A segment.
    Segment(SignedSegment),
    /// Rebuilds all projections.
    Rebuild,
}

/// Entries of a record, ready to be written.
pub(super) struct RecordAppend {
    pub(super) at_len: u32,
    pub(super) before: Digest,
    pub(super) count: u32,
    pub(super) head: Digest,
    pub(super) key: Option<Vec<u8>>,
    pub(super) body: Vec<u8>,
    pub(super) contents: Vec<u8>,
    pub(super) begins: Option<AttemptStart>,
    pub(super) change: ProjectionUpdate,
}

/// An admin action, ready to be written.
pub(super) struct NewAdminAction {
    pub(super) place: CallId,
    pub(super) head: Digest,
    pub(super) body: Vec<u8>,
    pub(super) act: AdminAction,
}

/// A signed segment, as it is stored.
pub(super) struct SignedSegment {
    pub(super) number: u64,
    pub(super) body: Vec<u8>,
    pub(super) signature: Vec<u8>,
}

/// The state that write operations need.
pub(super) struct WriteContext {
    pub(super) vault: KeyVault,
    pub(super) acts: ActionCache,
    pub(super) leaves: ApprovalCache,
}

/// The result of an operation, provided that the transaction commits.
pub(super) type WriteResult = Result<(), AppendError>;

impl WriteOp {
    /// Checks whether the operation needs the admin actions in force.
    pub(super) fn begins(&self) -> bool {
        matches!(self, Self::Append(append) if append.can_be_hindered())
    }

    /// Performs the operation in the open transaction. An outer error rolls the whole transaction back.
    pub(super) fn perform(
        &self,
        connection: &Connection,
        bench: &WriteContext,
    ) -> Result<WriteResult, rusqlite::Error> {
        match self {
            Self::Append(append) => append.perform(connection, bench),
            Self::Act(act) => act.perform(connection),
            Self::Segment(segment) => {
                let sql = "INSERT INTO segment(number, body, signature) VALUES(?1, ?2, ?3)";
                connection.execute(sql, params![signed(segment.number), segment.body, segment.signature])?;
                Ok(Ok(()))
            }
            Self::Rebuild => projections::rebuild(connection, &bench.vault).map(Ok),
        }
    }
}

/// The first row of a record.
#[derive(Clone, Copy)]
struct FirstRow {
    pos: i64,
    forgotten: bool,
}

impl RecordAppend {
    fn perform(&self, connection: &Connection, bench: &WriteContext) -> Result<WriteResult, rusqlite::Error> {
        let mut first = None;
        if self.at_len > 0 {
            first = self.fits(connection)?;
            let Some(FirstRow { pos, .. }) = first else { return Ok(Err(AppendError::Stale)) };
            if !self.is_listed_as_before(connection, pos)? {
                let fault = LedgerError::new("cannot append to a record", "the call is of another session");
                return Ok(Err(AppendError::Fault(fault)));
            }
        } else if self.before != byleave_core::hash_chain::GENESIS {
            return Ok(Err(AppendError::Stale));
        }
        if self.can_be_hindered() {
            // For an existing record, `Stale` takes precedence over a hindrance.
            if first.is_none() && exists(connection, self.change.call)? {
                return Ok(Err(AppendError::Stale));
            }
            match self.hindrance(connection, bench) {
                Ok(None) => {}
                Ok(Some(hindrance)) => return Ok(Err(AppendError::Hindered(hindrance))),
                Err(CheckError::Sqlite(error)) => return Err(error),
                Err(CheckError::Ledger(fault)) => return Ok(Err(AppendError::Fault(fault))),
            }
        }
        let sql = "INSERT INTO line(call, kind, seq, count, head, key, body, contents)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING";
        let written = connection.prepare_cached(sql)?.execute(params![
            self.change.call.as_bytes(),
            RECORD,
            self.at_len,
            self.count,
            self.head.as_bytes(),
            self.key,
            self.body,
            self.contents,
        ])?;
        if written == 0 {
            return Ok(Err(AppendError::Stale));
        }
        let pos = connection.last_insert_rowid();
        let first = first.unwrap_or(FirstRow { pos, forgotten: false });
        projections::project(connection, first.pos, pos, &self.change)?;
        if first.forgotten {
            // The process that continues the call may still know its summary. The lists must not store it again.
            projections::forget(connection, first.pos)?;
        }
        Ok(Ok(()))
    }

    /// Returns the first row of the record, if the record has the expected length and last link.
    fn fits(&self, connection: &Connection) -> Result<Option<FirstRow>, rusqlite::Error> {
        let sql = "SELECT seq + count, head, kind FROM line WHERE call = ?1 ORDER BY seq DESC LIMIT 1";
        let end = connection
            .prepare_cached(sql)?
            .query_row([self.change.call.as_bytes()], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?, row.get::<_, i64>(2)?))
            })
            .optional()?;
        if end != Some((i64::from(self.at_len), *self.before.as_bytes(), RECORD)) {
            return Ok(None);
        }
        let sql = "SELECT pos, key FROM line WHERE call = ?1 AND seq = 0";
        let first = connection.prepare_cached(sql)?.query_row([self.change.call.as_bytes()], |row| {
            let wrapped = row.get_ref(1)?.as_bytes_or_null()?;
            Ok(FirstRow { pos: row.get(0)?, forgotten: wrapped.is_some_and(encryption::is_destroyed) })
        });
        first.optional()
    }

    /// Checks whether the list, if it has the call, has it under the same tenant and session.
    fn is_listed_as_before(&self, connection: &Connection, first: i64) -> Result<bool, rusqlite::Error> {
        let sql = "SELECT 1 FROM call WHERE pos = ?1 AND (tenant <> ?2 OR session <> ?3)";
        let listing = &self.change.listing;
        let values = params![first, listing.tenant.as_str(), listing.session.as_str()];
        Ok(!connection.prepare_cached(sql)?.exists(values)?)
    }

    /// Checks whether an attempt begins here, or began and ended here using a standing approval.
    fn can_be_hindered(&self) -> bool {
        self.begins.is_some() || !self.change.marks.leaves_used.is_empty()
    }

    fn hindrance(
        &self,
        connection: &Connection,
        bench: &WriteContext,
    ) -> Result<Option<StartBlockedError>, CheckError> {
        let listing = &self.change.listing;
        let force = bench.acts.peek(connection)?;
        let exclusive = self.begins.is_some_and(|begins| begins.exclusive);
        let seat = if exclusive {
            taken_seat(connection, listing.tenant.as_str(), listing.session.as_str(), self.change.call)?
        } else {
            None
        };
        let standing = StartConditions {
            halt: force.halted(&listing.tenant),
            leave_left: self.leave_left(connection, bench, &force)?,
            seat,
        };
        Ok(invariants::hindrance(self.change.call, self.begins.as_ref(), standing))
    }

    fn leave_left(
        &self,
        connection: &Connection,
        bench: &WriteContext,
        force: &ActiveActions,
    ) -> Result<bool, rusqlite::Error> {
        let used = &self.change.marks.leaves_used;
        let place = (&self.change.listing.tenant, self.change.listing.tool.as_str());
        for (leave, _) in used {
            let more = used.iter().filter(|(other, _)| other == leave).count();
            let asked = self.begins.and_then(|begins| begins.leave).filter(|(other, _)| other == leave);
            let asked_max = asked.and_then(|(_, max)| max);
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            if !bench.leaves.is_left(connection, force, place, *leave, more, asked_max)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the attempt that runs alone in the session, if its record confirms it.
fn taken_seat(
    connection: &Connection,
    tenant: &str,
    session: &str,
    but: CallId,
) -> Result<Option<(CallId, AttemptId)>, rusqlite::Error> {
    let sql = "SELECT call, attempt FROM seat WHERE tenant = ?1 AND session = ?2 AND call <> ?3";
    let seats: Vec<(CallId, AttemptId)> = connection
        .prepare_cached(sql)?
        .query_map(params![tenant, session, but.as_bytes()], |row| {
            Ok((CallId::new(id_at(row, 0)?), AttemptId::new(id_at(row, 1)?)))
        })?
        .collect::<Result<_, _>>()?;
    for (call, attempt) in seats {
        // A seat without an open attempt on its record would block the session permanently.
        let open = invariants::open_attempt(&record_of(connection, call)?);
        if open.is_some_and(|(open, _)| open == attempt) {
            return Ok(Some((call, attempt)));
        }
        let sql = "DELETE FROM seat WHERE tenant = ?1 AND session = ?2 AND call = ?3";
        connection.prepare_cached(sql)?.execute(params![tenant, session, call.as_bytes()])?;
    }
    Ok(None)
}

fn exists(connection: &Connection, call: CallId) -> Result<bool, rusqlite::Error> {
    connection.prepare_cached("SELECT 1 FROM line WHERE call = ?1 LIMIT 1")?.exists([call.as_bytes()])
}

impl NewAdminAction {
    fn perform(&self, connection: &Connection) -> Result<WriteResult, rusqlite::Error> {
        if let AdminActionKind::Open(opening) = &self.act.deed
            && let Err(fault) = self.check_opening(connection, opening)
        {
            return Ok(Err(AppendError::Fault(fault)));
        }
        let sql = "INSERT INTO line(call, kind, seq, count, head, body, contents)
             VALUES(?1, ?2, 0, 1, ?3, ?4, x'') ON CONFLICT DO NOTHING";
        let place = self.place.as_bytes();
        let written =
            connection.prepare_cached(sql)?.execute(params![place, ACT, self.head.as_bytes(), self.body])?;
        if written == 0 && !self.is_there(connection)? {
            let fault = LedgerError::new("cannot write an act", "its id is taken");
            return Ok(Err(AppendError::Fault(fault)));
        }
        if let AdminActionKind::Forget { call } = &self.act.deed {
            destroy_key(connection, *call, &self.act.tenant)?;
        }
        Ok(Ok(()))
    }

    fn check_opening(&self, connection: &Connection, opening: &SessionNode) -> Result<(), LedgerError> {
        let parent = match &opening.parent {
            Some(parent) => admin_actions::opening(connection, &self.act.tenant, parent)?,
            None => None,
        };
        invariants::check_opening(&self.act, opening, parent.is_some())
    }

    fn is_there(&self, connection: &Connection) -> Result<bool, rusqlite::Error> {
        let sql = "SELECT 1 FROM line WHERE call = ?1 AND kind = ?2 AND head = ?3";
        connection.prepare_cached(sql)?.exists(params![self.place.as_bytes(), ACT, self.head.as_bytes()])
    }
}

/// Overwrites the wrapped key of a record in place, with zeros of the same length.
///
/// The record must belong to the same tenant. Nobody may erase records of another tenant.
fn destroy_key(connection: &Connection, call: CallId, tenant: &TenantId) -> Result<(), rusqlite::Error> {
    if record_of(connection, call)?.heading().is_some_and(|heading| heading.tenant != *tenant) {
        return Ok(());
    }
    let sql = format!("SELECT pos FROM line WHERE call = ?1 AND seq = 0 AND kind = {RECORD}");
    let first = connection.query_row(&sql, [call.as_bytes()], |row| row.get::<_, i64>(0)).optional()?;
    let Some(first) = first else { return Ok(()) };
    let zeros = [0_u8; WRAPPED_BYTES];
    connection
        .execute("UPDATE line SET key = ?2 WHERE pos = ?1 AND key IS NOT NULL", params![first, zeros])?;
    projections::forget(connection, first)
}

enum CheckError {
    Sqlite(rusqlite::Error),
    Ledger(LedgerError),
}

impl From<rusqlite::Error> for CheckError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<LedgerError> for CheckError {
    fn from(fault: LedgerError) -> Self {
        Self::Ledger(fault)
    }
}
