//! What is typed after `byleave acp`.

use std::ffi::OsString;

use byleave::core::id::AgentId;
use clap::{Args as Group, ValueEnum};

use crate::args::ModeArg;

#[derive(Debug, Group)]
pub(crate) struct AcpArgs {
    /// What the agent is called in the book
    #[arg(long, default_value = "acp")]
    pub(crate) agent: AgentId,
    /// Where questions go
    #[arg(long, value_enum, default_value_t = AcpAskArg::Inbox)]
    pub(crate) ask: AcpAskArg,
    /// How much is asked [default: as set, confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// The agent and its arguments
    #[arg(required = true, last = true, value_name = "AGENT")]
    pub(crate) command: Vec<OsString>,
}

/// Where questions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcpAskArg {
    /// Into the book, to be answered with `byleave inbox`; the agent waits
    Inbox,
    /// To the editor, whose word it is then that a person answered
    Editor,
    /// Nowhere: what needs an answer is refused
    None,
}
