//! Hooks: what agents ask before they use a tool of their own, and how they want to be answered.
//!
//! Pure: text goes in, data comes out. What may happen is decided by the gate; here is only how six agents say it. The program
//! `byleave-hook DIALECT` (in `byleave-cli`) is started for every call of an agent, so this crate stays free of everything that costs a
//! start: no runtime, no command line parser, no book.
//!
//! Whatever is not understood must never come out as a pass: an event that is not known, a tool that is not named, an answer that
//! cannot be said in a dialect is a deny.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod agent_tools;
mod dialect;
mod exec_command;
mod ipc;
mod request;
mod response;

pub use agent_tools::{
    ToolEffect, ToolEffects, ToolKind, claims, directory_of, is_ours, shell_of, with_command,
};
pub use dialect::Dialect;
pub use exec_command::{exec_line, ticket_of};
pub use ipc::{GateReply, GateRequest, INPUT_BYTES_MAX, PROTOCOL, SOCKET};
pub use request::{HookEvent, HookParseError, HookRequest, parse_request};
pub use response::{HookDecision, HookOutput, format_response};
