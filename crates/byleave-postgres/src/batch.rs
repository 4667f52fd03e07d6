//! A batch: what is written in one transaction.
//!
//! Everything that is needed is looked up at once, under the lock on the end of the book, so that nobody else writes
//! meanwhile. Then each piece of work is said yes or no to, in memory. Only then is anything written, all of a kind at once.
//! Here is what decides; how it is looked up and written is in `tables`.

mod tables;

use std::collections::{BTreeMap, HashMap, HashSet};

use byleave::audit_log::CallState;
use byleave::ledger::CallSummary;
use byleave_core::admin_action::AdminActionKind;
use byleave_core::digest::Digest;
use byleave_core::hash_chain::{ChainedEntry, GENESIS};
use byleave_core::id::{CallId, TenantId};
use sqlx_core::Error;
use sqlx_core::connection::Connection as _;
use sqlx_postgres::PgConnection;

use crate::call_projection::{AppendStep, ApprovalChanges, CallRow, RecordLocation};
use crate::ingest::{AdminActionRow, IngestError, ValidatedIngest};
use crate::schema::{ACT, RECORD, prepare_months, shard_of};

/// Something to write.
pub(crate) enum WriteOp {
    /// What an append brought.
    Take(Box<ValidatedIngest>),
    /// An act.
    Act(Box<AdminActionRow>),
}

/// What came of a piece of work, provided that the transaction commits.
pub(crate) type WriteOutcome = Result<(), IngestError>;

impl WriteOp {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Take(taking) => taking.bytes(),
            Self::Act(act) => act.body.len(),
        }
    }

    fn place(&self) -> CallId {
        match self {
            Self::Take(taking) => taking.call,
            Self::Act(act) => act.place,
        }
    }

    /// The call that is forgotten with it.
    fn forgets(&self) -> Option<CallId> {
        match self {
            Self::Act(act) => match act.act.deed {
                AdminActionKind::Forget { call } => Some(call),
                _ => None,
            },
            Self::Take(_) => None,
        }
    }
}

/// Writes all of it in one transaction. An error takes the whole transaction back.
pub(crate) async fn perform(
    connection: &mut PgConnection,
    works: &[WriteOp],
    prepared: &mut i32,
) -> Result<Vec<WriteOutcome>, Error> {
    let mut transaction = connection.begin().await?;
    let end = LogEnd::lock(&mut transaction).await?;
    let month = end.month;
    if month > *prepared {
        prepare_months(&mut transaction, month).await?;
    }
    let mut batch = WriteBatch::load(&mut transaction, works, end).await?;
    let done = works.iter().map(|work| batch.consider(work)).collect();
    batch.write(&mut transaction).await?;
    transaction.commit().await?;
    *prepared = month.max(*prepared);
    Ok(done)
}

/// The end of the book, held until the transaction is over.
struct LogEnd {
    pos: i64,
    places: Vec<i64>,
    month: i32,
    /// The first place of the month, where it is only just beginning.
    begins: Option<i64>,
}

impl LogEnd {
    /// The next place in the book, and in the shard.
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

/// A row of lines to be written.
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

/// What came early, with what a list will show of it.
#[derive(Clone)]
struct OutOfOrder {
    taking: ValidatedIngest,
    /// It is in the table already.
    is_kept: bool,
}

/// What is known of one call.
#[derive(Default)]
struct CallLookup {
    /// How it is listed; `None` until its first lines are there.
    listed: Option<CallRow>,
    /// The state that the table has it in.
    was: Option<CallState>,
    /// The wrapped key of a record that is opened here.
    key: Option<Vec<u8>>,
    /// What came early, by its place.
    early: BTreeMap<u32, OutOfOrder>,
    /// What came early and has its place now.
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
    /// The lines that are there, of what was there before.
    known: HashMap<CallId, Vec<ChainedEntry>>,
    /// Acts and records that lie somewhere, by the book.
    placed: HashSet<CallId>,
    forgotten: HashSet<(CallId, TenantId)>,
    rows: Vec<NewEntryRow>,
    /// The links of lines that are written here.
    links: HashMap<(CallId, u32), Digest>,
    forgets: Vec<(CallId, TenantId)>,
    opened_acts: Vec<(CallId, RecordLocation)>,
}

impl WriteBatch {
    /// Says whether a piece of work is taken, and notes what is to be written for it.
    fn consider(&mut self, work: &WriteOp) -> WriteOutcome {
        match work {
            WriteOp::Take(taking) => self.consider_taking(taking),
            WriteOp::Act(act) => self.consider_act(act),
        }
    }

    fn consider_taking(&mut self, taking: &ValidatedIngest) -> WriteOutcome {
        let standing = self.standings.entry(taking.call).or_default();
        let length = standing.length();
        if standing.listed.is_none() && self.placed.contains(&taking.call) {
            return Err(taking.contradicts("its place is taken by what is not listed as a call"));
        }
        if taking.end <= length {
            // All its lines follow from the one before: where the last is the same, all are.
            let last = taking.end.saturating_sub(1);
            return match self.link_at(taking.call, last) {
                Some(link) if link == taking.head => Ok(()),
                _ => Err(taking.contradicts("another line stands in its place")),
            };
        }
        if taking.seq < length {
            return Err(taking.contradicts("it overlaps with what is there, and was cut otherwise"));
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

    /// The link of a line that is there, or is written here.
    fn link_at(&self, call: CallId, seq: u32) -> Option<Digest> {
        self.links.get(&(call, seq)).copied().or_else(|| {
            let line = self.known.get(&call)?.get(usize::try_from(seq).ok()?)?;
            (line.seq() == seq).then(|| line.link())
        })
    }

    /// Puts lines behind those that are there.
    fn open_or_go_on(&mut self, taking: &ValidatedIngest) {
        let shard = shard_of(&taking.listing.tenant);
        let (pos, place) = self.end.next(shard);
        let standing = self.standings.entry(taking.call).or_default();
        let step = AppendStep {
            pos,
            length: taking.end,
            head: taking.head,
            entries: &taking.entries,
            listing: taking.listing.clone(),
        };
        let (at, forgotten, moved) = match &mut standing.listed {
            Some(listed) => {
                let moved = listed.goes_on(step);
                (listed.at, listed.forgotten, moved)
            }
            none => {
                let at = RecordLocation { shard, month: self.end.month, first: pos };
                let forgotten = self.forgotten.contains(&(taking.call, taking.listing.tenant.clone()));
                let (listed, moved) = CallRow::opened(taking.call, at, forgotten, step);
                *none = Some(listed);
                standing.key.clone_from(&taking.key);
                (at, forgotten, moved)
            }
        };
        standing.moved.push(moved);
        standing.is_changed = true;
        self.links.extend(taking.lines.iter().map(|line| ((taking.call, line.seq()), line.link())));
        self.rows.push(NewEntryRow {
            at,
            call: taking.call,
            seq: taking.seq,
            count: taking.end - taking.seq,
            kind: RECORD,
            pos,
            place,
            head: taking.head,
            body: taking.body.clone(),
            // What is said to a forgotten record is forgotten at once.
            contents: if forgotten { Vec::new() } else { taking.contents.clone() },
        });
    }

    fn consider_act(&mut self, act: &AdminActionRow) -> WriteOutcome {
        let taken = self.placed.contains(&act.place)
            || self.standings.get(&act.place).is_some_and(|standing| standing.listed.is_some());
        if taken {
            return match self.link_at(act.place, 0) {
                Some(link) if link == act.head => Ok(()),
                _ => Err(IngestError::Contradicts {
                    call: act.place,
                    seq: 0,
                    why: "the id of an act is taken".into(),
                }),
            };
        }
        let tenant = &act.act.tenant;
        let shard = shard_of(tenant);
        let (pos, place) = self.end.next(shard);
        let at = RecordLocation { shard, month: self.end.month, first: pos };
        self.placed.insert(act.place);
        self.links.insert((act.place, 0), act.head);
        self.opened_acts.push((act.place, at));
        self.rows.push(NewEntryRow {
            at,
            call: act.place,
            seq: 0,
            count: 1,
            kind: ACT,
            pos,
            place,
            head: act.head,
            body: act.body.clone(),
            contents: Vec::new(),
        });
        if let AdminActionKind::Forget { call } = &act.act.deed {
            self.forget(*call, tenant);
        }
        Ok(())
    }

    /// Has a call forgotten, also one that is still to come. Only one of the same tenant: nobody forgets for others.
    fn forget(&mut self, call: CallId, tenant: &TenantId) {
        self.forgets.push((call, tenant.clone()));
        self.forgotten.insert((call, tenant.clone()));
        let Some(standing) = self.standings.get_mut(&call) else { return };
        if let Some(listed) = standing.listed.as_mut().filter(|listed| listed.listing.tenant == *tenant) {
            listed.forget();
            standing.is_forgotten_now = true;
        }
    }
}

/// Keeps lines whose place is not there yet, unless they contradict others that are kept.
fn keep_early(standing: &mut CallLookup, taking: &ValidatedIngest) -> WriteOutcome {
    if let Some(kept) = standing.early.get(&taking.seq) {
        return if (kept.taking.end, kept.taking.head) == (taking.end, taking.head) {
            Ok(())
        } else {
            Err(taking.contradicts("another line waits for its place"))
        };
    }
    let before = standing.early.range(..taking.seq).next_back().map(|(_, early)| &early.taking);
    let after = standing.early.range(taking.seq..).next().map(|(_, early)| &early.taking);
    if before.is_some_and(|before| !fits(before, taking)) || after.is_some_and(|after| !fits(taking, after)) {
        return Err(taking.contradicts("it does not fit another that waits for its place"));
    }
    standing.early.insert(taking.seq, OutOfOrder { taking: taking.clone(), is_kept: false });
    Ok(())
}

/// Whether one that comes later in a record may stand behind another.
fn fits(one: &ValidatedIngest, later: &ValidatedIngest) -> bool {
    one.end < later.seq || (one.end == later.seq && one.head == later.before)
}

/// Checks that lines continue the record, and that what waits behind them continues it too. Returns the places of those.
fn line_up(standing: &CallLookup, taking: &ValidatedIngest) -> Result<Vec<u32>, IngestError> {
    if taking.before != standing.head() {
        return Err(taking.contradicts("it does not continue the chain"));
    }
    let of = |listing: &CallSummary| (listing.tenant.clone(), listing.session.clone());
    let whose = standing.listed.as_ref().map_or_else(|| of(&taking.listing), |listed| of(&listed.listing));
    if of(&taking.listing) != whose {
        return Err(taking.contradicts("the call is of another session"));
    }
    let (mut ready, mut last) = (Vec::new(), taking);
    for (seq, early) in &standing.early {
        if *seq > last.end {
            break;
        }
        if !fits(last, &early.taking) || of(&early.taking.listing) != whose {
            return Err(taking.contradicts(format!("line {seq}, which came before it, does not continue it")));
        }
        ready.push(*seq);
        last = &early.taking;
    }
    Ok(ready)
}
