//! Detects whether the process was started with standard output closed.
//!
//! Before `main`, Rust's runtime opens `/dev/null` in place of a closed stream. Otherwise the first opened file would take its
//! number. From then on, however, output vanishes without an error. So this module checks before the runtime starts. It must
//! never do more than check, because the runtime is not initialised yet.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

static OUTPUT_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls the functions in this section once, before the runtime of Rust starts. The function ignores what the
// loader passes in registers, allocates nothing, cannot panic, and makes one system call.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: the descriptor may be closed, which is what is tested; it is used for nothing else.
    let output = unsafe { BorrowedFd::borrow_raw(1) };
    let is_closed = matches!(rustix::io::fcntl_getfd(output), Err(rustix::io::Errno::BADF));
    OUTPUT_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Returns whether standard output was closed when the process was started.
pub fn output_was_closed() -> bool {
    OUTPUT_CLOSED.load(Ordering::Relaxed)
}
