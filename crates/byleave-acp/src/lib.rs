//! A proxy between an editor and its agent, over the Agent Client Protocol: what the agent asks leave for is answered by policy,
//! what it writes through the editor is judged and recorded first, and everything else passes as it is, byte for byte.
//!
//! An agent only asks when it wants to, and what it says of a call is its own word: a leave given here is judged and recorded,
//! not enforced. Nothing here may turn a doubt into a yes: what cannot be read, matched or recorded is refused.
//!
//! The protocol has a crate with a proxy role, but that speaks to a conductor and not to an editor and an agent: here lines are passed on unread
//! where they are nobody's business.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod editor_approver;
mod gated_tools;
mod intercepted;
mod jsonrpc;
mod proxy;
mod tool_call_effects;

pub use editor_approver::EditorApprover;
pub use gated_tools::equip;
pub use proxy::{CallerIdentity, GateProvider, Proxy, ProxyError};
