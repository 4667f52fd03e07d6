//! What was typed after `byleave session`.

use byleave::core::id::{AgentId, SessionId};
use clap::{Args as Group, Subcommand};

use super::ModeArg;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Give a session its place and its ceiling, before its first call; neither ever changes
    Open(OpenSessionArgs),
    /// Show a session and those above it
    Show {
        /// The session
        session: SessionId,
    },
}

#[derive(Debug, Group)]
pub(crate) struct OpenSessionArgs {
    /// The session
    pub(crate) session: SessionId,
    /// The session whose sub-agent it is
    #[arg(long, value_name = "SESSION")]
    pub(crate) parent: Option<SessionId>,
    /// Who works in it [default: as the session is called]
    #[arg(long)]
    pub(crate) agent: Option<AgentId>,
    /// It and all beneath it are never asked less than in this mode
    #[arg(long, value_enum, default_value_t = ModeArg::ConfirmSensitive)]
    pub(crate) mode: ModeArg,
    /// What it and all beneath it may not do: a kind of effect, a colon, and a pattern, as in `write:/w/notes/**`
    #[arg(long, value_name = "SCOPE")]
    pub(crate) deny: Vec<String>,
    /// What it and all beneath it must ask about, written the same way
    #[arg(long, value_name = "SCOPE")]
    pub(crate) ask: Vec<String>,
}
