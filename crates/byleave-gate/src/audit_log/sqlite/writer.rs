//! The writer: commits everything that waits to be written in one transaction.
//!
//! Operations are queued. The first thread that finds the connection free commits the whole queue and replies to all.
//! A caller does this itself if it is alone and the disk is fast, because two thread switches would cost more than the
//! commit. Otherwise a dedicated thread does it. That thread first waits briefly for as many writers as last time, because
//! one commit for all costs as much as a commit for half. Nothing is reported as written before the commit has returned.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::Connection;

use super::schema;
use super::write_op::{WriteContext, WriteOp, WriteResult};
use crate::ledger::{AppendError, LedgerError};

/// The maximum number of operations in one transaction.
const MAX_BATCH_LEN: usize = 256;
/// How long the thread waits per expected writer, in addition to half the duration of a commit.
const WAIT_PER_JOB_US: u64 = 10;
/// The longest average commit that a caller still performs on its own thread.
const INLINE_US_MAX: u64 = 1_500;

/// The writer for all threads of this process.
pub(super) struct SqliteWriter {
    shared: Arc<WriterShared>,
    thread: Option<JoinHandle<()>>,
}

struct WriterShared {
    queue: Mutex<WriteQueue>,
    wakeup: Condvar,
    connection: Mutex<WriteConnection>,
    context: Arc<WriteContext>,
    /// The recent duration of commits, in microseconds.
    commit_us: AtomicU64,
    /// How many write concurrently: those served by the last commit plus those queued behind it.
    concurrent_writers: AtomicUsize,
    on_write: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct WriteQueue {
    jobs: Vec<WriteJob>,
    /// The queue length that the thread waits for.
    target_len: usize,
    closed: bool,
}

struct WriteJob {
    work: WriteOp,
    reply: oneshot::Sender<WriteResult>,
}

struct WriteConnection {
    path: PathBuf,
    busy_timeout: Duration,
    connection: Connection,
}

impl SqliteWriter {
    /// Starts a writer. It calls `on_write` after every commit.
    pub(super) fn start(
        path: PathBuf,
        busy: Duration,
        connection: Connection,
        bench: Arc<WriteContext>,
        on_write: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Self, LedgerError> {
        let office = Arc::new(WriterShared {
            queue: Mutex::default(),
            wakeup: Condvar::new(),
            connection: Mutex::new(WriteConnection { path, busy_timeout: busy, connection }),
            context: bench,
            commit_us: AtomicU64::new(0),
            concurrent_writers: AtomicUsize::new(0),
            on_write,
        });
        let thread = std::thread::Builder::new()
            .name("byleave-writer".into())
            .spawn({
                let office = Arc::clone(&office);
                move || office.run()
            })
            .map_err(|error| LedgerError::new("cannot start the writer thread of the audit log", error))?;
        Ok(Self { shared: office, thread: Some(thread) })
    }

    /// Submits an operation and waits until it is durable.
    pub(super) async fn submit(&self, work: WriteOp) -> WriteResult {
        let answer = self.shared.enqueue(work);
        if self.shared.is_idle() {
            self.shared.commit_inline();
        } else {
            self.shared.wake();
        }
        answer.await.unwrap_or_else(|_| Err(AppendError::Ledger(closed_error())))
    }

    /// Does the same as [`Self::submit`] for threads that may block.
    pub(super) fn submit_blocking(&self, work: WriteOp) -> WriteResult {
        let mut answer = self.shared.enqueue(work);
        loop {
            let desk = self.shared.connection.lock();
            self.shared.drain_queue(desk);
            match answer.try_recv() {
                Ok(Some(done)) => return done,
                Ok(None) => {}
                Err(oneshot::Canceled) => return Err(AppendError::Ledger(closed_error())),
            }
        }
    }

    /// Uses the write connection outside of any transaction.
    pub(super) fn with_connection<T>(&self, what: impl FnOnce(&Connection) -> T) -> T {
        let desk = self.shared.connection.lock();
        let value = what(&desk.connection);
        drop(desk);
        self.shared.wake_for_rest();
        value
    }

    /// Reads with the write connection if it is idle. Only that connection still caches the pages it wrote last.
    pub(super) fn read_if_idle<T>(&self, read: impl FnOnce(&Connection) -> T) -> Option<T> {
        if !self.shared.is_idle() {
            return None;
        }
        let desk = self.shared.connection.try_lock()?;
        let value = desk.connection.is_autocommit().then(|| read(&desk.connection));
        drop(desk);
        self.shared.wake_for_rest();
        value
    }
}

impl Drop for SqliteWriter {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.wakeup.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread of the audit log panicked");
        }
    }
}

impl WriterShared {
    fn enqueue(&self, work: WriteOp) -> oneshot::Receiver<WriteResult> {
        let (reply, answer) = oneshot::channel();
        self.queue.lock().jobs.push(WriteJob { work, reply });
        answer
    }

    /// Checks whether a caller may write on its own thread.
    fn is_idle(&self) -> bool {
        self.concurrent_writers.load(Ordering::Relaxed) <= 1
            && self.commit_us.load(Ordering::Relaxed) <= INLINE_US_MAX
    }

    /// Wakes the thread if the queue is as long as it waits for.
    fn wake(&self) {
        let queue = self.queue.lock();
        if queue.jobs.len() >= queue.target_len {
            drop(queue);
            self.wakeup.notify_one();
        }
    }

    /// Runs the thread: waits for operations that no caller writes.
    fn run(&self) {
        loop {
            let mut queue = self.queue.lock();
            queue.target_len = 1;
            while queue.jobs.is_empty() {
                if queue.closed {
                    return;
                }
                self.wakeup.wait(&mut queue);
            }
            self.wait_for_batch(queue);
            self.drain_queue(self.connection.lock());
        }
    }

    /// Waits for the expected number of concurrent writers, but only briefly compared to a commit.
    fn wait_for_batch(&self, mut queue: MutexGuard<'_, WriteQueue>) {
        queue.target_len = self.concurrent_writers.load(Ordering::Relaxed).min(MAX_BATCH_LEN);
        let patience = match u64::try_from(queue.target_len) {
            // No other writer is expected.
            Ok(0 | 1) => return,
            Ok(wanted) => {
                (self.commit_us.load(Ordering::Relaxed) / 2).saturating_add(wanted * WAIT_PER_JOB_US)
            }
            Err(_) => 0,
        };
        let patience = Duration::from_micros(patience);
        let is_short = |queue: &mut WriteQueue| queue.jobs.len() < queue.target_len && !queue.closed;
        self.wakeup.wait_while_for(&mut queue, is_short, patience);
        // Writers that arrive during this round need not wake the thread.
        queue.target_len = usize::MAX;
    }

    /// Commits the queue unless another thread is doing so. That thread checks the queue again when it is done.
    fn commit_inline(&self) {
        if let Some(desk) = self.connection.try_lock() {
            self.drain_queue(desk);
        }
    }

    /// Commits one round of the queue, and leaves the rest to the thread.
    fn drain_queue(&self, mut desk: MutexGuard<'_, WriteConnection>) {
        let jobs = {
            let mut queue = self.queue.lock();
            let round = queue.jobs.len().min(MAX_BATCH_LEN);
            queue.jobs.drain(..round).collect::<Vec<WriteJob>>()
        };
        if !jobs.is_empty() {
            let (together, begun) = (jobs.len(), Instant::now());
            let replies = desk.write(jobs, &self.context);
            self.record_commit_time(begun.elapsed());
            let behind = self.queue.lock().jobs.len();
            self.concurrent_writers.store(together.saturating_add(behind), Ordering::Relaxed);
            for (reply, done) in replies {
                // The caller may be gone. The write remains.
                if reply.send(done).is_err() {
                    tracing::trace!("the caller stopped waiting for its write");
                }
            }
            (self.on_write)();
        }
        drop(desk);
        self.wake_for_rest();
    }

    fn wake_for_rest(&self) {
        if !self.queue.lock().jobs.is_empty() {
            self.wakeup.notify_one();
        }
    }

    fn record_commit_time(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let known = self.commit_us.load(Ordering::Relaxed);
        self.commit_us.store(known.saturating_mul(7).saturating_add(took) / 8, Ordering::Relaxed);
    }
}

impl WriteConnection {
    /// Writes all jobs in one transaction. If the commit fails, each job gets a transaction of its own, so that a failing job
    /// affects only itself.
    fn write(
        &mut self,
        jobs: Vec<WriteJob>,
        bench: &WriteContext,
    ) -> Vec<(oneshot::Sender<WriteResult>, WriteResult)> {
        let together = jobs.len();
        let (works, replies): (Vec<WriteOp>, Vec<_>) =
            jobs.into_iter().map(|job| (job.work, job.reply)).unzip();
        let done = match self.transact(&works, bench) {
            Ok(done) => done,
            Err(error) if together > 1 => {
                tracing::warn!(%error, together, "a transaction of the audit log failed; retrying each write separately");
                works.iter().map(|work| self.write_alone(work, bench)).collect()
            }
            Err(error) => vec![Err(AppendError::Ledger(write_error(&error)))],
        };
        replies.into_iter().zip(done).collect()
    }

    fn write_alone(&mut self, work: &WriteOp, bench: &WriteContext) -> WriteResult {
        match self.transact(std::slice::from_ref(work), bench) {
            Ok(done) => done.into_iter().next().unwrap_or_else(|| Err(AppendError::Ledger(closed_error()))),
            Err(error) => Err(AppendError::Ledger(write_error(&error))),
        }
    }

    fn transact(
        &mut self,
        works: &[WriteOp],
        bench: &WriteContext,
    ) -> Result<Vec<WriteResult>, rusqlite::Error> {
        // A panic may have left a transaction open.
        if !self.connection.is_autocommit() {
            self.recover();
        }
        let result = self.try_transact(works, bench);
        if result.is_err() {
            self.recover();
        }
        result
    }

    fn try_transact(
        &self,
        works: &[WriteOp],
        bench: &WriteContext,
    ) -> Result<Vec<WriteResult>, rusqlite::Error> {
        let connection = &self.connection;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        // Nothing is written yet, so the state seen here can be cached.
        if works.iter().any(WriteOp::needs_active_actions)
            && let Err(fault) = bench.action_cache.refresh(connection)
        {
            // The operations that need it will get the same error.
            tracing::error!(%fault, "cannot read the admin actions in force");
        }
        let done = works.iter().map(|work| work.perform(connection, bench)).collect::<Result<Vec<_>, _>>()?;
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(done)
    }

    /// Rolls an unfinished transaction back. Replaces the connection if that fails.
    fn recover(&mut self) {
        if self.connection.is_autocommit() || self.connection.execute_batch("ROLLBACK").is_ok() {
            return;
        }
        match schema::connect(&self.path, self.busy_timeout) {
            Ok(connection) => self.connection = connection,
            Err(error) => tracing::error!(%error, "cannot reopen the audit log"),
        }
    }
}

fn closed_error() -> LedgerError {
    LedgerError::new("cannot write the audit log", "it was closed")
}

fn write_error(error: &rusqlite::Error) -> LedgerError {
    LedgerError::new("cannot write the audit log", error)
}
