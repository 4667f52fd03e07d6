//! What the sandbox holds, with a real kernel. Needs user namespaces for the unprivileged; run by root, it becomes another user.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod cost;
mod escapes;
mod launch;
mod session;
mod user;
