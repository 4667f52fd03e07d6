//! Direct system calls, for the launcher's child and the first process inside, which have no libc.
//!
//! Written for x86_64 and aarch64. The latter was run on an emulated machine only. This module never allocates, locks or unwinds.
//! It runs in a child that shares the memory of a threaded program, and in a process without a heap. It must never depend on
//! `std`.

use core::ffi::CStr;

#[cfg(target_arch = "aarch64")]
#[path = "syscall/aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "syscall/x86_64.rs"]
mod arch;

pub(crate) use arch::{O_NOFOLLOW, clone_and_run, syscall};

/// The numbers of system calls.
pub(crate) mod number {
    pub(crate) use super::arch::number::*;

    // From 424 on, every architecture has the same.
    pub(crate) const OPEN_TREE: usize = 428;
    pub(crate) const MOVE_MOUNT: usize = 429;
    pub(crate) const FSOPEN: usize = 430;
    pub(crate) const FSCONFIG: usize = 431;
    pub(crate) const FSMOUNT: usize = 432;
    pub(crate) const PIDFD_OPEN: usize = 434;
    pub(crate) const CLONE3: usize = 435;
    pub(crate) const CLOSE_RANGE: usize = 436;
    pub(crate) const OPENAT2: usize = 437;
    pub(crate) const MOUNT_SETATTR: usize = 442;
    pub(crate) const LANDLOCK_CREATE_RULESET: usize = 444;
    pub(crate) const LANDLOCK_ADD_RULE: usize = 445;
    pub(crate) const LANDLOCK_RESTRICT_SELF: usize = 446;
}

/// The error number of a failed system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

pub(crate) const EINVAL: Errno = Errno(22);
pub(crate) const ENOENT: Errno = Errno(2);

pub(crate) const AT_EMPTY_PATH: usize = 0x1000;
pub(crate) const SIG_SETMASK: usize = 2;
pub(crate) const CLOSE_RANGE_CLOEXEC: usize = 4;
/// `O_CLOEXEC`, for a descriptor that is opened or copied.
pub(crate) const CLOEXEC: usize = 0o2_000_000;

const PR_CAP_AMBIENT: usize = 47;
const PR_CAP_AMBIENT_RAISE: usize = 2;

/// Converts the return value of a system call into a result.
pub(crate) fn syscall_result(returned: isize) -> Result<usize, Errno> {
    match usize::try_from(returned) {
        Ok(value) => Ok(value),
        Err(_) => Err(Errno(i32::try_from(-returned).unwrap_or(i32::MAX))),
    }
}

/// Makes a system call whose arguments are only numbers, so that it cannot touch our memory.
pub(crate) fn syscall_with_numbers(nr: usize, args: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: callers pass numbers and descriptors only; the kernel reads and writes no memory through them.
    syscall_result(unsafe { syscall(nr, args) })
}

/// Converts a descriptor to an argument. Negative ones keep their sign.
#[expect(clippy::cast_sign_loss, reason = "the kernel takes the low 32 bits back as a signed number")]
pub(crate) const fn fd_arg(fd: i32) -> usize {
    fd as isize as usize
}

/// Returns the address of a string as an argument.
pub(crate) fn text_arg(text: &CStr) -> usize {
    text.as_ptr() as usize
}

/// Converts a return value of the kernel to a descriptor.
pub(crate) fn fd_from_result(returned: usize) -> Result<i32, Errno> {
    i32::try_from(returned).map_err(|_| EINVAL)
}

pub(crate) fn close(fd: i32) -> Result<(), Errno> {
    syscall_with_numbers(number::CLOSE, [fd_arg(fd), 0, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn dup3(from: i32, to: i32, flags: usize) -> Result<(), Errno> {
    syscall_with_numbers(number::DUP3, [fd_arg(from), fd_arg(to), flags, 0, 0, 0]).map(drop)
}

/// Closes, or marks to be closed at the next exec, every descriptor from `first` on.
pub(crate) fn close_from(first: usize, flags: usize) -> Result<(), Errno> {
    syscall_with_numbers(number::CLOSE_RANGE, [first, u32::MAX as usize, flags, 0, 0, 0]).map(drop)
}

pub(crate) fn prctl(operation: usize, args: [usize; 4]) -> Result<usize, Errno> {
    let [a, b, c, d] = args;
    syscall_with_numbers(number::PRCTL, [operation, a, b, c, d, 0])
}

/// The scheduling priority of a thread.
#[derive(Clone, Copy)]
pub(crate) enum SchedPriority {
    /// The default.
    Normal = 0,
    /// Never preempts a running thread: for background work.
    Idle = 3,
}

/// Sets the priority of this thread and of threads that it starts.
pub(crate) fn set_sched_priority(eagerness: SchedPriority) -> Result<(), Errno> {
    let priority = 0i32;
    let args = [0, eagerness as usize, (&raw const priority) as usize, 0, 0, 0];
    // SAFETY: the address of a live priority, which is all that the call reads.
    syscall_result(unsafe { syscall(number::SCHED_SETSCHEDULER, args) }).map(drop)
}

pub(crate) fn exit(code: usize) -> ! {
    loop {
        // SAFETY: ends the process; nothing remains that could be left inconsistent.
        unsafe { syscall(number::EXIT_GROUP, [code, 0, 0, 0, 0, 0]) };
    }
}

/// Sets the blocked signals, and returns the previous set.
pub(crate) fn set_blocked_signals(mask: u64) -> Result<u64, Errno> {
    let mut before = 0u64;
    let args = [SIG_SETMASK, (&raw const mask) as usize, (&raw mut before) as usize, size_of::<u64>(), 0, 0];
    // SAFETY: both addresses are of live 8-byte sets, as the last argument says.
    syscall_result(unsafe { syscall(number::RT_SIGPROCMASK, args) })?;
    Ok(before)
}

/// One half of the three capability sets of a process, which have 64 bits each.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityHalf {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

const CAPABILITY_HEADER: CapabilityHeader = CapabilityHeader { version: 0x2008_0522, pid: 0 };

fn set_capabilities(sets: &[CapabilityHalf; 2]) -> Result<(), Errno> {
    let header = CAPABILITY_HEADER;
    let args = [(&raw const header) as usize, sets.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: a header of version 3 and the two halves that go with it, both live.
    syscall_result(unsafe { syscall(number::CAPSET, args) }).map(drop)
}

/// Clears the effective, permitted and inheritable sets.
pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    set_capabilities(&[CapabilityHalf::default(); 2])
}

/// Keeps the capabilities of a new user namespace over the next exec, though the user is not root there.
pub(crate) fn keep_capabilities_over_exec(wanted: &[usize]) -> Result<(), Errno> {
    let header = CAPABILITY_HEADER;
    let mut sets = [CapabilityHalf::default(); 2];
    let args = [(&raw const header) as usize, sets.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: a header of version 3 and room for the two halves that go with it.
    syscall_result(unsafe { syscall(number::CAPGET, args) })?;
    for half in &mut sets {
        half.effective = half.permitted;
        half.inheritable = half.permitted;
    }
    set_capabilities(&sets)?;
    for capability in wanted {
        prctl(PR_CAP_AMBIENT, [PR_CAP_AMBIENT_RAISE, *capability, 0, 0])?;
    }
    Ok(())
}

/// Replaces the program by the one that the descriptor refers to. Returns only if that failed.
///
/// # Safety
/// `argv` and `envp` are arrays of pointers to strings that end with a null pointer.
pub(crate) unsafe fn exec_descriptor(fd: i32, argv: *const *const u8, envp: *const *const u8) -> Errno {
    let args = [fd_arg(fd), text_arg(c""), argv as usize, envp as usize, AT_EMPTY_PATH, 0];
    // SAFETY: the caller vouches for the arrays; the empty string is static.
    match syscall_result(unsafe { syscall(number::EXECVEAT, args) }) {
        Ok(_) => EINVAL,
        Err(errno) => errno,
    }
}
