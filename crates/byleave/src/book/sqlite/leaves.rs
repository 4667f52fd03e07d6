//! Leaves: found through projections, believed only from the records that gave and used them.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use byleave_core::call::Millis;
use byleave_core::digest::Digest;
use byleave_core::entry::Fact;
use byleave_core::grant::GrantedBy;
use byleave_core::id::{AttemptId, CallId, LeaveId, TenantId};
use byleave_core::leave::Leave;
use byleave_core::question::{Answer, Answered};
use byleave_core::record::Record;
use lru::LruCache;
use rusqlite::Connection;

use super::acts::Force;
use super::row::{LineRow, id_at, lines_of, rows_of};
use crate::book::{LeaveItem, LeaveState};

/// What was verified before, so that it need not be walked again.
pub(super) struct Leaves {
    /// With a digest of the rows it was read from: a record that has changed since is read again.
    given: Mutex<LruCache<(TenantId, LeaveId), Given>>,
    /// A use that was seen once is not given back, whatever happens to the record.
    used: Mutex<LruCache<(LeaveId, AttemptId), ()>>,
}

const GIVEN_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4_096 - 1);
const USED_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(16_384 - 1);

type Given = (Digest, Arc<Leave>);

impl Default for Leaves {
    fn default() -> Self {
        Self { given: Mutex::new(LruCache::new(GIVEN_MAX)), used: Mutex::new(LruCache::new(USED_MAX)) }
    }
}

impl Leaves {
    /// The leaves for a tool that count now.
    pub(super) fn standing(
        &self,
        connection: &Connection,
        force: &Force,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> Result<Vec<Arc<Leave>>, rusqlite::Error> {
        let mut statement =
            connection.prepare_cached("SELECT id, call FROM leave WHERE tenant = ?1 AND tool = ?2")?;
        let rows = statement.query_map([tenant.as_str(), tool], |row| {
            Ok((LeaveId::new(id_at(row, 0)?), CallId::new(id_at(row, 1)?)))
        })?;
        let mut standing: Vec<Arc<Leave>> = Vec::new();
        for row in rows {
            let (id, call) = row?;
            if force.is_revoked(id) || standing.iter().any(|leave| leave.id == id) {
                continue;
            }
            let Some(leave) = self.given(connection, tenant, id, call)? else { continue };
            let counts = leave.tool == tool && leave.until.is_none_or(|until| now < until);
            if counts && !self.is_spent(connection, id, leave.uses_max)? {
                standing.push(leave);
            }
        }
        Ok(standing)
    }

    /// Whether a leave has been used as often as it may.
    pub(super) fn is_spent(
        &self,
        connection: &Connection,
        leave: LeaveId,
        uses_max: Option<u32>,
    ) -> Result<bool, rusqlite::Error> {
        let Some(uses_max) = uses_max else { return Ok(false) };
        Ok(self.uses(connection, leave, uses_max)? >= uses_max)
    }

    /// How often a leave was used; counted no further than to `limit`.
    fn uses(&self, connection: &Connection, leave: LeaveId, limit: u32) -> Result<u32, rusqlite::Error> {
        let mut uses: u32 = 0;
        let mut statement =
            connection.prepare_cached("SELECT call, attempt FROM leave_use WHERE leave = ?1")?;
        let mut rows = statement.query([leave.as_bytes()])?;
        while uses < limit
            && let Some(row) = rows.next()?
        {
            let (call, attempt) = (CallId::new(id_at(row, 0)?), AttemptId::new(id_at(row, 1)?));
            if self.was_used(connection, leave, call, attempt)? {
                uses += 1;
            }
        }
        Ok(uses)
    }

    /// Every leave that was given, the newest first, with what has become of it.
    pub(super) fn all(
        &self,
        connection: &Connection,
        force: &Force,
        tenant: &TenantId,
        now: Millis,
    ) -> Result<Vec<LeaveItem>, rusqlite::Error> {
        let sql = "SELECT id, call FROM leave WHERE tenant = ?1 ORDER BY id DESC";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([tenant.as_str()], |row| {
            Ok((LeaveId::new(id_at(row, 0)?), CallId::new(id_at(row, 1)?)))
        })?;
        let mut items: Vec<LeaveItem> = Vec::new();
        for row in rows {
            let (id, call) = row?;
            let record = read(connection, call)?;
            let Some((at, answered, leave)) = gift(&record, tenant, id) else { continue };
            if items.iter().any(|item| item.leave.id == id) {
                continue;
            }
            let uses = self.uses(connection, id, leave.uses_max.unwrap_or(u32::MAX))?;
            let state = if force.is_revoked(id) {
                LeaveState::Revoked
            } else if leave.until.is_some_and(|until| now >= until) {
                LeaveState::Expired
            } else if leave.uses_max.is_some_and(|max| uses >= max) {
                LeaveState::Spent
            } else {
                LeaveState::Standing
            };
            let (leave, by) = (leave.clone(), answered.by.clone());
            items.push(LeaveItem { leave, call, by, given_at: at, uses, state });
        }
        Ok(items)
    }

    /// The leave, if the record that is said to have given it did.
    fn given(
        &self,
        connection: &Connection,
        tenant: &TenantId,
        id: LeaveId,
        call: CallId,
    ) -> Result<Option<Arc<Leave>>, rusqlite::Error> {
        let key = (tenant.clone(), id);
        let rows = rows_of(connection, call)?;
        let print = fingerprint(&rows);
        if let Some((known, leave)) = self.given.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
            && *known == print
        {
            return Ok(Some(Arc::clone(leave)));
        }
        let record = Record::read(call, &lines_of(&rows));
        let leave = gift(&record, tenant, id).map(|(_, _, leave)| Arc::new(leave.clone()));
        if let Some(leave) = &leave {
            self.given.lock().unwrap_or_else(PoisonError::into_inner).put(key, (print, Arc::clone(leave)));
        }
        Ok(leave)
    }

    /// Whether the record that is said to have used a leave did.
    fn was_used(
        &self,
        connection: &Connection,
        leave: LeaveId,
        call: CallId,
        attempt: AttemptId,
    ) -> Result<bool, rusqlite::Error> {
        if self.used.lock().unwrap_or_else(PoisonError::into_inner).get(&(leave, attempt)).is_some() {
            return Ok(true);
        }
        // A record that was damaged later has still used what it used, so the sound lines before count.
        let record = read(connection, call)?;
        let used = record.entries().iter().any(|entry| {
            matches!(&entry.fact, Fact::Begun(Ok(claim))
                if claim.attempt == attempt && claim.by == GrantedBy::Leave(leave))
        });
        if used {
            self.used.lock().unwrap_or_else(PoisonError::into_inner).put((leave, attempt), ());
        }
        Ok(used)
    }
}

/// The answer with which a sound record of this tenant gave a leave, and when.
fn gift<'a>(record: &'a Record, tenant: &TenantId, id: LeaveId) -> Option<(Millis, &'a Answered, &'a Leave)> {
    if record.damage().is_some() || record.heading()?.tenant != *tenant {
        return None;
    }
    record.entries().iter().find_map(|entry| match &entry.fact {
        Fact::Answered(answered) => match &answered.answer {
            Answer::Leave(leave) if leave.id == id => Some((entry.at, answered, leave)),
            _ => None,
        },
        _ => None,
    })
}

fn fingerprint(rows: &[LineRow]) -> Digest {
    let mut parts: Vec<&[u8]> = Vec::with_capacity(rows.len() * 2 + 1);
    let places: Vec<u8> =
        rows.iter().flat_map(|row| [row.seq.to_le_bytes(), row.count.to_le_bytes()]).flatten().collect();
    parts.push(&places);
    for row in rows {
        parts.push(row.head.as_bytes());
        parts.push(&row.body);
    }
    Digest::of_parts("byleave.rows", &parts)
}

/// The record of a call as this connection sees it.
pub(super) fn read(connection: &Connection, call: CallId) -> Result<Record, rusqlite::Error> {
    Ok(Record::read(call, &lines_of(&rows_of(connection, call)?)))
}
