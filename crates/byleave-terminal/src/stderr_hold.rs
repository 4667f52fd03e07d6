//! Holds back other output of this program while a question is on the screen.
//!
//! Held output is kept and written afterwards. Output of other programs cannot be held back.

use std::io::{self, Write};

use parking_lot::{Mutex, MutexGuard};

/// The maximum number of bytes that are kept. The rest is counted.
const KEPT_BYTES_MAX: usize = 256 * 1024;

static FLOOR: Mutex<StderrState> = Mutex::new(StderrState { holders: 0, kept: Vec::new(), lost: 0 });

struct StderrState {
    holders: usize,
    kept: Vec<u8>,
    lost: usize,
}

/// Holds standard error back until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct StderrHold(());

/// Starts to hold standard error back.
pub fn hold_stderr() -> StderrHold {
    state().holders += 1;
    StderrHold(())
}

/// Standard error for output that can wait.
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
        // Output that cannot be written is not worth an error.
        io::stderr().write_all(&kept).unwrap_or_default();
        if lost > 0 {
            writeln!(io::stderr(), "({lost} more bytes of output were dropped while a question was open)")
                .unwrap_or_default();
        }
    }
}

fn state() -> MutexGuard<'static, StderrState> {
    FLOOR.lock()
}
