//! The lookups and writes of a batch. This module decides nothing.

use std::collections::{HashMap, HashSet};

use byleave::audit_log::batch_encoding::{EncodedBatch, unframe};
use byleave::audit_log::index_fields::state_from;
use byleave::ledger::CallSummary;
use byleave_core::digest::Digest;
use byleave_core::id::CallId;
use sqlx_core::Error;
use sqlx_core::query::query;
use sqlx_core::row::Row as _;
use sqlx_postgres::{PgConnection, PgRow};
use uuid::Uuid;

use super::{CallLookup, LogEnd, OutOfOrder, WriteBatch, WriteOp};
use crate::call_projection::{CallRow, PartitionKey, ProjectionChanges, RecordLocation, all};
use crate::ingest::ValidatedIngest;
use crate::line_rows::{
    LINES_ALONE, by_call, digest, lines_of, rows_of, session, signed, tenant, unsigned, unsigned_long,
};

impl LogEnd {
    /// Locks the end of the audit log, so that no other process writes until the transaction ends.
    pub(super) async fn lock(connection: &mut PgConnection) -> Result<Self, Error> {
        let row = query("SELECT pos, places, month, this_month() FROM book_end FOR UPDATE")
            .fetch_one(connection)
            .await?;
        let (pos, last, now): (i64, i32, i32) = (row.try_get(0)?, row.try_get(2)?, row.try_get(3)?);
        Ok(Self {
            pos,
            places: row.try_get(1)?,
            month: now.max(last),
            begins: (now > last).then_some(pos + 1),
        })
    }
}

impl WriteBatch {
    /// Loads the known state of everything that these operations refer to.
    pub(super) async fn load(
        connection: &mut PgConnection,
        works: &[WriteOp],
        end: LogEnd,
    ) -> Result<Self, Error> {
        let calls: Vec<CallId> =
            works.iter().flat_map(|work| std::iter::once(work.place()).chain(work.forgets())).collect();
        let ids: Vec<Uuid> = all(&calls, CallId::uuid);
        let mut batch = Self {
            end,
            standings: calls.iter().map(|call| (*call, CallLookup::default())).collect(),
            known: HashMap::new(),
            placed: HashSet::new(),
            forgotten: HashSet::new(),
            rows: Vec::new(),
            links: HashMap::new(),
            forgets: Vec::new(),
            opened_acts: Vec::new(),
        };
        batch.load_listed(connection, &ids).await?;
        batch.load_early(connection, &ids).await?;
        for row in query("SELECT call, tenant FROM forgotten WHERE call = ANY($1)")
            .bind(&ids)
            .fetch_all(&mut *connection)
            .await?
        {
            batch.forgotten.insert((CallId::new(row.try_get(0)?), tenant(&row, 1)?));
        }
        // Entries are read only for appends that arrive again.
        let again: Vec<CallId> = works
            .iter()
            .filter(|work| match work {
                WriteOp::Take(taking) => {
                    batch.standings.get(&taking.call).is_some_and(|standing| taking.seq < standing.length())
                }
                WriteOp::Act(act) => batch.placed.contains(&act.place),
            })
            .map(WriteOp::place)
            .collect();
        if !again.is_empty() {
            let rows = rows_of(connection, &again, LINES_ALONE).await?;
            for rows in by_call(&rows) {
                batch.known.extend(rows.first().map(|first| (first.call, lines_of(rows))));
            }
        }
        Ok(batch)
    }

    async fn load_listed(&mut self, connection: &mut PgConnection, ids: &[Uuid]) -> Result<(), Error> {
        let sql = "SELECT call, shard, month, first, forgotten FROM record WHERE call = ANY($1)";
        let mut places: HashMap<PartitionKey, Vec<(RecordLocation, bool)>> = HashMap::new();
        for row in query(sql).bind(ids).fetch_all(&mut *connection).await? {
            self.placed.insert(CallId::new(row.try_get(0)?));
            let at =
                RecordLocation { shard: row.try_get(1)?, month: row.try_get(2)?, first: row.try_get(3)? };
            places.entry(at.leaf()).or_default().push((at, row.try_get(4)?));
        }
        for (leaf, places) in places {
            let sql = format!(
                "SELECT id, tenant, session, tool, operation, summary, opened_at, changed_at, state, outcome, code, asked,
                    length, head, pos
                 FROM {} WHERE pos = ANY($1)",
                leaf.table("call")
            );
            let firsts = all(&places, |(at, _)| at.first);
            let places: HashMap<i64, (RecordLocation, bool)> =
                places.into_iter().map(|place| (place.0.first, place)).collect();
            for row in query(&sql).bind(firsts).fetch_all(&mut *connection).await? {
                let Some((at, forgotten)) = places.get(&row.try_get(14)?) else { continue };
                let listed = listed_at(&row, *at, *forgotten)?;
                let standing = self.standings.entry(listed.call).or_default();
                standing.was = Some(listed.state);
                standing.listed = Some(listed);
            }
        }
        Ok(())
    }

    async fn load_early(&mut self, connection: &mut PgConnection, ids: &[Uuid]) -> Result<(), Error> {
        let sql = "SELECT call, seq, count, before, head, body, contents, tenant, session, agent, tool, operation, summary
            FROM early WHERE call = ANY($1)";
        for row in query(sql).bind(ids).fetch_all(connection).await? {
            let taking = early_at(&row)?;
            let standing = self.standings.entry(taking.call).or_default();
            standing.early.insert(taking.seq, OutOfOrder { taking, is_kept: true });
        }
        Ok(())
    }

    /// Writes the accepted operations, grouped by kind.
    pub(super) async fn write(&self, connection: &mut PgConnection) -> Result<(), Error> {
        if !self.rows.is_empty() {
            query("UPDATE book_end SET pos = $1, places = $2, month = $3")
                .bind(self.end.pos)
                .bind(&self.end.places)
                .bind(self.end.month)
                .execute(&mut *connection)
                .await?;
            if let Some(first) = self.end.begins {
                let sql = "INSERT INTO month(month, first) VALUES ($1, $2)";
                query(sql).bind(self.end.month).bind(first).execute(&mut *connection).await?;
            }
            self.write_records(connection).await?;
            self.write_rows(connection).await?;
        }
        self.write_listed(connection).await?;
        self.write_early(connection).await?;
        if !self.forgets.is_empty() {
            self.write_forgotten(connection).await?;
        }
        Ok(())
    }

    async fn write_records(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let calls =
            self.standings.values().filter(|standing| standing.was.is_none()).filter_map(|standing| {
                let listed = standing.listed.as_ref()?;
                let key = standing.key.as_deref().filter(|_| !listed.forgotten);
                Some((listed.call, listed.at, key, listed.forgotten))
            });
        let acts = self.opened_acts.iter().map(|(place, at)| (*place, *at, None, false));
        let records: Vec<(CallId, RecordLocation, Option<&[u8]>, bool)> = calls.chain(acts).collect();
        if records.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO record(call, shard, month, first, key, forgotten)
            SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::integer[], $4::bigint[], $5::bytea[], $6::boolean[])";
        query(sql)
            .bind(all(&records, |(call, ..)| call.uuid()))
            .bind(all(&records, |(_, at, ..)| at.shard))
            .bind(all(&records, |(_, at, ..)| at.month))
            .bind(all(&records, |(_, at, ..)| at.first))
            .bind(all(&records, |(_, _, key, _)| *key))
            .bind(all(&records, |(.., forgotten)| *forgotten))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn write_rows(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let rows = &self.rows;
        let sql = "INSERT INTO line(shard, month, call, seq, count, kind, pos, place, head, body, contents)
            SELECT * FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::integer[], $5::integer[],
                $6::smallint[], $7::bigint[], $8::bigint[], $9::bytea[], $10::bytea[], $11::bytea[])";
        query(sql)
            .bind(all(rows, |row| row.at.shard))
            .bind(all(rows, |row| row.at.month))
            .bind(all(rows, |row| row.call.uuid()))
            .bind(all(rows, |row| signed(row.seq)))
            .bind(all(rows, |row| signed(row.count)))
            .bind(all(rows, |row| row.kind))
            .bind(all(rows, |row| row.pos))
            .bind(all(rows, |row| row.place))
            .bind(all(rows, |row| row.head.as_bytes().as_slice()))
            .bind(all(rows, |row| row.body.as_slice()))
            .bind(all(rows, |row| row.contents.as_slice()))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn write_listed(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let mut changes = ProjectionChanges::default();
        for standing in self.standings.values() {
            let Some(listed) = standing.listed.as_ref() else { continue };
            if standing.is_changed {
                changes.call(listed, standing.was);
            }
            for moved in &standing.moved {
                changes.leaves(listed, moved);
            }
        }
        changes.write(connection).await
    }

    async fn write_early(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let early: Vec<&ValidatedIngest> = self
            .standings
            .values()
            .flat_map(|standing| standing.early.values())
            .filter(|early| !early.is_kept)
            .map(|early| &early.taking)
            .collect();
        if !early.is_empty() {
            let sql = "INSERT INTO early(call, seq, count, before, head, body, contents, tenant, session, agent, tool,
                    operation, summary)
                SELECT * FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::bytea[], $5::bytea[], $6::bytea[],
                    $7::bytea[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[])";
            query(sql)
                .bind(all(&early, |row| row.call.uuid()))
                .bind(all(&early, |row| signed(row.seq)))
                .bind(all(&early, |row| signed(row.end - row.seq)))
                .bind(all(&early, |row| row.before.as_bytes().as_slice()))
                .bind(all(&early, |row| row.head.as_bytes().as_slice()))
                .bind(all(&early, |row| row.body.as_slice()))
                .bind(all(&early, |row| row.contents.as_slice()))
                .bind(all(&early, |row| row.listing.tenant.as_str()))
                .bind(all(&early, |row| row.listing.session.as_str()))
                .bind(all(&early, |row| row.listing.agent.as_str()))
                .bind(all(&early, |row| row.listing.tool.as_str()))
                .bind(all(&early, |row| row.listing.operation.as_str()))
                .bind(all(&early, |row| row.listing.summary.as_str()))
                .execute(&mut *connection)
                .await?;
        }
        let placed = self
            .standings
            .iter()
            .flat_map(|(call, standing)| standing.placed.iter().map(|seq| (call.uuid(), signed(*seq))));
        let (calls, seqs): (Vec<Uuid>, Vec<i32>) = placed.unzip();
        if !calls.is_empty() {
            let sql = "DELETE FROM early USING unnest($1::uuid[], $2::integer[]) AS old(call, seq)
                WHERE early.call = old.call AND early.seq = old.seq";
            query(sql).bind(calls).bind(seqs).execute(connection).await?;
        }
        Ok(())
    }

    async fn write_forgotten(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let calls: Vec<Uuid> = all(&self.forgets, |(call, _)| call.uuid());
        query("INSERT INTO forgotten(call, tenant) SELECT * FROM unnest($1::uuid[], $2::text[]) ON CONFLICT DO NOTHING")
            .bind(&calls)
            .bind(all(&self.forgets, |(_, tenant)| tenant.as_str()))
            .execute(&mut *connection)
            .await?;
        let now: Vec<&CallRow> = self
            .standings
            .values()
            .filter(|standing| standing.is_forgotten_now)
            .filter_map(|standing| standing.listed.as_ref())
            .collect();
        query("UPDATE record SET key = NULL, forgotten = true WHERE call = ANY($1)")
            .bind(all(&now, |listed| listed.call.uuid()))
            .execute(&mut *connection)
            .await?;
        let sql = "UPDATE call SET summary = ''
            FROM unnest($1::smallint[], $2::integer[], $3::bigint[]) AS old(shard, month, pos)
            WHERE call.shard = old.shard AND call.month = old.month AND call.pos = old.pos";
        query(sql)
            .bind(all(&now, |listed| listed.at.shard))
            .bind(all(&now, |listed| listed.at.month))
            .bind(all(&now, |listed| listed.at.first))
            .execute(&mut *connection)
            .await?;
        query("UPDATE early SET contents = '', summary = '' FROM unnest($1::uuid[], $2::text[]) AS old(call, tenant)
            WHERE early.call = old.call AND early.tenant = old.tenant")
            .bind(&calls)
            .bind(all(&self.forgets, |(_, tenant)| tenant.as_str()))
            .execute(connection)
            .await?;
        Ok(())
    }
}

fn listed_at(row: &PgRow, at: RecordLocation, forgotten: bool) -> Result<CallRow, Error> {
    Ok(CallRow {
        call: CallId::new(row.try_get(0)?),
        at,
        listing: CallSummary {
            tenant: tenant(row, 1)?,
            session: session(row, 2)?,
            // Set when the call was opened, and never changed.
            agent: String::new(),
            tool: row.try_get(3)?,
            operation: row.try_get(4)?,
            summary: row.try_get(5)?,
        },
        opened_at: unsigned_long(row.try_get(6)?),
        changed_at: unsigned_long(row.try_get(7)?),
        state: state_from(row.try_get::<i16, _>(8)?.into()),
        outcome: row.try_get(9)?,
        code: row.try_get(10)?,
        asked: row.try_get(11)?,
        length: unsigned(row.try_get(12)?),
        head: digest(row.try_get(13)?),
        question: None,
        forgotten,
    })
}

fn early_at(row: &PgRow) -> Result<ValidatedIngest, Error> {
    let (seq, count) = (unsigned(row.try_get(1)?), unsigned(row.try_get(2)?));
    let (head, body): (Digest, Vec<u8>) = (digest(row.try_get(4)?), row.try_get(5)?);
    let mut lines = Vec::new();
    unframe(EncodedBatch { seq, count, head, body: &body }, &mut lines);
    let entries = lines.iter().map(|line| serde_json::from_str(line.body())).collect::<Result<_, _>>();
    Ok(ValidatedIngest {
        call: CallId::new(row.try_get(0)?),
        seq,
        end: seq.saturating_add(count),
        before: digest(row.try_get(3)?),
        head,
        // A row that was tampered with is written back as it is, so that verification finds it.
        entries: entries.unwrap_or_default(),
        lines,
        body,
        key: None,
        contents: row.try_get(6)?,
        listing: CallSummary {
            tenant: tenant(row, 7)?,
            session: session(row, 8)?,
            agent: row.try_get(9)?,
            tool: row.try_get(10)?,
            operation: row.try_get(11)?,
            summary: row.try_get(12)?,
        },
    })
}
