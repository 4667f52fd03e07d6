//! Finds and disables files that a command left in its workspace for others to run later.
//!
//! An existing file can be protected by a mount, but a file that does not exist yet cannot. So the tripwire lists the places
//! where editors, shells and Git look for files to run, before a command starts. Afterwards it renames new files there so that
//! nothing runs them. It follows no symbolic link, and deletes nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use byleave_files::LinkPolicy;
use parking_lot::Mutex;
use rustix::fs::{Access, CWD, Mode, OFlags, RenameFlags, ResolveFlags, access, openat2, renameat_with};
use rustix::io::Errno;

use crate::repository::{self, LIST_BYTES_MAX, TodoCommands};
use crate::unfinished::{AbandonedRun, PreRunState, RunMarkerFile};
use crate::workspace_index::{DirectoryIndex, DynDirectoryIndex, IndexError, PathPolicy, RunnablePaths};

const QUARANTINED: &str = "quarantined";
/// The interval between checks during a command, if checks are quick.
const INTERVAL: Duration = Duration::from_millis(200);
/// The share of time that may be spent on checks: one part in this many.
const SHARE: u32 = 10;

/// The state before a command.
#[derive(Debug)]
pub(crate) struct Tripwire {
    index: Arc<Mutex<DynDirectoryIndex>>,
    before: RunnableSnapshot,
    earlier: Vec<PlantedFile>,
    hidden: Vec<PathBuf>,
    note: Option<RunMarkerFile>,
}

/// A snapshot of the files that could be run later.
#[derive(Debug)]
struct RunnableSnapshot {
    places: Arc<RunnablePaths>,
    commands: TodoCommands,
    unseen: BTreeSet<PathBuf>,
}

impl RunnableSnapshot {
    fn by(index: &mut DynDirectoryIndex) -> Result<Self, TripwireError> {
        let (places, lists) = (index.runnable_paths()?, index.lists()?);
        let commands = |list: &PathBuf| {
            let text = read_list(list);
            (list.clone(), text.map(|text| repository::todo_commands(&text)))
        };
        Ok(Self {
            places,
            commands: lists.iter().map(commands).collect(),
            unseen: index.unreadable_directories(),
        })
    }

    /// Returns new items: a new path, a link with another target, a todo list with a new command.
    fn new_since(&self, before: &Self) -> Vec<PathBuf> {
        // While nothing changes, both refer to the same list.
        let same = Arc::ptr_eq(&self.places, &before.places);
        let places = self.places.iter().filter(|_| !same);
        let places = places.filter(|(path, leads_to)| before.places.get(*path) != Some(leads_to));
        let lists = self.commands.iter().filter(|(path, commands)| {
            let known = before.commands.get(*path);
            match (commands, known) {
                (Some(commands), Some(Some(known))) => !commands.is_subset(known),
                (Some(commands), _) => !commands.is_empty(),
                (None, Some(None)) => false,
                (None, _) => true,
            }
        });
        places.map(|(path, _)| path).chain(lists.map(|(path, _)| path)).cloned().collect()
    }
}

/// A file that a command planted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantedFile {
    /// The original path.
    pub path: PathBuf,
    /// The path after the rename.
    pub quarantine_path: PathBuf,
}

/// An error that leaves planted files unknown or in place.
#[derive(Debug, thiserror::Error)]
pub enum TripwireError {
    /// The workspace cannot be scanned.
    #[error("cannot look for planted files: {0}")]
    Index(#[from] IndexError),
    /// A planted file cannot be renamed.
    #[error("cannot rename `{path}`, which was planted to be run later: {error}; check the file and remove it", path = path.display())]
    NotQuarantined {
        /// Its path.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The state before the run cannot be noted, or such a note cannot be read.
    #[error("cannot record the state before the command in `{directory}`: {error}", directory = directory.display())]
    Marker {
        /// The directory of the notes.
        directory: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

impl Tripwire {
    /// Takes a snapshot from an index.
    pub(crate) fn from_index(index: &Arc<Mutex<DynDirectoryIndex>>) -> Result<Self, TripwireError> {
        let mut looked = index.lock();
        let before = RunnableSnapshot::by(&mut looked)?;
        Ok(Self { index: Arc::clone(index), before, earlier: Vec::new(), hidden: Vec::new(), note: None })
    }

    /// Adds files that earlier, killed runs had planted.
    pub(crate) fn with_earlier(self, earlier: Vec<PlantedFile>) -> Self {
        Self { earlier, ..self }
    }

    /// Adds the files beside the command that it cannot see, for the report.
    pub(crate) fn with_hidden(self, hidden: Vec<PathBuf>) -> Self {
        Self { hidden, ..self }
    }

    /// Writes the snapshot to a directory, for the next run in case this process is killed.
    pub(crate) fn with_marker_in(self, directory: &Path) -> Result<Self, TripwireError> {
        let roots = self.index.lock().roots().to_vec();
        let RunnableSnapshot { places, commands, unseen } = &self.before;
        let (commands, unseen) = (commands.clone(), unseen.clone());
        let before = PreRunState {
            roots,
            runnable_paths: RunnablePaths::clone(places),
            commands,
            unreadable_dirs: unseen,
        };
        let note = RunMarkerFile::write(directory, &before).map_err(in_directory(directory))?;
        Ok(Self { note: Some(note), ..self })
    }

    /// Renames new files and returns them. While several commands run, it does not determine which of them planted a file.
    fn spring(&self) -> Result<Vec<PlantedFile>, TripwireError> {
        let mut index = self.index.lock();
        let after = RunnableSnapshot::by(&mut index)?;
        spring(&after, &self.before, |_| true)
    }
}

/// Disables files that earlier runs planted if those runs ended without a check, before anything else runs. A failure is an error
/// if it concerns a directory of this command. The note stays then.
pub(crate) fn recover_abandoned(
    directory: &Path,
    roots: &[PathBuf],
    marker: Option<&Arc<dyn PathPolicy + Send + Sync>>,
) -> Result<Vec<PlantedFile>, TripwireError> {
    let mut planted = Vec::new();
    for (run, before) in AbandonedRun::claim_all(directory).map_err(in_directory(directory))? {
        // A root that no longer exists has no planted files.
        let left: Vec<PathBuf> = before.roots.iter().filter(|root| root.is_dir()).cloned().collect();
        let mut index = DirectoryIndex::new_unwatched(left, marker.cloned());
        let PreRunState { roots: theirs, runnable_paths: places, commands, unreadable_dirs: unseen } = before;
        let seen = RunnableSnapshot { places: Arc::new(places), commands, unseen };
        let sprung = RunnableSnapshot::by(&mut index)
            .and_then(|after| spring(&after, &seen, |path| run.may_have_created(path)));
        let is_here = |root: &PathBuf| roots.iter().any(|own| own.starts_with(root) || root.starts_with(own));
        match sprung {
            Ok(found) => {
                planted.extend(found);
                run.mark_settled().map_err(in_directory(directory))?;
            }
            Err(fault) if theirs.iter().any(is_here) => return Err(fault),
            Err(_) => {}
        }
    }
    Ok(planted)
}

fn in_directory(directory: &Path) -> impl Fn(io::Error) -> TripwireError {
    |error| TripwireError::Marker { directory: directory.to_path_buf(), error }
}

fn spring(
    after: &RunnableSnapshot,
    before: &RunnableSnapshot,
    may_be_new: impl Fn(&Path) -> bool,
) -> Result<Vec<PlantedFile>, TripwireError> {
    let mut planted: Vec<PlantedFile> = Vec::new();
    let mut in_action = None;
    for path in after.new_since(before).iter().filter(|path| may_be_new(path)) {
        // A file in a directory that was renamed went with it.
        if planted.iter().any(|above| path.starts_with(&above.path)) {
            continue;
        }
        match quarantine(path) {
            Ok(Some(quarantined)) => {
                planted.push(PlantedFile { path: path.clone(), quarantine_path: quarantined })
            }
            // The tripwire of another command was faster.
            Ok(None) => {}
            // The other files are still renamed.
            Err(error) => {
                in_action = in_action.or(Some(TripwireError::NotQuarantined { path: path.clone(), error }))
            }
        }
    }
    if let Some(fault) = in_action {
        return Err(fault);
    }
    // A directory that could be read before and cannot now was changed by a command. If it cannot be entered either, no program
    // can use it, and its contents are new when it becomes readable again.
    let is_open = |path: &Path| access(path, Access::EXEC_OK) != Err(Errno::ACCESS);
    match after.unseen.iter().find(|path| !before.unseen.contains(*path) && is_open(path)) {
        Some(path) => {
            let error = io::ErrorKind::PermissionDenied.into();
            Err(IndexError::Unreadable { path: path.clone(), error }.into())
        }
        None => Ok(planted),
    }
}

/// A listener for planted files.
type PlantedFileListener = Box<dyn FnMut(&[PlantedFile]) + Send + Sync>;

/// Checks repeatedly for planted files while a command runs, because by its end somebody may already have run them.
pub(crate) struct TripwireGuard {
    tripwire: Tripwire,
    next: Instant,
    planted: Vec<PlantedFile>,
    told: Option<PlantedFileListener>,
}

impl fmt::Debug for TripwireGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("tripwire", &self.tripwire).finish_non_exhaustive()
    }
}

impl TripwireGuard {
    /// Creates the guard before a command begins.
    pub(crate) fn new(tripwire: Tripwire) -> Self {
        Self { tripwire, next: Instant::now() + INTERVAL, planted: Vec::new(), told: None }
    }

    /// Reports planted files as they are found, instead of keeping them for the end.
    pub(crate) fn set_listener(&mut self, told: PlantedFileListener) {
        self.told = Some(told);
    }

    /// Returns the time of the next check.
    pub(crate) const fn next(&self) -> Instant {
        self.next
    }

    /// Checks, if it is time.
    pub(crate) fn check_if_due(&mut self) -> Result<(), TripwireError> {
        let began = Instant::now();
        if began < self.next {
            return Ok(());
        }
        if let Some(note) = &self.tripwire.note {
            // Without this timestamp the next run is only more suspicious, so a failure is harmless.
            note.mark_alive().unwrap_or_default();
        }
        let planted = self.tripwire.spring()?;
        self.next = Instant::now() + INTERVAL.max(began.elapsed() * SHARE);
        self.take(planted);
        Ok(())
    }

    /// Checks after everything has ended, and returns planted files that were not reported yet. After an error the note stays.
    pub(crate) fn finish(&mut self) -> Result<Vec<PlantedFile>, TripwireError> {
        let planted = self.tripwire.spring()?;
        self.take(planted);
        if let Some(note) = self.tripwire.note.take() {
            let directory = note.directory();
            note.remove().map_err(in_directory(&directory))?;
        }
        Ok(std::mem::take(&mut self.planted))
    }

    /// Returns, once, files that earlier killed runs had planted.
    pub(crate) fn earlier(&mut self) -> Vec<PlantedFile> {
        std::mem::take(&mut self.tripwire.earlier)
    }

    /// Returns, once, the files beside the command that it could not see.
    pub(crate) fn hidden(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.tripwire.hidden)
    }

    fn take(&mut self, planted: Vec<PlantedFile>) {
        match &mut self.told {
            Some(told) if !planted.is_empty() => told(&planted),
            _ => self.planted.extend(planted),
        }
    }
}

/// Returns the text of a todo list. `None` if it is not a readable file, or too long.
fn read_list(path: &Path) -> Option<String> {
    match byleave_files::read(path, LinkPolicy::Never, LIST_BYTES_MAX) {
        // Git does not check whether it is valid text.
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.is_missing() => Some(String::new()),
        Err(_) => None,
    }
}

/// Renames a file within its directory. The directory is opened without following links, because another command may be moving
/// files.
fn quarantine(path: &Path) -> io::Result<Option<PathBuf>> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = match openat2(CWD, above, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    for number in 0..1000 {
        let mut to = name.to_os_string();
        to.push(format!(".{QUARANTINED}-{number}"));
        match renameat_with(&above, name, &above, &to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(Some(path.with_file_name(to))),
            Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "there are already too many renamed files"))
}
