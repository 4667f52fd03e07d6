//! The lookups and writes of a batch. This module decides nothing.

use std::collections::{HashMap, HashSet};

use byleave_core::digest::Digest;
use byleave_core::id::CallId;
use byleave_gate::audit_log::batch_encoding::{EncodedBatch, decode};
use byleave_gate::audit_log::index_fields::state_from_number;
use byleave_gate::ledger::CallSummary;
use sqlx_core::Error;
use sqlx_core::query::query;
use sqlx_core::row::Row as _;
use sqlx_postgres::{PgConnection, PgRow};
use uuid::Uuid;

use super::{CallLookup, LogEnd, OutOfOrder, WriteBatch, WriteOp};
use crate::call_projection::{CallRow, PartitionKey, ProjectionChanges, RecordLocation, collect_column};
use crate::ingest::ValidatedIngest;
use crate::line_rows::{
    LINE_COLUMNS_WITHOUT_CONTENTS, decode_entries, digest_from_bytes, group_by_call, load_rows,
    session_from_row, tenant_from_row, to_i32, to_u32, to_u64,
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
        let ids: Vec<Uuid> = collect_column(&calls, CallId::uuid);
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
            batch.forgotten.insert((CallId::new(row.try_get(0)?), tenant_from_row(&row, 1)?));
        }
        // Entries are read only for appends that arrive again.
        let again: Vec<CallId> = works
            .iter()
            .filter(|work| match work {
                WriteOp::Ingest(taking) => {
                    batch.standings.get(&taking.call).is_some_and(|standing| taking.seq < standing.length())
                }
                WriteOp::AdminAction(act) => batch.placed.contains(&act.record_id),
            })
            .map(WriteOp::place)
            .collect();
        if !again.is_empty() {
            let rows = load_rows(connection, &again, LINE_COLUMNS_WITHOUT_CONTENTS).await?;
            for rows in group_by_call(&rows) {
                batch.known.extend(rows.first().map(|first| (first.call, decode_entries(rows))));
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
                RecordLocation { shard: row.try_get(1)?, month: row.try_get(2)?, first_pos: row.try_get(3)? };
            places.entry(at.partition()).or_default().push((at, row.try_get(4)?));
        }
        for (leaf, places) in places {
            let sql = format!(
                "SELECT id, tenant, session, tool, operation, summary, opened_at, changed_at, state, outcome, code, asked,
                    length, head, pos
                 FROM {} WHERE pos = ANY($1)",
                leaf.partition_name("call")
            );
            let firsts = collect_column(&places, |(at, _)| at.first_pos);
            let places: HashMap<i64, (RecordLocation, bool)> =
                places.into_iter().map(|place| (place.0.first_pos, place)).collect();
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
                Some((listed.call, listed.location, key, listed.forgotten))
            });
        let acts = self.opened_acts.iter().map(|(place, at)| (*place, *at, None, false));
        let records: Vec<(CallId, RecordLocation, Option<&[u8]>, bool)> = calls.chain(acts).collect();
        if records.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO record(call, shard, month, first, key, forgotten)
            SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::integer[], $4::bigint[], $5::bytea[], $6::boolean[])";
        query(sql)
            .bind(collect_column(&records, |(call, ..)| call.uuid()))
            .bind(collect_column(&records, |(_, at, ..)| at.shard))
            .bind(collect_column(&records, |(_, at, ..)| at.month))
            .bind(collect_column(&records, |(_, at, ..)| at.first_pos))
            .bind(collect_column(&records, |(_, _, key, _)| *key))
            .bind(collect_column(&records, |(.., forgotten)| *forgotten))
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
            .bind(collect_column(rows, |row| row.at.shard))
            .bind(collect_column(rows, |row| row.at.month))
            .bind(collect_column(rows, |row| row.call.uuid()))
            .bind(collect_column(rows, |row| to_i32(row.seq)))
            .bind(collect_column(rows, |row| to_i32(row.count)))
            .bind(collect_column(rows, |row| row.kind))
            .bind(collect_column(rows, |row| row.pos))
            .bind(collect_column(rows, |row| row.place))
            .bind(collect_column(rows, |row| row.head.as_bytes().as_slice()))
            .bind(collect_column(rows, |row| row.body.as_slice()))
            .bind(collect_column(rows, |row| row.contents.as_slice()))
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
                changes.add_approvals(listed, moved);
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
                .bind(collect_column(&early, |row| row.call.uuid()))
                .bind(collect_column(&early, |row| to_i32(row.seq)))
                .bind(collect_column(&early, |row| to_i32(row.end_seq - row.seq)))
                .bind(collect_column(&early, |row| row.prev_link.as_bytes().as_slice()))
                .bind(collect_column(&early, |row| row.head.as_bytes().as_slice()))
                .bind(collect_column(&early, |row| row.body.as_slice()))
                .bind(collect_column(&early, |row| row.contents.as_slice()))
                .bind(collect_column(&early, |row| row.call_summary.tenant.as_str()))
                .bind(collect_column(&early, |row| row.call_summary.session.as_str()))
                .bind(collect_column(&early, |row| row.call_summary.agent.as_str()))
                .bind(collect_column(&early, |row| row.call_summary.tool.as_str()))
                .bind(collect_column(&early, |row| row.call_summary.operation.as_str()))
                .bind(collect_column(&early, |row| row.call_summary.summary.as_str()))
                .execute(&mut *connection)
                .await?;
        }
        let placed = self
            .standings
            .iter()
            .flat_map(|(call, standing)| standing.placed.iter().map(|seq| (call.uuid(), to_i32(*seq))));
        let (calls, seqs): (Vec<Uuid>, Vec<i32>) = placed.unzip();
        if !calls.is_empty() {
            let sql = "DELETE FROM early USING unnest($1::uuid[], $2::integer[]) AS old(call, seq)
                WHERE early.call = old.call AND early.seq = old.seq";
            query(sql).bind(calls).bind(seqs).execute(connection).await?;
        }
        Ok(())
    }

    async fn write_forgotten(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let calls: Vec<Uuid> = collect_column(&self.forgets, |(call, _)| call.uuid());
        query("INSERT INTO forgotten(call, tenant) SELECT * FROM unnest($1::uuid[], $2::text[]) ON CONFLICT DO NOTHING")
            .bind(&calls)
            .bind(collect_column(&self.forgets, |(_, tenant)| tenant.as_str()))
            .execute(&mut *connection)
            .await?;
        let now: Vec<&CallRow> = self
            .standings
            .values()
            .filter(|standing| standing.is_forgotten_now)
            .filter_map(|standing| standing.listed.as_ref())
            .collect();
        query("UPDATE record SET key = NULL, forgotten = true WHERE call = ANY($1)")
            .bind(collect_column(&now, |listed| listed.call.uuid()))
            .execute(&mut *connection)
            .await?;
        let sql = "UPDATE call SET summary = ''
            FROM unnest($1::smallint[], $2::integer[], $3::bigint[]) AS old(shard, month, pos)
            WHERE call.shard = old.shard AND call.month = old.month AND call.pos = old.pos";
        query(sql)
            .bind(collect_column(&now, |listed| listed.location.shard))
            .bind(collect_column(&now, |listed| listed.location.month))
            .bind(collect_column(&now, |listed| listed.location.first_pos))
            .execute(&mut *connection)
            .await?;
        query("UPDATE early SET contents = '', summary = '' FROM unnest($1::uuid[], $2::text[]) AS old(call, tenant)
            WHERE early.call = old.call AND early.tenant = old.tenant")
            .bind(&calls)
            .bind(collect_column(&self.forgets, |(_, tenant)| tenant.as_str()))
            .execute(connection)
            .await?;
        Ok(())
    }
}

fn listed_at(row: &PgRow, at: RecordLocation, forgotten: bool) -> Result<CallRow, Error> {
    Ok(CallRow {
        call: CallId::new(row.try_get(0)?),
        location: at,
        call_summary: CallSummary {
            tenant: tenant_from_row(row, 1)?,
            session: session_from_row(row, 2)?,
            // Set when the call was opened, and never changed.
            agent: String::new(),
            tool: row.try_get(3)?,
            operation: row.try_get(4)?,
            summary: row.try_get(5)?,
        },
        opened_at: to_u64(row.try_get(6)?),
        changed_at: to_u64(row.try_get(7)?),
        state: state_from_number(row.try_get::<i16, _>(8)?.into()),
        outcome: row.try_get(9)?,
        code: row.try_get(10)?,
        was_asked: row.try_get(11)?,
        length: to_u32(row.try_get(12)?),
        head: digest_from_bytes(row.try_get(13)?),
        question: None,
        forgotten,
    })
}

fn early_at(row: &PgRow) -> Result<ValidatedIngest, Error> {
    let (seq, count) = (to_u32(row.try_get(1)?), to_u32(row.try_get(2)?));
    let (head, body): (Digest, Vec<u8>) = (digest_from_bytes(row.try_get(4)?), row.try_get(5)?);
    let mut lines = Vec::new();
    decode(EncodedBatch { seq, count, head, body: &body }, &mut lines);
    let entries = lines.iter().map(|line| serde_json::from_str(line.body())).collect::<Result<_, _>>();
    Ok(ValidatedIngest {
        call: CallId::new(row.try_get(0)?),
        seq,
        end_seq: seq.saturating_add(count),
        prev_link: digest_from_bytes(row.try_get(3)?),
        head,
        // A row that was tampered with is written back as it is, so that verification finds it.
        entries: entries.unwrap_or_default(),
        chained_entries: lines,
        body,
        key: None,
        contents: row.try_get(6)?,
        call_summary: CallSummary {
            tenant: tenant_from_row(row, 7)?,
            session: session_from_row(row, 8)?,
            agent: row.try_get(9)?,
            tool: row.try_get(10)?,
            operation: row.try_get(11)?,
            summary: row.try_get(12)?,
        },
    })
}
