//! Notes about running jobs, so that other processes of the same person can show them: the call, and the ports on which it listens.
//!
//! A job has a file in the state directory while it runs. A note of a dead process is recognized by its free lock. A note says nothing
//! about what a job may do: only the audit log does.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use byleave_gate::core::id::{CallId, SessionId};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// The size of every file. A short text is filled up with blanks, so that one write replaces all of it.
const FILE_BYTES: usize = 4096;
/// The maximum number of ports that a note has.
const PORTS_MAX: usize = 32;

/// A note about a running job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobNote {
    /// The call that holds the job.
    pub call: CallId,
    /// The session that started it.
    pub session: SessionId,
    /// The process that holds it.
    pub pid: u32,
    /// The ports on which it listens.
    pub ports: Vec<JobPort>,
}

/// A port on which a job listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobPort {
    /// The port.
    pub port: u16,
    /// Whether programs outside can connect to it.
    pub is_published: bool,
}

/// The file with the note of a job of this process. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct JobNoteFile {
    path: PathBuf,
    file: File,
    note: JobNote,
}

impl JobNoteFile {
    /// Creates the note of a job that is about to start, and removes notes of dead processes.
    pub(crate) fn create(dir: &Path, call: CallId, session: &SessionId) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        remove_stale(dir);
        let path = dir.join(call.to_string());
        let file = open().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        // Held until the process ends. A free lock shows that the job has ended.
        file.try_lock().map_err(io::Error::other)?;
        let note = JobNote { call, session: session.clone(), pid: std::process::id(), ports: Vec::new() };
        let created = Self { path, file, note };
        created.write()?;
        Ok(created)
    }

    /// Replaces the ports.
    pub(crate) fn set_ports(&mut self, ports: impl IntoIterator<Item = JobPort>) -> io::Result<()> {
        self.note.ports = ports.into_iter().take(PORTS_MAX).collect();
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.note)?;
        text.resize(FILE_BYTES.max(text.len()), b' ');
        self.file.write_all_at(&text, 0)
    }
}

impl Drop for JobNoteFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, "cannot remove the note of a job");
        }
    }
}

/// Returns the jobs that run now, by their notes in this directory. A note that cannot be read is not shown.
pub fn running_jobs(dir: &Path) -> Vec<JobNote> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut jobs: Vec<JobNote> = entries.flatten().filter_map(|entry| read(&entry.path())).collect();
    jobs.sort_by_key(|job| job.call);
    jobs
}

fn read(path: &Path) -> Option<JobNote> {
    let file = open().open(path).ok()?;
    // Shared, so that two readers do not take each other for the owner.
    if file.try_lock_shared().is_ok() {
        return None;
    }
    let mut text = Vec::new();
    file.take(FILE_BYTES as u64).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn remove_stale(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let is_note = entry.file_name().to_str().is_some_and(|name| name.parse::<CallId>().is_ok());
        if is_note && open().open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Returns the options to open a file. A link would lead elsewhere, and a pipe would block.
#[expect(clippy::disallowed_methods, reason = "in our own state directory, with flags of its own")]
fn open() -> OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: A1
    #[test]
    fn a_note_lasts_as_long_as_its_job() {
        let state = tempfile::tempdir().unwrap();
        let dir = state.path().join("jobs");
        let call = CallId::new(uuid::Uuid::from_u128(7));
        let session = SessionId::new("s").unwrap();
        assert!(running_jobs(&dir).is_empty());
        let mut file = JobNoteFile::create(&dir, call, &session).unwrap();
        let port = JobPort { port: 5173, is_published: true };
        file.set_ports([port]).unwrap();
        let note = JobNote { call, session, pid: std::process::id(), ports: vec![port] };
        assert_eq!(running_jobs(&dir), [note]);
        file.set_ports([]).unwrap();
        assert!(running_jobs(&dir).first().is_some_and(|note| note.ports.is_empty()));
        drop(file);
        assert!(running_jobs(&dir).is_empty());
        // A process that was killed leaves its file, and nobody holds its lock.
        fs::write(dir.join(call.to_string()), "{}").unwrap();
        assert!(running_jobs(&dir).is_empty());
        fs::write(dir.join("notes"), "of others").unwrap();
        remove_stale(&dir);
        assert!(!dir.join(call.to_string()).exists() && dir.join("notes").exists());
    }
}
