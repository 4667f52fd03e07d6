//! Output and progress of a running call, for watchers in other processes.
//!
//! A call that prints or reports has a file `live/CALL` in the state directory while it runs. It contains the progress and the
//! end of the output. The file is created at the first event, is private to its owner and has at most 64 KiB. It is removed when
//! the call is no longer driven. A file of a dead process is recognized by its free lock.
//!
//! The output is neither reviewed nor masked, so it is only for the same person, and is shown escaped. It must never be taken as
//! the truth: only the audit log has the result of a call. Failures here are ignored, because they must never affect a call.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::core::id::CallId;
use byleave_gate::event::GateEvent;
use byleave_gate::gate::Gate;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

/// The maximum size of a file. In JSON a byte of text may take six.
const FILE_BYTES_MAX: u64 = 64 * 1024;
const TAIL_BYTES_MAX: usize = 8 * 1024;
const DETAIL_CHARS_MAX: usize = 200;
/// The minimum interval between writes.
const EVERY: Duration = Duration::from_millis(100);

/// The live status of a running call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LiveStatus {
    /// Counts the writes. It is at both ends, so that a reader notices an incomplete write.
    first: u64,
    /// From 0 to 1, if it is known.
    pub(crate) fraction: Option<f64>,
    /// The progress in words.
    pub(crate) detail: String,
    /// The number of bytes printed so far.
    pub(crate) output_bytes: u64,
    /// The end of the output.
    pub(crate) tail: String,
    last: u64,
}

/// Writes the live status of a call, until it is dropped.
pub(crate) struct LiveReporter {
    desk: Arc<Mutex<LiveFile>>,
    task: JoinHandle<()>,
}

/// The file, once it exists.
struct LiveFile {
    call: CallId,
    dir: PathBuf,
    file: Option<File>,
    closed: bool,
}

impl LiveReporter {
    /// Listens to a call that is about to be driven.
    pub(crate) fn begin(gate: &Gate, call: CallId, state: &Path) -> Self {
        let desk = LiveFile { call, dir: state.join("live"), file: None, closed: false };
        let desk = Arc::new(Mutex::new(desk));
        let task = tokio::spawn(listen(gate.subscribe(), call, Arc::clone(&desk)));
        Self { desk, task }
    }
}

impl Drop for LiveReporter {
    fn drop(&mut self) {
        self.task.abort();
        let mut desk = at(&self.desk);
        desk.closed = true;
        if desk.file.is_some() {
            pass_over(fs::remove_file(desk.path()));
        }
    }
}

async fn listen(mut events: Receiver<GateEvent>, call: CallId, desk: Arc<Mutex<LiveFile>>) {
    let mut glimpse = LiveStatus::default();
    loop {
        let mut fresh = match events.recv().await {
            Ok(event) => glimpse.note(call, &event),
            Err(RecvError::Lagged(_)) => false,
            Err(RecvError::Closed) => return,
        };
        while let Ok(event) = events.try_recv() {
            fresh |= glimpse.note(call, &event);
        }
        if fresh {
            glimpse.first += 1;
            glimpse.last = glimpse.first;
            pass_over(at(&desk).write(&glimpse));
            tokio::time::sleep(EVERY).await;
        }
    }
}

impl LiveStatus {
    /// Applies an event, and returns whether anything changed.
    fn note(&mut self, call: CallId, event: &GateEvent) -> bool {
        match event {
            GateEvent::Progress { call: of, progress } if *of == call => {
                self.fraction = progress.fraction.filter(|fraction| fraction.is_finite());
                self.detail = progress.detail.chars().take(DETAIL_CHARS_MAX).collect();
                true
            }
            GateEvent::Output { call: of, chunk: printed } if *of == call => {
                let text: &str = &printed.text;
                let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
                self.output_bytes =
                    self.output_bytes.saturating_add(printed.skipped_bytes).saturating_add(bytes);
                if printed.skipped_bytes > 0 {
                    // Output before the gap does not belong to the end.
                    self.tail.clear();
                }
                self.tail.push_str(text);
                let over = self.tail.len().saturating_sub(TAIL_BYTES_MAX);
                self.tail = end_of(&self.tail, over).to_owned();
                true
            }
            _ => false,
        }
    }

    /// Returns the output after this many bytes, as far as it is kept, and how many bytes before it are lost.
    pub(crate) fn since(&self, seen: u64) -> (u64, &str) {
        let kept_from = self.output_bytes.saturating_sub(u64::try_from(self.tail.len()).unwrap_or(0));
        let lost = kept_from.saturating_sub(seen);
        let known = usize::try_from(seen.saturating_sub(kept_from)).unwrap_or(usize::MAX);
        (lost, end_of(&self.tail, known))
    }
}

/// Returns the text without its first bytes. A character that would be cut is dropped as well.
fn end_of(text: &str, without: usize) -> &str {
    let from = (without..=text.len()).find(|at| text.is_char_boundary(*at));
    from.and_then(|from| text.get(from..)).unwrap_or_default()
}

impl LiveFile {
    fn path(&self) -> PathBuf {
        self.dir.join(self.call.to_string())
    }

    fn write(&mut self, glimpse: &LiveStatus) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let text = serde_json::to_vec(glimpse)?;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(make(&self.dir, &self.dir.join(self.call.to_string()))?),
        };
        file.write_all_at(&text, 0)?;
        file.set_len(u64::try_from(text.len()).unwrap_or(FILE_BYTES_MAX))
    }
}

/// Creates and locks the file of a call, and removes files of dead processes.
fn make(dir: &Path, path: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    remove_stale(dir);
    let file = open().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    // Held until the process ends. A free lock shows that nobody writes here any more.
    file.try_lock().map_err(io::Error::other)?;
    Ok(file)
}

/// Removes the files of dead processes.
pub(crate) fn remove_stale(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let named = entry.file_name().to_str().is_some_and(|name| name.parse::<CallId>().is_ok());
        if named && open().open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            pass_over(fs::remove_file(entry.path()));
        }
    }
}

/// Returns the calls with a live status.
pub(crate) fn visible(state: &Path) -> HashSet<CallId> {
    let Ok(entries) = fs::read_dir(state.join("live")) else { return HashSet::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Reads the live status of a call, if its process writes one.
pub(crate) fn read_status(state: &Path, call: CallId) -> Option<LiveStatus> {
    let file = open().open(state.join("live").join(call.to_string())).ok()?;
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
    let glimpse: LiveStatus = serde_json::from_slice(&text).ok()?;
    (glimpse.first == glimpse.last).then_some(glimpse)
}

/// Returns the options to open a file. A link would lead elsewhere, and a pipe would block.
#[expect(clippy::disallowed_methods, reason = "in our own state directory, with flags of its own")]
fn open() -> OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    options
}

/// Ignores an error. A watcher may miss something; the call must not fail.
fn pass_over(done: io::Result<()>) {
    if let Err(error) = done {
        tracing::debug!(%error, "cannot write the live status of a call");
    }
}

fn at(desk: &Mutex<LiveFile>) -> MutexGuard<'_, LiveFile> {
    desk.lock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use byleave_gate::tool::{OutputChunk, Progress};
    use std::os::unix::fs::PermissionsExt as _;

    fn id(number: u128) -> CallId {
        format!("{number:08x}-0000-7000-8000-000000000000").parse().unwrap()
    }

    fn printed(text: &str, left_out: u64) -> GateEvent {
        GateEvent::Output { call: id(1), chunk: OutputChunk { text: text.into(), skipped_bytes: left_out } }
    }

    #[test]
    fn the_end_is_kept_and_what_is_missing_is_known() {
        let mut glimpse = LiveStatus::default();
        assert!(glimpse.note(id(1), &printed("one\n", 0)));
        assert!(!glimpse.note(id(2), &printed("of another", 0)));
        assert_eq!(glimpse.since(0), (0, "one\n"));
        assert!(glimpse.note(id(1), &printed("two", 0)));
        assert_eq!((glimpse.since(4), glimpse.since(7)), ((0, "two"), (0, "")));
        assert!(glimpse.note(id(1), &printed("end", 100)));
        assert_eq!(glimpse.since(7), (100, "end"));
        assert!(glimpse.note(id(1), &printed(&"é".repeat(6_000), 0)));
        let (lost, text) = glimpse.since(110);
        assert_eq!((text.len(), lost), (TAIL_BYTES_MAX, 12_000 - u64::try_from(TAIL_BYTES_MAX).unwrap()));
    }

    #[test]
    fn the_file_is_small_private_and_gone_with_its_process() {
        let state = tempfile::tempdir().unwrap();
        let dir = state.path().join("live");
        let mut glimpse = LiveStatus::default();
        assert!(glimpse.note(id(1), &printed(&"\u{1b}".repeat(100_000), 0)));
        let progress = Progress { fraction: Some(0.5), detail: "\u{1}".repeat(10_000) };
        assert!(glimpse.note(id(1), &GateEvent::Progress { call: id(1), progress }));
        let mut desk = LiveFile { call: id(1), dir: dir.clone(), file: None, closed: false };
        desk.write(&glimpse).unwrap();
        let kept = fs::metadata(desk.path()).unwrap();
        assert!(kept.len() < FILE_BYTES_MAX, "{}", kept.len());
        assert_eq!(kept.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(read_status(state.path(), id(1)), Some(glimpse.clone()));

        // A locked file stays, an unlocked one goes. Files of others stay.
        fs::write(dir.join("notes"), "not a call").unwrap();
        remove_stale(&dir);
        assert!(desk.path().exists());
        desk.file = None;
        remove_stale(&dir);
        assert!(!desk.path().exists() && dir.join("notes").exists());

        // An incomplete write is not shown, and a link is not followed.
        let torn = LiveStatus { first: 2, last: 1, ..glimpse };
        fs::write(desk.path(), serde_json::to_vec(&torn).unwrap()).unwrap();
        assert_eq!(read_status(state.path(), id(1)), None);
        std::os::unix::fs::symlink(desk.path(), dir.join(id(2).to_string())).unwrap();
        assert_eq!(read_status(state.path(), id(2)), None);
    }

    #[test]
    fn what_cannot_be_written_is_passed_over() {
        let state = tempfile::tempdir().unwrap();
        fs::write(state.path().join("live"), "in the way").unwrap();
        let mut desk = LiveFile { call: id(1), dir: state.path().join("live"), file: None, closed: false };
        assert!(desk.write(&LiveStatus::default()).is_err());
        assert!(desk.file.is_none());
    }
}
