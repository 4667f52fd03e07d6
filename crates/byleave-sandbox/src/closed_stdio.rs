//! Whether the process was started with its three streams open.
//!
//! Rust's runtime opens `/dev/null` in the place of a stream that is closed, before `main`: a good thing, since the first file that
//! is opened would be taken for it otherwise, but from then on results vanish without an error. So it is looked at before. It must
//! never do more than look: nothing of the runtime stands yet.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

static OUTPUT_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: what stands in this section is called by the loader, once, before the runtime of Rust starts; the function takes what
// the loader passes in registers and ignores it, allocates nothing, cannot panic, and makes one system call.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: the descriptor may be closed, which is what is asked; it is used for nothing else.
    let output = unsafe { BorrowedFd::borrow_raw(1) };
    let is_closed = matches!(rustix::io::fcntl_getfd(output), Err(rustix::io::Errno::BADF));
    OUTPUT_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Whether standard output was closed when the process was started.
pub fn output_was_closed() -> bool {
    OUTPUT_CLOSED.load(Ordering::Relaxed)
}
