//! The supported agents, and what each does if its hook does not answer.

use serde::{Deserialize, Serialize};

/// A supported agent. Each talks to its hooks in a format of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentKind {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Cursor.
    Cursor,
    /// Goose.
    Goose,
    /// Copilot CLI, and VS Code, which uses other keys.
    Copilot,
}

impl AgentKind {
    /// All agents.
    pub const ALL: [Self; 6] =
        [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::Cursor, Self::Goose, Self::Copilot];

    /// Returns the name on the command line, which is also the agent's name in the audit log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor",
            Self::Goose => "goose",
            Self::Copilot => "copilot",
        }
    }

    /// Returns the agent with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.name() == name)
    }

    /// Returns the agent's default hook timeout in milliseconds. After that time the agent runs the tool anyway.
    ///
    /// The unit of Cursor's timeout is not documented; this assumes the shorter one.
    pub const fn default_timeout_ms(self) -> u64 {
        match self {
            Self::ClaudeCode | Self::Codex => 600_000,
            Self::Gemini => 60_000,
            Self::Cursor | Self::Goose | Self::Copilot => 30_000,
        }
    }

    /// Returns the time within which the hook must answer, given the agent's timeout. The margin is for starting and reading.
    pub const fn deadline_ms(timeout_ms: u64) -> u64 {
        let margin = timeout_ms / 6;
        timeout_ms.saturating_sub(if margin > 10_000 { 10_000 } else { margin })
    }

    /// Checks whether the agent starts its hook after each use of a file tool, with the same input as before. Without that, nobody compares
    /// what the tool left.
    ///
    /// Cursor's after-hook was never seen to run.
    pub const fn reports_file_changes(self) -> bool {
        !matches!(self, Self::Cursor)
    }

    /// Checks whether the agent reports a tool that failed as another event. Otherwise a report does not say that the tool succeeded.
    pub const fn reports_failures_apart(self) -> bool {
        matches!(self, Self::ClaudeCode)
    }

    /// Checks whether a hook can change a tool's input.
    pub const fn can_rewrite_input(self) -> bool {
        !matches!(self, Self::Goose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: M2
    #[test]
    fn every_agent_is_stored_under_its_name() {
        for agent in AgentKind::ALL {
            assert_eq!(serde_json::to_value(agent).unwrap(), agent.name());
            assert_eq!(AgentKind::from_name(agent.name()), Some(agent));
        }
    }
}
