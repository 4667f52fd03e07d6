//! Standing approvals: found through projections, and trusted only from the records that gave and used them.

use std::num::NonZeroUsize;
use std::sync::Arc;

use byleave_core::call::Millis;
use byleave_core::digest::Digest;
use byleave_core::id::{AttemptId, CallId, StandingApprovalId, TenantId};
use byleave_core::record::Record;
use byleave_core::standing_approval::{ANY_TOOL, StandingApproval};
use lru::LruCache;
use parking_lot::Mutex;
use rusqlite::{Connection, params};

use super::admin_actions::ActiveActions;
use super::row::{EntryRow, decode_entries, load_record, load_rows, uuid_from_row};
use crate::audit_log::approval_usage::{self, ApprovalOrigin, find_origin};
use crate::audit_log::{StandingApprovalItem, StandingApprovalState};
use crate::ledger::invariants;

/// A cache of verified results, so that records need not be read again.
pub(super) struct ApprovalCache {
    /// With a digest of the rows it was read from. A record that has changed since is read again.
    granted: Mutex<LruCache<(TenantId, StandingApprovalId, CallId), GrantedApproval>>,
    /// A use that was seen once stays counted, even if the record changes.
    used: Mutex<LruCache<(StandingApprovalId, AttemptId), ()>>,
}

const GIVEN_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4_096 - 1);
const USED_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(16_384 - 1);

type GrantedApproval = (Digest, i64, Arc<StandingApproval>);

impl Default for ApprovalCache {
    fn default() -> Self {
        Self { granted: Mutex::new(LruCache::new(GIVEN_MAX)), used: Mutex::new(LruCache::new(USED_MAX)) }
    }
}

impl ApprovalCache {
    /// Returns the standing approvals for a tool that are valid now.
    pub(super) fn usable(
        &self,
        connection: &Connection,
        force: &ActiveActions,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> Result<Vec<Arc<StandingApproval>>, rusqlite::Error> {
        let mut standing: Vec<Arc<StandingApproval>> = Vec::new();
        for leave in self.first_granted(connection, tenant, tool, None)? {
            if invariants::is_in_time(&leave, now)
                && !force.is_revoked(tenant, leave.id)
                && invariants::has_uses_left(&leave, self.uses(connection, &leave, leave.max_uses)?, 1, None)
            {
                standing.push(leave);
            }
        }
        Ok(standing)
    }

    /// Checks whether a standing approval for a tool is not revoked and has `more` uses left. `asked_max` is the batch's limit.
    pub(super) fn has_uses_left(
        &self,
        connection: &Connection,
        force: &ActiveActions,
        (tenant, tool): (&TenantId, &str),
        leave: StandingApprovalId,
        more: u32,
        asked_max: Option<u32>,
    ) -> Result<bool, rusqlite::Error> {
        let given = self.first_granted(connection, tenant, tool, Some(leave))?;
        let Some(leave) = given.first().filter(|leave| !force.is_revoked(tenant, leave.id)) else {
            return Ok(false);
        };
        let uses = self.uses(connection, leave, leave.max_uses.into_iter().chain(asked_max).min())?;
        Ok(invariants::has_uses_left(leave, uses, more, asked_max))
    }

    /// Returns the standing approvals for a tool, or one of them. If one id was given twice, the first applies.
    fn first_granted(
        &self,
        connection: &Connection,
        tenant: &TenantId,
        tool: &str,
        only: Option<StandingApprovalId>,
    ) -> Result<Vec<Arc<StandingApproval>>, rusqlite::Error> {
        let sql = "SELECT id, call FROM standing_approval WHERE tenant = ?1 AND tool IN (?2, ?4) AND (?3 IS NULL OR id = ?3)";
        let mut statement = connection.prepare_cached(sql)?;
        let only = only.as_ref().map(StandingApprovalId::as_bytes);
        let rows = statement.query_map(params![tenant.as_str(), tool, only, ANY_TOOL], |row| {
            Ok((StandingApprovalId::new(uuid_from_row(row, 0)?), CallId::new(uuid_from_row(row, 1)?)))
        })?;
        let mut first: Vec<(i64, Arc<StandingApproval>)> = Vec::new();
        for row in rows {
            let (id, call) = row?;
            let Some((pos, leave)) = self.verified_grant(connection, tenant, id, call)? else { continue };
            if !leave.is_for_tool(tool) {
                continue;
            }
            match first.iter_mut().find(|(_, known)| known.id == id) {
                Some(known) if pos < known.0 => *known = (pos, leave),
                Some(_) => {}
                None => first.push((pos, leave)),
            }
        }
        Ok(first.into_iter().map(|(_, leave)| leave).collect())
    }

    /// Counts the uses of a standing approval, no further than needed.
    fn uses(
        &self,
        connection: &Connection,
        leave: &StandingApproval,
        uses_max: Option<u32>,
    ) -> Result<u32, rusqlite::Error> {
        let Some(uses_max) = uses_max else { return Ok(0) };
        let mut uses: u32 = 0;
        let mut statement = connection
            .prepare_cached("SELECT call, attempt FROM standing_approval_use WHERE approval = ?1")?;
        let mut rows = statement.query([leave.id.as_bytes()])?;
        while uses < uses_max
            && let Some(row) = rows.next()?
        {
            let (call, attempt) =
                (CallId::new(uuid_from_row(row, 0)?), AttemptId::new(uuid_from_row(row, 1)?));
            if self.was_used(connection, leave.id, call, attempt)? {
                uses += 1;
            }
        }
        Ok(uses)
    }

    /// Returns all standing approvals, the newest first, with their current state.
    pub(super) fn list_all(
        &self,
        connection: &Connection,
        force: &ActiveActions,
        tenant: &TenantId,
        now: Millis,
    ) -> Result<Vec<StandingApprovalItem>, rusqlite::Error> {
        let sql = "SELECT DISTINCT id, call FROM standing_approval WHERE tenant = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([tenant.as_str()], |row| {
            Ok((StandingApprovalId::new(uuid_from_row(row, 0)?), CallId::new(uuid_from_row(row, 1)?)))
        })?;
        let mut given: Vec<(i64, CallId, Arc<StandingApproval>)> = Vec::new();
        for row in rows {
            let (id, call) = row?;
            given.extend(
                self.verified_grant(connection, tenant, id, call)?.map(|(pos, leave)| (pos, call, leave)),
            );
        }
        // If one id was given twice for one tool, the first applies.
        given.sort_by_key(|(pos, ..)| *pos);
        let mut items: Vec<StandingApprovalItem> = Vec::new();
        for (_, call, leave) in given {
            if items.iter().any(|item| {
                item.standing_approval.id == leave.id && item.standing_approval.tool == leave.tool
            }) {
                continue;
            }
            let record = load_record(connection, call)?;
            let Some(ApprovalOrigin { at, answer: answered, .. }) = find_origin(&record, tenant, leave.id)
            else {
                continue;
            };
            let uses = self.uses(connection, &leave, leave.max_uses.or(Some(u32::MAX)))?;
            let state = if force.is_revoked(tenant, leave.id) {
                StandingApprovalState::Revoked
            } else if !invariants::is_in_time(&leave, now) {
                StandingApprovalState::Expired
            } else if !invariants::has_uses_left(&leave, uses, 1, None) {
                StandingApprovalState::UsedUp
            } else {
                StandingApprovalState::Active
            };
            let (leave, by) = ((*leave).clone(), answered.approver.clone());
            items.push(StandingApprovalItem {
                standing_approval: leave,
                call,
                approver: by,
                granted_at: at,
                uses,
                state,
            });
        }
        items.reverse();
        Ok(items)
    }

    /// Returns the standing approval and its row, if the indexed record really gave it.
    fn verified_grant(
        &self,
        connection: &Connection,
        tenant: &TenantId,
        id: StandingApprovalId,
        call: CallId,
    ) -> Result<Option<(i64, Arc<StandingApproval>)>, rusqlite::Error> {
        let key = (tenant.clone(), id, call);
        let rows = load_rows(connection, call)?;
        let print = fingerprint(&rows);
        if let Some((known, pos, leave)) = self.granted.lock().get(&key)
            && *known == print
        {
            return Ok(Some((*pos, Arc::clone(leave))));
        }
        let record = Record::from_stored_entries(call, &decode_entries(&rows));
        let Some(gift) = find_origin(&record, tenant, id) else { return Ok(None) };
        let leave = Arc::new(gift.standing_approval.clone());
        let pos = rows.iter().rfind(|row| row.seq <= gift.seq).map_or(i64::MAX, |row| row.pos);
        let known = (print, pos, Arc::clone(&leave));
        self.granted.lock().put(key, known);
        Ok(Some((pos, leave)))
    }

    /// Checks whether the indexed record really used a standing approval.
    fn was_used(
        &self,
        connection: &Connection,
        leave: StandingApprovalId,
        call: CallId,
        attempt: AttemptId,
    ) -> Result<bool, rusqlite::Error> {
        if self.used.lock().get(&(leave, attempt)).is_some() {
            return Ok(true);
        }
        // A use on a record that was damaged later is still a use, so the valid entries before the damage apply.
        let record = load_record(connection, call)?;
        let used = approval_usage::was_used(&record, leave, attempt);
        if used {
            self.used.lock().put((leave, attempt), ());
        }
        Ok(used)
    }
}

fn fingerprint(rows: &[EntryRow]) -> Digest {
    let mut parts: Vec<&[u8]> = Vec::with_capacity(rows.len() * 2 + 1);
    let places: Vec<u8> =
        rows.iter().flat_map(|row| [row.seq.to_le_bytes(), row.count.to_le_bytes()]).flatten().collect();
    parts.push(&places);
    for row in rows {
        parts.push(row.head.as_bytes());
        parts.push(&row.body);
    }
    Digest::compute_parts("byleave.rows", &parts)
}
