//! The arguments of `byleave session`.

use byleave::core::id::{AgentId, SessionId};
use clap::{Args as Group, Subcommand};

use super::ModeArg;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Set the parent and the limits of a session
    ///
    /// Open a session before its first call. Its parent and its limits cannot be changed later.
    Open(OpenSessionArgs),
    /// Show a session and its ancestors
    Show {
        /// Session
        session: SessionId,
    },
}

#[derive(Debug, Group)]
pub(crate) struct OpenSessionArgs {
    /// Session
    pub(crate) session: SessionId,
    /// Parent session
    #[arg(long, value_name = "SESSION")]
    pub(crate) parent: Option<SessionId>,
    /// Agent of the session [default: name of the session]
    #[arg(long)]
    pub(crate) agent: Option<AgentId>,
    /// Least strict mode of the session and its descendants
    #[arg(long, value_enum, default_value_t = ModeArg::ConfirmSensitive)]
    pub(crate) mode: ModeArg,
    /// Effects to deny, also for descendants: effect, colon, pattern, as in `write:/w/notes/**`
    #[arg(long, value_name = "PATTERN")]
    pub(crate) deny: Vec<String>,
    /// Effects to ask about, also for descendants: same format as `--deny`
    #[arg(long, value_name = "PATTERN")]
    pub(crate) ask: Vec<String>,
}
