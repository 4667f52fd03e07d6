//! Questions at a terminal: typing, and its effects.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod card;
mod chat;
mod frames;
mod person;
mod result;
mod sheets;
mod typing;
mod typing_pty;
mod typist;
