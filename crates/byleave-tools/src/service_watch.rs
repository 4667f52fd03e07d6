//! Finds out that a command is a service, by the port on which it listens, and remembers it.
//!
//! A service never ends, so running it as an ordinary command would only end at its time limit. Running long is no sign of one: it must
//! have listened on one port for some time, without printing anything and without using the processor.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byleave_files::own;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::CallId;
use byleave_sandbox::launch::{ServiceProbe, Stopper};
use serde::{Deserialize, Serialize};

/// How long a command must have listened and waited.
const WAITED: Duration = Duration::from_secs(8);
/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(500);
/// The processor time in that time, in ticks of 10 ms, up to which a command only waits.
const TICKS_MAX: u64 = 80;
/// The maximum number of remembered services.
const NOTES_MAX: usize = 500;

/// Watches a running command, and stops it when it is found to be a service.
pub(crate) struct ServiceWatch {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<u16>>>,
}

impl ServiceWatch {
    /// Begins to watch. `printed` counts the bytes that the command has printed.
    pub(crate) fn begin(probe: ServiceProbe, stopper: Stopper, printed: Arc<AtomicU64>) -> Self {
        let ended = Arc::<AtomicBool>::default();
        let is_over = Arc::clone(&ended);
        let thread = std::thread::Builder::new().name("byleave-services".into());
        let thread = thread.spawn(move || {
            let port = wait_for_service(&probe, &printed, &is_over)?;
            if let Err(error) = stopper.stop() {
                tracing::error!(%error, "cannot stop a command that is a service");
            }
            Some(port)
        });
        if let Err(error) = &thread {
            tracing::warn!(%error, "cannot find out whether a command is a service");
        }
        Self { ended, thread: thread.ok() }
    }

    /// Ends with the command, and returns the port on which it listened, if it was stopped for that.
    pub(crate) fn finish(mut self) -> Option<u16> {
        self.ended.store(true, Ordering::Release);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        thread.join().ok().flatten()
    }
}

fn wait_for_service(probe: &ServiceProbe, printed: &AtomicU64, is_over: &AtomicBool) -> Option<u16> {
    let mut since: Option<WaitingSince> = None;
    while !is_over.load(Ordering::Acquire) {
        let ports = probe.listening();
        let now = WaitingSince::now(probe, printed, ports);
        since = match since {
            Some(before) if before.still_waits(&now) => {
                if before.at.elapsed() >= WAITED {
                    return before.ports.intersection(&now.ports).next().copied();
                }
                Some(before)
            }
            _ => (!now.ports.is_empty()).then_some(now),
        };
        std::thread::park_timeout(INTERVAL);
    }
    None
}

/// What a command had done when it began to wait.
struct WaitingSince {
    at: Instant,
    ports: BTreeSet<u16>,
    printed: u64,
    ticks: u64,
}

impl WaitingSince {
    fn now(probe: &ServiceProbe, printed: &AtomicU64, ports: BTreeSet<u16>) -> Self {
        let ticks = if ports.is_empty() { 0 } else { probe.ticks() };
        Self { at: Instant::now(), ports, printed: printed.load(Ordering::Acquire), ticks }
    }

    fn still_waits(&self, now: &Self) -> bool {
        !self.ports.is_disjoint(&now.ports)
            && self.printed == now.printed
            && now.ticks.saturating_sub(self.ticks) <= TICKS_MAX
    }
}

/// The commands that were found to be services, in the state directory.
pub(crate) struct KnownServices {
    dir: PathBuf,
}

/// A remembered service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownService {
    /// The call that found it.
    pub(crate) call: CallId,
    /// The port on which it listened.
    pub(crate) port: u16,
}

impl KnownServices {
    pub(crate) fn new(jobs_dir: &Path) -> Self {
        Self { dir: jobs_dir.join("services") }
    }

    /// Remembers a command of a workspace.
    pub(crate) fn add(&self, workspace: &Path, command: &str, service: &KnownService) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let names: Vec<PathBuf> = fs::read_dir(&self.dir)?.flatten().map(|entry| entry.path()).collect();
        if names.len() >= NOTES_MAX {
            // They are found again.
            names.iter().for_each(|path| drop(fs::remove_file(path)));
        }
        let (path, text) = (self.path(workspace, command), serde_json::to_vec(service)?);
        let unfinished = path.with_extension(service.call.to_string());
        fs::write(&unfinished, text)?;
        fs::rename(unfinished, path)
    }

    /// Returns what is known about a command of a workspace.
    pub(crate) fn find(&self, workspace: &Path, command: &str) -> Option<KnownService> {
        let text = own::read(self.path(workspace, command)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Checks whether this call found that its command is a service.
    pub(crate) fn found_by(&self, call: CallId) -> Option<u16> {
        let entries = fs::read_dir(&self.dir).ok()?;
        let notes = entries.flatten().filter_map(|entry| own::read(entry.path()).ok());
        let mut notes = notes.filter_map(|text| serde_json::from_slice::<KnownService>(&text).ok());
        notes.find(|note| note.call == call).map(|note| note.port)
    }

    fn path(&self, workspace: &Path, command: &str) -> PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        let key = [workspace.as_os_str().as_bytes(), command.as_bytes()].join(&0);
        self.dir.join(Digest::compute(&key).to_string())
    }
}

/// Checks whether a command was found to be a service in this workspace.
pub fn is_known_service(jobs_dir: &Path, workspace: &Path, command: &str) -> bool {
    KnownServices::new(jobs_dir).find(workspace, command).is_some()
}

/// Returns what the agent is told about a command that was found to be a service.
pub(crate) fn describe(port: u16) -> String {
    format!(
        "the command listens on port {port} and waits, so it is a service, and was ended: make exactly the same call again, and it runs as a background job"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: B1
    #[test]
    fn a_service_is_remembered_by_its_command_and_its_workspace() {
        let state = tempfile::tempdir().unwrap();
        let known = KnownServices::new(state.path());
        let (one, other) = (Path::new("/w"), Path::new("/v"));
        let call = CallId::new(uuid::Uuid::from_u128(9));
        assert_eq!(known.found_by(call), None);
        let service = KnownService { call, port: 3000 };
        known.add(one, "node server.js", &service).unwrap();
        assert_eq!(known.find(one, "node server.js"), Some(service));
        assert_eq!(known.find(one, "node server.js "), None);
        assert_eq!(known.find(other, "node server.js"), None);
        assert_eq!(known.found_by(call), Some(3000));
        assert_eq!(known.found_by(CallId::new(uuid::Uuid::from_u128(10))), None);
    }
}
