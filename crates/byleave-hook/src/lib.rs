//! The hooks of AI agents: parses what an agent asks before it uses a built-in tool, and formats the answer.
//!
//! This crate is pure: text goes in, data comes out. The gate decides; this crate only knows how six agents write requests and answers. An
//! agent starts the program `byleave-hook DIALECT` (in `byleave-cli`) for every call. Therefore this crate has nothing that slows a start:
//! no runtime, no command line parser, no audit log.
//!
//! Input that is not understood must never become a pass. An unknown event, a missing tool name, or an answer that a dialect cannot express
//! is a deny.
//!
//! - `agent_kind`: The supported agents, and what each does if its hook does not answer.
//! - `request`: Parses what an agent sends to its hook.
//! - `response`: Formats the answer exactly as each agent reads it.
//! - `agent_tools`: The effects of the agents' built-in tools.
//! - `expected_content`: The content that an agent's file tool should leave.
//! - `expected_notebook`, `expected_patch`: The same for notebooks and patches.
//! - `exec_command`: The command line that replaces a shell call (`byleave exec CALL`).
//! - `window`: Whether an agent asks its person in its own window.
//! - `ipc`: One line of JSON to the gate, and one back.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod agent_kind;
mod agent_tools;
mod exec_command;
mod expected_content;
mod expected_notebook;
mod expected_patch;
mod ipc;
mod probe;
mod request;
mod response;
mod window;

pub use agent_kind::AgentKind;
pub use agent_tools::{
    ToolEffect, ToolEffects, ToolKind, is_background, is_gateway_tool, shell_command, tool_effects,
    ungoverned_reason, with_command, working_directory,
};
pub use exec_command::{PreparedCall, exec_command_line, parse_exec_call, shell_word};
pub use expected_content::{ExpectedContent, expected_content};
pub use expected_patch::{PatchedFile, parse_patch};
pub use ipc::{GateReply, GateRequest, MAX_INPUT_BYTES, PROTOCOL_VERSION, SOCKET_NAME};
pub use probe::shell_request;
pub use request::{HookEvent, HookParseError, HookRequest, parse_request};
pub use response::{HookDecision, HookOutput, format_response};
pub use window::AgentVariables;
