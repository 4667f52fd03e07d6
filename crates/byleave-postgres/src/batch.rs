//! A batch: the operations that are written in one transaction.
//!
//! All lookups happen at once, under the lock on the end of the audit log, so that no other process writes meanwhile. Then
//! each operation is accepted or rejected in memory. Only after that are the rows written, grouped by kind. This module
//! decides; `tables` does the lookups and writes.

mod tables;

use std::collections::{BTreeMap, HashMap, HashSet};

use byleave_core::admin_action::AdminActionKind;
use byleave_core::digest::Digest;
use byleave_core::hash_chain::{ChainedEntry, GENESIS};
use byleave_core::id::{CallId, TenantId};
use byleave_gate::audit_log::CallState;
use byleave_gate::ledger::CallSummary;
use sqlx_core::Error;
use sqlx_core::connection::Connection as _;
use sqlx_postgres::PgConnection;

use crate::call_projection::{AppendStep, ApprovalChanges, CallRow, RecordLocation};
use crate::ingest::{AdminActionRow, IngestError, ValidatedIngest};
use crate::schema::{KIND_ADMIN_ACTION, KIND_RECORD, create_month_partitions, shard_for_tenant};

/// One operation to write.
pub(crate) enum WriteOp {
    /// An append.
    Ingest(Box<ValidatedIngest>),
    /// An admin action.
    AdminAction(Box<AdminActionRow>),
}

/// The outcome of one operation, provided that the transaction commits.
pub(crate) type WriteOutcome = Result<(), IngestError>;

impl WriteOp {
    pub(crate) fn byte_len(&self) -> usize {
        match self {
            Self::Ingest(taking) => taking.byte_len(),
            Self::AdminAction(act) => act.body.len(),
        }
    }

    fn place(&self) -> CallId {
        match self {
            Self::Ingest(taking) => taking.call,
            Self::AdminAction(act) => act.record_id,
        }
    }

    /// Returns the call whose contents this operation erases.
    fn forgets(&self) -> Option<CallId> {
        match self {
            Self::AdminAction(act) => match act.action.kind {
                AdminActionKind::Forget { call } => Some(call),
                _ => None,
            },
            Self::Ingest(_) => None,
        }
    }
}

/// Writes all operations in one transaction. An error rolls the whole transaction back.
pub(crate) async fn execute_all(
    connection: &mut PgConnection,
    works: &[WriteOp],
    prepared: &mut i32,
) -> Result<Vec<WriteOutcome>, Error> {
    let mut transaction = connection.begin().await?;
    let end = LogEnd::lock(&mut transaction).await?;
    let month = end.month;
    if month > *prepared {
        create_month_partitions(&mut transaction, month).await?;
    }
    let mut batch = WriteBatch::load(&mut transaction, works, end).await?;
    let done = works.iter().map(|work| batch.consider(work)).collect();
    batch.write(&mut transaction).await?;
    transaction.commit().await?;
    *prepared = month.max(*prepared);
    Ok(done)
}

/// The end of the audit log, locked until the transaction ends.
struct LogEnd {
    pos: i64,
    places: Vec<i64>,
    month: i32,
    /// The first position of the month, if the month has only just begun.
    begins: Option<i64>,
}

impl LogEnd {
    /// Returns the next position in the audit log and in the shard.
    fn next(&mut self, shard: i16) -> (i64, i64) {
        self.pos += 1;
        let place = usize::try_from(shard).ok().and_then(|shard| self.places.get_mut(shard));
        let place = place.map_or(0, |place| {
            *place += 1;
            *place
        });
        (self.pos, place)
    }
}

/// A row of entries to write.
struct NewEntryRow {
    at: RecordLocation,
    call: CallId,
    seq: u32,
    count: u32,
    kind: i16,
    pos: i64,
    place: i64,
    head: Digest,
    body: Vec<u8>,
    contents: Vec<u8>,
}

/// An append that arrived before its predecessors, with its list data.
#[derive(Clone)]
struct OutOfOrder {
    taking: ValidatedIngest,
    /// Whether it is in the table already.
    is_kept: bool,
}

/// The known state of one call.
#[derive(Default)]
struct CallLookup {
    /// Its row in lists; `None` until its first entries have arrived.
    listed: Option<CallRow>,
    /// Its state in the table.
    was: Option<CallState>,
    /// The wrapped key of a record that is opened in this batch.
    key: Option<Vec<u8>>,
    /// Appends that arrived early, by position.
    early: BTreeMap<u32, OutOfOrder>,
    /// Positions of early appends whose predecessors have now arrived.
    placed: Vec<u32>,
    moved: Vec<ApprovalChanges>,
    is_changed: bool,
    is_forgotten_now: bool,
}

impl CallLookup {
    fn length(&self) -> u32 {
        self.listed.as_ref().map_or(0, |listed| listed.length)
    }

    fn head(&self) -> Digest {
        self.listed.as_ref().map_or(GENESIS, |listed| listed.head)
    }
}

struct WriteBatch {
    end: LogEnd,
    standings: HashMap<CallId, CallLookup>,
    /// The existing entries of known calls.
    known: HashMap<CallId, Vec<ChainedEntry>>,
    /// Admin actions and records that already have a row in the audit log.
    placed: HashSet<CallId>,
    forgotten: HashSet<(CallId, TenantId)>,
    rows: Vec<NewEntryRow>,
    /// The chain digests of entries that this batch writes.
    links: HashMap<(CallId, u32), Digest>,
    forgets: Vec<(CallId, TenantId)>,
    opened_acts: Vec<(CallId, RecordLocation)>,
}

impl WriteBatch {
    /// Decides whether an operation is accepted, and notes the rows to write for it.
    fn consider(&mut self, work: &WriteOp) -> WriteOutcome {
        match work {
            WriteOp::Ingest(taking) => self.consider_taking(taking),
            WriteOp::AdminAction(act) => self.consider_act(act),
        }
    }

    fn consider_taking(&mut self, taking: &ValidatedIngest) -> WriteOutcome {
        let standing = self.standings.entry(taking.call).or_default();
        let length = standing.length();
        if standing.listed.is_none() && self.placed.contains(&taking.call) {
            return Err(taking.conflict_error("the id of the call is already used by another kind of record"));
        }
        if taking.end_seq <= length {
            // Each entry is chained to the one before it. If the last digest is the same, all entries are the same.
            let last = taking.end_seq.saturating_sub(1);
            return match self.link_at(taking.call, last) {
                Some(link) if link == taking.head => Ok(()),
                _ => Err(taking.conflict_error("the audit log has another entry at this position")),
            };
        }
        if taking.seq < length {
            return Err(
                taking.conflict_error("the entries overlap with existing ones and have other boundaries")
            );
        }
        if taking.seq > length {
            return keep_early(standing, taking);
        }
        let ready = line_up(standing, taking)?;
        self.open_or_go_on(taking);
        for seq in ready {
            let standing = self.standings.entry(taking.call).or_default();
            let Some(early) = standing.early.remove(&seq) else { continue };
            if early.is_kept {
                standing.placed.push(seq);
            }
            self.open_or_go_on(&early.taking);
        }
        Ok(())
    }

    /// Returns the chain digest of an entry that exists or is written in this batch.
    fn link_at(&self, call: CallId, seq: u32) -> Option<Digest> {
        self.links.get(&(call, seq)).copied().or_else(|| {
            let line = self.known.get(&call)?.get(usize::try_from(seq).ok()?)?;
            (line.seq() == seq).then(|| line.link())
        })
    }

    /// Appends entries behind the existing ones.
    fn open_or_go_on(&mut self, taking: &ValidatedIngest) {
        let shard = shard_for_tenant(&taking.call_summary.tenant);
        let (pos, place) = self.end.next(shard);
        let standing = self.standings.entry(taking.call).or_default();
        let step = AppendStep {
            pos,
            length: taking.end_seq,
            head: taking.head,
            entries: &taking.entries,
            call_summary: taking.call_summary.clone(),
        };
        let (at, forgotten, moved) = match &mut standing.listed {
            Some(listed) => {
                let moved = listed.apply_append(step);
                (listed.location, listed.forgotten, moved)
            }
            none => {
                let at = RecordLocation { shard, month: self.end.month, first_pos: pos };
                let forgotten = self.forgotten.contains(&(taking.call, taking.call_summary.tenant.clone()));
                let (listed, moved) = CallRow::opened(taking.call, at, forgotten, step);
                *none = Some(listed);
                standing.key.clone_from(&taking.key);
                (at, forgotten, moved)
            }
        };
        standing.moved.push(moved);
        standing.is_changed = true;
        self.links.extend(taking.chained_entries.iter().map(|line| ((taking.call, line.seq()), line.link())));
        self.rows.push(NewEntryRow {
            at,
            call: taking.call,
            seq: taking.seq,
            count: taking.end_seq - taking.seq,
            kind: KIND_RECORD,
            pos,
            place,
            head: taking.head,
            body: taking.body.clone(),
            // Contents that arrive for an erased record are dropped immediately.
            contents: if forgotten { Vec::new() } else { taking.contents.clone() },
        });
    }

    fn consider_act(&mut self, act: &AdminActionRow) -> WriteOutcome {
        let taken = self.placed.contains(&act.record_id)
            || self.standings.get(&act.record_id).is_some_and(|standing| standing.listed.is_some());
        if taken {
            return match self.link_at(act.record_id, 0) {
                Some(link) if link == act.head => Ok(()),
                _ => Err(IngestError::Conflict {
                    call: act.record_id,
                    seq: 0,
                    reason: "the id of the admin action is already used".into(),
                }),
            };
        }
        let tenant = &act.action.tenant;
        let shard = shard_for_tenant(tenant);
        let (pos, place) = self.end.next(shard);
        let at = RecordLocation { shard, month: self.end.month, first_pos: pos };
        self.placed.insert(act.record_id);
        self.links.insert((act.record_id, 0), act.head);
        self.opened_acts.push((act.record_id, at));
        self.rows.push(NewEntryRow {
            at,
            call: act.record_id,
            seq: 0,
            count: 1,
            kind: KIND_ADMIN_ACTION,
            pos,
            place,
            head: act.head,
            body: act.body.clone(),
            contents: Vec::new(),
        });
        if let AdminActionKind::Forget { call } = &act.action.kind {
            self.forget(*call, tenant);
        }
        Ok(())
    }

    /// Erases the contents of a call, even of one that has not arrived yet. Affects only calls of the same tenant.
    fn forget(&mut self, call: CallId, tenant: &TenantId) {
        self.forgets.push((call, tenant.clone()));
        self.forgotten.insert((call, tenant.clone()));
        let Some(standing) = self.standings.get_mut(&call) else { return };
        if let Some(listed) = standing.listed.as_mut().filter(|listed| listed.call_summary.tenant == *tenant)
        {
            listed.clear_forgotten();
            standing.is_forgotten_now = true;
        }
    }
}

/// Stores entries whose predecessors are missing, unless they contradict other stored entries.
fn keep_early(standing: &mut CallLookup, taking: &ValidatedIngest) -> WriteOutcome {
    if let Some(kept) = standing.early.get(&taking.seq) {
        return if (kept.taking.end_seq, kept.taking.head) == (taking.end_seq, taking.head) {
            Ok(())
        } else {
            Err(taking.conflict_error("another entry already waits for this position"))
        };
    }
    let before = standing.early.range(..taking.seq).next_back().map(|(_, early)| &early.taking);
    let after = standing.early.range(taking.seq..).next().map(|(_, early)| &early.taking);
    if before.is_some_and(|before| !fits(before, taking)) || after.is_some_and(|after| !fits(taking, after)) {
        return Err(
            taking.conflict_error("the entries do not match other entries that wait for their position")
        );
    }
    standing.early.insert(taking.seq, OutOfOrder { taking: taking.clone(), is_kept: false });
    Ok(())
}

/// Checks whether an append that comes later in a record can follow another one.
fn fits(one: &ValidatedIngest, later: &ValidatedIngest) -> bool {
    one.end_seq < later.seq || (one.end_seq == later.seq && one.head == later.prev_link)
}

/// Checks that entries continue the record, and that the early appends behind them continue it too. Returns the positions of
/// those early appends.
fn line_up(standing: &CallLookup, taking: &ValidatedIngest) -> Result<Vec<u32>, IngestError> {
    if taking.prev_link != standing.head() {
        return Err(taking.conflict_error("the entries do not continue the chain"));
    }
    let of = |listing: &CallSummary| (listing.tenant.clone(), listing.session.clone());
    let whose =
        standing.listed.as_ref().map_or_else(|| of(&taking.call_summary), |listed| of(&listed.call_summary));
    if of(&taking.call_summary) != whose {
        return Err(taking.conflict_error("the call belongs to another tenant or session"));
    }
    let (mut ready, mut last) = (Vec::new(), taking);
    for (seq, early) in &standing.early {
        if *seq > last.end_seq {
            break;
        }
        if !fits(last, &early.taking) || of(&early.taking.call_summary) != whose {
            return Err(taking.conflict_error(format!(
                "entry {seq}, which arrived earlier, does not continue these entries"
            )));
        }
        ready.push(*seq);
        last = &early.taking;
    }
    Ok(ready)
}
