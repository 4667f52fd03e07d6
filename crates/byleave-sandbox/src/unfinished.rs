//! Notes about runs that have not ended, for the next run.
//!
//! A launcher that is killed cannot look for planted files, and the next run would treat them as old files. So a run that writes
//! to real files notes the state before it, and removes the note after its check. The note is locked while its launcher lives. A
//! note without a lock belongs to a run that ended badly. Its new files are disabled before anything else runs.

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

/// The time after the last sign of life of a killed run in which a new file may still be its own. The run ended with its
/// launcher, but the launcher updates its note only at intervals. Later files are not from that run.
const LATE: Duration = Duration::from_secs(60);
/// The extension of a complete note. A note that is still being written has another name.
const ENDING: &str = "json";

/// The state before a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PreRunState {
    /// The directories that the run can write.
    pub(crate) roots: Vec<PathBuf>,
    /// The paths of files that could be run later, and the targets of links there.
    pub(crate) runnable_paths: RunnablePaths,
    /// The commands in the todo lists of Git.
    pub(crate) commands: TodoCommands,
    /// Directories that could not be read.
    pub(crate) unreadable_dirs: BTreeSet<PathBuf>,
}

/// The note of a run in progress.
#[derive(Debug)]
pub(crate) struct RunMarkerFile {
    file: File,
    path: PathBuf,
}

impl RunMarkerFile {
    /// Writes a note. It is complete, locked and on disk before it gets its final name.
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

    /// Marks the launcher as alive.
    pub(crate) fn mark_alive(&self) -> io::Result<()> {
        self.file.set_modified(SystemTime::now())
    }

    /// Returns the directory of the note.
    pub(crate) fn directory(&self) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("/")).to_path_buf()
    }

    /// Removes the note after a check.
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// A run that ended without a check. While this value lives, no other process can take the run.
pub(crate) struct AbandonedRun {
    note: RunMarkerFile,
    last_seen: SystemTime,
}

impl AbandonedRun {
    /// Returns the abandoned runs in a directory, each with the state before it.
    pub(crate) fn claim_all(directory: &Path) -> io::Result<Vec<(Self, PreRunState)>> {
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
        // The run ended normally in the meantime.
        if found.nlink() == 0 {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let unreadable = |error| io::Error::other(format!("cannot read `{}`: {error}", path.display()));
        let before = serde_json::from_slice(&text).map_err(unreadable)?;
        Ok(Some((Self { note: RunMarkerFile { file, path }, last_seen: found.modified()? }, before)))
    }

    /// Returns whether the run may have created a file. If the file system does not record creation times, it may have.
    pub(crate) fn may_have_created(&self, path: &Path) -> bool {
        let made = fs::symlink_metadata(path).and_then(|found| found.created());
        made.map_or(true, |made| made <= self.last_seen + LATE)
    }

    /// Removes the note after the planted files are disabled.
    pub(crate) fn mark_settled(self) -> io::Result<()> {
        self.note.remove()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before() -> PreRunState {
        PreRunState {
            roots: Vec::new(),
            runnable_paths: RunnablePaths::new(),
            commands: TodoCommands::new(),
            unreadable_dirs: BTreeSet::new(),
        }
    }

    // req: E7
    #[test]
    fn a_note_is_found_once_its_launcher_is_gone_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        assert!(AbandonedRun::claim_all(&folder.path().join("none")).unwrap().is_empty());
        let note = RunMarkerFile::write(folder.path(), &before()).unwrap();
        assert!(AbandonedRun::claim_all(folder.path()).unwrap().is_empty(), "its launcher lives");
        // The launcher was killed.
        drop(note);
        let found = AbandonedRun::claim_all(folder.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert!(AbandonedRun::claim_all(folder.path()).unwrap().is_empty(), "somebody looks already");
        found.into_iter().for_each(|(run, _)| run.mark_settled().unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(folder.path().join("x.json"), "{").unwrap();
        assert!(AbandonedRun::claim_all(folder.path()).is_err(), "what cannot be read is not passed over");
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
            for (run, _) in AbandonedRun::claim_all(folder.path()).unwrap() {
                assert_eq!(run.may_have_created(&made), may, "{ago} s");
                run.mark_settled().unwrap();
            }
        }
    }
}
