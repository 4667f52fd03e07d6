//! Reads small files that an agent may have made or replaced: the files of a workspace.
//!
//! The gate reads some of them in its own process, outside every limit of the sandbox: git's index, ignore files, scripts, settings of
//! a project. A pipe there would hold the gate for ever, a device or a huge file would fill its memory, and a link would show it the
//! file of somebody else. So every such file is read by [`read`], [`read_text`] or [`open`] with an [`OpenedFile::read`] after it:
//!
//! - it is opened once, without waiting for anybody, and what is checked is the descriptor, not the name;
//! - it must be a regular file, on the way to which there is no link that [`LinkPolicy`] does not allow;
//! - at most the given number of bytes is read, even if the file grows meanwhile.
//!
//! Files that no agent can write are read by [`own`]. `clippy.toml` forbids the other ways to read a file.
//!
//! This is a crate of its own because the crates that need it have only `byleave-core` in common, which touches no file.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod own;

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// Which symbolic links may be followed on the way to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPolicy {
    /// None, on no step. For a path that is already resolved: a link that is there now was put there since.
    Never,
    /// Those among the directories above it; the file itself must not be one.
    Above,
    /// All. For a path that a person chose, where a link is ordinary. What it leads to must still be a regular file within the limit.
    Follow,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A link is in the way.
    #[error("it is a link")]
    Link,
    /// It is a directory, a pipe, a socket or a device.
    #[error("it is not a file")]
    NotAFile,
    /// It is larger than is read.
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
    /// Its bytes are not text.
    #[error("it is not text in UTF-8")]
    NotText,
    /// The system said no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ReadError {
    /// Whether nothing is there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::Link,
            // A socket, or a device that nobody serves.
            Errno::NXIO | Errno::NODEV => Self::NotAFile,
            other => Self::Io(other.into()),
        }
    }
}

/// Reads a file of at most `max` bytes.
pub fn read(path: &Path, links: LinkPolicy, max: u64) -> Result<Vec<u8>, ReadError> {
    open(path, links)?.read(max)
}

/// Reads a file of at most `max` bytes that is text.
pub fn read_text(path: &Path, links: LinkPolicy, max: u64) -> Result<String, ReadError> {
    open(path, links)?.read_text(max)
}

/// A regular file, open to be read.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file itself.
    pub file: File,
    /// What it was when it was opened.
    pub metadata: Metadata,
}

/// Opens a regular file to read it, without waiting for anybody.
pub fn open(path: &Path, links: LinkPolicy) -> Result<OpenedFile, ReadError> {
    open_at(CWD, path, links)
}

/// Does the same from a directory that is open.
pub fn open_at(directory: impl AsFd, path: &Path, links: LinkPolicy) -> Result<OpenedFile, ReadError> {
    let directory = directory.as_fd();
    let handle = match links {
        LinkPolicy::Never => {
            let no_links = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
            match openat2(directory, path, READ | OFlags::NOFOLLOW, Mode::empty(), no_links) {
                // Inside a sandbox there is no such call.
                Err(Errno::NOSYS) => open_step_by_step(directory, path),
                other => other,
            }
        }
        LinkPolicy::Above => openat(directory, path, READ | OFlags::NOFOLLOW, Mode::empty()),
        LinkPolicy::Follow => openat(directory, path, READ, Mode::empty()),
    }?;
    OpenedFile::regular(handle)
}

/// Without `NONBLOCK` a pipe without a writer holds whoever opens it, and so does a file on which somebody has a lease.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens each directory on the way by its handle, and follows no link.
fn open_step_by_step(directory: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = path.file_name().ok_or(Errno::ISDIR)?;
    let mut above = openat(directory, ".", step, Mode::empty())?;
    for component in path.parent().into_iter().flat_map(Path::components) {
        above = match component {
            Component::RootDir | Component::Prefix(_) => openat(above, "/", step, Mode::empty())?,
            Component::CurDir => above,
            Component::ParentDir => openat(above, "..", step, Mode::empty())?,
            Component::Normal(name) => openat(above, name, step, Mode::empty())?,
        };
    }
    openat(above, name, READ | OFlags::NOFOLLOW, Mode::empty())
}

impl OpenedFile {
    /// Takes a handle that was opened elsewhere, if it is of a regular file.
    pub fn regular(handle: OwnedFd) -> Result<Self, ReadError> {
        let file = File::from(handle);
        let metadata = file.metadata()?;
        match metadata.is_file() {
            true => Ok(Self { file, metadata }),
            false => Err(ReadError::NotAFile),
        }
    }

    /// Reads all of it, which must be at most `max` bytes.
    pub fn read(&self, max: u64) -> Result<Vec<u8>, ReadError> {
        let length = self.metadata.len();
        if length > max {
            return Err(ReadError::TooLarge(max));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        // It may grow while it is read, and some files of the kernel say that they are empty.
        (&self.file).take(max.saturating_add(1)).read_to_end(&mut bytes)?;
        match bytes.len() as u64 <= max {
            true => Ok(bytes),
            false => Err(ReadError::TooLarge(max)),
        }
    }

    /// Reads all of it, which must be text of at most `max` bytes.
    pub fn read_text(&self, max: u64) -> Result<String, ReadError> {
        String::from_utf8(self.read(max)?).map_err(|_| ReadError::NotText)
    }
}

#[cfg(test)]
mod tests;
