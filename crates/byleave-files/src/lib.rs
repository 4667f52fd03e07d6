//! Safe reads of small files that an agent may have created or replaced: the files of a workspace.
//!
//! The gate reads some of them in its own process, outside every limit of the sandbox. Examples are git's index, ignore files, scripts and
//! project settings. A pipe there would block the gate forever. A device or a huge file would fill its memory. A link would show it another
//! user's file. Every such file is therefore read by [`read`], by [`read_text`], or by [`open`] and then [`OpenedFile::read`]:
//!
//! - The file is opened once, without blocking, and the checks use the descriptor, not the name.
//! - It must be a regular file. Its path must not contain a link that [`LinkPolicy`] does not allow.
//! - At most the given number of bytes is read, even if the file grows meanwhile.
//!
//! [`local_listener`] finds the program that listens on a port of this machine.
//!
//! Files that no agent can write are read by [`own`]. `clippy.toml` forbids the other ways to read a file.
//!
//! This is a separate crate because the crates that need it share only `byleave-core`, which does not access files.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod local_listener;
pub mod own;

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// The symbolic links that may be followed on the path to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPolicy {
    /// No links at any step. For a path that is already resolved: a link that is there now was created since.
    Never,
    /// Links among the parent directories only. The file itself must not be a link.
    FollowParents,
    /// All links. For a path that a person chose, where a link is normal. The target must still be a regular file within the limit.
    Follow,
}

/// The reason why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The path contains a link that the policy does not allow.
    #[error("the path is a symbolic link")]
    Link,
    /// The path is a directory, a pipe, a socket or a device.
    #[error("the path is not a regular file")]
    NotAFile,
    /// The file is larger than the limit.
    #[error("the file has more than {0} bytes")]
    TooLarge(u64),
    /// The content is not UTF-8 text.
    #[error("the file is not UTF-8 text")]
    NotText,
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ReadError {
    /// Returns whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::Link,
            // A socket, or a device without a driver.
            Errno::NXIO | Errno::NODEV => Self::NotAFile,
            other => Self::Io(other.into()),
        }
    }
}

/// Reads a file of at most `max` bytes.
pub fn read(path: &Path, links: LinkPolicy, max: u64) -> Result<Vec<u8>, ReadError> {
    open(path, links)?.read(max)
}

/// Reads a text file of at most `max` bytes.
pub fn read_text(path: &Path, links: LinkPolicy, max: u64) -> Result<String, ReadError> {
    open(path, links)?.read_text(max)
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file itself.
    pub file: File,
    /// The metadata at the time of opening.
    pub metadata: Metadata,
}

/// Opens a regular file for reading, without blocking.
pub fn open(path: &Path, links: LinkPolicy) -> Result<OpenedFile, ReadError> {
    open_at(CWD, path, links)
}

/// Opens a regular file for reading, without blocking. A relative path starts at the given open directory.
pub fn open_at(directory: impl AsFd, path: &Path, links: LinkPolicy) -> Result<OpenedFile, ReadError> {
    let directory = directory.as_fd();
    let handle = match links {
        LinkPolicy::Never => {
            let no_links = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
            match openat2(directory, path, READ_FLAGS | OFlags::NOFOLLOW, Mode::empty(), no_links) {
                // This system call does not exist inside a sandbox.
                Err(Errno::NOSYS) => open_step_by_step(directory, path),
                other => other,
            }
        }
        LinkPolicy::FollowParents => openat(directory, path, READ_FLAGS | OFlags::NOFOLLOW, Mode::empty()),
        LinkPolicy::Follow => openat(directory, path, READ_FLAGS, Mode::empty()),
    }?;
    OpenedFile::from_handle(handle)
}

/// The flags for opening a file. Without `NONBLOCK`, opening blocks on a pipe without a writer and on a file with a lease.
const READ_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens each directory on the path by its handle and follows no link.
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
    openat(above, name, READ_FLAGS | OFlags::NOFOLLOW, Mode::empty())
}

impl OpenedFile {
    /// Wraps a handle that was opened elsewhere, if it refers to a regular file.
    pub fn from_handle(handle: OwnedFd) -> Result<Self, ReadError> {
        let file = File::from(handle);
        let metadata = file.metadata()?;
        match metadata.is_file() {
            true => Ok(Self { file, metadata }),
            false => Err(ReadError::NotAFile),
        }
    }

    /// Reads the whole file, which must have at most `max` bytes.
    pub fn read(&self, max: u64) -> Result<Vec<u8>, ReadError> {
        let length = self.metadata.len();
        if length > max {
            return Err(ReadError::TooLarge(max));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        // The file may grow while it is read, and some kernel files report a length of zero.
        (&self.file).take(max.saturating_add(1)).read_to_end(&mut bytes)?;
        match bytes.len() as u64 <= max {
            true => Ok(bytes),
            false => Err(ReadError::TooLarge(max)),
        }
    }

    /// Reads the whole file, which must be text of at most `max` bytes.
    pub fn read_text(&self, max: u64) -> Result<String, ReadError> {
        String::from_utf8(self.read(max)?).map_err(|_| ReadError::NotText)
    }
}

#[cfg(test)]
mod tests;
