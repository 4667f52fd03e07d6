//! Runs that have not ended yet, noted where the next run finds them.
//!
//! A launcher that is killed cannot look for what its command planted, and the next run would take it for something that was always
//! there. So a run that writes for real notes what was there before it, and removes the note when it has looked. The note is locked
//! as long as its launcher lives. A note that nobody has locked is of a run that ended badly: what is new since then is put out of
//! action before anything else runs.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use byleave_files::own;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::repository::TodoCommands;
use crate::workspace_index::RunnablePaths;

/// What was made this long after a killed run was last seen alive may still be its own: it ended with its launcher, but the launcher
/// does not say at every moment that it lives. What was made later is somebody else's.
const LATE: Duration = Duration::from_secs(60);
/// How the name of a note ends. One that is still being written has another name.
const ENDING: &str = "json";

/// What was there before a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PreRunState {
    /// The directories that it can write.
    pub(crate) roots: Vec<PathBuf>,
    /// Where something lay that could be run later, and where links there led.
    pub(crate) places: RunnablePaths,
    /// The commands in lists that git works off.
    pub(crate) commands: TodoCommands,
    /// Directories that could not be looked into.
    pub(crate) unseen: BTreeSet<PathBuf>,
}

/// The note of a run that goes on.
#[derive(Debug)]
pub(crate) struct RunMarkerFile {
    file: File,
    path: PathBuf,
}

impl RunMarkerFile {
    /// Writes a note. It is whole, locked and on the disk when it has its name.
    #[expect(clippy::disallowed_methods, reason = "in our own state directory, and locked")]
    pub(crate) fn write(directory: &Path, before: &PreRunState) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let path = directory.join(format!("{:016x}.{ENDING}", u64::from_ne_bytes(random)));
        let unnamed = path.with_extension("new");
        let mut options = File::options();
        let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(&unnamed)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        serde_json::to_writer(&mut file, before)?;
        file.sync_all()?;
        fs::rename(&unnamed, &path)?;
        own::sync_directory(directory)?;
        Ok(Self { file, path })
    }

    /// Says that the launcher lives.
    pub(crate) fn mark_alive(&self) -> io::Result<()> {
        self.file.set_modified(SystemTime::now())
    }

    /// Where it is kept.
    pub(crate) fn directory(&self) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("/")).to_path_buf()
    }

    /// Removes the note: somebody has looked.
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// A run that ended without anybody looking. Nobody else can have it as long as this lives.
pub(crate) struct AbandonedRun {
    note: RunMarkerFile,
    last_seen: SystemTime,
}

impl AbandonedRun {
    /// Those that are noted in a directory, each with what was there before.
    pub(crate) fn all(directory: &Path) -> io::Result<Vec<(Self, PreRunState)>> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                found.extend(Self::at(path)?);
            }
        }
        Ok(found)
    }

    #[expect(clippy::disallowed_methods, reason = "in our own state directory, and locked")]
    fn at(path: PathBuf) -> io::Result<Option<(Self, PreRunState)>> {
        let mut file = match File::options().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        let found = file.metadata()?;
        // Its run ended well while we came by.
        if found.nlink() == 0 {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let unreadable = |error| io::Error::other(format!("`{}` cannot be read: {error}", path.display()));
        let before = serde_json::from_slice(&text).map_err(unreadable)?;
        Ok(Some((Self { note: RunMarkerFile { file, path }, last_seen: found.modified()? }, before)))
    }

    /// Whether something may have been made by the run. Where the file system does not say when, it may.
    pub(crate) fn may_have_made(&self, path: &Path) -> bool {
        let made = fs::symlink_metadata(path).and_then(|found| found.created());
        made.map_or(true, |made| made <= self.last_seen + LATE)
    }

    /// Removes the note: what was planted is out of action.
    pub(crate) fn settled(self) -> io::Result<()> {
        self.note.remove()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before() -> PreRunState {
        PreRunState {
            roots: Vec::new(),
            places: RunnablePaths::new(),
            commands: TodoCommands::new(),
            unseen: BTreeSet::new(),
        }
    }

    // req: E7
    #[test]
    fn a_note_is_found_once_its_launcher_is_gone_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        assert!(AbandonedRun::all(&folder.path().join("none")).unwrap().is_empty());
        let note = RunMarkerFile::write(folder.path(), &before()).unwrap();
        assert!(AbandonedRun::all(folder.path()).unwrap().is_empty(), "its launcher lives");
        // Killed.
        drop(note);
        let found = AbandonedRun::all(folder.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert!(AbandonedRun::all(folder.path()).unwrap().is_empty(), "somebody looks already");
        found.into_iter().for_each(|(run, _)| run.settled().unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(folder.path().join("x.json"), "{").unwrap();
        assert!(AbandonedRun::all(folder.path()).is_err(), "what cannot be read is not passed over");
    }

    // req: E7
    #[test]
    fn what_was_made_long_after_a_run_is_somebody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join(".envrc");
        fs::write(&made, "").unwrap();
        for (ago, may) in [(0, true), (50, true), (3_600, false)] {
            let note = RunMarkerFile::write(folder.path(), &before()).unwrap();
            note.file.set_modified(SystemTime::now() - Duration::from_secs(ago)).unwrap();
            drop(note);
            for (run, _) in AbandonedRun::all(folder.path()).unwrap() {
                assert_eq!(run.may_have_made(&made), may, "{ago} s");
                run.settled().unwrap();
            }
        }
    }
}
