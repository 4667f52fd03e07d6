//! The result of a run on a copy, assembled from the observations of the sandbox and the changes on the copy.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use byleave_copy::{Error, WorkspaceCopy};
use byleave_gate::core::file_change::FileChanges;
use byleave_gate::core::outcome::{ExecutionStatus, Output};
use byleave_gate::core::rehearsal::{BeforeImageRoom, BlockedHost, Rehearsal};
use byleave_sandbox::confinement::{Confinement, CopySource};
use byleave_sandbox::launch::{CommandOutcome, CommandStatus};
use byleave_sandbox::net::decision_log::HostAccessRecord;
use byleave_sandbox::protected_paths::find_protected_paths;

use crate::change_findings::ChangeFindings;

/// Returns the changes on a copy, the number of scratch files, which are not among them, and whether the before-images fit.
pub(crate) fn list_changes(copy: &WorkspaceCopy) -> Result<(FileChanges, u64, BeforeImageRoom), Error> {
    let changes = copy.changes()?;
    let scratch = copy.scratch_files()?;
    let room = copy.before_image_room(&changes)?;
    Ok((changes, scratch, room))
}

/// Assembles the result of a rehearsal.
pub(crate) fn build_rehearsal(
    outcome: &CommandOutcome,
    output: Output,
    (changes, scratch, before_image_room): (FileChanges, u64, BeforeImageRoom),
    weaker: Vec<String>,
) -> Rehearsal {
    let status = match outcome.status {
        _ if outcome.limit_exceeded.is_some() => ExecutionStatus::Cancelled,
        CommandStatus::Exited(0) => ExecutionStatus::Succeeded,
        CommandStatus::Exited(_) | CommandStatus::Signalled(_) | CommandStatus::NotStarted(_) => {
            ExecutionStatus::Failed
        }
    };
    Rehearsal {
        blocked_hosts: wanted(outcome),
        leftover_processes: outcome.survivors,
        scratch_files: scratch,
        before_image_room,
        missing_guarantees: weaker,
        ..Rehearsal::new(changes, status, output)
    }
}

/// Returns the result of an edit on a copy, for which no program ran.
pub(crate) fn rehearsal_of_edit(
    status: ExecutionStatus,
    output: Output,
    (changes, before_image_room): (FileChanges, BeforeImageRoom),
    findings: ChangeFindings,
) -> Rehearsal {
    let mut seen = Rehearsal { before_image_room, ..Rehearsal::new(changes, status, output) };
    findings.add_to(&mut seen);
    seen
}

/// Returns the hosts that the command tried to reach, without duplicates.
fn wanted(outcome: &CommandOutcome) -> Vec<BlockedHost> {
    let named = outcome.network.decisions.iter();
    let all: BTreeSet<BlockedHost> = named
        .map(|decision| BlockedHost { host: Some(decision.host.clone()), port: decision.port })
        .collect();
    // A name that was looked up and then connected to is one entry.
    let connected = |want: &BlockedHost| all.iter().any(|other| other.host == want.host && other.port != 0);
    let mut wanted: Vec<BlockedHost> =
        all.iter().filter(|want| want.port != 0 || !connected(want)).cloned().collect();
    if outcome.network.omitted_decisions > 0 || outcome.unrouted_count.is_some_and(|times| times > 0) {
        wanted.push(BlockedHost { host: None, port: 0 });
    }
    wanted
}

/// Returns the hosts that the command reached.
pub(crate) fn reached_hosts(outcome: &CommandOutcome) -> Vec<String> {
    // A connection that was refused later on may have answered before.
    let answered = |decision: &&HostAccessRecord| decision.is_allowed || decision.received > 0;
    let allowed = outcome.network.decisions.iter().filter(|decision| decision.port != 0).filter(answered);
    let hosts: BTreeSet<String> = allowed.map(|decision| decision.host.clone()).collect();
    hosts.into_iter().collect()
}

/// Returns the file system time before a command starts. It is the time of the command's new copy.
pub(crate) fn filesystem_now(confinement: &Confinement) -> Result<(i64, i64), String> {
    let made = confinement.files.copies.first().map(|copied| match &copied.source {
        CopySource::Overlay { upper_dir: upper, .. } => upper.as_path(),
        CopySource::Tree { path: at } => at.as_path(),
    });
    // Without a copy nothing can be written. Then any path that was not changed since is sufficient.
    let made = made.unwrap_or(Path::new("/proc/self"));
    let touched =
        fs::metadata(made).map_err(|error| format!("cannot check `{}`: {error}", made.display()))?;
    Ok((touched.ctime(), touched.ctime_nsec()))
}

/// Returns the file system time for a run without a copy. That clock advances in steps, so it may be one step behind.
pub(crate) fn coarse_clock_now() -> (i64, i64) {
    const STEP: Duration = Duration::from_millis(20);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(STEP);
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()))
}

/// Describes hidden files that were created or changed while the command ran. They were not hidden from it, so its output may contain them.
pub(crate) fn newly_visible_hidden(confinement: &Confinement, began: (i64, i64)) -> Vec<String> {
    let Some(asked) = &confinement.files.path_policy else { return Vec::new() };
    let is_newer = |path: &Path| {
        // A file that is gone again may still have been read.
        fs::symlink_metadata(path).map_or(true, |found| (found.ctime(), found.ctime_nsec()) > began)
    };
    let mut words = Vec::new();
    for root in &asked.roots {
        match find_protected_paths(root, &*asked.policy) {
            Ok(marked) => {
                let came = marked.hidden.iter().filter(|path| is_newer(path));
                words.extend(came.map(|path| {
                    format!(
                        "`{}`, which must stay hidden from commands, was created or changed while the command ran",
                        path.to_string_lossy().escape_debug()
                    )
                }));
            }
            Err(fault) => words.push(fault.to_string()),
        }
    }
    words
}
