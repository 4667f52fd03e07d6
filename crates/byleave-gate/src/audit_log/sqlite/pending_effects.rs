//! The index of pending effects: those of calls that a person was asked about and that have not ended, answered or not. Later
//! calls that conflict with them keep their order.
//!
//! Lookups use an index, so their cost does not depend on the number of waiting calls. [`Effect::conflicts_with`] decides.

use byleave_core::effect::{Effect, Plan};
use byleave_core::id::CallId;
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::row::uuid_from_row;
use crate::ledger::CallSummary;

const RUN: i64 = 0;
const READ: i64 = 1;
const WRITE: i64 = 2;
const REACH: i64 = 3;
const INVOKE: i64 = 4;
const ANYTHING: i64 = 5;

/// Stores the effects of a waiting call.
pub(super) fn insert_holds(
    connection: &Connection,
    first: i64,
    listing: &CallSummary,
    effects: &[Effect],
) -> Result<(), rusqlite::Error> {
    let sql = "INSERT INTO pending_effect(tenant, session, kind, target, call) VALUES(?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO NOTHING";
    for effect in effects {
        let (kind, target) = index_key(effect);
        connection.prepare_cached(sql)?.execute(params![
            listing.tenant.as_str(),
            listing.session.as_str(),
            kind,
            target,
            first
        ])?;
    }
    Ok(())
}

/// Deletes the pending effects of a call.
pub(super) fn clear_holds(connection: &Connection, first: i64) -> Result<(), rusqlite::Error> {
    connection.prepare_cached("DELETE FROM pending_effect WHERE call = ?1")?.execute([first])?;
    Ok(())
}

/// Returns a waiting call of the session that came in before this one, conflicts with the plan and is not passed over.
pub(super) fn blocking_call(
    connection: &Connection,
    (tenant, session): (&str, &str),
    call: CallId,
    plan: &Plan,
    passed_over: &[CallId],
) -> Result<Option<CallId>, rusqlite::Error> {
    // Usually no call waits.
    let any = "SELECT 1 FROM pending_effect WHERE tenant = ?1 AND session = ?2 LIMIT 1";
    if plan.effects.is_empty() || !connection.prepare_cached(any)?.exists([tenant, session])? {
        return Ok(None);
    }
    let first = |call: &CallId| {
        let sql = "SELECT pos FROM batch WHERE call = ?1 AND seq = 0";
        connection.prepare_cached(sql)?.query_row([call.as_bytes()], |row| row.get(0)).optional()
    };
    let before = first(&call)?.unwrap_or(i64::MAX);
    let passed_over: Result<Vec<Option<i64>>, rusqlite::Error> = passed_over.iter().map(first).collect();
    let passed_over = passed_over?.into_iter().flatten().collect();
    let search = ConflictSearch { connection, tenant, session, before, passed_over };
    for effect in &plan.effects {
        if let Some(first) = search.find_conflict(effect)? {
            let sql = "SELECT call FROM batch WHERE pos = ?1";
            let found =
                connection.prepare_cached(sql)?.query_row([first], |row| uuid_from_row(row, 0)).optional()?;
            return Ok(found.map(CallId::new));
        }
    }
    Ok(None)
}

struct ConflictSearch<'a> {
    connection: &'a Connection,
    tenant: &'a str,
    session: &'a str,
    before: i64,
    passed_over: Vec<i64>,
}

impl ConflictSearch<'_> {
    fn find_conflict(&self, effect: &Effect) -> Result<Option<i64>, rusqlite::Error> {
        let (kind, target) = index_key(effect);
        let mut found = None;
        let mut look = |more: Result<Option<i64>, rusqlite::Error>| {
            if found.is_none() {
                found = more?;
            }
            Ok::<bool, rusqlite::Error>(found.is_some())
        };
        if kind == ANYTHING {
            look(self.find_any())?;
            return Ok(found);
        }
        if look(self.find_exact(effect, ANYTHING, ""))? {
            return Ok(found);
        }
        match kind {
            REACH | INVOKE => {
                look(self.find_exact(effect, kind, target))?;
            }
            READ => {
                look(self.find_on_path(effect, WRITE, target))?;
            }
            WRITE => {
                let _found = look(self.find_on_path(effect, WRITE, target))?
                    || look(self.find_on_path(effect, READ, target))?;
            }
            _ => {}
        }
        Ok(found)
    }

    fn find_any(&self) -> Result<Option<i64>, rusqlite::Error> {
        let sql = "SELECT call FROM pending_effect WHERE tenant = ?1 AND session = ?2 AND call < ?3";
        self.first_counted(sql, params![self.tenant, self.session, self.before])
    }

    /// Returns the first call of a query that is not passed over. Rows are read only as far as that.
    fn first_counted(&self, sql: &str, values: impl Params) -> Result<Option<i64>, rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        while let Some(row) = rows.next()? {
            let call = row.get(0)?;
            if !self.passed_over.contains(&call) {
                return Ok(Some(call));
            }
        }
        Ok(None)
    }

    fn find_exact(&self, effect: &Effect, kind: i64, target: &str) -> Result<Option<i64>, rusqlite::Error> {
        if !effect.conflicts_with(&effect_from_key(kind, target)) {
            return Ok(None);
        }
        let sql = "SELECT call FROM pending_effect
             WHERE tenant = ?1 AND session = ?2 AND kind = ?3 AND target = ?4 AND call < ?5";
        self.first_counted(sql, params![self.tenant, self.session, kind, target, self.before])
    }

    /// Looks up the path itself, everything above it and everything beneath it.
    fn find_on_path(&self, effect: &Effect, kind: i64, path: &str) -> Result<Option<i64>, rusqlite::Error> {
        let above = path.char_indices().filter(|(_, c)| *c == '/').filter_map(|(at, _)| path.get(..at));
        for target in above.chain([path]) {
            if let Some(first) = self.find_exact(effect, kind, target)? {
                return Ok(Some(first));
            }
        }
        // `0` comes right after `/`. Everything beneath the path sorts between the two.
        let sql = "SELECT call, target FROM pending_effect
             WHERE tenant = ?1 AND session = ?2 AND kind = ?3 AND target >= ?4 AND target < ?5 AND call < ?6";
        let mut statement = self.connection.prepare_cached(sql)?;
        let (from, to) = (format!("{path}/"), format!("{path}0"));
        let mut rows = statement.query(params![self.tenant, self.session, kind, from, to, self.before])?;
        while let Some(row) = rows.next()? {
            let target: String = row.get(1)?;
            let call = row.get(0)?;
            if !self.passed_over.contains(&call) && effect.conflicts_with(&effect_from_key(kind, &target)) {
                return Ok(Some(call));
            }
        }
        Ok(None)
    }
}

/// Returns the index key of an effect. Paths have no trailing slash, so that each has one spelling.
fn index_key(effect: &Effect) -> (i64, &str) {
    match effect {
        Effect::Run { .. } => (RUN, ""),
        Effect::Read { path } => (READ, path.trim_end_matches('/')),
        Effect::Write { path } | Effect::Delete { path } => (WRITE, path.trim_end_matches('/')),
        Effect::Reach { host, .. } | Effect::Send { host, .. } => (REACH, host),
        Effect::Invoke { tool } => (INVOKE, tool),
        Effect::Unconfined { .. } | Effect::Unknown { .. } => (ANYTHING, ""),
    }
}

/// Returns an effect with the same conflicts as the one under this index key.
fn effect_from_key(kind: i64, target: &str) -> Effect {
    let target = target.to_owned();
    match kind {
        RUN => Effect::Run { program: target, argv: Vec::new() },
        READ => Effect::Read { path: target },
        WRITE => Effect::Write { path: target },
        REACH => Effect::Reach { host: target, port: 0 },
        INVOKE => Effect::Invoke { tool: target },
        _ => Effect::Unknown { reason: target },
    }
}
