//! The tripwire: what a command left in its workspace for somebody else to run later, found and put out of action.
//!
//! What exists can be protected by a mount; what does not exist yet cannot. So the places where editors, shells and git look for
//! something to run are listed before a command, and what is new there afterwards gets a name under which nothing runs it. It
//! follows no symbolic link, and deletes nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use byleave_files::LinkPolicy;
use rustix::fs::{Access, CWD, Mode, OFlags, RenameFlags, ResolveFlags, access, openat2, renameat_with};
use rustix::io::Errno;

use crate::repository::{self, LIST_BYTES_MAX, TodoCommands};
use crate::unfinished::{AbandonedRun, PreRunState, RunMarkerFile};
use crate::workspace_index::{DirectoryIndex, DynDirectoryIndex, IndexError, PathPolicy, RunnablePaths};

const QUARANTINED: &str = "quarantined";
/// How long something that was planted may lie there while its command runs, if looking is quick.
const INTERVAL: Duration = Duration::from_millis(200);
/// Of the time, this part may be spent looking: one in so many.
const SHARE: u32 = 10;

/// The list of what was there before a command.
#[derive(Debug)]
pub(crate) struct Tripwire {
    index: Arc<Mutex<DynDirectoryIndex>>,
    before: RunnableSnapshot,
    earlier: Vec<PlantedFile>,
    note: Option<RunMarkerFile>,
}

/// What could be run later, as it is at one moment.
#[derive(Debug)]
struct RunnableSnapshot {
    places: Arc<RunnablePaths>,
    commands: TodoCommands,
    unseen: BTreeSet<PathBuf>,
}

impl RunnableSnapshot {
    fn by(index: &mut DynDirectoryIndex) -> Result<Self, TripwireError> {
        let (places, lists) = (index.places()?, index.lists()?);
        let commands = |list: &PathBuf| {
            let text = read_list(list);
            (list.clone(), text.map(|text| repository::commands(&text)))
        };
        Ok(Self { places, commands: lists.iter().map(commands).collect(), unseen: index.unseen() })
    }

    /// What is in it and was not before: a new path, a link that leads elsewhere, a list with a command that it did not have.
    fn new_since(&self, before: &Self) -> Vec<PathBuf> {
        // As long as nothing has changed, it is the same list.
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

/// Something that was planted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantedFile {
    /// Where it was.
    pub path: PathBuf,
    /// Where it is now.
    pub quarantined: PathBuf,
}

/// Why it is not known what was planted, or something that was is still where it was.
#[derive(Debug, thiserror::Error)]
pub enum TripwireError {
    /// The workspace cannot be looked through.
    #[error("cannot look for what was planted: {0}")]
    Unseen(#[from] IndexError),
    /// Something cannot be put out of action.
    #[error("cannot put `{path}` out of action, which was planted to be run later: {error}; look at it and remove it", path = path.display())]
    InAction {
        /// Where it is.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// It cannot be noted what was there before, or such a note cannot be read.
    #[error("cannot keep a note of what is there before the command in `{directory}`: {error}", directory = directory.display())]
    Note {
        /// Where notes are kept.
        directory: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

impl Tripwire {
    /// Lists what an index has.
    pub(crate) fn on(index: &Arc<Mutex<DynDirectoryIndex>>) -> Result<Self, TripwireError> {
        let mut looked = index.lock().unwrap_or_else(PoisonError::into_inner);
        let before = RunnableSnapshot::by(&mut looked)?;
        Ok(Self { index: Arc::clone(index), before, earlier: Vec::new(), note: None })
    }

    /// The same, with what runs had planted that were killed before this one.
    pub(crate) fn after(self, earlier: Vec<PlantedFile>) -> Self {
        Self { earlier, ..self }
    }

    /// Notes the list in a directory, for whoever comes next should we be killed.
    pub(crate) fn noted_in(self, directory: &Path) -> Result<Self, TripwireError> {
        let roots = self.index.lock().unwrap_or_else(PoisonError::into_inner).roots().to_vec();
        let RunnableSnapshot { places, commands, unseen } = &self.before;
        let (commands, unseen) = (commands.clone(), unseen.clone());
        let before = PreRunState { roots, places: RunnablePaths::clone(places), commands, unseen };
        let note = RunMarkerFile::write(directory, &before).map_err(in_directory(directory))?;
        Ok(Self { note: Some(note), ..self })
    }

    /// Puts what is new out of action, and says what it was. While several commands run, it is not told whose it was.
    fn spring(&self) -> Result<Vec<PlantedFile>, TripwireError> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let after = RunnableSnapshot::by(&mut index)?;
        spring(&after, &self.before, |_| true)
    }
}

/// Puts out of action what runs left that ended without looking, before anything else runs. What cannot be is an error if it is where
/// this command works, and stays noted.
pub(crate) fn settle(
    directory: &Path,
    roots: &[PathBuf],
    marker: Option<&Arc<dyn PathPolicy + Send + Sync>>,
) -> Result<Vec<PlantedFile>, TripwireError> {
    let mut planted = Vec::new();
    for (run, before) in AbandonedRun::all(directory).map_err(in_directory(directory))? {
        // Where nothing is any more, nothing is planted.
        let left: Vec<PathBuf> = before.roots.iter().filter(|root| root.is_dir()).cloned().collect();
        let mut index = DirectoryIndex::cold(left, marker.cloned());
        let PreRunState { roots: theirs, places, commands, unseen } = before;
        let seen = RunnableSnapshot { places: Arc::new(places), commands, unseen };
        let sprung = RunnableSnapshot::by(&mut index)
            .and_then(|after| spring(&after, &seen, |path| run.may_have_made(path)));
        let is_here = |root: &PathBuf| roots.iter().any(|own| own.starts_with(root) || root.starts_with(own));
        match sprung {
            Ok(found) => {
                planted.extend(found);
                run.settled().map_err(in_directory(directory))?;
            }
            Err(fault) if theirs.iter().any(is_here) => return Err(fault),
            Err(_) => {}
        }
    }
    Ok(planted)
}

fn in_directory(directory: &Path) -> impl Fn(io::Error) -> TripwireError {
    |error| TripwireError::Note { directory: directory.to_path_buf(), error }
}

fn spring(
    after: &RunnableSnapshot,
    before: &RunnableSnapshot,
    may_be_new: impl Fn(&Path) -> bool,
) -> Result<Vec<PlantedFile>, TripwireError> {
    let mut planted: Vec<PlantedFile> = Vec::new();
    let mut in_action = None;
    for path in after.new_since(before).iter().filter(|path| may_be_new(path)) {
        // What lies in something that was moved went with it.
        if planted.iter().any(|above| path.starts_with(&above.path)) {
            continue;
        }
        match quarantine(path) {
            Ok(Some(quarantined)) => planted.push(PlantedFile { path: path.clone(), quarantined }),
            // Another command's tripwire was quicker.
            Ok(None) => {}
            // The others are put out of action all the same.
            Err(error) => {
                in_action = in_action.or(Some(TripwireError::InAction { path: path.clone(), error }))
            }
        }
    }
    if let Some(fault) = in_action {
        return Err(fault);
    }
    // What could be looked into before and cannot any more was made so by a command. One that cannot be entered either is of no
    // use to anybody, and when it is opened again what is in it is new.
    let is_open = |path: &Path| access(path, Access::EXEC_OK) != Err(Errno::ACCESS);
    match after.unseen.iter().find(|path| !before.unseen.contains(*path) && is_open(path)) {
        Some(path) => {
            let error = io::ErrorKind::PermissionDenied.into();
            Err(IndexError::Unreadable { path: path.clone(), error }.into())
        }
        None => Ok(planted),
    }
}

/// Who is told of what was planted.
type PlantedFileListener = Box<dyn FnMut(&[PlantedFile]) + Send + Sync>;

/// Looks for what a command plants, again and again while it runs: by its end somebody may long have run that.
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
    /// From before a command begins.
    pub(crate) fn new(tripwire: Tripwire) -> Self {
        Self { tripwire, next: Instant::now() + INTERVAL, planted: Vec::new(), told: None }
    }

    /// Tells of what is planted when it is found, instead of keeping it for the end.
    pub(crate) fn tell(&mut self, told: PlantedFileListener) {
        self.told = Some(told);
    }

    /// When to look next.
    pub(crate) const fn next(&self) -> Instant {
        self.next
    }

    /// Looks, if it is time.
    pub(crate) fn look(&mut self) -> Result<(), TripwireError> {
        let began = Instant::now();
        if began < self.next {
            return Ok(());
        }
        if let Some(note) = &self.tripwire.note {
            // What is not known to live is looked at with more suspicion, and no worse.
            note.mark_alive().unwrap_or_default();
        }
        let planted = self.tripwire.spring()?;
        self.next = Instant::now() + INTERVAL.max(began.elapsed() * SHARE);
        self.take(planted);
        Ok(())
    }

    /// Looks when everything has ended, and says what was planted and not told yet. After an error what was noted stays.
    pub(crate) fn end(&mut self) -> Result<Vec<PlantedFile>, TripwireError> {
        let planted = self.tripwire.spring()?;
        self.take(planted);
        if let Some(note) = self.tripwire.note.take() {
            let directory = note.directory();
            note.remove().map_err(in_directory(&directory))?;
        }
        Ok(std::mem::take(&mut self.planted))
    }

    /// What runs had planted that were killed before this one, once.
    pub(crate) fn earlier(&mut self) -> Vec<PlantedFile> {
        std::mem::take(&mut self.tripwire.earlier)
    }

    fn take(&mut self, planted: Vec<PlantedFile>) {
        match &mut self.told {
            Some(told) if !planted.is_empty() => told(&planted),
            _ => self.planted.extend(planted),
        }
    }
}

/// The text of a list; none where it is no file that can be read, or too long.
fn read_list(path: &Path) -> Option<String> {
    match byleave_files::read(path, LinkPolicy::Never, LIST_BYTES_MAX) {
        // Git does not ask whether it is text.
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.is_missing() => Some(String::new()),
        Err(_) => None,
    }
}

/// Renames within the directory, which is opened without following any link: another command may be moving things about.
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
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "there are too many of them already"))
}
