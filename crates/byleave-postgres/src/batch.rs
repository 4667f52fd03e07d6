//! A batch: what is written in one transaction.
//!
//! Everything that is needed is looked up at once, under the lock on the end of the book, so that nobody else writes
//! meanwhile. Then each piece of work is said yes or no to, in memory. Only then is anything written, all of a kind at once.

use std::collections::{BTreeMap, HashMap, HashSet};

use byleave::book::CallState;
use byleave::book::framing::{Framed, unframe};
use byleave::book::marks::state_from;
use byleave::ledger::Listing;
use byleave_core::act::Deed;
use byleave_core::chain::{GENESIS, Line};
use byleave_core::digest::Digest;
use byleave_core::id::{CallId, SessionId, TenantId};
use sqlx_core::Error;
use sqlx_core::connection::Connection as _;
use sqlx_core::query::query;
use sqlx_core::row::Row as _;
use sqlx_postgres::{PgConnection, PgRow};
use uuid::Uuid;

use crate::listed::{At, Changes, Leaf, Listed, Moved, Step, all};
use crate::rows::{LINES_ALONE, by_call, digest, lines_of, rows_of, signed, unsigned, unsigned_long};
use crate::schema::{ACT, RECORD, prepare_months, shard_of};
use crate::taking::{Checked, NewAct, TakeFault};

/// Something to write.
pub(crate) enum Work {
    /// What an append brought.
    Take(Box<Checked>),
    /// An act.
    Act(Box<NewAct>),
}

/// What came of a piece of work, provided that the transaction commits.
pub(crate) type Done = Result<(), TakeFault>;

impl Work {
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
                Deed::Forget { call } => Some(call),
                _ => None,
            },
            Self::Take(_) => None,
        }
    }
}

/// Writes all of it in one transaction. An error takes the whole transaction back.
pub(crate) async fn perform(
    connection: &mut PgConnection,
    works: &[Work],
    prepared: &mut i32,
) -> Result<Vec<Done>, Error> {
    let mut transaction = connection.begin().await?;
    let end = End::lock(&mut transaction).await?;
    let month = end.month;
    if month > *prepared {
        prepare_months(&mut transaction, month).await?;
    }
    let mut batch = Batch::load(&mut transaction, works, end).await?;
    let done = works.iter().map(|work| batch.consider(work)).collect();
    batch.write(&mut transaction).await?;
    transaction.commit().await?;
    *prepared = month.max(*prepared);
    Ok(done)
}

/// The end of the book, held until the transaction is over.
struct End {
    pos: i64,
    places: Vec<i64>,
    month: i32,
    /// The first place of the month, where it is only just beginning.
    begins: Option<i64>,
}

impl End {
    async fn lock(connection: &mut PgConnection) -> Result<Self, Error> {
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
struct NewRow {
    at: At,
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
struct Early {
    taking: Checked,
    /// It is in the table already.
    is_kept: bool,
}

/// What is known of one call.
#[derive(Default)]
struct Standing {
    /// How it is listed; `None` until its first lines are there.
    listed: Option<Listed>,
    /// The state that the table has it in.
    was: Option<CallState>,
    /// The wrapped key of a record that is opened here.
    key: Option<Vec<u8>>,
    /// What came early, by its place.
    early: BTreeMap<u32, Early>,
    /// What came early and has its place now.
    placed: Vec<u32>,
    moved: Vec<Moved>,
    is_changed: bool,
    is_forgotten_now: bool,
}

impl Standing {
    fn length(&self) -> u32 {
        self.listed.as_ref().map_or(0, |listed| listed.length)
    }

    fn head(&self) -> Digest {
        self.listed.as_ref().map_or(GENESIS, |listed| listed.head)
    }
}

struct Batch {
    end: End,
    standings: HashMap<CallId, Standing>,
    /// The lines that are there, of what was there before.
    known: HashMap<CallId, Vec<Line>>,
    /// Acts and records that lie somewhere, by the book.
    placed: HashSet<CallId>,
    forgotten: HashSet<(CallId, TenantId)>,
    rows: Vec<NewRow>,
    /// The links of lines that are written here.
    links: HashMap<(CallId, u32), Digest>,
    forgets: Vec<(CallId, TenantId)>,
    opened_acts: Vec<(CallId, At)>,
}

impl Batch {
    async fn load(connection: &mut PgConnection, works: &[Work], end: End) -> Result<Self, Error> {
        let calls: Vec<CallId> =
            works.iter().flat_map(|work| std::iter::once(work.place()).chain(work.forgets())).collect();
        let ids: Vec<Uuid> = all(&calls, CallId::uuid);
        let mut batch = Self {
            end,
            standings: calls.iter().map(|call| (*call, Standing::default())).collect(),
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
        // Lines are read only where something comes again.
        let again: Vec<CallId> = works
            .iter()
            .filter(|work| match work {
                Work::Take(taking) => {
                    batch.standings.get(&taking.call).is_some_and(|standing| taking.seq < standing.length())
                }
                Work::Act(act) => batch.placed.contains(&act.place),
            })
            .map(Work::place)
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
        let mut places: HashMap<Leaf, Vec<(At, bool)>> = HashMap::new();
        for row in query(sql).bind(ids).fetch_all(&mut *connection).await? {
            self.placed.insert(CallId::new(row.try_get(0)?));
            let at = At { shard: row.try_get(1)?, month: row.try_get(2)?, first: row.try_get(3)? };
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
            let places: HashMap<i64, (At, bool)> =
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
            standing.early.insert(taking.seq, Early { taking, is_kept: true });
        }
        Ok(())
    }

    /// Says whether a piece of work is taken, and notes what is to be written for it.
    fn consider(&mut self, work: &Work) -> Done {
        match work {
            Work::Take(taking) => self.consider_taking(taking),
            Work::Act(act) => self.consider_act(act),
        }
    }

    fn consider_taking(&mut self, taking: &Checked) -> Done {
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
        self.open_or_go_on(taking, taking.contents.clone());
        for seq in ready {
            let standing = self.standings.entry(taking.call).or_default();
            let Some(early) = standing.early.remove(&seq) else { continue };
            if early.is_kept {
                standing.placed.push(seq);
            }
            let contents = early.taking.contents.clone();
            self.open_or_go_on(&early.taking, contents);
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
    fn open_or_go_on(&mut self, taking: &Checked, contents: Vec<u8>) {
        let shard = shard_of(&taking.listing.tenant);
        let (pos, place) = self.end.next(shard);
        let standing = self.standings.entry(taking.call).or_default();
        let step = Step {
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
                let at = At { shard, month: self.end.month, first: pos };
                let forgotten = self.forgotten.contains(&(taking.call, taking.listing.tenant.clone()));
                let (listed, moved) = Listed::opened(taking.call, at, forgotten, step);
                *none = Some(listed);
                standing.key.clone_from(&taking.key);
                (at, forgotten, moved)
            }
        };
        standing.moved.push(moved);
        standing.is_changed = true;
        self.links.extend(taking.lines.iter().map(|line| ((taking.call, line.seq()), line.link())));
        self.rows.push(NewRow {
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
            contents: if forgotten { Vec::new() } else { contents },
        });
    }

    fn consider_act(&mut self, act: &NewAct) -> Done {
        let taken = self.placed.contains(&act.place)
            || self.standings.get(&act.place).is_some_and(|standing| standing.listed.is_some());
        if taken {
            return match self.link_at(act.place, 0) {
                Some(link) if link == act.head => Ok(()),
                _ => Err(TakeFault::Contradicts {
                    call: act.place,
                    seq: 0,
                    why: "the id of an act is taken".into(),
                }),
            };
        }
        let tenant = &act.act.tenant;
        let shard = shard_of(tenant);
        let (pos, place) = self.end.next(shard);
        let at = At { shard, month: self.end.month, first: pos };
        self.placed.insert(act.place);
        self.links.insert((act.place, 0), act.head);
        self.opened_acts.push((act.place, at));
        self.rows.push(NewRow {
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
        if let Deed::Forget { call } = &act.act.deed {
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

    async fn write(&self, connection: &mut PgConnection) -> Result<(), Error> {
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
        let records: Vec<(CallId, At, Option<&[u8]>, bool)> = calls.chain(acts).collect();
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
        let mut changes = Changes::default();
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
        let early: Vec<&Checked> = self
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
        let now: Vec<&Listed> = self
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

/// Keeps lines whose place is not there yet, unless they contradict others that are kept.
fn keep_early(standing: &mut Standing, taking: &Checked) -> Done {
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
    standing.early.insert(taking.seq, Early { taking: taking.clone(), is_kept: false });
    Ok(())
}

/// Whether one that comes later in a record may stand behind another.
fn fits(one: &Checked, later: &Checked) -> bool {
    one.end < later.seq || (one.end == later.seq && one.head == later.before)
}

/// Checks that lines continue the record, and that what waits behind them continues it too. Returns the places of those.
fn line_up(standing: &Standing, taking: &Checked) -> Result<Vec<u32>, TakeFault> {
    if taking.before != standing.head() {
        return Err(taking.contradicts("it does not continue the chain"));
    }
    let of = |listing: &Listing| (listing.tenant.clone(), listing.session.clone());
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

fn listed_at(row: &PgRow, at: At, forgotten: bool) -> Result<Listed, Error> {
    Ok(Listed {
        call: CallId::new(row.try_get(0)?),
        at,
        listing: Listing {
            tenant: tenant(row, 1)?,
            session: session(row, 2)?,
            // Set when the call was opened, and never again.
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

fn early_at(row: &PgRow) -> Result<Checked, Error> {
    let (seq, count) = (unsigned(row.try_get(1)?), unsigned(row.try_get(2)?));
    let (head, body): (Digest, Vec<u8>) = (digest(row.try_get(4)?), row.try_get(5)?);
    let mut lines = Vec::new();
    unframe(Framed { seq, count, head, body: &body }, &mut lines);
    let entries = lines.iter().map(|line| serde_json::from_str(line.body())).collect::<Result<_, _>>();
    Ok(Checked {
        call: CallId::new(row.try_get(0)?),
        seq,
        end: seq.saturating_add(count),
        before: digest(row.try_get(3)?),
        head,
        // What was changed meanwhile is written as it is, so that it shows.
        entries: entries.unwrap_or_default(),
        lines,
        body,
        key: None,
        contents: row.try_get(6)?,
        listing: Listing {
            tenant: tenant(row, 7)?,
            session: session(row, 8)?,
            agent: row.try_get(9)?,
            tool: row.try_get(10)?,
            operation: row.try_get(11)?,
            summary: row.try_get(12)?,
        },
    })
}

/// A tenant from its column.
pub(crate) fn tenant(row: &PgRow, column: usize) -> Result<TenantId, Error> {
    TenantId::new(row.try_get::<String, _>(column)?).map_err(|bad| Error::Decode(Box::new(bad)))
}

/// A session from its column.
pub(crate) fn session(row: &PgRow, column: usize) -> Result<SessionId, Error> {
    SessionId::new(row.try_get::<String, _>(column)?).map_err(|bad| Error::Decode(Box::new(bad)))
}
