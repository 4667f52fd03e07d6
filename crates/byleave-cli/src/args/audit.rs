//! What was typed after `byleave book`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::LogArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List the calls, the newest first (the default)
    Log(LogArgs),
    /// Show the record of a call, line by line
    Show {
        /// The call
        call: String,
        /// With the true contents: arguments, plan, output
        #[arg(long)]
        contents: bool,
    },
    /// Check everything that is written, and name the first place that is not as it was written
    Verify {
        /// An anchor that was kept elsewhere; without one an old copy put back does not show
        #[arg(long, value_name = "FILE")]
        anchor: Option<PathBuf>,
    },
    /// Destroy the contents of a call for good; its record stays and still verifies
    Forget {
        /// The call
        call: String,
    },
    /// Print records for people or programs outside
    Export {
        /// How
        #[arg(long, value_enum)]
        form: ExportFormatArg,
        /// With the true contents
        #[arg(long)]
        contents: bool,
        /// These calls only
        calls: Vec<String>,
    },
    /// List what administrators did: halts, revoked leaves, opened sessions, waivers
    Acts,
    /// Make the lists again from the lines
    Rebuild,
    /// Seal the book and print its anchor, to be kept elsewhere
    Anchor,
}

/// How records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormatArg {
    Json,
    Markdown,
}
