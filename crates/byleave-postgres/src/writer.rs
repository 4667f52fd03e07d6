//! Writes everything that waits, in one transaction.
//!
//! Operations are queued. A task takes all that wait, writes them at once and reports the outcomes; later ones form the next
//! round. No operation is reported as written before the commit has returned. If a transaction fails, each of its operations
//! is retried alone, so that only the cause fails. This is safe because the same append may be accepted twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byleave_gate::ledger::LedgerError;
use sqlx_core::Error;
use sqlx_core::connection::ConnectOptions as _;
use sqlx_postgres::{PgConnectOptions, PgConnection};
use tokio::sync::{mpsc, oneshot};

use crate::batch::{self, WriteOp, WriteOutcome};
use crate::ingest::IngestError;

/// The maximum number of operations in one transaction.
const TOGETHER_MAX: usize = 1_024;
/// The maximum number of bytes in one transaction, except for a single operation that is larger.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// The maximum length of the queue. Further senders wait.
const QUEUE_MAX: usize = 4_096;

/// Writes for all callers in this process.
pub(crate) struct PgWriter {
    jobs: mpsc::Sender<WriteJob>,
    queued: Arc<AtomicU64>,
}

struct WriteJob {
    work: WriteOp,
    reply: oneshot::Sender<WriteOutcome>,
}

impl PgWriter {
    /// Starts the task. It ends when no sender is left and all its operations are written.
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

    /// Submits an operation and waits until it is committed.
    pub(crate) async fn submit(&self, work: WriteOp) -> WriteOutcome {
        let (reply, answer) = oneshot::channel();
        self.queued.fetch_add(1, Ordering::Relaxed);
        if self.jobs.send(WriteJob { work, reply }).await.is_err() {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            return Err(closed().into());
        }
        answer.await.unwrap_or_else(|_| Err(closed().into()))
    }

    /// Returns the number of operations that wait.
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
                // The sender may be gone. The operation remains written.
                if reply.send(done).is_err() {
                    tracing::trace!("the sender no longer waits for the result");
                }
            }
        }
    }
}

/// Returns how many of these jobs go into one transaction.
fn round(jobs: &[WriteJob]) -> usize {
    let mut bytes: usize = 0;
    let fits = |job: &&WriteJob| {
        bytes = bytes.saturating_add(job.work.byte_len());
        bytes <= BYTES_MAX
    };
    jobs.iter().take_while(fits).count().max(1).min(jobs.len())
}

struct WriterTask {
    connect: PgConnectOptions,
    connection: Option<PgConnection>,
    /// The last month whose partitions are known to exist.
    prepared: i32,
}

impl WriterTask {
    async fn write(&mut self, works: &[WriteOp]) -> Vec<WriteOutcome> {
        match self.transact(works).await {
            Ok(done) => done,
            Err(error) if works.len() > 1 => {
                tracing::warn!(%error, together = works.len(), "a transaction of the audit log failed; retrying each operation alone");
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
        // Taken out, because after an error the state of the connection is unknown.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect.connect().await?,
        };
        let done = batch::execute_all(&mut connection, works, &mut self.prepared).await?;
        self.connection = Some(connection);
        Ok(done)
    }
}

fn closed() -> LedgerError {
    LedgerError::new("cannot write to the audit log", "the audit log was closed")
}

fn cannot_write(error: &Error) -> IngestError {
    LedgerError::new("cannot write to the audit log", error).into()
}
