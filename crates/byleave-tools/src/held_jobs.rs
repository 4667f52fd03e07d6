//! Jobs that are held by the call that starts them, for a process that ends with its call: `byleave exec` behind a hook.
//!
//! The call lasts as long as the job. Whoever runs the process ends the job by ending the process, and what the job wrote is judged as
//! that of any other call.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The maximum time that a job is held.
pub(crate) const HELD_MAX: Duration = Duration::from_secs(8 * 3_600);

type Listener = Box<dyn Fn(&str) + Send + Sync>;

/// A handle on the jobs that calls of this process hold.
#[derive(Clone, Default)]
pub struct HeldJobs(Arc<HeldJobState>);

#[derive(Default)]
struct HeldJobState {
    stop: CancellationToken,
    is_running: AtomicBool,
    listener: Mutex<Option<Listener>>,
}

impl HeldJobs {
    /// Creates a handle. Nobody listens to messages about the jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets who is told about the ports of the jobs while they run.
    pub fn listen(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        *self.0.listener.lock() = Some(Box::new(listener));
    }

    /// Ends the jobs, as their agent does. A call that holds one then ends normally.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Checks whether a call holds a job now.
    pub fn is_running(&self) -> bool {
        self.0.is_running.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.0.stop.clone()
    }

    pub(crate) fn set_running(&self, is_running: bool) {
        self.0.is_running.store(is_running, Ordering::Release);
    }

    pub(crate) fn say(&self, line: &str) {
        if let Some(listener) = &*self.0.listener.lock() {
            listener(line);
        }
    }
}

impl fmt::Debug for HeldJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldJobs").field("is_running", &self.is_running()).finish_non_exhaustive()
    }
}
