//! Speaks MCP in both directions: to servers, whose tools go through the gate like any other, and to agents, which are
//! offered these tools.
//!
//! ```text
//! agent ─▶ gateway ─▶ Gate (plan, decision, question, audit log) ─▶ upstream tool ─▶ link ─▶ server, in the sandbox
//! ```
//!
//! Only this crate depends on `rmcp`. Nothing here decides what is permitted; the gate does. A server's description of itself
//! must never loosen a check.
//!
//! - `gateway`: the MCP server that agents see.
//! - `upstream`: MCP servers whose tools become tools of the gate.
//! - `active_callers`: the clients of calls in progress, so that messages of a server find them.
//! - `result_conversion`: results from a server to the gate, and from the gate to an agent.
//! - `protocol_version`: the protocol version of a peer.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod active_callers;
pub mod gateway;
mod protocol_version;
pub mod result_conversion;
pub mod upstream;
