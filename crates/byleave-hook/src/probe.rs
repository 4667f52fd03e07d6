//! A request as an agent sends it, to find out whether a hook works.

use serde_json::{Value, json};

use crate::agent_kind::AgentKind;

/// Returns the request of an agent that is about to run a shell command in this directory.
pub fn shell_request(agent: AgentKind, directory: &str, command: &str) -> Value {
    let session = "byleave-doctor";
    let input = json!({ "command": command });
    match agent {
        AgentKind::ClaudeCode | AgentKind::Codex => json!({
            "hook_event_name": "PreToolUse", "session_id": session, "cwd": directory, "tool_name": "Bash", "tool_input": input,
        }),
        AgentKind::Gemini => json!({
            "hook_event_name": "BeforeTool", "session_id": session, "cwd": directory, "tool_name": "run_shell_command",
            "tool_input": input,
        }),
        AgentKind::Cursor => json!({
            "hook_event_name": "preToolUse", "conversation_id": session, "cwd": directory, "workspace_roots": [directory],
            "tool_name": "Shell", "tool_input": input,
        }),
        AgentKind::Goose => json!({
            "event": "PreToolUse", "session_id": session, "working_dir": directory, "tool_name": "shell", "tool_input": input,
        }),
        AgentKind::Copilot => json!({
            "sessionId": session, "cwd": directory, "toolName": "bash", "toolArgs": input.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{HookEvent, parse_request};

    #[test]
    fn every_hook_understands_the_request() {
        for agent in AgentKind::ALL {
            let request =
                parse_request(agent, shell_request(agent, "/w", "true").to_string().as_bytes()).unwrap();
            assert_eq!(
                (request.kind, request.command()),
                (HookEvent::PreToolUse, Some("true")),
                "{}",
                agent.name()
            );
            assert_eq!(request.workspace("/w"), "/w");
        }
    }
}
