//! What the sandbox holds, with a real kernel and real sockets. Needs user namespaces for the unprivileged; run by root, it becomes
//! another user.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    reason = "tests"
)]

mod cost;
mod escapes;
mod kernels;
mod ladder;
mod launch;
mod net;
mod oci;
mod scores;
mod session;
mod user;
