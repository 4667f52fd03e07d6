//! The messages between hook and gate: one line of JSON to the gate, and one back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::response::HookDecision;
use crate::window::AgentVariables;

/// The protocol version. It increases if the meaning of either line changes.
pub const PROTOCOL_VERSION: u32 = 4;
/// The gate's socket in the state directory.
pub const SOCKET_NAME: &str = "hook.sock";
/// The maximum size of the agent's input, and of the gate's reply.
pub const MAX_INPUT_BYTES: u64 = 16 * 1024 * 1024;

/// A request from a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateRequest {
    /// [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// The version of the requesting program.
    pub program: String,
    /// The dialect's name.
    pub dialect: String,
    /// How long the agent still waits for an answer.
    pub deadline_ms: u64,
    /// The working directory of the hook process.
    pub cwd: String,
    /// The variables that affect rules and settings. A gate that was started with other values does not decide.
    pub environment: BTreeMap<String, String>,
    /// What the agent says of itself in the variables of its hook.
    pub agent: AgentVariables,
    /// The agent's input, unchanged.
    pub input: String,
}

/// The gate's reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateReply {
    /// [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// The version of the replying program.
    pub program: String,
    /// The decision. It is absent if this gate must not decide.
    #[serde(default)]
    pub answer: Option<HookDecision>,
    /// Why this gate must not decide.
    #[serde(default)]
    pub not_handled_reason: Option<String>,
}

impl GateRequest {
    /// Checks whether a variable affects rules and settings.
    pub fn is_relevant_variable(name: &str) -> bool {
        name.starts_with("BYLEAVE_") && name != "BYLEAVE_STATE"
            || matches!(name, "HOME" | "PATH" | "XDG_CONFIG_HOME" | "USER" | "LOGNAME")
    }
}
