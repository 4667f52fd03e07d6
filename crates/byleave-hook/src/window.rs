//! Whether an agent asks its person in its own window, as far as the input of its hook proves it.

use serde::{Deserialize, Serialize};

use crate::agent_kind::AgentKind;
use crate::request::HookRequest;

/// The modes of Claude Code in which it asks the person at its terminal. A mode that is not listed may answer by itself.
const ASKING_MODES: [&str; 3] = ["default", "acceptEdits", "plan"];

/// What an agent says of itself in the variables of its hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentVariables {
    /// How it was started. Claude Code sets it itself, whatever it was before.
    pub entrypoint: Option<String>,
    /// The directory of its settings, if it is not the usual one.
    pub config_dir: Option<String>,
}

impl AgentVariables {
    /// Reads them with a function that returns the value of a variable.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            entrypoint: variable("CLAUDE_CODE_ENTRYPOINT"),
            config_dir: variable("CLAUDE_CONFIG_DIR").filter(|value| !value.is_empty()),
        }
    }
}

impl HookRequest {
    /// Checks whether the agent asks a person in its own window if a hook wants that: at a terminal, and in a mode that asks.
    ///
    /// Never without a terminal (`-p`, an SDK, an editor), because the agent or its caller answers there.
    pub fn has_window(&self, dialect: AgentKind, agent: &AgentVariables) -> bool {
        let is_asking = |mode: &str| ASKING_MODES.contains(&mode);
        dialect == AgentKind::ClaudeCode
            && agent.entrypoint.as_deref() == Some("cli")
            && self.permission_mode.as_deref().is_some_and(is_asking)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::parse_request;

    // req: M2
    #[test]
    fn only_claude_code_at_a_terminal_and_in_a_known_mode_asks_in_its_window() {
        let window = |dialect, mode: Option<&str>, entrypoint: Option<&str>| {
            let mut said = json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {} });
            if let Some(mode) = mode {
                said["permission_mode"] = mode.into();
            }
            let heard = parse_request(dialect, said.to_string().as_bytes()).unwrap();
            let agent = AgentVariables::read(|name| {
                entrypoint.filter(|_| name == "CLAUDE_CODE_ENTRYPOINT").map(str::to_owned)
            });
            heard.has_window(dialect, &agent)
        };
        for mode in ["default", "acceptEdits", "plan"] {
            assert!(window(AgentKind::ClaudeCode, Some(mode), Some("cli")), "{mode}");
            for other in ["sdk-cli", "sdk-ts", "sdk-py", "claude-vscode", "remote", "", "CLI"] {
                assert!(!window(AgentKind::ClaudeCode, Some(mode), Some(other)), "{mode} {other}");
            }
            assert!(!window(AgentKind::ClaudeCode, Some(mode), None), "{mode}");
            assert!(!window(AgentKind::Codex, Some(mode), Some("cli")), "{mode}");
            assert!(!window(AgentKind::Gemini, Some(mode), Some("cli")), "{mode}");
        }
        for mode in ["bypassPermissions", "auto", "dontAsk", "delegate", "Default", ""] {
            assert!(!window(AgentKind::ClaudeCode, Some(mode), Some("cli")), "{mode}");
        }
        assert!(!window(AgentKind::ClaudeCode, None, Some("cli")));
    }
}
