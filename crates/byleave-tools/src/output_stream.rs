//! The output of a running command: kept for its result, and passed on to listeners while it runs.
//!
//! A listener must never delay the command, which waits only for bytes to be copied. Output that arrives faster than listeners read is not
//! passed on, and the omitted size is reported.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byleave_gate::tool::{OutputChunk, RunContext};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::head_tail_buffer::HeadTailBuffer;

/// How long output is collected before it is passed on together. It is too short to be noticed.
const MOMENT: Duration = Duration::from_millis(20);
/// How often a running command reports progress.
const PROGRESS: Duration = Duration::from_secs(2);
/// The maximum size that is passed on at once, and of continuous output.
const BURST_BYTES: usize = 256 << 10;
/// The rate at which continuous output is passed on. It is more than a person can read, and small enough to queue a minute of it for a slow
/// listener.
const BYTES_PER_SECOND: usize = 256 << 10;

/// The choice whether output is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputForwarding {
    /// Passed on as it arrives.
    Live,
    /// Only the time is reported, because even the amount of output could carry information.
    TimeOnly,
}

/// A listener for a command. Listening ends when it is dropped.
pub(crate) struct OutputListener {
    shared: Arc<OutputShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct OutputShared {
    state: Mutex<OutputState>,
    stirred: Condvar,
}

#[derive(Debug)]
struct OutputState {
    kept: HeadTailBuffer,
    /// The output that was not passed on yet; `None` if it is not passed on.
    fresh: Option<HeadTailBuffer>,
    /// Whether output has arrived since the last look.
    stirred: bool,
    bytes: u64,
    ended: bool,
}

impl OutputListener {
    /// Starts a listener for a call that keeps this many bytes.
    pub(crate) fn start(run: &RunContext, audience: OutputForwarding, bytes_max: usize) -> Self {
        let fresh = (audience == OutputForwarding::Live).then(|| HeadTailBuffer::tail_only(BURST_BYTES));
        let state = OutputState {
            kept: HeadTailBuffer::new(bytes_max),
            fresh,
            stirred: false,
            bytes: 0,
            ended: false,
        };
        let shared = Arc::new(OutputShared { state: Mutex::new(state), stirred: Condvar::new() });
        let (run, heard) = (run.clone(), Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("byleave-listener".into());
        let thread = thread.spawn(move || heard.pass_on(&run));
        if let Err(error) = &thread {
            tracing::warn!(%error, "cannot show the output of a command while it runs");
        }
        Self { shared, thread: thread.ok() }
    }

    /// Returns the callback for output as it arrives. It never waits for listeners.
    pub(crate) fn output_sink(&self) -> impl FnMut(&[u8]) + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move |bytes| {
            let mut state = shared.lock();
            state.bytes += bytes.len() as u64;
            state.kept.add(bytes);
            if let Some(fresh) = &mut state.fresh {
                fresh.add(bytes);
                state.stirred = true;
                shared.stirred.notify_one();
            }
        }
    }

    /// Returns all kept output, after all of it has been passed on.
    pub(crate) fn finish(mut self) -> HeadTailBuffer {
        self.stop();
        let kept = HeadTailBuffer::new(0);
        std::mem::replace(&mut self.shared.lock().kept, kept)
    }

    fn stop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.stirred.notify_one();
        // A panic of the thread has already been reported.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Drop for OutputListener {
    fn drop(&mut self) {
        self.stop();
    }
}

impl OutputShared {
    fn lock(&self) -> MutexGuard<'_, OutputState> {
        self.state.lock()
    }

    /// Waits for this time, or until `is_due`.
    fn wait(&self, long: Duration, is_due: impl Fn(&OutputState) -> bool) -> MutexGuard<'_, OutputState> {
        let mut state = self.lock();
        self.stirred.wait_while_for(&mut state, |state| !is_due(state), long);
        state
    }

    fn pass_on(&self, run: &RunContext) {
        let began = Instant::now();
        let (mut next, mut allowance, mut left_out) = (began + PROGRESS, RateAllowance::full(began), 0);
        loop {
            let left = next.saturating_duration_since(Instant::now());
            let mut state = self.wait(left, |state| state.ended || state.stirred);
            state.stirred = false;
            let (ended, bytes) = (state.ended, state.bytes);
            let fresh = state.fresh.as_mut().map(|fresh| fresh.take(ended));
            let watched = state.fresh.is_some();
            drop(state);
            let now = Instant::now();
            if let Some(mut fresh) = fresh {
                fresh.drop_tail_front(fresh.tail_len().saturating_sub(allowance.at(now)));
                allowance.bytes -= fresh.tail_len().min(allowance.bytes);
                let (head, lost, tail) = fresh.into_parts();
                let text = head + &tail;
                left_out += lost.bytes;
                if !text.is_empty() || (ended && left_out > 0) {
                    run.emit_output(OutputChunk { text: text.into(), skipped_bytes: left_out });
                    left_out = 0;
                }
            }
            if ended {
                return;
            }
            if now >= next {
                next = now + PROGRESS;
                let seconds = began.elapsed().as_secs();
                run.report_progress(
                    None,
                    match watched {
                        true => format!("running for {seconds} s, {bytes} bytes printed"),
                        false => format!("rehearsing on a copy for {seconds} s"),
                    },
                );
            }
            drop(self.wait(MOMENT, |state| state.ended));
        }
    }
}

/// The allowance for output to pass on, which grows with time.
struct RateAllowance {
    bytes: usize,
    since: Instant,
}

impl RateAllowance {
    const fn full(since: Instant) -> Self {
        Self { bytes: BURST_BYTES, since }
    }

    fn at(&mut self, now: Instant) -> usize {
        let earned = now.duration_since(self.since).as_micros().saturating_mul(BYTES_PER_SECOND as u128);
        let earned = usize::try_from(earned / 1_000_000).unwrap_or(usize::MAX);
        self.since = now;
        self.bytes = self.bytes.saturating_add(earned).min(BURST_BYTES);
        self.bytes
    }
}
