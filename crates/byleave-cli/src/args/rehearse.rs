//! What was typed after `byleave rehearse` and `byleave undo`.

use std::ffi::OsString;
use std::path::PathBuf;

use byleave::core::id::SessionId;
use clap::Args as Group;

use super::sandbox::guarantee;

#[derive(Debug, Group)]
pub(crate) struct RehearseArgs {
    /// Keep what it changes without asking
    #[arg(short, long, conflicts_with_all = ["no", "later"])]
    pub(crate) yes: bool,
    /// Show what it would change and drop it
    #[arg(short, long, conflicts_with = "later")]
    pub(crate) no: bool,
    /// Show what it would change and leave it for later: `byleave inbox` has it for a day
    #[arg(short, long)]
    pub(crate) later: bool,
    /// Show how every text differs, without being asked
    #[arg(short, long)]
    pub(crate) diff: bool,
    /// A directory outside this one that it may write, on the copy
    #[arg(long, value_name = "DIR")]
    pub(crate) write: Vec<PathBuf>,
    /// Something outside this directory that it may read
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// A guarantee that it runs without; stands in the book. BYLEAVE_WAIVE says it for every command
    #[arg(long, value_name = "GUARANTEE", value_parser = guarantee)]
    pub(crate) waive: Vec<String>,
    /// The conversation or task it is part of
    #[arg(long, default_value = "cli")]
    pub(crate) session: SessionId,
    /// How long it may take
    #[arg(long, value_name = "N", default_value_t = 600_000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub(crate) timeout_ms: u64,
    /// The command and its arguments; a single word with spaces is read by the shell
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Group)]
pub(crate) struct UndoArgs {
    /// The call; the newest one that changed files in this workspace, if neither it nor a session is named
    #[arg(conflicts_with = "session")]
    pub(crate) call: Option<String>,
    /// The newest call that changed files, in whichever workspace
    #[arg(long, conflicts_with_all = ["call", "session"])]
    pub(crate) anywhere: bool,
    /// Everything that calls of this session changed, the newest first
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Only what was done in this time: a number and s, m, h, d or w, as in `2h`
    #[arg(long, value_name = "SPAN", requires = "session")]
    pub(crate) since: Option<String>,
    /// Also where a file was changed since: what it is now goes to the store
    #[arg(long)]
    pub(crate) force: bool,
}
