//! Seals new rows: the rows of a shard since its last segment go into a new segment, chained to the last, signed and
//! anchored.
//!
//! The sealer holds a lease: a row with an end time and a number that grows with every holder. A lock on a connection is not
//! enough. It ends only when the server notices that the connection is dead, which takes hours behind a broken network. A
//! pooler in between would also give the connection to others.
//!
//! Each segment is written in a transaction that locks the lease row and checks its number. A process that slept through its
//! lease therefore writes nothing. The sealer must never seal an audit log that is older than its anchor, because that would
//! hide the loss.

use std::sync::{Arc, Weak};
use std::time::Duration;

use byleave_core::digest::Digest;
use byleave_core::id::CallId;
use byleave_gate::audit_log::Anchor;
use byleave_gate::audit_log::anchor_file::AnchorFile;
use byleave_gate::audit_log::segment::{
    MAX_ROWS, OLDER_THAN_ANCHOR, SealedRow, SegmentBody, hex, segment_digest,
};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::LedgerError;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use sqlx_core::Error;
use sqlx_core::query::query;
use sqlx_core::query_scalar::query_scalar;
use sqlx_core::row::Row as _;
use sqlx_postgres::{PgConnection, PgPool, PgRow};
use uuid::Uuid;

use crate::line_rows::{digest_from_bytes, to_i64, to_u32, to_u64};
use crate::schema::SHARDS;

/// How often a process that waits for the lease checks again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Stores the anchor outside of the audit log.
pub trait AnchorStore: Send + Sync + 'static {
    /// Returns the anchor that was written last.
    fn read(&self) -> BoxFuture<'_, Result<Option<Anchor>, LedgerError>>;

    /// Writes the anchor. It is durable when this returns.
    fn write(&self, anchor: Anchor) -> BoxFuture<'_, Result<(), LedgerError>>;
}

/// Stores the anchor in a file that every sealer can reach.
impl AnchorStore for AnchorFile {
    fn read(&self) -> BoxFuture<'_, Result<Option<Anchor>, LedgerError>> {
        Box::pin(async move { self.read() })
    }

    fn write(&self, anchor: Anchor) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move { self.write(&anchor) })
    }
}

/// A signed segment as it is stored.
pub(crate) struct SignedSegment {
    pub(crate) number: u64,
    pub(crate) shard: i16,
    /// The position in the audit log of its last row. It says only where to look.
    upto: i64,
    pub(crate) body: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

/// The columns that [`SignedSegment::from_row`] reads, in order.
pub(crate) const SEGMENT_COLUMNS: &str = "number, shard, upto, body, signature";

impl SignedSegment {
    pub(crate) fn from_row(row: &PgRow) -> Result<Self, Error> {
        Ok(Self {
            number: to_u64(row.try_get(0)?),
            shard: row.try_get(1)?,
            upto: row.try_get(2)?,
            body: row.try_get(3)?,
            signature: row.try_get(4)?,
        })
    }
}

/// Seals new rows, one process at a time.
pub(crate) struct Sealer {
    pool: PgPool,
    key: SigningKey,
    anchors: Arc<dyn AnchorStore>,
    lease: Duration,
    holder: Uuid,
}

/// The lease, identified by its number.
#[derive(Clone, Copy)]
struct SealLease(i64);

impl Sealer {
    pub(crate) fn new(pool: PgPool, key: SigningKey, anchors: Arc<dyn AnchorStore>, lease: Duration) -> Self {
        Self { pool, key, anchors, lease, holder: Uuid::now_v7() }
    }

    pub(crate) fn public_key(&self) -> VerifyingKey {
        self.key.verifying_key()
    }

    /// Returns the anchor that was written last.
    pub(crate) async fn read_anchor(&self) -> Result<Option<Anchor>, LedgerError> {
        self.anchors.read().await
    }

    /// Seals all rows. Waits while another process is sealing.
    pub(crate) async fn seal(&self) -> Result<u64, LedgerError> {
        loop {
            if let Some(lease) = self.acquire().await.map_err(cannot)? {
                return self.seal_and_release(lease).await;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Seals all rows unless another process is sealing.
    pub(crate) async fn seal_if_free(&self) -> Result<u64, LedgerError> {
        match self.acquire().await.map_err(cannot)? {
            Some(lease) => self.seal_and_release(lease).await,
            None => Ok(0),
        }
    }

    async fn seal_and_release(&self, lease: SealLease) -> Result<u64, LedgerError> {
        let sealed = self.seal_under(lease).await;
        let sql = "UPDATE sealer SET until = '-infinity' WHERE fence = $1";
        let released = query(sql).bind(lease.0).execute(&self.pool).await;
        if let Err(error) = released {
            // The lease expires by itself.
            tracing::warn!(%error, "cannot release the lease of the sealer");
        }
        sealed
    }

    async fn acquire(&self) -> Result<Option<SealLease>, Error> {
        let sql = "UPDATE sealer SET fence = fence + 1, holder = $1,
                until = clock_timestamp() + $2 * interval '1 millisecond'
            WHERE until <= clock_timestamp() RETURNING fence";
        let fence = query_scalar::<_, i64>(sql)
            .bind(self.holder)
            .bind(self.lease_ms())
            .fetch_optional(&self.pool)
            .await?;
        Ok(fence.map(SealLease))
    }

    fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }

    async fn seal_under(&self, lease: SealLease) -> Result<u64, LedgerError> {
        let mut connection = self.pool.acquire().await.map_err(cannot)?;
        self.check_anchor(&mut connection).await?;
        let newest = newest(&mut connection).await.map_err(cannot)?;
        let (mut number, mut before) = newest.map_or((1, Digest::from_bytes([0; 32])), |segment| {
            (segment.number.saturating_add(1), segment_digest(&segment.body))
        });
        let mut sealed = 0;
        for shard in 0..SHARDS {
            let (mut upto, mut first) = end_of(&mut connection, shard).await?;
            loop {
                let (rows, last) = rows_from(&mut connection, shard, upto, first).await.map_err(cannot)?;
                if rows.is_empty() {
                    break;
                }
                let full = rows.len() >= usize::try_from(MAX_ROWS).unwrap_or(usize::MAX);
                let seal = SegmentBody { number, prev_digest: before, first_pos: first, rows };
                let body = seal.to_bytes();
                let digest = segment_digest(&body);
                let signature = self.key.sign(digest.as_bytes()).to_bytes().to_vec();
                let segment = SignedSegment { number, shard, upto: last, body, signature };
                self.write(&mut connection, lease, &segment).await?;
                self.write_anchor(number, digest).await?;
                (number, before, first, upto) = (number.saturating_add(1), digest, seal.end_pos(), last);
                sealed += 1;
                if !full {
                    break;
                }
            }
        }
        Ok(sealed)
    }

    /// Writes a segment if this process still holds the lease, and extends the lease.
    async fn write(
        &self,
        connection: &mut PgConnection,
        lease: SealLease,
        segment: &SignedSegment,
    ) -> Result<(), LedgerError> {
        use sqlx_core::connection::Connection as _;

        let mut transaction = connection.begin().await.map_err(cannot)?;
        let sql = "UPDATE sealer SET until = clock_timestamp() + $2 * interval '1 millisecond'
            WHERE fence = $1 AND until > clock_timestamp()";
        let held = query(sql).bind(lease.0).bind(self.lease_ms()).execute(&mut *transaction).await;
        if held.map_err(cannot)?.rows_affected() == 0 {
            return Err(LedgerError::new(
                "cannot seal the audit log",
                "the lease expired, and another sealer took over",
            ));
        }
        query("INSERT INTO segment(number, shard, upto, body, signature) VALUES ($1, $2, $3, $4, $5)")
            .bind(to_i64(segment.number))
            .bind(segment.shard)
            .bind(segment.upto)
            .bind(&segment.body)
            .bind(&segment.signature)
            .execute(&mut *transaction)
            .await
            .map_err(cannot)?;
        transaction.commit().await.map_err(cannot)
    }

    /// Fails if the audit log is not the one that was anchored.
    async fn check_anchor(&self, connection: &mut PgConnection) -> Result<(), LedgerError> {
        let Some(anchor) = self.read_anchor().await? else { return Ok(()) };
        match load_segment(connection, anchor.number).await.map_err(cannot)? {
            None => Err(LedgerError::new("cannot seal the audit log", OLDER_THAN_ANCHOR)),
            Some(segment) if segment_digest(&segment.body) != anchor.digest => {
                Err(LedgerError::new("cannot seal the audit log", "the anchored segment was changed"))
            }
            Some(_) => Ok(()),
        }
    }

    async fn write_anchor(&self, number: u64, digest: Digest) -> Result<(), LedgerError> {
        // A process that slept between the commit and this line must not move the anchor back.
        if self.read_anchor().await?.is_some_and(|anchor| anchor.number > number) {
            return Ok(());
        }
        let key = hex(self.public_key().as_bytes());
        self.anchors.write(Anchor { number, digest, public_key: key }).await
    }
}

/// Seals new rows for as long as the audit log is open.
pub(crate) async fn run_seal_loop(sealer: Weak<Sealer>, every: Duration) {
    let mut last_fault = String::new();
    loop {
        tokio::time::sleep(every).await;
        let Some(sealer) = sealer.upgrade() else { return };
        match sealer.seal_if_free().await {
            Ok(_) => last_fault.clear(),
            Err(fault) => {
                let fault = fault.to_string();
                if fault != last_fault {
                    tracing::error!(%fault, "cannot seal the audit log");
                    last_fault = fault;
                }
            }
        }
    }
}

/// Returns the number of rows that are not sealed.
pub(crate) async fn count_unsealed(connection: &mut PgConnection) -> Result<u64, LedgerError> {
    let places = query_scalar::<_, Vec<i64>>("SELECT places FROM book_end").fetch_one(&mut *connection).await;
    let mut unsealed = 0;
    for (shard, place) in (0..SHARDS).zip(places.map_err(cannot)?) {
        let (_, next) = end_of(connection, shard).await?;
        unsealed += to_u64(place.saturating_add(1).saturating_sub(next));
    }
    Ok(unsealed)
}

/// Returns the end of the sealed part of a shard: the position of its last row, and the next position in the shard.
async fn end_of(connection: &mut PgConnection, shard: i16) -> Result<(i64, i64), LedgerError> {
    let sql = format!("SELECT {SEGMENT_COLUMNS} FROM segment WHERE shard = $1 ORDER BY number DESC LIMIT 1");
    let row = query(&sql).bind(shard).fetch_optional(connection).await.map_err(cannot)?;
    let Some(segment) = row.as_ref().map(SignedSegment::from_row).transpose().map_err(cannot)? else {
        return Ok((0, 1));
    };
    let seal = SegmentBody::parse(&segment.body).ok_or_else(|| {
        LedgerError::new("cannot seal the audit log", format!("segment {} is damaged", segment.number))
    })?;
    Ok((segment.upto, seal.end_pos()))
}

async fn newest(connection: &mut PgConnection) -> Result<Option<SignedSegment>, Error> {
    let sql = format!("SELECT {SEGMENT_COLUMNS} FROM segment ORDER BY number DESC LIMIT 1");
    query(&sql).fetch_optional(connection).await?.as_ref().map(SignedSegment::from_row).transpose()
}

/// Returns the segment with a number.
pub(crate) async fn load_segment(
    connection: &mut PgConnection,
    number: u64,
) -> Result<Option<SignedSegment>, Error> {
    let sql = format!("SELECT {SEGMENT_COLUMNS} FROM segment WHERE number = $1");
    let row = query(&sql).bind(to_i64(number)).fetch_optional(connection).await?;
    row.as_ref().map(SignedSegment::from_row).transpose()
}

/// Returns the next rows of a shard, and the position in the audit log of the last of them.
async fn rows_from(
    connection: &mut PgConnection,
    shard: i16,
    after: i64,
    first: i64,
) -> Result<(Vec<SealedRow>, i64), Error> {
    let sql = "SELECT call, seq, count, head, place, pos FROM line WHERE shard = $1 AND pos > $2 ORDER BY pos LIMIT $3";
    let rows = query(sql).bind(shard).bind(after).bind(MAX_ROWS).fetch_all(connection).await?;
    let (mut sealed, mut expected, mut last) = (Vec::new(), first, after);
    for row in &rows {
        // Nothing is sealed across a gap, so that `verify` still finds it.
        if row.try_get::<i64, _>(4)? != expected {
            break;
        }
        expected = expected.saturating_add(1);
        last = row.try_get(5)?;
        sealed.push(sealed_row_from(row)?);
    }
    Ok((sealed, last))
}

/// Reads a row as it would be sealed, from `call, seq, count, head`.
pub(crate) fn sealed_row_from(row: &PgRow) -> Result<SealedRow, Error> {
    Ok(SealedRow {
        call: CallId::new(row.try_get(0)?),
        seq: to_u32(row.try_get(1)?),
        count: to_u32(row.try_get(2)?),
        head: digest_from_bytes(row.try_get(3)?),
    })
}

fn cannot(error: Error) -> LedgerError {
    LedgerError::new("cannot seal the audit log", error)
}
