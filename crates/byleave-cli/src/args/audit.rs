//! The arguments of `byleave book`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::LogArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List the calls, newest first (the default)
    Log(LogArgs),
    /// Show the record of a call, entry by entry
    Show {
        /// Call id
        call: String,
        /// Include the contents: arguments, plan and output
        #[arg(long)]
        contents: bool,
    },
    /// Verify the audit log and report the first error
    ///
    /// Exits with 1 if the audit log is not intact.
    Verify {
        /// Anchor from another place. Without it, a restored old copy is not detected
        #[arg(long, value_name = "FILE")]
        anchor: Option<PathBuf>,
    },
    /// Permanently delete the contents of a call
    ///
    /// The record of the call stays and still verifies. The call can no longer be undone.
    Forget {
        /// Call id
        call: String,
    },
    /// Export records as JSON or Markdown
    Export {
        /// Output format
        #[arg(long, value_enum)]
        format: ExportFormatArg,
        /// Include the contents
        #[arg(long)]
        contents: bool,
        /// Call ids [default: all calls]
        calls: Vec<String>,
    },
    /// List admin actions, such as halts and waivers
    ///
    /// Admin actions are halts and their lifting, revoked standing approvals, opened sessions, deleted contents and waivers.
    Actions,
    /// Rebuild the lists from the entries
    Rebuild,
    /// Seal the audit log and print its anchor
    ///
    /// Keep the anchor in another place, for `verify --anchor`.
    Anchor,
}

/// The format of exported records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormatArg {
    Json,
    Markdown,
}
