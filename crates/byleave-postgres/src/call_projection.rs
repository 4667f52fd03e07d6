//! The row of a call in lists: folded from one append after the other, and written for many calls at once.

use std::collections::HashMap;

use byleave::audit_log::CallState;
use byleave::audit_log::index_fields::{IndexFields, kind_number, state_number};
use byleave::ledger::CallSummary;
use byleave_core::call::Millis;
use byleave_core::digest::Digest;
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::id::{AttemptId, CallId, StandingApprovalId};
use byleave_core::question::Question;
use sqlx_core::Error;
use sqlx_core::query::query;
use sqlx_postgres::PgConnection;
use uuid::Uuid;

use crate::line_rows::{signed, signed_long};

/// The location of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordLocation {
    pub(crate) shard: i16,
    pub(crate) month: i32,
    /// The position of its first row.
    pub(crate) first: i64,
}

impl RecordLocation {
    pub(crate) const fn leaf(self) -> PartitionKey {
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
    pub(crate) fn table(self, of: &str) -> String {
        format!("{of}_{}_{}", self.shard, self.month)
    }
}

/// The row of a call in lists.
#[derive(Clone, Debug)]
pub(crate) struct CallRow {
    pub(crate) call: CallId,
    pub(crate) at: RecordLocation,
    pub(crate) listing: CallSummary,
    pub(crate) opened_at: Millis,
    pub(crate) changed_at: Millis,
    pub(crate) state: CallState,
    pub(crate) outcome: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) asked: bool,
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
    pub(crate) listing: CallSummary,
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
            at,
            listing: step.listing.clone(),
            opened_at: step.entries.first().map_or(0, |entry| entry.at),
            changed_at: 0,
            state: CallState::Open,
            outcome: None,
            code: None,
            asked: false,
            length: 0,
            head: step.head,
            question: None,
            forgotten,
        };
        let moved = listed.goes_on(step);
        (listed, moved)
    }

    /// Applies one append to the row.
    pub(crate) fn goes_on(&mut self, step: AppendStep<'_>) -> ApprovalChanges {
        let marks = IndexFields::of(step.entries);
        let CallSummary { tool, operation, summary, .. } = step.listing;
        (self.listing.tool, self.listing.operation, self.listing.summary) = (tool, operation, summary);
        if self.forgotten {
            // A process that continues the call may still know the summary. The lists must not receive it again.
            self.listing.summary.clear();
        }
        if let Some(last) = step.entries.last() {
            self.changed_at = last.at;
        }
        if let Some((word, code)) = marks.outcome {
            self.outcome = Some(word.to_owned());
            self.code = code.map(str::to_owned);
        }
        self.asked |= step.entries.iter().any(|entry| matches!(entry.fact, RecordEvent::Asked(Ok(_))));
        self.question = match step.entries.last().map(|entry| &entry.fact) {
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
        ApprovalChanges { given: marks.leaves_given, used: marks.leaves_used }
    }

    /// Removes the list data of an erased call, beyond what its entries contain.
    pub(crate) fn forget(&mut self) {
        self.forgotten = true;
        self.listing.summary.clear();
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
            Some(_) => self.changed.entry(listed.at.leaf()).or_default().push(listed),
        }
        let was_unsettled = matches!(was, Some(CallState::Open | CallState::Waiting));
        if !listed.is_unsettled() {
            if was_unsettled {
                self.settled.entry(listed.at.shard).or_default().push(listed.at.first);
            }
        } else if listed.state == CallState::Waiting || was != Some(CallState::Open) {
            self.unsettled.push(listed);
        }
    }

    /// Adds the standing approvals that a call gave or used.
    pub(crate) fn leaves(&mut self, listed: &'a CallRow, moved: &'a ApprovalChanges) {
        let tenant = listed.listing.tenant.as_str();
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
            .bind(all(calls, |call| call.at.shard))
            .bind(all(calls, |call| call.at.month))
            .bind(all(calls, |call| call.at.first))
            .bind(all(calls, |call| call.call.uuid()))
            .bind(all(calls, |call| call.listing.tenant.as_str()))
            .bind(all(calls, |call| call.listing.session.as_str()))
            .bind(all(calls, |call| call.listing.agent.as_str()))
            .bind(all(calls, |call| call.listing.tool.as_str()))
            .bind(all(calls, |call| call.listing.operation.as_str()))
            .bind(all(calls, |call| call.listing.summary.as_str()))
            .bind(all(calls, |call| signed_long(call.opened_at)))
            .bind(all(calls, |call| signed_long(call.changed_at)))
            .bind(all(calls, |call| state_of(call.state)))
            .bind(all(calls, |call| call.outcome.as_deref()))
            .bind(all(calls, |call| call.code.as_deref()))
            .bind(all(calls, |call| call.asked))
            .bind(all(calls, |call| signed(call.length)))
            .bind(all(calls, |call| call.head.as_bytes().as_slice()))
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
            .bind(all(calls, |call| call.at.shard))
            .bind(all(calls, |call| call.at.month))
            .bind(all(calls, |call| call.at.first))
            .bind(all(calls, |call| call.call.uuid()))
            .bind(all(calls, |call| call.listing.tenant.as_str()))
            .bind(all(calls, |call| call.listing.session.as_str()))
            .bind(all(calls, |call| asked(call).map(|asked| asked.pos)))
            .bind(all(calls, |call| asked(call).map(|asked| asked.question.id.uuid())))
            .bind(all(calls, |call| asked(call).map(|asked| short(kind_number(asked.question.kind)))))
            .bind(all(calls, |call| asked(call).map(|asked| signed_long(asked.asked_at))))
            .bind(all(calls, |call| asked(call).map(|asked| signed_long(asked.question.expires_at))))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn write_given(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let sql = "INSERT INTO leave(tenant, tool, id, call)
            SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[]) ON CONFLICT DO NOTHING";
        query(sql)
            .bind(all(&self.given, |(tenant, ..)| *tenant))
            .bind(all(&self.given, |(_, tool, ..)| *tool))
            .bind(all(&self.given, |(_, _, id, _)| id.uuid()))
            .bind(all(&self.given, |(.., call)| call.uuid()))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn write_used(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let sql = "INSERT INTO leave_use(tenant, leave, call, attempt)
            SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::uuid[]) ON CONFLICT DO NOTHING";
        query(sql)
            .bind(all(&self.used, |(tenant, ..)| *tenant))
            .bind(all(&self.used, |(_, leave, ..)| leave.uuid()))
            .bind(all(&self.used, |(_, _, call, _)| call.uuid()))
            .bind(all(&self.used, |(.., attempt)| Uuid::from_bytes(*attempt.as_bytes())))
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
        leaf.table("call")
    );
    query(&sql)
        .bind(all(calls, |call| call.at.first))
        .bind(all(calls, |call| call.listing.tool.as_str()))
        .bind(all(calls, |call| call.listing.operation.as_str()))
        .bind(all(calls, |call| call.listing.summary.as_str()))
        .bind(all(calls, |call| signed_long(call.changed_at)))
        .bind(all(calls, |call| state_of(call.state)))
        .bind(all(calls, |call| call.outcome.as_deref()))
        .bind(all(calls, |call| call.code.as_deref()))
        .bind(all(calls, |call| call.asked))
        .bind(all(calls, |call| signed(call.length)))
        .bind(all(calls, |call| call.head.as_bytes().as_slice()))
        .execute(connection)
        .await?;
    Ok(())
}

/// Returns one column of many rows.
pub(crate) fn all<'a, T, C>(rows: &'a [T], column: impl Fn(&'a T) -> C) -> Vec<C> {
    rows.iter().map(column).collect()
}

/// Returns the stored number of a state.
pub(crate) fn state_of(state: CallState) -> i16 {
    short(state_number(state))
}

/// Converts a small number to the integer type of Postgres.
pub(crate) fn short(number: i64) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}
