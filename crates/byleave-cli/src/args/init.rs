//! The arguments of `byleave init`.

use clap::Args as Group;

use crate::agent_configs::KnownAgent;

#[derive(Debug, Group)]
pub(crate) struct InitArgs {
    /// Agent
    #[arg(value_enum)]
    pub(crate) agent: Option<KnownAgent>,
    /// Use the settings of the project in this directory, not your own
    #[arg(long)]
    pub(crate) project: bool,
    /// Show the changes, with secrets masked, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Revert the setup, of all agents if none is named. Later changes to the files stay
    #[arg(long)]
    pub(crate) undo: bool,
}
