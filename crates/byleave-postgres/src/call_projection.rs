//! The row of a call in lists: folded from one append after the other, and written for many calls at once.

use std::collections::HashMap;

use byleave_core::call::Millis;
use byleave_core::digest::Digest;
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::id::{AttemptId, CallId, StandingApprovalId};
use byleave_core::question::Question;
use byleave_gate::audit_log::CallState;
use byleave_gate::audit_log::index_fields::{IndexFields, kind_to_number, state_to_number};
use byleave_gate::ledger::CallSummary;
use sqlx_core::Error;
use sqlx_core::query::query;
use sqlx_postgres::PgConnection;
use uuid::Uuid;

use crate::line_rows::{to_i32, to_i64};

/// The location of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordLocation {
    pub(crate) shard: i16,
    pub(crate) month: i32,
    /// The position of its first row.
    pub(crate) first_pos: i64,
}

impl RecordLocation {
    pub(crate) const fn partition(self) -> PartitionKey {
        PartitionKey { shard: self.shard, month: self.month }
    }
}

/// The partition of a row. If it is known, a query of the parent table would cost more than the row itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PartitionKey {
    shard: i16,
    month: i32,
}

impl PartitionKey {
    /// Returns the name of a table's partition.
    pub(crate) fn partition_name(self, of: &str) -> String {
        format!("{of}_{}_{}", self.shard, self.month)
    }
}

/// The row of a call in lists.
#[derive(Clone, Debug)]
pub(crate) struct CallRow {
    pub(crate) call: CallId,
    pub(crate) location: RecordLocation,
    pub(crate) call_summary: CallSummary,
    pub(crate) opened_at: Millis,
    pub(crate) changed_at: Millis,
    pub(crate) state: CallState,
    pub(crate) outcome: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) was_asked: bool,
    pub(crate) length: u32,
    pub(crate) head: Digest,
    pub(crate) question: Option<OpenQuestionRow>,
    pub(crate) forgotten: bool,
}

/// A question that a call waits for.
#[derive(Clone, Debug)]
pub(crate) struct OpenQuestionRow {
    pub(crate) pos: i64,
    pub(crate) question: Question,
    pub(crate) asked_at: Millis,
}

/// The parts of one append that lists need.
pub(crate) struct AppendStep<'a> {
    pub(crate) pos: i64,
    /// The length of the record after this append.
    pub(crate) length: u32,
    pub(crate) head: Digest,
    pub(crate) entries: &'a [Entry],
    pub(crate) call_summary: CallSummary,
}

impl CallRow {
    /// Creates the row of a call that was just received.
    pub(crate) fn opened(
        call: CallId,
        at: RecordLocation,
        forgotten: bool,
        step: AppendStep<'_>,
    ) -> (Self, ApprovalChanges) {
        let mut listed = Self {
            call,
            location: at,
            call_summary: step.call_summary.clone(),
            opened_at: step.entries.first().map_or(0, |entry| entry.at),
            changed_at: 0,
            state: CallState::Open,
            outcome: None,
            code: None,
            was_asked: false,
            length: 0,
            head: step.head,
            question: None,
            forgotten,
        };
        let moved = listed.apply_append(step);
        (listed, moved)
    }

    /// Applies one append to the row.
    pub(crate) fn apply_append(&mut self, step: AppendStep<'_>) -> ApprovalChanges {
        let marks = IndexFields::from_entries(step.entries);
        let CallSummary { tool, operation, summary, .. } = step.call_summary;
        (self.call_summary.tool, self.call_summary.operation, self.call_summary.summary) =
            (tool, operation, summary);
        if self.forgotten {
            // A process that continues the call may still know the summary. The lists must not receive it again.
            self.call_summary.summary.clear();
        }
        if let Some(last) = step.entries.last() {
            self.changed_at = last.at;
        }
        if let Some((word, code)) = marks.outcome {
            self.outcome = Some(word.to_owned());
            self.code = code.map(str::to_owned);
        }
        self.was_asked |= step.entries.iter().any(|entry| matches!(entry.event, RecordEvent::Asked(Ok(_))));
        self.question = match step.entries.last().map(|entry| &entry.event) {
            Some(RecordEvent::Asked(Ok(question))) => {
                Some(OpenQuestionRow { pos: step.pos, question: question.clone(), asked_at: marks.asked_at })
            }
            _ => None,
        };
        self.state = match (&self.outcome, &self.question) {
            (Some(_), _) => CallState::Settled,
            (None, Some(_)) => CallState::Waiting,
            (None, None) => CallState::Open,
        };
        (self.length, self.head) = (step.length, step.head);
        ApprovalChanges { given: marks.approvals_granted, used: marks.approvals_used }
    }

    /// Removes the list data of an erased call, beyond what its entries contain.
    pub(crate) fn clear_forgotten(&mut self) {
        self.forgotten = true;
        self.call_summary.summary.clear();
    }

    const fn is_unsettled(&self) -> bool {
        matches!(self.state, CallState::Open | CallState::Waiting)
    }
}

/// The standing approvals that an append gave or used.
#[derive(Debug, Default)]
pub(crate) struct ApprovalChanges {
    given: Vec<(StandingApprovalId, String)>,
    used: Vec<(StandingApprovalId, AttemptId)>,
}

/// Changes of projections, written for many calls at once.
#[derive(Default)]
pub(crate) struct ProjectionChanges<'a> {
    opened: Vec<&'a CallRow>,
    changed: HashMap<PartitionKey, Vec<&'a CallRow>>,
    unsettled: Vec<&'a CallRow>,
    /// By shard.
    settled: HashMap<i16, Vec<i64>>,
    given: Vec<(&'a str, &'a str, StandingApprovalId, CallId)>,
    used: Vec<(&'a str, StandingApprovalId, CallId, AttemptId)>,
}

impl<'a> ProjectionChanges<'a> {
    /// Adds the current row of a call. `was` is its previous state, if it was listed before.
    pub(crate) fn call(&mut self, listed: &'a CallRow, was: Option<CallState>) {
        match was {
            None => self.opened.push(listed),
            Some(_) => self.changed.entry(listed.location.partition()).or_default().push(listed),
        }
        let was_unsettled = matches!(was, Some(CallState::Open | CallState::Waiting));
        if !listed.is_unsettled() {
            if was_unsettled {
                self.settled.entry(listed.location.shard).or_default().push(listed.location.first_pos);
            }
        } else if listed.state == CallState::Waiting || was != Some(CallState::Open) {
            self.unsettled.push(listed);
        }
    }

    /// Adds the standing approvals that a call gave or used.
    pub(crate) fn add_approvals(&mut self, listed: &'a CallRow, moved: &'a ApprovalChanges) {
        let tenant = listed.call_summary.tenant.as_str();
        self.given.extend(moved.given.iter().map(|(id, tool)| (tenant, tool.as_str(), *id, listed.call)));
        self.used.extend(moved.used.iter().map(|(leave, attempt)| (tenant, *leave, listed.call, *attempt)));
    }

    pub(crate) async fn write(&self, connection: &mut PgConnection) -> Result<(), Error> {
        if !self.opened.is_empty() {
            self.open_calls(connection).await?;
        }
        for (leaf, calls) in &self.changed {
            change_calls(connection, *leaf, calls).await?;
        }
        for (shard, firsts) in &self.settled {
            let sql = format!("DELETE FROM unsettled_{shard} WHERE first = ANY($1) AND shard = {shard}");
            query(&sql).bind(firsts).execute(&mut *connection).await?;
        }
        if !self.unsettled.is_empty() {
            self.put_unsettled(connection).await?;
        }
        if !self.given.is_empty() {
            self.write_given(connection).await?;
        }
        if !self.used.is_empty() {
            self.write_used(connection).await?;
        }
        Ok(())
    }

    async fn open_calls(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let calls = &self.opened;
        let sql = "INSERT INTO call(shard, month, pos, id, tenant, session, agent, tool, operation, summary, opened_at,
                changed_at, state, outcome, code, asked, length, head)
            SELECT * FROM unnest($1::smallint[], $2::integer[], $3::bigint[], $4::uuid[], $5::text[], $6::text[],
                $7::text[], $8::text[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::smallint[],
                $14::text[], $15::text[], $16::boolean[], $17::integer[], $18::bytea[])";
        query(sql)
            .bind(collect_column(calls, |call| call.location.shard))
            .bind(collect_column(calls, |call| call.location.month))
            .bind(collect_column(calls, |call| call.location.first_pos))
            .bind(collect_column(calls, |call| call.call.uuid()))
            .bind(collect_column(calls, |call| call.call_summary.tenant.as_str()))
            .bind(collect_column(calls, |call| call.call_summary.session.as_str()))
            .bind(collect_column(calls, |call| call.call_summary.agent.as_str()))
            .bind(collect_column(calls, |call| call.call_summary.tool.as_str()))
            .bind(collect_column(calls, |call| call.call_summary.operation.as_str()))
            .bind(collect_column(calls, |call| call.call_summary.summary.as_str()))
            .bind(collect_column(calls, |call| to_i64(call.opened_at)))
            .bind(collect_column(calls, |call| to_i64(call.changed_at)))
            .bind(collect_column(calls, |call| state_to_i16(call.state)))
            .bind(collect_column(calls, |call| call.outcome.as_deref()))
            .bind(collect_column(calls, |call| call.code.as_deref()))
            .bind(collect_column(calls, |call| call.was_asked))
            .bind(collect_column(calls, |call| to_i32(call.length)))
            .bind(collect_column(calls, |call| call.head.as_bytes().as_slice()))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn put_unsettled(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let calls = &self.unsettled;
        let sql = "INSERT INTO unsettled(shard, month, first, call, tenant, session, asked, question, kind, asked_at,
                expires_at)
            SELECT * FROM unnest($1::smallint[], $2::integer[], $3::bigint[], $4::uuid[], $5::text[], $6::text[],
                $7::bigint[], $8::uuid[], $9::smallint[], $10::bigint[], $11::bigint[])
            ON CONFLICT (shard, first) DO UPDATE SET asked = excluded.asked, question = excluded.question,
                kind = excluded.kind, asked_at = excluded.asked_at, expires_at = excluded.expires_at";
        let asked = |call: &CallRow| call.question.clone();
        query(sql)
            .bind(collect_column(calls, |call| call.location.shard))
            .bind(collect_column(calls, |call| call.location.month))
            .bind(collect_column(calls, |call| call.location.first_pos))
            .bind(collect_column(calls, |call| call.call.uuid()))
            .bind(collect_column(calls, |call| call.call_summary.tenant.as_str()))
            .bind(collect_column(calls, |call| call.call_summary.session.as_str()))
            .bind(collect_column(calls, |call| asked(call).map(|asked| asked.pos)))
            .bind(collect_column(calls, |call| asked(call).map(|asked| asked.question.id.uuid())))
            .bind(collect_column(calls, |call| {
                asked(call).map(|asked| to_i16(kind_to_number(asked.question.kind)))
            }))
            .bind(collect_column(calls, |call| asked(call).map(|asked| to_i64(asked.asked_at))))
            .bind(collect_column(calls, |call| asked(call).map(|asked| to_i64(asked.question.expires_at))))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn write_given(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let sql = "INSERT INTO leave(tenant, tool, id, call)
            SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[]) ON CONFLICT DO NOTHING";
        query(sql)
            .bind(collect_column(&self.given, |(tenant, ..)| *tenant))
            .bind(collect_column(&self.given, |(_, tool, ..)| *tool))
            .bind(collect_column(&self.given, |(_, _, id, _)| id.uuid()))
            .bind(collect_column(&self.given, |(.., call)| call.uuid()))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn write_used(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let sql = "INSERT INTO leave_use(tenant, leave, call, attempt)
            SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::uuid[]) ON CONFLICT DO NOTHING";
        query(sql)
            .bind(collect_column(&self.used, |(tenant, ..)| *tenant))
            .bind(collect_column(&self.used, |(_, leave, ..)| leave.uuid()))
            .bind(collect_column(&self.used, |(_, _, call, _)| call.uuid()))
            .bind(collect_column(&self.used, |(.., attempt)| Uuid::from_bytes(*attempt.as_bytes())))
            .execute(connection)
            .await?;
        Ok(())
    }
}

/// Updates the rows of calls in one partition.
async fn change_calls(
    connection: &mut PgConnection,
    leaf: PartitionKey,
    calls: &[&CallRow],
) -> Result<(), Error> {
    let sql = format!(
        "UPDATE {} AS call SET tool = new.tool, operation = new.operation, summary = new.summary,
            changed_at = new.changed_at, state = new.state, outcome = new.outcome, code = new.code,
            asked = new.asked, length = new.length, head = new.head
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[],
            $6::smallint[], $7::text[], $8::text[], $9::boolean[], $10::integer[], $11::bytea[])
            AS new(pos, tool, operation, summary, changed_at, state, outcome, code, asked, length, head)
        WHERE call.pos = new.pos",
        leaf.partition_name("call")
    );
    query(&sql)
        .bind(collect_column(calls, |call| call.location.first_pos))
        .bind(collect_column(calls, |call| call.call_summary.tool.as_str()))
        .bind(collect_column(calls, |call| call.call_summary.operation.as_str()))
        .bind(collect_column(calls, |call| call.call_summary.summary.as_str()))
        .bind(collect_column(calls, |call| to_i64(call.changed_at)))
        .bind(collect_column(calls, |call| state_to_i16(call.state)))
        .bind(collect_column(calls, |call| call.outcome.as_deref()))
        .bind(collect_column(calls, |call| call.code.as_deref()))
        .bind(collect_column(calls, |call| call.was_asked))
        .bind(collect_column(calls, |call| to_i32(call.length)))
        .bind(collect_column(calls, |call| call.head.as_bytes().as_slice()))
        .execute(connection)
        .await?;
    Ok(())
}

/// Returns one column of many rows.
pub(crate) fn collect_column<'a, T, C>(rows: &'a [T], column: impl Fn(&'a T) -> C) -> Vec<C> {
    rows.iter().map(column).collect()
}

/// Returns the stored number of a state.
pub(crate) fn state_to_i16(state: CallState) -> i16 {
    to_i16(state_to_number(state))
}

/// Converts a small number to the integer type of Postgres.
pub(crate) fn to_i16(number: i64) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}
