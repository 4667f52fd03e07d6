//! What a run on a copy came to, put together from what the sandbox saw and what the copy shows.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use byleave::core::file_change::FileChanges;
use byleave::core::outcome::{ExecutionStatus, Output};
use byleave::core::rehearsal::{BlockedHost, Rehearsal};
use byleave_copy::{Error, WorkspaceCopy};
use byleave_sandbox::confinement::{Confinement, CopySource};
use byleave_sandbox::launch::{CommandOutcome, CommandStatus};
use byleave_sandbox::protected_paths::look;

/// The changes on a copy, and how many files in scratch are not among them.
pub(crate) fn changes(copy: &WorkspaceCopy) -> Result<(FileChanges, u64), Error> {
    let changes = copy.changes()?;
    let scratch = copy.scratch_files()?;
    Ok((changes, scratch))
}

/// What a rehearsal came to.
pub(crate) fn rehearsal(
    outcome: &CommandOutcome,
    output: Output,
    (changes, scratch): (FileChanges, u64),
    mut weaker: Vec<String>,
) -> Rehearsal {
    if outcome.unrouted.is_none() {
        weaker.push("it is not known what it wanted of the network".into());
    }
    let status = match outcome.status {
        _ if outcome.ended_by.is_some() => ExecutionStatus::Stopped,
        CommandStatus::Exited(0) => ExecutionStatus::Done,
        CommandStatus::Exited(_) | CommandStatus::Signalled(_) | CommandStatus::NotStarted(_) => {
            ExecutionStatus::Failed
        }
    };
    Rehearsal {
        wanted: wanted(outcome),
        left_running: outcome.survivors,
        changes,
        scratch,
        weaker,
        status,
        output,
    }
}

/// What it wanted of the network, each once.
fn wanted(outcome: &CommandOutcome) -> Vec<BlockedHost> {
    let named = outcome.network.decisions.iter();
    let all: BTreeSet<BlockedHost> = named
        .map(|decision| BlockedHost { host: Some(decision.host.clone()), port: decision.port })
        .collect();
    // A name that was looked up and then connected to is one want.
    let connected = |want: &BlockedHost| all.iter().any(|other| other.host == want.host && other.port != 0);
    let mut wanted: Vec<BlockedHost> =
        all.iter().filter(|want| want.port != 0 || !connected(want)).cloned().collect();
    if outcome.network.left_out > 0 || outcome.unrouted.is_some_and(|times| times > 0) {
        wanted.push(BlockedHost { host: None, port: 0 });
    }
    wanted
}

/// What of the changes no rule lets anybody make: it could not be kept from being made anew on the copy, so it is kept from counting.
pub(crate) fn forbidden(changes: &FileChanges, confinement: &Confinement) -> Vec<String> {
    let Some(asked) = &confinement.files.asked else { return Vec::new() };
    let is_forbidden =
        |path: &str| asked.marker.protects(path) || asked.marker.plants(path) || asked.marker.hides(path);
    let made = changes.list.iter().map(|change| change.path.as_str());
    made.filter(|path| is_forbidden(path)).map(str::to_owned).collect()
}

/// The time by the clock of the disk, before a command starts: that of its copy, which was just made.
pub(crate) fn now(confinement: &Confinement) -> Result<(i64, i64), String> {
    let made = confinement.files.copied.first().map(|copied| match &copied.source {
        CopySource::Overlay { upper, .. } => upper.as_path(),
        CopySource::Tree { at } => at.as_path(),
    });
    // Without a copy nothing can be written: then anything of it will do that was not touched since.
    let made = made.unwrap_or(Path::new("/proc/self"));
    let touched =
        fs::metadata(made).map_err(|error| format!("cannot look at `{}`: {error}", made.display()))?;
    Ok((touched.ctime(), touched.ctime_nsec()))
}

/// The time by the clock of files, for what has no copy. That clock goes in steps, so that it may be a step behind.
pub(crate) fn just_now() -> (i64, i64) {
    const STEP: Duration = Duration::from_millis(20);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(STEP);
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()))
}

/// What must not be seen, and came while the command ran: nothing hid it, so what was printed may be of it. In words.
pub(crate) fn came_into_sight(confinement: &Confinement, began: (i64, i64)) -> Vec<String> {
    let Some(asked) = &confinement.files.asked else { return Vec::new() };
    let is_newer = |path: &Path| {
        // Gone again is no comfort.
        fs::symlink_metadata(path).map_or(true, |found| (found.ctime(), found.ctime_nsec()) > began)
    };
    let mut words = Vec::new();
    for root in &asked.roots {
        match look(root, &*asked.marker) {
            Ok(marked) => {
                let came = marked.hidden.iter().filter(|path| is_newer(path));
                words.extend(came.map(|path| {
                    format!(
                        "`{}` must not be seen, and came while it ran",
                        path.to_string_lossy().escape_debug()
                    )
                }));
            }
            Err(fault) => words.push(fault.to_string()),
        }
    }
    words
}
