//! Marks of agents' calls that a process attends: a hook that waits for the answer, or the command that runs the call.
//!
//! Such a process holds the lock of the file `hooks/attended/CALL.ID` in the state directory. At the end of a hook that has told its
//! agent how the call stands, the file is removed: the agent can make the same call again and finds the answer. If the process is killed,
//! or the agent hangs up, the file stays and its lock is free. Nobody is told the answer then, so the call ends. Nothing here permits a
//! call. If marks cannot be written, calls keep their order as if somebody attended them, and nothing ends.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Result;
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::audit_log::sqlite::SqliteLedger;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::Millis;
use byleave_gate::core::entry::RecordEvent;
use byleave_gate::core::id::CallId;
use byleave_gate::core::pipeline::{NextStep, Task, next_step};
use byleave_gate::core::record::Record;
use byleave_gate::gate::Gate;

use super::tickets::TicketStore;
use crate::mark_file::{is_free, open_options, remove};
use crate::resolved_options::ResolvedOptions;

/// The maximum size of a mark.
const TIME_BYTES_MAX: u64 = 32;
/// The actor of the cancellation in the audit log.
const ACTOR: &str = "byleave, because the agent that made the call is gone";

/// The marks of all calls.
#[derive(Clone, Debug)]
pub(crate) struct AttendedCalls {
    dir: PathBuf,
    tickets: TicketStore,
}

/// The mark of a call that this process attends.
#[derive(Debug)]
#[must_use = "dropping the mark says that the agent is gone"]
pub(crate) struct AttendedMark {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl AttendedMark {
    /// Removes the mark, because the agent is told how the call stands.
    pub(crate) fn release(self) {
        remove(&self.path);
    }
}

impl AttendedCalls {
    pub(crate) fn new(options: &ResolvedOptions) -> Self {
        Self { dir: options.state.join("hooks").join("attended"), tickets: TicketStore::new(options) }
    }

    /// Marks a call as attended by this process, as long as it waits for an answer.
    pub(crate) fn mark(&self, call: CallId, waits_until: Option<Millis>) -> Option<AttendedMark> {
        let path = self.dir.join(format!("{call}.{}", fresh_id()));
        match lock_new(&path, waits_until) {
            Ok(file) => Some(AttendedMark { path, _file: file }),
            Err(error) => {
                tracing::debug!(%error, "cannot mark the call of an agent as attended");
                None
            }
        }
    }

    /// Returns whether a call is an agent's and no process attends it.
    pub(crate) fn is_unattended(&self, call: CallId) -> bool {
        self.tickets.find(call).is_ok_and(|ticket| ticket.is_some())
            // Without the directory, no mark could be written.
            && self.dir.is_dir()
            && self.marks().iter().all(|(path, of)| *of != call || is_free(path))
    }

    /// Returns the time until which an agent waits for the answer to a call, if one does.
    pub(crate) fn waits_until(&self, call: CallId) -> Option<Millis> {
        let marks = self.marks();
        let own = marks.iter().filter(|(path, of)| *of == call && !is_free(path));
        own.filter_map(|(path, _)| read_time(path)).max()
    }

    /// Returns whether the agent of a call went away while it waited.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.marks().iter().any(|(path, _)| is_free(path))
    }

    /// Cancels the calls whose agent went away while they waited, and returns them. `own` is attended by this process.
    pub(crate) async fn end_abandoned(
        &self,
        gate: &Gate,
        log: &SqliteLedger,
        own: Option<CallId>,
    ) -> Result<Vec<CallId>> {
        let mut ended = Vec::new();
        let marks = self.marks();
        for (path, call) in marks.iter().filter(|(path, call)| Some(*call) != own && is_free(path)) {
            let is_open = match log.record(*call).await? {
                Some(kept) => {
                    kept.record.outcome().is_none()
                        && kept.record.attempts() == 0
                        && !is_answered(&kept.record)
                }
                None => false,
            };
            if is_open && self.is_unattended(*call) && !ended.contains(call) {
                gate.cancel(*call, ACTOR).await?;
                ended.push(*call);
            }
            remove(path);
        }
        Ok(ended)
    }

    /// Cancels an unattended call that nobody was asked about yet. Returns whether it did.
    pub(crate) async fn end_unasked(&self, gate: &Gate, log: &SqliteLedger, call: CallId) -> Result<bool> {
        let Some(kept) = log.record(call).await? else { return Ok(false) };
        // A call that is ready was handed out: its agent may still ask its own person about it.
        let is_unasked = match next_step(&kept.record) {
            NextStep::Do(Task::Start(_)) | NextStep::Wait(_) | NextStep::Settle(_) => false,
            NextStep::Do(_) => kept.record.attempts() == 0 && !is_answered(&kept.record),
        };
        if !is_unasked || !self.is_unattended(call) {
            return Ok(false);
        }
        gate.cancel(call, ACTOR).await?;
        Ok(true)
    }

    fn marks(&self) -> Vec<(PathBuf, CallId)> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let mark = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let (call, _) = name.to_str()?.split_once('.')?;
            Some((entry.path(), call.parse().ok()?))
        };
        entries.flatten().filter_map(mark).collect()
    }
}

/// Returns whether a call ended because its agent was gone. The same call can be made again then.
pub(crate) fn is_abandoned(record: &Record) -> bool {
    record.cancelled_by() == Some(ACTOR)
}

/// Returns whether a person has answered. An answer is never lost, even if the agent is gone.
pub(super) fn is_answered(record: &Record) -> bool {
    record.entries().iter().any(|entry| matches!(entry.event, RecordEvent::Answered(_)))
}

fn read_time(path: &Path) -> Option<Millis> {
    let mut text = String::new();
    open_options().open(path).ok()?.take(TIME_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn lock_new(path: &Path, waits_until: Option<Millis>) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    // Another process must never find the mark before it is locked, so it gets its name afterwards.
    let beside = path.with_file_name(format!(".{}", fresh_id()));
    let file = open_options().write(true).create_new(true).mode(0o600).open(&beside)?;
    let time = waits_until.map(|until| until.to_string()).unwrap_or_default();
    let named = file
        .try_lock()
        .map_err(io::Error::other)
        .and_then(|()| (&file).write_all(time.as_bytes()))
        .and_then(|()| fs::rename(&beside, path));
    if named.is_err() {
        remove(&beside);
    }
    named.map(|()| file)
}
