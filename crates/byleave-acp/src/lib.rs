//! A proxy between an editor and its agent, over the Agent Client Protocol. The policy answers the agent's permission requests. File writes
//! through the editor are evaluated and recorded first. Everything else passes unchanged, byte for byte.
//!
//! An agent asks only when it wants to, and it describes its own calls. A permission given here is therefore evaluated and recorded, but not
//! enforced. Nothing here may turn a doubt into a yes: a request that cannot be parsed, matched or recorded is refused.
//!
//! The protocol's crate has a proxy role, but that role talks to a conductor and not to an editor and an agent. This proxy passes on the
//! lines that it need not evaluate without parsing them further.
//!
//! - `proxy`: The proxy between editor and agent.
//! - `jsonrpc`: Reads and writes JSON-RPC lines within limits, and passes them on unchanged.
//! - `intercepted`: The two requests that the proxy stops: permission requests and file writes.
//! - `tool_call_effects`: The effects of a tool call, from what the agent says of it.
//! - `gated_tools`: Both requests as tools of the gate.
//! - `editor_approver`: The editor as approver, if the operator wants that.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod editor_approver;
mod gated_tools;
mod intercepted;
mod jsonrpc;
mod proxy;
mod tool_call_effects;

pub use editor_approver::EditorApprover;
pub use gated_tools::register_tools;
pub use proxy::{CallerIdentity, GateProvider, Proxy, ProxyError};
