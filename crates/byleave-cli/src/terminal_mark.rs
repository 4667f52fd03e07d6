//! Marks of calls that are asked about at a terminal, so that a killed terminal does not block its session.
//!
//! While a command drives a call at a terminal, it holds the lock of the file `terminal/CALL` in the state directory, and removes the file at
//! its end. If the process is killed, the file stays and its lock is free. Such a question has nobody in front of it, so the next
//! `byleave call` of the session cancels its call. Questions that were sent to the inbox, or that another door asked, have no mark and stay.
//! If marks cannot be written or locked, nothing is cancelled.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Result;
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::core::call::Call;
use byleave_gate::core::id::CallId;
use byleave_gate::core::pipeline::{NextStep, next_step};
use byleave_gate::gate::Gate;

use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::mark_file::{is_free, open_options, remove};
use crate::resolved_options::ResolvedOptions;

/// The actor of the cancellation in the audit log.
const ACTOR: &str = "byleave, because the terminal that asked is gone";

/// The mark of a call that this process drives at a terminal. It is removed on drop.
pub(crate) struct TerminalMark {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl TerminalMark {
    /// Marks a call that is about to be driven, if its questions go to the terminal.
    pub(crate) fn set(options: &ResolvedOptions, ask: AskArg, call: CallId) -> Option<Self> {
        if ask != AskArg::Terminal {
            return None;
        }
        let path = marks_dir(&options.state).join(call.to_string());
        match lock_new(&path) {
            Ok(file) => Some(Self { path, _file: file }),
            Err(error) => {
                tracing::debug!(%error, "cannot mark a call that is asked about at a terminal");
                None
            }
        }
    }
}

impl Drop for TerminalMark {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Cancels the waiting calls in the session of this one whose terminal is gone. Returns them.
pub(crate) async fn cancel_abandoned(
    gate: &Gate,
    house: &AppContext,
    options: &ResolvedOptions,
    call: &Call,
) -> Result<Vec<CallId>> {
    let mut cancelled = Vec::new();
    // A person who makes the same call again continues it.
    for (path, id) in abandoned(&marks_dir(&options.state)).into_iter().filter(|(_, id)| *id != call.id) {
        let kept = house.audit_log.record(id).await?;
        let waiting = kept.filter(|kept| matches!(next_step(&kept.record), NextStep::Wait(_)));
        let Some(header) = waiting.as_ref().and_then(|kept| kept.record.header()) else {
            // The call ended, or was never recorded.
            remove(&path);
            continue;
        };
        if header.tenant == call.tenant && header.session == call.session {
            gate.cancel(id, ACTOR).await?;
            remove(&path);
            cancelled.push(id);
        }
    }
    Ok(cancelled)
}

/// Returns the marks whose process is gone.
fn abandoned(dir: &Path) -> Vec<(PathBuf, CallId)> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mark = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        is_free(&entry.path()).then(|| (entry.path(), id))
    };
    entries.flatten().filter_map(mark).collect()
}

fn marks_dir(state: &Path) -> PathBuf {
    state.join("terminal")
}

fn lock_new(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let file = open_options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.try_lock().map_err(io::Error::other)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_abandoned_only_when_nobody_holds_it() {
        let state = tempfile::tempdir().unwrap();
        let id: CallId = "00000001-0000-7000-8000-000000000000".parse().unwrap();
        let path = marks_dir(state.path()).join(id.to_string());
        let held = lock_new(&path).unwrap();
        assert!(abandoned(&marks_dir(state.path())).is_empty());
        assert!(lock_new(&path).is_err(), "one process drives a call");
        drop(held);
        assert_eq!(abandoned(&marks_dir(state.path())), [(path.clone(), id)]);
        fs::write(path.with_file_name("other"), "").unwrap();
        remove(&path);
        assert!(abandoned(&marks_dir(state.path())).is_empty());
    }
}
