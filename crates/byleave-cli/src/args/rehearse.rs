//! The arguments of `byleave rehearse` and `byleave undo`.

use std::ffi::OsString;
use std::path::PathBuf;

use byleave::core::id::SessionId;
use clap::Args as Group;

use super::sandbox::guarantee;

#[derive(Debug, Group)]
pub(crate) struct RehearseArgs {
    /// Apply the changes without asking
    #[arg(short, long, conflicts_with_all = ["no", "later"])]
    pub(crate) yes: bool,
    /// Show the changes and discard them
    #[arg(short, long, conflicts_with = "later")]
    pub(crate) no: bool,
    /// Show the changes and keep them in `byleave inbox` for a day
    #[arg(short, long)]
    pub(crate) later: bool,
    /// Show the differences of all text files at once
    #[arg(short, long)]
    pub(crate) diff: bool,
    /// Directory outside this one that the command may write, on a copy
    #[arg(long, value_name = "DIR")]
    pub(crate) write: Vec<PathBuf>,
    /// Path outside this directory that the command may read
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// Sandbox guarantee to waive; recorded in the audit log (for all commands: BYLEAVE_WAIVE)
    #[arg(long, value_name = "GUARANTEE", value_parser = guarantee)]
    pub(crate) waive: Vec<String>,
    /// Session of the call
    #[arg(long, default_value = "cli")]
    pub(crate) session: SessionId,
    /// Timeout of the command
    #[arg(long, value_name = "N", default_value_t = 600_000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub(crate) timeout_ms: u64,
    /// Command and its arguments; a single word with spaces is parsed by the shell
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Group)]
pub(crate) struct UndoArgs {
    /// Call id [default: the newest call that changed files in this directory or a parent]
    #[arg(conflicts_with = "session")]
    pub(crate) call: Option<String>,
    /// Undo the newest call that changed files, in any directory
    #[arg(long, conflicts_with_all = ["call", "session"])]
    pub(crate) anywhere: bool,
    /// Undo all file changes of this session, newest first
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Only calls since this long ago: a number and s, m, h, d or w, as in `2h`
    #[arg(long, value_name = "DURATION", requires = "session")]
    pub(crate) since: Option<String>,
    /// Undo even if a file was changed since; the store keeps its current content
    #[arg(long)]
    pub(crate) force: bool,
}
