//! Questions at a terminal: who types, and what comes of it.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod chat;
mod frames;
mod person;
mod sheets;
mod typing;
mod typing_pty;
mod typist;
