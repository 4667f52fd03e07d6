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
use super::row::{load_record, to_i64, uuid_from_row};
use super::schema::{KIND_ADMIN_ACTION, KIND_RECORD};
use super::standing_approvals::ApprovalCache;
use crate::audit_log::encryption::{self, KeyVault, WRAPPED_BYTES};
use crate::ledger::invariants::{self, StartConditions};
use crate::ledger::{AppendError, AttemptStart, LedgerError, StartBlockedError};

/// An operation to write.
pub(super) enum WriteOp {
    /// Entries of a record.
    Append(Box<RecordAppend>),
    /// An admin action.
    AdminAction(Box<NewAdminAction>),
    /// A segment.
    Segment(SignedSegment),
    /// Rebuilds all projections.
    Rebuild,
}

/// Entries of a record, ready to be written.
pub(super) struct RecordAppend {
    pub(super) expected_len: u32,
    pub(super) prev_link: Digest,
    pub(super) count: u32,
    pub(super) head: Digest,
    pub(super) key: Option<Vec<u8>>,
    pub(super) body: Vec<u8>,
    pub(super) contents: Vec<u8>,
    pub(super) attempt_start: Option<AttemptStart>,
    pub(super) change: ProjectionUpdate,
}

/// An admin action, ready to be written.
pub(super) struct NewAdminAction {
    pub(super) record_id: CallId,
    pub(super) head: Digest,
    pub(super) body: Vec<u8>,
    pub(super) action: AdminAction,
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
    pub(super) action_cache: ActionCache,
    pub(super) approval_cache: ApprovalCache,
}

/// The result of an operation, provided that the transaction commits.
pub(super) type WriteResult = Result<(), AppendError>;

impl WriteOp {
    /// Checks whether the operation needs the admin actions in force.
    pub(super) fn needs_active_actions(&self) -> bool {
        matches!(self, Self::Append(append) if append.can_be_blocked())
    }

    /// Performs the operation in the open transaction. An outer error rolls the whole transaction back.
    pub(super) fn perform(
        &self,
        connection: &Connection,
        bench: &WriteContext,
    ) -> Result<WriteResult, rusqlite::Error> {
        match self {
            Self::Append(append) => append.perform(connection, bench),
            Self::AdminAction(act) => act.perform(connection),
            Self::Segment(segment) => {
                let sql = "INSERT INTO segment(number, body, signature) VALUES(?1, ?2, ?3)";
                connection.execute(sql, params![to_i64(segment.number), segment.body, segment.signature])?;
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
        if self.expected_len > 0 {
            first = self.check_position(connection)?;
            let Some(FirstRow { pos, .. }) = first else { return Ok(Err(AppendError::Stale)) };
            if !self.is_same_session(connection, pos)? {
                let fault =
                    LedgerError::new("cannot append to a record", "the call belongs to another session");
                return Ok(Err(AppendError::Ledger(fault)));
            }
        } else if self.prev_link != byleave_core::hash_chain::GENESIS {
            return Ok(Err(AppendError::Stale));
        }
        if self.can_be_blocked() {
            // For an existing record, `Stale` takes precedence over a hindrance.
            if first.is_none() && exists(connection, self.change.call)? {
                return Ok(Err(AppendError::Stale));
            }
            match self.start_blocked(connection, bench) {
                Ok(None) => {}
                Ok(Some(hindrance)) => return Ok(Err(AppendError::StartBlocked(hindrance))),
                Err(CheckError::Sqlite(error)) => return Err(error),
                Err(CheckError::Ledger(fault)) => return Ok(Err(AppendError::Ledger(fault))),
            }
        }
        let sql = "INSERT INTO batch(call, kind, seq, count, head, key, body, contents)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING";
        let written = connection.prepare_cached(sql)?.execute(params![
            self.change.call.as_bytes(),
            KIND_RECORD,
            self.expected_len,
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
        projections::apply_change(connection, first.pos, pos, &self.change)?;
        if first.forgotten {
            // The process that continues the call may still know its summary. The lists must not store it again.
            projections::forget(connection, first.pos)?;
        }
        Ok(Ok(()))
    }

    /// Returns the first row of the record, if the record has the expected length and last link.
    fn check_position(&self, connection: &Connection) -> Result<Option<FirstRow>, rusqlite::Error> {
        let sql = "SELECT seq + count, head, kind FROM batch WHERE call = ?1 ORDER BY seq DESC LIMIT 1";
        let end = connection
            .prepare_cached(sql)?
            .query_row([self.change.call.as_bytes()], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?, row.get::<_, i64>(2)?))
            })
            .optional()?;
        if end != Some((i64::from(self.expected_len), *self.prev_link.as_bytes(), KIND_RECORD)) {
            return Ok(None);
        }
        let sql = "SELECT pos, key FROM batch WHERE call = ?1 AND seq = 0";
        let first = connection.prepare_cached(sql)?.query_row([self.change.call.as_bytes()], |row| {
            let wrapped = row.get_ref(1)?.as_bytes_or_null()?;
            Ok(FirstRow { pos: row.get(0)?, forgotten: wrapped.is_some_and(encryption::is_destroyed) })
        });
        first.optional()
    }

    /// Checks whether the list, if it has the call, has it under the same tenant and session.
    fn is_same_session(&self, connection: &Connection, first: i64) -> Result<bool, rusqlite::Error> {
        let sql = "SELECT 1 FROM call WHERE pos = ?1 AND (tenant <> ?2 OR session <> ?3)";
        let listing = &self.change.call_summary;
        let values = params![first, listing.tenant.as_str(), listing.session.as_str()];
        Ok(!connection.prepare_cached(sql)?.exists(values)?)
    }

    /// Checks whether an attempt begins here, or began and ended here using a standing approval.
    fn can_be_blocked(&self) -> bool {
        self.attempt_start.is_some() || !self.change.index_fields.approvals_used.is_empty()
    }

    fn start_blocked(
        &self,
        connection: &Connection,
        bench: &WriteContext,
    ) -> Result<Option<StartBlockedError>, CheckError> {
        let listing = &self.change.call_summary;
        let force = bench.action_cache.read_uncached(connection)?;
        let exclusive = self.attempt_start.is_some_and(|begins| begins.exclusive);
        let seat = if exclusive {
            running_exclusive(
                connection,
                listing.tenant.as_str(),
                listing.session.as_str(),
                self.change.call,
            )?
        } else {
            None
        };
        let standing = StartConditions {
            halt: force.active_halt(&listing.tenant),
            approval_usable: self.has_uses_left(connection, bench, &force)?,
            exclusive_attempt: seat,
        };
        Ok(invariants::start_blocked(self.change.call, self.attempt_start.as_ref(), standing))
    }

    fn has_uses_left(
        &self,
        connection: &Connection,
        bench: &WriteContext,
        force: &ActiveActions,
    ) -> Result<bool, rusqlite::Error> {
        let used = &self.change.index_fields.approvals_used;
        let place = (&self.change.call_summary.tenant, self.change.call_summary.tool.as_str());
        for (leave, _) in used {
            let more = used.iter().filter(|(other, _)| other == leave).count();
            let asked = self
                .attempt_start
                .and_then(|begins| begins.standing_approval)
                .filter(|(other, _)| other == leave);
            let asked_max = asked.and_then(|(_, max)| max);
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            if !bench.approval_cache.has_uses_left(connection, force, place, *leave, more, asked_max)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the attempt that runs alone in the session, if its record confirms it.
fn running_exclusive(
    connection: &Connection,
    tenant: &str,
    session: &str,
    but: CallId,
) -> Result<Option<(CallId, AttemptId)>, rusqlite::Error> {
    let sql = "SELECT call, attempt FROM exclusive_attempt WHERE tenant = ?1 AND session = ?2 AND call <> ?3";
    let seats: Vec<(CallId, AttemptId)> = connection
        .prepare_cached(sql)?
        .query_map(params![tenant, session, but.as_bytes()], |row| {
            Ok((CallId::new(uuid_from_row(row, 0)?), AttemptId::new(uuid_from_row(row, 1)?)))
        })?
        .collect::<Result<_, _>>()?;
    for (call, attempt) in seats {
        // A seat without an open attempt on its record would block the session permanently.
        let open = invariants::open_attempt(&load_record(connection, call)?);
        if open.is_some_and(|(open, _)| open == attempt) {
            return Ok(Some((call, attempt)));
        }
        let sql = "DELETE FROM exclusive_attempt WHERE tenant = ?1 AND session = ?2 AND call = ?3";
        connection.prepare_cached(sql)?.execute(params![tenant, session, call.as_bytes()])?;
    }
    Ok(None)
}

fn exists(connection: &Connection, call: CallId) -> Result<bool, rusqlite::Error> {
    connection.prepare_cached("SELECT 1 FROM batch WHERE call = ?1 LIMIT 1")?.exists([call.as_bytes()])
}

impl NewAdminAction {
    fn perform(&self, connection: &Connection) -> Result<WriteResult, rusqlite::Error> {
        if let AdminActionKind::OpenSession(opening) = &self.action.kind
            && let Err(fault) = self.check_opening(connection, opening)
        {
            return Ok(Err(AppendError::Ledger(fault)));
        }
        let sql = "INSERT INTO batch(call, kind, seq, count, head, body, contents)
             VALUES(?1, ?2, 0, 1, ?3, ?4, x'') ON CONFLICT DO NOTHING";
        let place = self.record_id.as_bytes();
        let written = connection.prepare_cached(sql)?.execute(params![
            place,
            KIND_ADMIN_ACTION,
            self.head.as_bytes(),
            self.body
        ])?;
        if written == 0 && !self.is_recorded(connection)? {
            let fault = LedgerError::new("cannot write an admin action", "its id is already in use");
            return Ok(Err(AppendError::Ledger(fault)));
        }
        if let AdminActionKind::Forget { call } = &self.action.kind {
            destroy_key(connection, *call, &self.action.tenant)?;
        }
        Ok(Ok(()))
    }

    fn check_opening(&self, connection: &Connection, opening: &SessionNode) -> Result<(), LedgerError> {
        let parent = match &opening.parent {
            Some(parent) => admin_actions::session_node(connection, &self.action.tenant, parent)?,
            None => None,
        };
        invariants::check_opening(&self.action, opening, parent.is_some())
    }

    fn is_recorded(&self, connection: &Connection) -> Result<bool, rusqlite::Error> {
        let sql = "SELECT 1 FROM batch WHERE call = ?1 AND kind = ?2 AND head = ?3";
        connection.prepare_cached(sql)?.exists(params![
            self.record_id.as_bytes(),
            KIND_ADMIN_ACTION,
            self.head.as_bytes()
        ])
    }
}

/// Overwrites the wrapped key of a record in place, with zeros of the same length.
///
/// The record must belong to the same tenant. Nobody may erase records of another tenant.
fn destroy_key(connection: &Connection, call: CallId, tenant: &TenantId) -> Result<(), rusqlite::Error> {
    if load_record(connection, call)?.header().is_some_and(|heading| heading.tenant != *tenant) {
        return Ok(());
    }
    let sql = format!("SELECT pos FROM batch WHERE call = ?1 AND seq = 0 AND kind = {KIND_RECORD}");
    let first = connection.query_row(&sql, [call.as_bytes()], |row| row.get::<_, i64>(0)).optional()?;
    let Some(first) = first else { return Ok(()) };
    let zeros = [0_u8; WRAPPED_BYTES];
    connection
        .execute("UPDATE batch SET key = ?2 WHERE pos = ?1 AND key IS NOT NULL", params![first, zeros])?;
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
