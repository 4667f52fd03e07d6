//! Copies trees and single files. Blocks are shared if the filesystem supports it. Modes, times and attributes are kept, and owners if
//! this process is root. What this process cannot read has an empty placeholder in the copy, which nobody can read either.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use crate::dir_handle::{self, permission_bits};
use crate::error::{Error, IoContext as _};
use crate::xattrs;

/// How a file is opened that must not exist yet.
const WRITE_NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Copies the contents of a directory into an empty one, up to the limit.
pub(crate) fn copy_tree(from: &Path, to: &Path, limit_bytes: u64) -> Result<(), Error> {
    let source = dir_handle::open_resolved(from).context("open", from)?;
    let target = dir_handle::open_directory(rustix::fs::CWD, to).context("open", to)?;
    let mut copying = TreeCopier {
        remaining_bytes: limit_bytes,
        top: Some(&target),
        path: Vec::new(),
        links: HashMap::new(),
    };
    match copying.copy_contents(&source, &target) {
        Err(Errno::FBIG) => Err(Error::TooLarge { path: from.to_owned(), limit_bytes }),
        other => other.context("copy", from),
    }
}

/// Copies one file or directory, with everything below it, to a path where nothing exists.
pub(crate) fn copy_entry(from: (BorrowedFd<'_>, &CStr), to: (BorrowedFd<'_>, &CStr)) -> Result<(), Errno> {
    TreeCopier { remaining_bytes: u64::MAX, top: None, path: Vec::new(), links: HashMap::new() }
        .copy_one(from, to)
}

struct TreeCopier<'a> {
    /// The number of bytes that may still be copied.
    remaining_bytes: u64,
    /// The target directory, if hard links are to be kept.
    top: Option<&'a OwnedFd>,
    /// The current path in `top`.
    path: Vec<u8>,
    /// By device and inode: the first name of a file that has several.
    links: HashMap<(u64, u64), Vec<u8>>,
}

impl TreeCopier<'_> {
    fn copy_contents(&mut self, source: &OwnedFd, target: &OwnedFd) -> Result<(), Errno> {
        if self.path.iter().filter(|byte| **byte == b'/').count() >= dir_handle::DEPTH_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        for name in dir_handle::list_names(source)? {
            let length = self.path.len();
            if length > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.to_bytes());
            self.copy_one((source.as_fd(), &name), (target.as_fd(), &name))?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn copy_one(&mut self, from: (BorrowedFd<'_>, &CStr), to: (BorrowedFd<'_>, &CStr)) -> Result<(), Errno> {
        let stat = rustix::fs::statat(from.0, from.1, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let source = match dir_handle::open_owned(from.0, from.1, &stat) {
                    // A directory of another user can neither be read nor opened for its owner.
                    Err(Errno::ACCESS | Errno::PERM) if self.top.is_some() => {
                        return rustix::fs::mkdirat(to.0, to.1, Mode::empty());
                    }
                    other => other?,
                };
                rustix::fs::mkdirat(to.0, to.1, Mode::RWXU)?;
                let target = dir_handle::open_directory(to.0, to.1)?;
                self.copy_contents(&source, &target)?;
                copy_metadata(&stat, &source, &target)?;
            }
            FileType::RegularFile => {
                if self.link_if_copied(&stat, to)? {
                    return Ok(());
                }
                let size = u64::try_from(stat.st_size).unwrap_or_default();
                self.remaining_bytes = self.remaining_bytes.checked_sub(size).ok_or(Errno::FBIG)?;
                match file(from, to, &stat) {
                    Err(Errno::ACCESS) if self.top.is_some() => {
                        rustix::fs::openat(to.0, to.1, WRITE_NEW, Mode::empty())?;
                    }
                    other => other?,
                }
            }
            FileType::Symlink => {
                let to_where = rustix::fs::readlinkat(from.0, from.1, Vec::new())?;
                rustix::fs::symlinkat(&*to_where, to.0, to.1)?;
                copy_owner(&stat, to)?;
            }
            kind => {
                let mode = Mode::from_raw_mode(permission_bits(stat.st_mode));
                rustix::fs::mknodat(to.0, to.1, kind, mode, stat.st_rdev)?;
                copy_owner(&stat, to)?;
                rustix::fs::chmodat(to.0, to.1, mode, AtFlags::empty())?;
            }
        }
        rustix::fs::utimensat(to.0, to.1, &times(&stat), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Checks whether the file was already copied under another name, and links it if so.
    fn link_if_copied(&mut self, stat: &Stat, to: (BorrowedFd<'_>, &CStr)) -> Result<bool, Errno> {
        let Some(top) = self.top.filter(|_| stat.st_nlink > 1) else { return Ok(false) };
        let ident = dir_handle::FileIdentity::from_stat(stat);
        match self.links.get(&(ident.dev, ident.ino)) {
            Some(first) => rustix::fs::linkat(top, &**first, to.0, to.1, AtFlags::empty()).map(|()| true),
            None => {
                self.links.insert((ident.dev, ident.ino), self.path.clone());
                Ok(false)
            }
        }
    }
}

fn file(from: (BorrowedFd<'_>, &CStr), to: (BorrowedFd<'_>, &CStr), stat: &Stat) -> Result<(), Errno> {
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let source = rustix::fs::openat(from.0, from.1, read, Mode::empty())?;
    let target = rustix::fs::openat(to.0, to.1, WRITE_NEW, Mode::RUSR | Mode::WUSR)?;
    if rustix::fs::ioctl_ficlone(&target, &source).is_err() {
        let (mut source, mut target) = (
            File::from(source.try_clone().map_err(|error| errno(&error))?),
            File::from(target.try_clone().map_err(|error| errno(&error))?),
        );
        std::io::copy(&mut source, &mut target).map_err(|error| errno(&error))?;
    }
    copy_metadata(stat, &source, &target)
}

/// Checks whether an entry of a tree stands for an original that this process cannot read: it is empty and closed for everybody.
pub(crate) fn is_placeholder(original: (BorrowedFd<'_>, &CStr), was: &Stat, is: &Stat) -> bool {
    let kind = FileType::from_raw_mode(is.st_mode);
    let empty = kind == FileType::Directory || is.st_size == 0;
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    permission_bits(is.st_mode) == 0
        && empty
        && kind == FileType::from_raw_mode(was.st_mode)
        && matches!(kind, FileType::Directory | FileType::RegularFile)
        && rustix::fs::openat(original.0, original.1, read, Mode::empty()).err() == Some(Errno::ACCESS)
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Copies owner, attributes and mode of the original. The owner comes first, because setting it clears bits of the mode.
pub(crate) fn copy_metadata(stat: &Stat, source: &OwnedFd, target: &OwnedFd) -> Result<(), Errno> {
    if rustix::process::geteuid().is_root() {
        let owner = rustix::fs::Uid::from_raw(stat.st_uid);
        rustix::fs::fchown(target, Some(owner), Some(rustix::fs::Gid::from_raw(stat.st_gid)))?;
    }
    xattrs::copy_all(source, target)?;
    rustix::fs::fchmod(target, Mode::from_raw_mode(permission_bits(stat.st_mode)))
}

pub(crate) fn copy_owner(stat: &Stat, to: (BorrowedFd<'_>, &CStr)) -> Result<(), Errno> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (uid, gid) = (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
    rustix::fs::chownat(to.0, to.1, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

#[expect(clippy::useless_conversion, reason = "the widths differ between architectures")]
pub(crate) fn times(stat: &Stat) -> Timestamps {
    let at = |tv_sec: i64, nanoseconds: i64| Timespec { tv_sec, tv_nsec: nanoseconds };
    Timestamps {
        last_access: at(stat.st_atime.into(), i64::try_from(stat.st_atime_nsec).unwrap_or_default()),
        last_modification: at(stat.st_mtime.into(), i64::try_from(stat.st_mtime_nsec).unwrap_or_default()),
    }
}
