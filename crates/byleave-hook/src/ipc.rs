//! One line of JSON to the gate, and one back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::response::HookDecision;

/// Raised when the two lines change their meaning.
pub const PROTOCOL: u32 = 2;
/// The gate's socket in the state directory.
pub const SOCKET: &str = "hook.sock";
/// The most that is read of what an agent says, and of what a gate answers.
pub const INPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What a hook asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateRequest {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The version of the program that asks.
    pub program: String,
    /// The dialect's name.
    pub dialect: String,
    /// How long the agent waits for an answer, from now.
    pub deadline_ms: u64,
    /// The directory of the hook's process.
    pub cwd: String,
    /// The variables that change what rules and settings hold: a gate that was started with others judges for nobody.
    pub environment: BTreeMap<String, String>,
    /// What the agent said, as it came.
    pub input: String,
}

/// What a gate answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateReply {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The version of the program that answers.
    pub program: String,
    /// The answer; absent where it is not for this gate to give.
    #[serde(default)]
    pub answer: Option<HookDecision>,
    /// Why not.
    #[serde(default)]
    pub elsewhere: Option<String>,
}

impl GateRequest {
    /// Whether a variable changes what rules and settings hold.
    pub fn counts(name: &str) -> bool {
        name.starts_with("BYLEAVE_") && name != "BYLEAVE_STATE"
            || matches!(name, "HOME" | "PATH" | "XDG_CONFIG_HOME" | "USER" | "LOGNAME")
    }
}
