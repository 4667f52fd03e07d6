//! Hooks: what agents ask before they use a tool of their own, and how they want to be answered.
//!
//! Pure: text goes in, data comes out. What may happen is decided by the gate; here is only how six agents say it. The program
//! `byleave-hook DIALECT` (in `byleave-cli`) is started for every call of an agent, so this crate stays free of everything that costs a
//! start: no runtime, no command line parser, no book.
//!
//! Whatever is not understood must never come out as a pass: an event that is not known, a tool that is not named, an answer that
//! cannot be said in a dialect is a deny.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod dialect;
mod exec;
mod hear;
mod say;
mod tools;
mod wire;

pub use dialect::Dialect;
pub use exec::{exec_line, ticket_of};
pub use hear::{Heard, Moment, Unheard, hear};
pub use say::{Answer, Said, say};
pub use tools::{Claim, Claims, Kind, claims, directory_of, is_ours, shell_of, with_command};
pub use wire::{INPUT_BYTES_MAX, PROTOCOL, Reply, Request, SOCKET};
