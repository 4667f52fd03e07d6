//! The writer: one transaction for everything that waits to be written.
//!
//! Work is queued. A task takes all that waits, has it written at once and tells everyone; what comes meanwhile is the next
//! round. Nothing is reported as written before the commit has returned. If a transaction fails, everything in it is tried
//! alone, so that what spoilt it spoils only itself: the same may be taken twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byleave::ledger::LedgerError;
use sqlx_core::Error;
use sqlx_core::connection::ConnectOptions as _;
use sqlx_postgres::{PgConnectOptions, PgConnection};
use tokio::sync::{mpsc, oneshot};

use crate::batch::{self, WriteOp, WriteOutcome};
use crate::ingest::IngestError;

/// At most so much in one transaction.
const TOGETHER_MAX: usize = 1_024;
/// And no more bytes than that, but for one that is larger by itself.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// So much may wait; who comes then waits to be let in.
const QUEUE_MAX: usize = 4_096;

/// Writes for everyone in this process.
pub(crate) struct PgWriter {
    jobs: mpsc::Sender<WriteJob>,
    queued: Arc<AtomicU64>,
}

struct WriteJob {
    work: WriteOp,
    reply: oneshot::Sender<WriteOutcome>,
}

impl PgWriter {
    /// Starts the task. It ends once nobody can give it anything any more, and what it was given is written.
    pub(crate) fn start(connect: PgConnectOptions) -> Self {
        let (jobs, waiting) = mpsc::channel(QUEUE_MAX);
        let queued = Arc::new(AtomicU64::new(0));
        tokio::spawn(attend(
            WriterTask { connect, connection: None, prepared: 0 },
            waiting,
            Arc::clone(&queued),
        ));
        Self { jobs, queued }
    }

    /// Has work written, and waits until it is committed.
    pub(crate) async fn submit(&self, work: WriteOp) -> WriteOutcome {
        let (reply, answer) = oneshot::channel();
        self.queued.fetch_add(1, Ordering::Relaxed);
        if self.jobs.send(WriteJob { work, reply }).await.is_err() {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            return Err(closed().into());
        }
        answer.await.unwrap_or_else(|_| Err(closed().into()))
    }

    /// How much waits.
    pub(crate) fn queued(&self) -> u64 {
        self.queued.load(Ordering::Relaxed)
    }
}

async fn attend(mut desk: WriterTask, mut waiting: mpsc::Receiver<WriteJob>, queued: Arc<AtomicU64>) {
    let mut jobs = Vec::new();
    while waiting.recv_many(&mut jobs, TOGETHER_MAX).await > 0 {
        while !jobs.is_empty() {
            let (works, replies): (Vec<WriteOp>, Vec<_>) =
                jobs.drain(..round(&jobs)).map(|job| (job.work, job.reply)).unzip();
            let done = desk.write(&works).await;
            queued.fetch_sub(works.len() as u64, Ordering::Relaxed);
            for (reply, done) in replies.into_iter().zip(done) {
                // Who asked may have gone; what was written stays written.
                if reply.send(done).is_err() {
                    tracing::trace!("nobody waits for what was written");
                }
            }
        }
    }
}

/// How many of these go together.
fn round(jobs: &[WriteJob]) -> usize {
    let mut bytes: usize = 0;
    let fits = |job: &&WriteJob| {
        bytes = bytes.saturating_add(job.work.bytes());
        bytes <= BYTES_MAX
    };
    jobs.iter().take_while(fits).count().max(1).min(jobs.len())
}

struct WriterTask {
    connect: PgConnectOptions,
    connection: Option<PgConnection>,
    /// The last month whose partitions are known to be there.
    prepared: i32,
}

impl WriterTask {
    async fn write(&mut self, works: &[WriteOp]) -> Vec<WriteOutcome> {
        match self.transact(works).await {
            Ok(done) => done,
            Err(error) if works.len() > 1 => {
                tracing::warn!(%error, together = works.len(), "a transaction of the book failed; trying each alone");
                let mut done = Vec::with_capacity(works.len());
                for work in works {
                    done.push(self.write_alone(work).await);
                }
                done
            }
            Err(error) => vec![Err(cannot_write(&error))],
        }
    }

    async fn write_alone(&mut self, work: &WriteOp) -> WriteOutcome {
        match self.transact(std::slice::from_ref(work)).await {
            Ok(done) => done.into_iter().next().unwrap_or_else(|| Err(closed().into())),
            Err(error) => Err(cannot_write(&error)),
        }
    }

    async fn transact(&mut self, works: &[WriteOp]) -> Result<Vec<WriteOutcome>, Error> {
        // Taken out: after a fault nobody knows what state it is in.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect.connect().await?,
        };
        let done = batch::perform(&mut connection, works, &mut self.prepared).await?;
        self.connection = Some(connection);
        Ok(done)
    }
}

fn closed() -> LedgerError {
    LedgerError::new("cannot write the book", "it was closed")
}

fn cannot_write(error: &Error) -> IngestError {
    LedgerError::new("cannot write the book", error).into()
}
