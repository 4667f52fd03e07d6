//! A temporary directory that is removed with its owner.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::{LaunchError, internal_error};
use crate::plan::UserIdentity;

/// The temporary directory of one command, which is removed with it.
#[derive(Debug)]
pub(crate) struct CommandTempDir {
    pub(crate) path: PathBuf,
}

impl CommandTempDir {
    pub(crate) fn new(owner: UserIdentity) -> Result<Self, LaunchError> {
        Self::new_in(&std::env::temp_dir(), owner)
    }

    /// Creates one in this directory.
    pub(crate) fn new_in(above: &Path, owner: UserIdentity) -> Result<Self, LaunchError> {
        let making = "creating a temporary directory";
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(|error| internal_error(making)(std::io::Error::other(error)))?;
        let name = format!("byleave-{:016x}", u64::from_ne_bytes(random));
        let above = above.canonicalize().map_err(internal_error(making))?;
        let path = above.join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(internal_error(making))?;
        let made = Self { path };
        let ours_already = fs::metadata(&made.path).map_err(internal_error(making))?.uid() == owner.uid;
        if !ours_already {
            chown(&made.path, Some(owner.uid), Some(owner.gid)).map_err(internal_error(making))?;
        }
        Ok(made)
    }
}

impl Drop for CommandTempDir {
    fn drop(&mut self) {
        // A command may have locked its own directories. Best effort, because it is only a temporary directory.
        if fs::remove_dir_all(&self.path).is_err() {
            open_all(&self.path);
            fs::remove_dir_all(&self.path).unwrap_or_default();
        }
    }
}

/// Makes every directory writable, so that it can be emptied. Follows no link.
fn open_all(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap_or_default();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_all(&entry.path());
        }
    }
}
