//! The few mount calls of the launcher itself, which it makes only for root.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use crate::syscall::{AT_EMPTY_PATH, CLOEXEC, Errno, fd_arg, number, syscall, syscall_result, text_arg};

const AT_FDCWD: usize = fd_arg(-100);
const AT_RECURSIVE: usize = 0x8000;
const OPEN_TREE_CLONE: usize = 1;
const MOVE_MOUNT_EMPTY_PATHS: usize = 0x4 | 0x40;
const MOUNT_ATTR_IDMAP: u64 = 0x10_0000;
const MS_PRIVATE: u64 = 1 << 18;

fn error(Errno(errno): Errno) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// Stops this mount namespace from sending mounts to others, and from receiving theirs.
pub(super) fn make_private() -> io::Result<()> {
    set_attributes(AT_FDCWD, c"/", AT_RECURSIVE, [0, 0, MS_PRIVATE, 0])
}

/// Clones a tree, with everything that is mounted in it, and maps its ids by a user namespace.
pub(super) fn clone_mapped(place: BorrowedFd<'_>, ids: &impl AsFd) -> io::Result<OwnedFd> {
    let tree = open_tree(place, AT_RECURSIVE)?;
    let ids = u64::try_from(ids.as_fd().as_raw_fd()).map_err(io::Error::other)?;
    let at = fd_arg(tree.as_raw_fd());
    set_attributes(at, c"", AT_EMPTY_PATH | AT_RECURSIVE, [MOUNT_ATTR_IDMAP, 0, 0, ids])?;
    Ok(tree)
}

/// Clones one file or directory, without what is mounted in it.
pub(super) fn clone_one(place: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    open_tree(place, 0)
}

/// Mounts a clone over a place.
pub(super) fn attach(tree: &OwnedFd, place: BorrowedFd<'_>) -> io::Result<()> {
    let empty = text_arg(c"");
    let (tree, place) = (fd_arg(tree.as_raw_fd()), fd_arg(place.as_raw_fd()));
    // SAFETY: the kernel only reads the two empty texts.
    syscall_result(unsafe {
        syscall(number::MOVE_MOUNT, [tree, empty, place, empty, MOVE_MOUNT_EMPTY_PATHS, 0])
    })
    .map(drop)
    .map_err(error)
}

fn open_tree(place: BorrowedFd<'_>, recursive: usize) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE | CLOEXEC | AT_EMPTY_PATH | recursive;
    let args = [fd_arg(place.as_raw_fd()), text_arg(c""), flags, 0, 0, 0];
    // SAFETY: the kernel only reads the empty text.
    let tree = syscall_result(unsafe { syscall(number::OPEN_TREE, args) }).map_err(error)?;
    let tree = i32::try_from(tree).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and no other code knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(tree) })
}

/// Sets attributes of a mount: to set, to clear, the propagation, and a user namespace.
fn set_attributes(fd: usize, path: &CStr, flags: usize, attr: [u64; 4]) -> io::Result<()> {
    let args = [fd, text_arg(path), flags, attr.as_ptr() as usize, size_of_val(&attr), 0];
    // SAFETY: the kernel only reads the text and the attributes, whose size is given.
    syscall_result(unsafe { syscall(number::MOUNT_SETATTR, args) }).map(drop).map_err(error)
}
