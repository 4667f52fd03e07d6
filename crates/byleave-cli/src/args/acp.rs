//! The arguments of `byleave acp`.

use std::ffi::OsString;

use byleave::core::id::AgentId;
use clap::{Args as Group, ValueEnum};

use crate::args::ModeArg;

#[derive(Debug, Group)]
pub(crate) struct AcpArgs {
    /// Name of the agent in the audit log
    #[arg(long, default_value = "acp")]
    pub(crate) agent: AgentId,
    /// Where questions go
    #[arg(long, value_enum, default_value_t = AcpAskArg::Inbox)]
    pub(crate) ask: AcpAskArg,
    /// How much is asked [default: setting `mode`, or confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// Agent command and its arguments
    #[arg(required = true, last = true, value_name = "AGENT")]
    pub(crate) command: Vec<OsString>,
}

/// Where questions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcpAskArg {
    /// Keep the question open, to be answered with `byleave inbox`; the agent waits
    Inbox,
    /// Ask in the editor, which is trusted that a person answers
    Editor,
    /// Ask nobody: refuse calls that need an answer
    None,
}
