//! The arguments of `byleave hook` and `byleave exec`.

use byleave::core::id::CallId;
use byleave_hook::Dialect;
use clap::{Args as Group, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Evaluate one call of Claude Code
    ClaudeCode(HookArgs),
    /// Evaluate one call of Codex
    Codex(HookArgs),
    /// Evaluate one call of Gemini CLI
    Gemini(HookArgs),
    /// Evaluate one call of Cursor
    Cursor(HookArgs),
    /// Evaluate one call of Goose
    Goose(HookArgs),
    /// Evaluate one call of Copilot, in a terminal or in VS Code
    Copilot(HookArgs),
    /// Evaluate calls for all hooks in one process, until Ctrl-C
    ///
    /// Hooks connect to its socket in the state directory, which only you can open. Without it, every hook starts its own gate. It
    /// exits when the settings or the program have changed.
    Serve(HookServeArgs),
}

#[derive(Clone, Debug, Group)]
pub(crate) struct HookArgs {
    /// The agent's timeout for its hook, as configured there [default: that of the agent]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=86_400_000))]
    pub(crate) timeout_ms: Option<u64>,
}

#[derive(Debug, Group)]
pub(crate) struct HookServeArgs {
    /// Exit after this many seconds without a request
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(crate) idle_s: Option<u64>,
}

#[derive(Debug, Group)]
pub(crate) struct HookTicketArgs {
    /// Call id
    pub(crate) call: CallId,
}

impl HookCommand {
    /// Returns the dialect and its arguments. Returns `None` for `serve`.
    pub(crate) const fn dialect(&self) -> Option<(Dialect, &HookArgs)> {
        match self {
            Self::ClaudeCode(typed) => Some((Dialect::ClaudeCode, typed)),
            Self::Codex(typed) => Some((Dialect::Codex, typed)),
            Self::Gemini(typed) => Some((Dialect::Gemini, typed)),
            Self::Cursor(typed) => Some((Dialect::Cursor, typed)),
            Self::Goose(typed) => Some((Dialect::Goose, typed)),
            Self::Copilot(typed) => Some((Dialect::Copilot, typed)),
            Self::Serve(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches as _};

    use super::*;

    // req: M2
    #[test]
    fn every_dialect_has_a_command_of_its_name() {
        let command = HookCommand::augment_subcommands(Command::new("hook"));
        for dialect in Dialect::ALL {
            let typed = command.clone().try_get_matches_from(["hook", dialect.name()]).unwrap();
            let hook = HookCommand::from_arg_matches(&typed).unwrap();
            assert_eq!(hook.dialect().map(|(dialect, _)| dialect), Some(dialect));
        }
        // And `serve`. One more is a dialect that is not in `ALL`.
        assert_eq!(command.get_subcommands().count(), Dialect::ALL.len() + 1);
    }
}
