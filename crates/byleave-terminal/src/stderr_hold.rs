//! The floor: while a question is on the screen, nobody else of this program draws on it.
//!
//! What is said meanwhile is kept and said afterwards. What other programs draw there cannot be kept away.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most that is kept; the rest is counted.
const KEPT_BYTES_MAX: usize = 256 * 1024;

static FLOOR: Mutex<StderrState> = Mutex::new(StderrState { holders: 0, kept: Vec::new(), lost: 0 });

struct StderrState {
    holders: usize,
    kept: Vec<u8>,
    lost: usize,
}

/// Holds the floor until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct StderrHold(());

/// Takes the floor.
pub fn take() -> StderrHold {
    state().holders += 1;
    StderrHold(())
}

/// Standard error, for talk that can wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeldStderr;

impl Write for HeldStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = state();
        if state.holders == 0 {
            return io::stderr().write(bytes);
        }
        if state.kept.len() + bytes.len() <= KEPT_BYTES_MAX {
            state.kept.extend_from_slice(bytes);
        } else {
            state.lost += bytes.len();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl Drop for StderrHold {
    fn drop(&mut self) {
        let mut state = state();
        state.holders = state.holders.saturating_sub(1);
        if state.holders > 0 {
            return;
        }
        let kept = std::mem::take(&mut state.kept);
        let lost = std::mem::take(&mut state.lost);
        // Talk that nobody can hear is not worth failing for.
        io::stderr().write_all(&kept).unwrap_or_default();
        if lost > 0 {
            writeln!(io::stderr(), "({lost} bytes more were said while a question was open)")
                .unwrap_or_default();
        }
    }
}

fn state() -> MutexGuard<'static, StderrState> {
    FLOOR.lock().unwrap_or_else(PoisonError::into_inner)
}
