//! An open regular file: its type, size and content.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;

use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::io::Errno;

use super::Files;
use crate::file_type;

/// An open regular file that may be read.
pub(crate) struct OpenFile {
    /// The open file.
    pub(crate) file: File,
    /// The status when it was opened.
    pub(crate) stat: Stat,
}

/// The content of a file, and the metadata that identify its version.
pub(crate) struct FileContent {
    /// The content.
    pub(crate) bytes: Vec<u8>,
    /// The size.
    pub(crate) size: u64,
    /// The modification time in nanoseconds, as in file changes.
    pub(crate) modified: i64,
    /// The mode.
    pub(crate) mode: u32,
}

impl Files {
    /// Opens a regular file that the plan allows to read.
    pub(crate) fn file(&self, path: &str) -> Result<OpenFile, String> {
        let handle = self.open(path, OFlags::RDONLY)?;
        let stat = fstat(handle.as_fd())
            .map_err(|errno| format!("cannot check `{}`: {errno}", self.display_path(path)))?;
        let what = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                if self.is_hidden_alias(&stat) {
                    let shown = self.display_path(path);
                    return Err(format!("`{shown}` is another name of a file that a rule denies reading"));
                }
                return Ok(OpenFile { file: File::from(handle), stat });
            }
            FileType::Directory => return Err(self.not_opened(path, Errno::ISDIR)),
            other => file_type::describe_file_type(other),
        };
        Err(format!("`{}` is {what}, not a file; name a file", self.display_path(path)))
    }

    /// Reads a file that is to be changed. Returns `None` if it does not exist.
    pub(crate) fn read_existing(&self, path: &str) -> Result<Option<FileContent>, String> {
        // This check is first, so that it fails in the same way whether the file exists or not.
        self.may_be_seen(path)?;
        match self.handle(path, OFlags::RDONLY) {
            Err(Errno::NOENT) => Ok(None),
            _ => self.read_content(path).map(Some),
        }
    }

    /// Checks whether a path that is to be changed exists.
    pub(crate) fn exists(&self, path: &str) -> Result<bool, String> {
        self.may_be_seen(path)?;
        match self.handle(path, OFlags::PATH) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.not_opened(path, errno)),
        }
    }

    /// Returns the metadata of a file that is to be deleted, without its content. The file is not opened, because deleting does not require
    /// the right to read.
    pub(crate) fn stat_for_removal(&self, path: &str) -> Result<FileContent, String> {
        let handle = self.handle(path, OFlags::PATH).map_err(|errno| self.not_opened(path, errno))?;
        let stat = fstat(handle.as_fd())
            .map_err(|errno| format!("cannot check `{}`: {errno}", self.display_path(path)))?;
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        let shown = self.display_path(path);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(FileContent {
                bytes: Vec::new(),
                size,
                modified: modified(&stat),
                mode: stat.st_mode & 0o7777,
            }),
            FileType::Directory => Err(format!(
                "`{shown}` is a directory, and this tool removes only files; remove the files in it, or use `rm -r` in bash"
            )),
            FileType::Symlink => Err(self.not_opened(path, Errno::LOOP)),
            _ => Err(format!("`{shown}` is neither a file nor a directory; remove it with `rm` in bash")),
        }
    }

    /// Reads a whole file. A file beyond the size limit is not read.
    pub(crate) fn read_content(&self, path: &str) -> Result<FileContent, String> {
        let OpenFile { file, stat } = self.file(path)?;
        let too_long = |bytes: u64| {
            format!(
                "`{}` has {bytes} bytes, and at most {} are read at once; find the part with grep",
                self.display_path(path),
                self.bytes_max()
            )
        };
        let length = u64::try_from(stat.st_size).unwrap_or_default();
        if length > self.bytes_max() {
            return Err(too_long(length));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        // The file may grow while it is read.
        file.take(self.bytes_max() + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("cannot read `{}`: {error}", self.display_path(path)))?;
        if bytes.len() as u64 > self.bytes_max() {
            return Err(too_long(bytes.len() as u64));
        }
        Ok(FileContent {
            size: bytes.len() as u64,
            bytes,
            modified: modified(&stat),
            mode: stat.st_mode & 0o7777,
        })
    }

    /// Reads a whole file as text.
    pub(crate) fn read_text(&self, path: &str) -> Result<(String, FileContent), String> {
        let content = self.read_content(path)?;
        match String::from_utf8(content.bytes) {
            Ok(text) => Ok((text, FileContent { bytes: Vec::new(), ..content })),
            Err(error) => {
                let what = file_type::detect_kind(error.as_bytes());
                Err(format!("`{}` is {what}, not UTF-8 text; {}", self.display_path(path), what.advice()))
            }
        }
    }
}

/// Returns the modification time of a file, in nanoseconds.
#[expect(clippy::useless_conversion, reason = "the widths differ between architectures")]
fn modified(stat: &Stat) -> i64 {
    let seconds: i64 = stat.st_mtime.into();
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::try_from(stat.st_mtime_nsec).unwrap_or_default())
}
