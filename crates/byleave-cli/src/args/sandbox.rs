//! What was typed after `byleave sandbox`.

use std::ffi::OsString;
use std::path::PathBuf;

use byleave_sandbox::backend::Backend;
use byleave_sandbox::guarantee::Guarantee;
use clap::{Args as Group, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Run a command so that only what you name is possible: this directory, no secrets, no network
    ///
    /// The rules in force hold for all that it does: what they deny is not there or cannot be changed, and hosts that they allow
    /// can be reached. At a terminal the command has one of its own. It ends with the command's own exit code, with 128 and the
    /// signal that ended it, or with 125 if it was not run.
    Exec(SandboxExecArgs),
}

#[derive(Debug, Group)]
pub(crate) struct SandboxExecArgs {
    /// What the command is for
    #[arg(long, value_enum, default_value_t = SandboxProfileArg::Workspace)]
    pub(crate) profile: SandboxProfileArg,
    /// Something outside this directory that it may write
    #[arg(long, value_name = "PATH")]
    pub(crate) write: Vec<PathBuf>,
    /// Something outside this directory that it may read
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// A host that it may reach; port 443 unless one is named
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) reach: Vec<String>,
    /// A variable of the environment that it gets besides the usual ones
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// A guarantee that it runs without; stands in the book
    #[arg(long, value_name = "GUARANTEE", value_parser = guarantee)]
    pub(crate) waive: Vec<String>,
    /// Why it runs without, for the book
    #[arg(long, value_name = "TEXT", requires = "waive")]
    pub(crate) why: Option<String>,
    /// How it is confined [default: the strongest way that gives everything]
    #[arg(long, value_enum, value_name = "RUNG")]
    pub(crate) on: Option<BackendArg>,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What a confined command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxProfileArg {
    /// Works in this directory
    Workspace,
    /// Looks, and changes nothing
    Look,
    /// A whole agent: works in this directory, for as long as you like
    Agent,
}

/// A way to confine a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    Native,
    Bwrap,
    Landlock,
}

impl From<BackendArg> for Backend {
    fn from(rung: BackendArg) -> Self {
        match rung {
            BackendArg::Native => Self::Native,
            BackendArg::Bwrap => Self::Bwrap,
            BackendArg::Landlock => Self::Landlock,
        }
    }
}

/// The guarantee of a name that was typed.
pub(super) fn guarantee(name: &str) -> Result<String, String> {
    let all = || Guarantee::ALL.map(Guarantee::name).join(", ");
    Guarantee::from_name(name)
        .map(|found| found.name().to_owned())
        .ok_or_else(|| format!("there are: {}", all()))
}
