//! A terminal for the command in the sandbox's own terminal file system, so that no terminal of the machine is in its reach.

use super::syscalls::{O_CLOEXEC, checked_syscall};
use crate::syscall::{
    Errno, fd_arg, fd_from_result, number, syscall, syscall_result, syscall_with_numbers, text_arg,
};

const O_RDWR_NOCTTY: usize = 2 | 0o400;
const AT_FDCWD: usize = fd_arg(-100);

/// Opens both ends of a new terminal, the outer one first. The size has the rows in the upper half and the columns in the lower
/// half.
pub(super) fn open(size: u32) -> Result<(i32, i32), Errno> {
    const TIOCSPTLCK: usize = 0x4004_5431;
    const TIOCGPTPEER: usize = 0x5441;
    const TIOCSWINSZ: usize = 0x5414;
    let flags = O_RDWR_NOCTTY | O_CLOEXEC;
    let outer = checked_syscall!(number::OPENAT, [AT_FDCWD, text_arg(c"/dev/pts/ptmx"), flags, 0, 0, 0])?;
    let unlocked = 0i32;
    checked_syscall!(number::IOCTL, [outer, TIOCSPTLCK, (&raw const unlocked) as usize, 0, 0, 0])?;
    let inner = syscall_with_numbers(number::IOCTL, [outer, TIOCGPTPEER, flags, 0, 0, 0])?;
    // `struct winsize`: rows and columns, then two unused numbers.
    let [low, high, rows_low, rows_high] = size.to_le_bytes();
    let size = [u16::from_le_bytes([rows_low, rows_high]), u16::from_le_bytes([low, high]), 0, 0];
    checked_syscall!(number::IOCTL, [outer, TIOCSWINSZ, size.as_ptr() as usize, 0, 0, 0])?;
    Ok((fd_from_result(outer)?, fd_from_result(inner)?))
}

/// Makes a terminal the controlling terminal of this session, which has none.
pub(super) fn control(terminal: i32) -> Result<(), Errno> {
    const TIOCSCTTY: usize = 0x540e;
    syscall_with_numbers(number::IOCTL, [fd_arg(terminal), TIOCSCTTY, 0, 0, 0, 0]).map(drop)
}
