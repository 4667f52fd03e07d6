//! The arguments of `byleave sandbox`.

use std::ffi::OsString;
use std::path::PathBuf;

use byleave_sandbox::backend::Backend;
use byleave_sandbox::guarantee::Guarantee;
use clap::{Args as Group, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Run a command confined to this directory, without network
    ///
    /// The command has no access to secrets. The options grant more access. The policy applies to everything that the command does:
    /// denied files are hidden or read-only, and allowed hosts can be reached. At a terminal, the command gets its own terminal. The
    /// exit code is that of the command, 128 plus the signal that ended it, or 125 if the command was not run.
    Exec(SandboxExecArgs),
}

#[derive(Debug, Group)]
pub(crate) struct SandboxExecArgs {
    /// Kind of command
    #[arg(long, value_enum, default_value_t = SandboxProfileArg::Workspace)]
    pub(crate) profile: SandboxProfileArg,
    /// Path outside this directory that the command may write
    #[arg(long, value_name = "PATH")]
    pub(crate) write: Vec<PathBuf>,
    /// Path outside this directory that the command may read
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// Host that the command may reach; port 443 if none is given
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) reach: Vec<String>,
    /// Environment variable to pass on, besides the usual ones
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Sandbox guarantee to waive; recorded in the audit log
    #[arg(long, value_name = "GUARANTEE", value_parser = guarantee)]
    pub(crate) waive: Vec<String>,
    /// Reason for the waiver, for the audit log [default: requested by NAME]
    #[arg(long, value_name = "TEXT", requires = "waive")]
    pub(crate) reason: Option<String>,
    /// Sandbox backend [default: the strongest that gives all guarantees]
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(crate) backend: Option<BackendArg>,
    /// Command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The kind of a confined command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxProfileArg {
    /// Works in this directory
    Workspace,
    /// Reads and changes nothing
    ReadOnly,
    /// Runs a whole agent in this directory: no time limit, four times the memory
    Agent,
}

/// A sandbox backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    /// Namespaces and mounts of Byleave, with Landlock and a system call filter
    Native,
    /// The same, created by the bwrap of the system
    Bwrap,
    /// Landlock and the system call filter only
    Landlock,
}

impl From<BackendArg> for Backend {
    fn from(backend: BackendArg) -> Self {
        match backend {
            BackendArg::Native => Self::Native,
            BackendArg::Bwrap => Self::Bwrap,
            BackendArg::Landlock => Self::Landlock,
        }
    }
}

/// Parses the name of a guarantee.
pub(super) fn guarantee(name: &str) -> Result<String, String> {
    let all = || Guarantee::ALL.map(Guarantee::name).join(", ");
    Guarantee::from_name(name)
        .map(|found| found.name().to_owned())
        .ok_or_else(|| format!("there are: {}", all()))
}
