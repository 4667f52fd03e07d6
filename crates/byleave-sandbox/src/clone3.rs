//! Starts a child with new namespaces from a threaded program.
//!
//! The child shares the memory of the program until it calls exec, as after `vfork`. So a large program starts it as quickly as a
//! small one. The child must never allocate, lock, unwind or return.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::plan::UserIdentity;
use crate::syscall::{
    CLOEXEC, Errno, SchedPriority, clone_and_run, close_from, dup3, exec_descriptor, exit,
    keep_capabilities_over_exec, number, set_blocked_signals, set_sched_priority, syscall, syscall_result,
    syscall_with_numbers,
};

const CLONE_VM: u64 = 0x100;
const CLONE_PIDFD: u64 = 0x1000;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_NEWNS: u64 = 0x2_0000;
const CLONE_NEWUTS: u64 = 0x400_0000;
const CLONE_NEWIPC: u64 = 0x800_0000;
const CLONE_NEWUSER: u64 = 0x1000_0000;
const CLONE_NEWPID: u64 = 0x2000_0000;
const CLONE_NEWNET: u64 = 0x4000_0000;
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
const STACK_BYTES: usize = 16 << 10;

/// The capabilities for building the sandbox: changing owners and modes regardless of permissions, mounting, the loopback,
/// limits.
const CAPABILITIES: [usize; 12] = [0, 1, 2, 3, 4, 8, 10, 12, 18, 21, 24, 27];

/// The step at which a child failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpawnStage {
    /// Creating it with its own namespaces.
    Clone,
    /// Keeping its capabilities over the exec.
    Capabilities,
    /// Putting its descriptors in place, and closing all others.
    Descriptors,
    /// Becoming the first process inside.
    Exec,
}

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// The input of the child, and its failure report.
struct ChildArgs<'a> {
    descriptors: &'a [i32],
    program: i32,
    /// Ends with a null pointer.
    arguments: &'a [*const u8],
    keeps_powers: bool,
    failed: AtomicI32,
    errno: AtomicI32,
}

/// Starts a program as the first process of new namespaces, in a cgroup if there is one. It gets exactly these five descriptors,
/// no arguments and no environment. Returns the descriptor of the process. No signal is sent when it ends.
pub(crate) fn spawn(
    program: BorrowedFd<'_>,
    descriptors: [BorrowedFd<'_>; 5],
    network_apart: bool,
    group: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, (SpawnStage, i32)> {
    let apart = if network_apart { CLONE_NEWNET } else { 0 };
    let namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | apart;
    begin(program, &descriptors, &[c"byleave-init"], namespaces, group)
}

/// Starts a program in the current namespaces, with exactly these descriptors and arguments (its name first), and no environment.
pub(crate) fn spawn_without_namespaces(
    program: BorrowedFd<'_>,
    descriptors: &[BorrowedFd<'_>],
    arguments: &[&CStr],
) -> Result<OwnedFd, (SpawnStage, i32)> {
    begin(program, descriptors, arguments, 0, None)
}

fn begin(
    program: BorrowedFd<'_>,
    descriptors: &[BorrowedFd<'_>],
    arguments: &[&CStr],
    namespaces: u64,
    group: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, (SpawnStage, i32)> {
    let dup = |fd: &BorrowedFd<'_>| {
        rustix::io::fcntl_dupfd_cloexec(fd, 16)
            .map_err(|errno| (SpawnStage::Descriptors, errno.raw_os_error()))
    };
    // High numbers, so that none is overwritten while they are put in place.
    let high = descriptors.iter().map(dup).collect::<Result<Vec<_>, _>>()?;
    let (numbers, program) = (high.iter().map(AsRawFd::as_raw_fd).collect::<Vec<_>>(), dup(&program)?);
    let mut pointers: Vec<*const u8> = arguments.iter().map(|argument| argument.as_ptr().cast()).collect();
    pointers.push(std::ptr::null());
    let mut child = ChildArgs {
        descriptors: &numbers,
        program: program.as_raw_fd(),
        arguments: &pointers,
        keeps_powers: namespaces != 0,
        failed: AtomicI32::new(0),
        errno: AtomicI32::new(0),
    };
    let group = group.and_then(|group| u64::try_from(group.as_raw_fd()).ok());
    let into_group = if group.is_some() { CLONE_INTO_CGROUP } else { 0 };
    let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
    let mut pidfd: i32 = -1;
    let args = CloneArgs {
        flags: CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_CLEAR_SIGHAND | into_group | namespaces,
        pidfd: (&raw mut pidfd) as u64,
        stack: stack.as_mut_ptr() as u64,
        stack_size: STACK_BYTES as u64,
        cgroup: group.unwrap_or_default(),
        ..CloneArgs::default()
    };
    let before = set_blocked_signals(u64::MAX).map_err(|Errno(errno)| (SpawnStage::Clone, errno))?;
    // SAFETY: the stack and the child's input outlive it, because this thread waits until it has execed or ended. All signals are
    // blocked, so no handler of the child runs on our memory. `enter` neither allocates nor returns.
    let cloned = syscall_result(unsafe {
        let cloned = [(&raw const args) as usize, size_of::<CloneArgs>()];
        clone_and_run(number::CLONE3, cloned, enter, (&raw mut child).cast())
    });
    set_blocked_signals(before).map_err(|Errno(errno)| (SpawnStage::Clone, errno))?;
    cloned.map_err(|Errno(errno)| (SpawnStage::Clone, errno))?;
    // SAFETY: the kernel has put a descriptor there that no other code knows of.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let stage = match child.failed.load(Ordering::Relaxed) {
        0 => return Ok(pidfd),
        1 => SpawnStage::Capabilities,
        2 => SpawnStage::Descriptors,
        _ => SpawnStage::Exec,
    };
    reap(&pidfd).map_err(|errno| (stage, errno))?;
    Err((stage, child.errno.load(Ordering::Relaxed)))
}

/// Runs in the child, on its own stack and in the memory of its parent.
extern "C" fn enter(child: *mut u8) -> ! {
    // SAFETY: the pointer that `spawn` passed; `spawn` waits for the child.
    let child = unsafe { &*child.cast::<ChildArgs<'_>>() };
    let (failed, Errno(errno)) = become_first(child);
    child.errno.store(errno, Ordering::Relaxed);
    child.failed.store(failed, Ordering::Relaxed);
    exit(125)
}

/// Returns what failed. On success it does not return.
fn become_first(child: &ChildArgs<'_>) -> (i32, Errno) {
    if child.keeps_powers
        && let Err(errno) = keep_capabilities_over_exec(&CAPABILITIES)
    {
        return (1, errno);
    }
    let program = match place_descriptors(child) {
        Ok(program) => program,
        Err(errno) => return (2, errno),
    };
    let nothing = [std::ptr::null::<u8>()];
    // SAFETY: both arrays end with a null pointer, and the arguments outlive the child's use of this memory.
    (3, unsafe { exec_descriptor(program, child.arguments.as_ptr(), nothing.as_ptr()) })
}

/// Puts the descriptors at the numbers that the program expects, and the program above them. The exec closes the program's own
/// descriptor.
fn place_descriptors(child: &ChildArgs<'_>) -> Result<i32, Errno> {
    let mut place = 0i32;
    for from in child.descriptors {
        dup3(*from, place, 0)?;
        place += 1;
    }
    dup3(child.program, place, CLOEXEC)?;
    close_from(child.descriptors.len() + 1, 0)?;
    set_blocked_signals(0)?;
    Ok(place)
}

/// Waits for a process that has ended or is about to, and reaps it.
pub(crate) fn reap(pidfd: &OwnedFd) -> Result<(), i32> {
    const P_PIDFD: usize = 3;
    const WEXITED: usize = 4;
    // Includes children that send no signal when they end.
    const WALL: usize = 0x4000_0000;
    let mut told = [0u64; 16];
    let id = usize::try_from(pidfd.as_raw_fd()).map_err(|_| 9)?;
    loop {
        let args = [P_PIDFD, id, told.as_mut_ptr() as usize, WEXITED | WALL, 0, 0];
        // SAFETY: room for a `siginfo_t`, which is 128 bytes.
        match syscall_result(unsafe { syscall(number::WAITID, args) }) {
            Ok(_) => return Ok(()),
            Err(Errno(4)) => {}
            Err(Errno(errno)) => return Err(errno),
        }
    }
}

/// Lowers the scheduling priority of a thread with background work. If the kernel refuses, the work is done anyway.
pub(crate) fn lower_thread_priority() {
    set_sched_priority(SchedPriority::Idle).unwrap_or_default();
}

/// Returns the version of Landlock, or zero without Landlock.
pub(crate) fn landlock_version() -> u32 {
    landlock().unwrap_or(0)
}

/// Returns the version of Landlock, or the error number if there is none.
pub(crate) fn landlock() -> Result<u32, i32> {
    const VERSION: usize = 1;
    let version = syscall_with_numbers(number::LANDLOCK_CREATE_RULESET, [0, 0, VERSION, 0, 0, 0]);
    version.map(|version| u32::try_from(version).unwrap_or(0)).map_err(|Errno(errno)| errno)
}

/// A child in a user namespace of its own that does nothing. The namespace can be opened and its ids mapped while the child lives.
pub(crate) struct PausedChild {
    pid: u32,
    pidfd: OwnedFd,
    /// The stack of the child.
    _stack: Vec<u128>,
}

impl PausedChild {
    /// Starts the child. It must not run while this process ends a thread that waits for all children.
    pub(crate) fn in_user_namespace() -> Result<Self, Errno> {
        let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
        let mut pidfd: i32 = -1;
        let args = CloneArgs {
            flags: CLONE_VM | CLONE_PIDFD | CLONE_CLEAR_SIGHAND | CLONE_NEWUSER,
            pidfd: (&raw mut pidfd) as u64,
            stack: stack.as_mut_ptr() as u64,
            stack_size: STACK_BYTES as u64,
            ..CloneArgs::default()
        };
        let before = set_blocked_signals(u64::MAX)?;
        // SAFETY: the stack belongs to the child until it has been reaped, which `drop` waits for. All signals are blocked, so no
        // handler of the child runs on our memory. `pause` touches nothing.
        let cloned = syscall_result(unsafe {
            let cloned = [(&raw const args) as usize, size_of::<CloneArgs>()];
            clone_and_run(number::CLONE3, cloned, pause, std::ptr::null_mut())
        });
        set_blocked_signals(before)?;
        let pid = u32::try_from(cloned?).map_err(|_| Errno(22))?;
        // SAFETY: the kernel has put a descriptor there that no other code knows of.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        Ok(Self { pid, pidfd, _stack: stack })
    }

    /// Returns its process id.
    pub(crate) const fn pid(&self) -> u32 {
        self.pid
    }
}

impl Drop for PausedChild {
    fn drop(&mut self) {
        // Both fail only if there is no such child any more.
        rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL).unwrap_or_default();
        reap(&self.pidfd).unwrap_or_default();
    }
}

/// Waits until it is killed, without using any memory but its stack.
extern "C" fn pause(_: *mut u8) -> ! {
    loop {
        // Without descriptors and without a time, this waits for a signal.
        let _waited = syscall_with_numbers(number::PPOLL, [0; 6]);
    }
}

/// Moves this thread into a mount namespace of its own, which begins as a copy. Only for a thread that ends soon.
pub(crate) fn unshare_mounts() -> Result<(), Errno> {
    #[expect(clippy::cast_possible_truncation, reason = "the flag fits in 32 bits")]
    let flags = CLONE_NEWNS as usize;
    syscall_with_numbers(number::UNSHARE, [flags, 0, 0, 0, 0, 0]).map(drop)
}

/// Changes the user of this thread for good, but not of the process. Only for a thread that ends soon.
pub(crate) fn change_thread_user(identity: UserIdentity) -> Result<(), i32> {
    let (uid, gid) = (identity.uid as usize, identity.gid as usize);
    for (call, args) in [
        (number::SETGROUPS, [0; 6]),
        (number::SETRESGID, [gid, gid, gid, 0, 0, 0]),
        (number::SETRESUID, [uid, uid, uid, 0, 0, 0]),
    ] {
        syscall_with_numbers(call, args).map_err(|Errno(errno)| errno)?;
    }
    Ok(())
}
