//! The launcher's own dealings with the kernel: a child with namespaces of its own, out of a threaded program.
//!
//! The child shares the memory of the program until it execs, as after `vfork`, so that a large program starts it as quickly as a
//! small one. It must never allocate, lock or unwind, nor return.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::plan::UserIdentity;
use crate::syscall::{
    CLOEXEC, Errno, SchedPriority, answer, clone_and_run, close_from, dup3, exec_descriptor, exit,
    keep_capabilities_over_exec, number, numbers, schedule, signals_blocked, syscall,
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

/// What building the place takes: changing owners and modes past permissions, mounting, the loopback, limits.
const CAPABILITIES: [usize; 12] = [0, 1, 2, 3, 4, 8, 10, 12, 18, 21, 24, 27];

/// What a child did not manage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpawnStage {
    /// Coming into being, with namespaces of its own.
    Clone,
    /// Keeping its powers over the exec.
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

/// What the child is told, and tells.
struct ChildArgs<'a> {
    descriptors: &'a [i32],
    program: i32,
    /// Ends with a null pointer.
    arguments: &'a [*const u8],
    keeps_powers: bool,
    failed: AtomicI32,
    errno: AtomicI32,
}

/// Starts a program as the first process of new namespaces, with these five descriptors and no others, no arguments and no
/// environment, born in a cgroup if there is one. The descriptor of the process is returned; nobody is signalled when it ends.
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

/// Starts a program where we are, with these descriptors and no others, these arguments, its name first, and no environment.
pub(crate) fn spawn_here(
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
    let before = signals_blocked(u64::MAX).map_err(|Errno(errno)| (SpawnStage::Clone, errno))?;
    // SAFETY: the stack and what the child is told outlive it, since this thread waits until it has execed or ended; with all
    // signals blocked no handler runs on our memory in its name, and `enter` neither allocates nor returns.
    let cloned = answer(unsafe {
        let cloned = [(&raw const args) as usize, size_of::<CloneArgs>()];
        clone_and_run(number::CLONE3, cloned, enter, (&raw mut child).cast())
    });
    signals_blocked(before).map_err(|Errno(errno)| (SpawnStage::Clone, errno))?;
    cloned.map_err(|Errno(errno)| (SpawnStage::Clone, errno))?;
    // SAFETY: the kernel has put a descriptor there that nobody else knows of.
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

/// In the child, on its own stack and in the memory of its parent.
extern "C" fn enter(child: *mut u8) -> ! {
    // SAFETY: what `spawn` passed, which waits for this.
    let child = unsafe { &*child.cast::<ChildArgs<'_>>() };
    let (failed, Errno(errno)) = become_first(child);
    child.errno.store(errno, Ordering::Relaxed);
    child.failed.store(failed, Ordering::Relaxed);
    exit(125)
}

/// Returns what failed; otherwise it does not return.
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

/// Puts the descriptors where the program looks for them, and above them the program, which goes when it is begun.
fn place_descriptors(child: &ChildArgs<'_>) -> Result<i32, Errno> {
    let mut place = 0i32;
    for from in child.descriptors {
        dup3(*from, place, 0)?;
        place += 1;
    }
    dup3(child.program, place, CLOEXEC)?;
    close_from(child.descriptors.len() + 1, 0)?;
    signals_blocked(0)?;
    Ok(place)
}

/// Waits for a process that has ended or is about to, so that nothing is left of it.
pub(crate) fn reap(pidfd: &OwnedFd) -> Result<(), i32> {
    const P_PIDFD: usize = 3;
    const WEXITED: usize = 4;
    // Also children that signal nobody when they end.
    const WALL: usize = 0x4000_0000;
    let mut told = [0u64; 16];
    let id = usize::try_from(pidfd.as_raw_fd()).map_err(|_| 9)?;
    loop {
        let args = [P_PIDFD, id, told.as_mut_ptr() as usize, WEXITED | WALL, 0, 0];
        // SAFETY: room for a `siginfo_t`, which is 128 bytes.
        match answer(unsafe { syscall(number::WAITID, args) }) {
            Ok(_) => return Ok(()),
            Err(Errno(4)) => {}
            Err(Errno(errno)) => return Err(errno),
        }
    }
}

/// For a thread whose work nobody waits for. If the kernel does not want that, the work is done all the same.
pub(crate) fn be_patient() {
    schedule(SchedPriority::Patient).unwrap_or_default();
}

/// The version of Landlock; zero without.
pub(crate) fn landlock_version() -> u32 {
    landlock().unwrap_or(0)
}

/// The version of Landlock, or why there is none.
pub(crate) fn landlock() -> Result<u32, i32> {
    const VERSION: usize = 1;
    let version = numbers(number::LANDLOCK_CREATE_RULESET, [0, 0, VERSION, 0, 0, 0]);
    version.map(|version| u32::try_from(version).unwrap_or(0)).map_err(|Errno(errno)| errno)
}

/// Makes this thread another user for good, the process around it staying what it is. For a thread that ends soon.
pub(crate) fn change_thread_user(identity: UserIdentity) -> Result<(), i32> {
    let (uid, gid) = (identity.uid as usize, identity.gid as usize);
    for (call, args) in [
        (number::SETGROUPS, [0; 6]),
        (number::SETRESGID, [gid, gid, gid, 0, 0, 0]),
        (number::SETRESUID, [uid, uid, uid, 0, 0, 0]),
    ] {
        numbers(call, args).map_err(|Errno(errno)| errno)?;
    }
    Ok(())
}
