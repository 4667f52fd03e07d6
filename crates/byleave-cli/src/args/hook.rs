//! What is typed after `byleave hook` and `byleave exec`.

use byleave::core::id::CallId;
use byleave_hook::Dialect;
use clap::{Args as Group, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Judge one call of Claude Code
    ClaudeCode(HookArgs),
    /// Judge one call of Codex
    Codex(HookArgs),
    /// Judge one call of Gemini CLI
    Gemini(HookArgs),
    /// Judge one call of Cursor
    Cursor(HookArgs),
    /// Judge one call of Goose
    Goose(HookArgs),
    /// Judge one call of Copilot, in a terminal or in VS Code
    Copilot(HookArgs),
    /// Judge for all hooks from one process, so that none of them starts a gate of its own; Ctrl-C ends it
    ///
    /// Hooks find it by its socket in the state directory, which only you can open. Without it every hook judges by itself. It ends
    /// by itself when the settings or the program have changed.
    Serve(HookServeArgs),
}

#[derive(Clone, Debug, Group)]
pub(crate) struct HookArgs {
    /// How long the agent waits for its hook, as its configuration says [default: as the agent does]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=86_400_000))]
    pub(crate) patience_ms: Option<u64>,
}

#[derive(Debug, Group)]
pub(crate) struct HookServeArgs {
    /// End after so many seconds in which no hook asked anything
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(crate) idle_s: Option<u64>,
}

#[derive(Debug, Group)]
pub(crate) struct HookTicketArgs {
    /// The call
    pub(crate) call: CallId,
}

impl HookCommand {
    /// The dialect and what was said of it; none for the gate itself.
    pub(crate) const fn dialect(&self) -> Option<(Dialect, &HookArgs)> {
        match self {
            Self::ClaudeCode(judge) => Some((Dialect::ClaudeCode, judge)),
            Self::Codex(judge) => Some((Dialect::Codex, judge)),
            Self::Gemini(judge) => Some((Dialect::Gemini, judge)),
            Self::Cursor(judge) => Some((Dialect::Cursor, judge)),
            Self::Goose(judge) => Some((Dialect::Goose, judge)),
            Self::Copilot(judge) => Some((Dialect::Copilot, judge)),
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
    fn every_dialect_is_judged_under_its_own_name() {
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
