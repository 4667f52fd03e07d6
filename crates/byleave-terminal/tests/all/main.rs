//! Questions at a terminal: who types, and what comes of it.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod sheets;
mod typing;
mod typing_pty;
mod typist;
