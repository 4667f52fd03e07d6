//! Speaks MCP: up to servers, whose tools go through the gate like any other, and down to agents, who are given them.
//!
//! ```text
//! agent ─▶ gateway ─▶ Gate (plan, ruling, question, book) ─▶ upstream tool ─▶ link ─▶ server, in the sandbox
//! ```
//!
//! All that knows of `rmcp` is in this crate. Nothing here decides what may be done: that is the gate's. What a server says of
//! itself is never believed where that would loosen anything.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod active_callers;
pub mod gateway;
mod protocol_version;
pub mod result_conversion;
pub mod upstream;
