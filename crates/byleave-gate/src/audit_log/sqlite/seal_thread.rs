//! The seal thread: seals entries soon after they are written, and once more when the audit log is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{SqliteStore, seal};
use crate::ledger::LedgerError;

/// The signal sent after every write.
#[derive(Default)]
pub(super) struct WriteSignal {
    signaled: AtomicBool,
    closed: Mutex<bool>,
    wake: Condvar,
}

impl WriteSignal {
    pub(super) fn notify(&self) {
        if !self.signaled.swap(true, Ordering::AcqRel) {
            // The lock ensures that the seal thread is either about to check `rung` or already waiting.
            drop(self.closed.lock());
            self.wake.notify_all();
        }
    }

    fn close(&self) {
        *self.closed.lock() = true;
        self.wake.notify_all();
    }

    /// Waits until something was written and `a_while` has passed. Returns whether to continue.
    fn wait(&self, a_while: Duration) -> bool {
        let mut closed = self.closed.lock();
        while !*closed && !self.signaled.load(Ordering::Acquire) {
            self.wake.wait(&mut closed);
        }
        self.wake.wait_while_for(&mut closed, |closed| !*closed, a_while);
        !*closed
    }
}

/// The thread that seals.
pub(super) struct SealThread {
    signal: Arc<WriteSignal>,
    thread: Option<JoinHandle<()>>,
}

impl SealThread {
    pub(super) fn start(
        store: Arc<SqliteStore>,
        bell: Arc<WriteSignal>,
        every: Duration,
    ) -> Result<Self, LedgerError> {
        // Also seals what another process left unsealed when it died.
        bell.notify();
        let thread = std::thread::Builder::new()
            .name("byleave-sealer".into())
            .spawn({
                let bell = Arc::clone(&bell);
                move || seal_loop(&store, &bell, every)
            })
            .map_err(|error| LedgerError::new("cannot start the seal thread of the audit log", error))?;
        Ok(Self { signal: bell, thread: Some(thread) })
    }
}

impl Drop for SealThread {
    fn drop(&mut self) {
        self.signal.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the seal thread of the audit log panicked");
        }
    }
}

fn seal_loop(store: &SqliteStore, bell: &WriteSignal, every: Duration) {
    let mut last_fault = String::new();
    loop {
        let go_on = bell.wait(every);
        bell.signaled.store(false, Ordering::Release);
        let sealed = store
            .sealer
            .seal_if_free(&store.readers, &store.writer)
            .and_then(|_| store.readers.read("cannot check for unsealed entries", seal::has_unsealed));
        match sealed {
            Ok(behind) => {
                last_fault.clear();
                if behind {
                    bell.signaled.store(true, Ordering::Release);
                }
            }
            Err(fault) => {
                bell.signaled.store(true, Ordering::Release);
                let fault = fault.to_string();
                if fault != last_fault {
                    tracing::error!(%fault, "cannot seal the audit log");
                    last_fault = fault;
                }
            }
        }
        if !go_on {
            return;
        }
    }
}
