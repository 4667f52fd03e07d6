//! What is typed after `byleave init`.

use clap::Args as Group;

use crate::agent_configs::KnownAgent;

#[derive(Debug, Group)]
pub(crate) struct InitArgs {
    /// The agent
    #[arg(value_enum)]
    pub(crate) agent: Option<KnownAgent>,
    /// In the settings of the project in this directory, and not in your own
    #[arg(long)]
    pub(crate) project: bool,
    /// Show how the files would change, with secrets masked, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Put everything back; for every agent, if none is named. What was changed since stays as it is
    #[arg(long)]
    pub(crate) undo: bool,
}
