//! The arguments of `byleave completions` and `byleave man`.

use std::path::PathBuf;

use clap::Args as Group;
use clap_complete::Shell;

#[derive(Debug, Group)]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Group)]
pub(crate) struct ManArgs {
    /// Directory for the pages of all commands: `byleave.1`, `byleave-call.1` and so on
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
