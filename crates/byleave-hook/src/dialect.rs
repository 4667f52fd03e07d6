//! The dialects, and what each agent does when a hook does not answer.

/// How an agent speaks to its hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
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
    /// Copilot CLI, and VS Code, whose keys are others.
    Copilot,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::Cursor, Self::Goose, Self::Copilot];

    /// As it is typed, and the agent's name in the book.
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

    /// The dialect of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// How long the agent waits for its hook where nobody set anything, in milliseconds. After that it goes ahead.
    ///
    /// Nobody says in which unit Cursor counts; the shorter reading is taken.
    pub const fn patience_ms(self) -> u64 {
        match self {
            Self::ClaudeCode | Self::Codex => 600_000,
            Self::Gemini => 60_000,
            Self::Cursor | Self::Goose | Self::Copilot => 30_000,
        }
    }

    /// When the hook must have answered, of the time that the agent waits: what is left is for starting and reading.
    pub const fn deadline_ms(patience_ms: u64) -> u64 {
        let margin = patience_ms / 6;
        patience_ms.saturating_sub(if margin > 10_000 { 10_000 } else { margin })
    }

    /// Whether a hook can change what a tool is given.
    pub const fn rewrites(self) -> bool {
        !matches!(self, Self::Goose)
    }
}
