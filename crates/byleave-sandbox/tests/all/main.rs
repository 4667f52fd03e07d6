//! Tests of the sandbox with a real kernel and real sockets. Needs user namespaces for the unprivileged. If root runs it, it
//! becomes another user.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    reason = "tests"
)]

mod cgroup;
mod copied;
mod escapes;
mod escapes_own;
mod escapes_red;
mod forms;
mod git_later;
mod granted;
mod index;
mod kernels;
mod ladder;
mod launch;
mod limits;
mod lived;
mod net;
mod observed;
mod oci;
mod online;
mod scores;
mod session;
mod terminal;
mod ways;
