//! A JSON file for its owner only. It is read and changed as a whole, by one process at a time.
//!
//! A file that others could have read or written, or that is not a regular file, is not read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The reason why such a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    /// Others may have read it, or it is not a regular file of this user.
    #[error("cannot use `{0}`: the path must be a regular file that only its owner can read")]
    Exposed(String),
    /// Its content is invalid.
    #[error("cannot use `{path}`: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A system call failed.
    #[error("cannot use `{path}`: {source}")]
    Io {
        /// The file.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// Identifies the version of a file that was read.
pub(crate) type FileVersion = (u64, i64, i64, u64);

/// A file for its owner only.
#[derive(Clone, Debug)]
pub(crate) struct PrivateJsonFile {
    path: PathBuf,
}

impl PrivateJsonFile {
    /// Returns the file at this path, which need not exist yet.
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the current version; `None` if there is no file.
    pub(crate) fn version(&self) -> Result<Option<FileVersion>, PrivateFileError> {
        match fs::symlink_metadata(&self.path) {
            Ok(found) => self.checked(&found).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.io_error(error)),
        }
    }

    /// Returns the content; `None` if there is no file.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<Option<(FileVersion, T)>, PrivateFileError> {
        let Some((stamp, file)) = self.open()? else { return Ok(None) };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|why| self.io_error(why))?;
        let kept = serde_json::from_str(&text).map_err(|error| PrivateFileError::Unreadable {
            path: self.path.display().to_string(),
            reason: error.to_string(),
        })?;
        Ok(Some((stamp, kept)))
    }

    /// Opens the file for reading; `None` if there is no file.
    pub(crate) fn open(&self) -> Result<Option<(FileVersion, File)>, PrivateFileError> {
        let file = OpenOptions::new().read(true).custom_flags(nofollow()).open(&self.path);
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.io_error(error)),
        };
        let stamp = self.checked(&file.metadata().map_err(|why| self.io_error(why))?)?;
        Ok(Some((stamp, file)))
    }

    /// Changes the file as a whole. Concurrent changes take turns.
    pub(crate) fn update<T, E>(&self, change: impl FnOnce(&mut T) -> Result<(), E>) -> Result<(), E>
    where
        T: Default + Serialize + DeserializeOwned,
        E: From<PrivateFileError>,
    {
        let fault = |why| self.io_error(why);
        let lock = open_private(&self.path.with_extension("lock")).map_err(fault)?;
        lock.lock().map_err(fault)?;
        let mut kept = self.read()?.map(|(_, kept)| kept).unwrap_or_default();
        change(&mut kept)?;
        let text = serde_json::to_string_pretty(&kept).map_err(|error| fault(error.into()))?;
        let fresh = self.path.with_extension("new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fault(error).into()),
            _ => {}
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh).map_err(fault)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fault)?;
        fs::rename(&fresh, &self.path).map_err(fault)?;
        let above = self.path.parent().unwrap_or(Path::new("."));
        Ok(File::open(above).and_then(|dir| dir.sync_all()).map_err(fault)?)
    }

    pub(crate) fn io_error(&self, why: io::Error) -> PrivateFileError {
        PrivateFileError::Io { path: self.path.display().to_string(), source: why }
    }

    fn checked(&self, found: &fs::Metadata) -> Result<FileVersion, PrivateFileError> {
        let private =
            found.is_file() && found.mode() & 0o077 == 0 && found.uid() == rustix::process::getuid().as_raw();
        if !private {
            return Err(PrivateFileError::Exposed(self.path.display().to_string()));
        }
        Ok((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
    }
}

/// Opens a file for its owner only for writing. Creates it if it is missing.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(nofollow()).open(path)
}

fn nofollow() -> i32 {
    i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0)
}
