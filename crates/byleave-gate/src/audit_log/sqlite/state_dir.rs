//! The state directory. It is accessible only to its owner and contains the keys of the audit log.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use byleave_files::own;
use zeroize::Zeroizing;

use crate::ledger::LedgerError;

/// Creates a directory that only its owner can access.
pub(super) fn create_private_dir(dir: &Path) -> Result<(), LedgerError> {
    let cannot = |error: io::Error| LedgerError::new(format!("cannot create `{}`", dir.display()), error);
    match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(cannot);
        }
        Err(error) => return Err(cannot(error)),
        Ok(found) if found.permissions().mode() & 0o077 == 0 => return Ok(()),
        Ok(_) => {}
    }
    // An empty directory or one that already has an audit log is closed to others. Any other directory is left unchanged.
    let ours = dir.join("audit.sqlite").exists() || fs::read_dir(dir).map_err(cannot)?.next().is_none();
    if !ours {
        let why = "other users can read the directory, and it contains other files; run `chmod 700` on it";
        return Err(LedgerError::new(format!("cannot store an audit log in `{}`", dir.display()), why));
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(cannot)
}

/// Creates an empty file that only its owner can read, unless it exists.
pub(super) fn create_private_file(path: &Path) -> Result<(), LedgerError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(LedgerError::new(format!("cannot create `{}`", path.display()), error)),
    }
}

/// Reads a key of 32 bytes. Creates one only for a new audit log, because a lost key must not be replaced silently.
pub(super) fn read_or_create_key(path: &Path, is_new: bool) -> Result<Zeroizing<[u8; 32]>, LedgerError> {
    let cannot =
        |error: io::Error| LedgerError::new(format!("cannot read the key `{}`", path.display()), error);
    match own::open(path) {
        Ok(mut file) => {
            let mut key = Zeroizing::new([0; 32]);
            file.read_exact(key.as_mut()).map_err(cannot)?;
            Ok(key)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_new => create_key(path),
        Err(error) => Err(cannot(error)),
    }
}

fn create_key(path: &Path) -> Result<Zeroizing<[u8; 32]>, LedgerError> {
    let what = || format!("cannot create the key `{}`", path.display());
    let mut key = Zeroizing::new([0; 32]);
    getrandom::fill(key.as_mut()).map_err(|error| LedgerError::new(what(), error))?;
    let write = || -> io::Result<()> {
        // Written to a temporary file and renamed, because a partial key would be unusable.
        let beside = path.with_extension("new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(key.as_ref())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        path.parent().map_or(Ok(()), own::sync_directory)
    };
    write().map_err(|error| LedgerError::new(what(), error))?;
    Ok(key)
}
