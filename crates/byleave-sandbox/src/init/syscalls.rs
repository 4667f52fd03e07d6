//! System calls of the first process inside. They are safe to call in any order. `mod.rs` is responsible for the right order.

use core::ffi::CStr;

use crate::plan_format::{CloneDepth, MountAccess, OnMissing, REQUEST_DESCRIPTORS};
use crate::syscall::{
    AT_EMPTY_PATH, EINVAL, ENOENT, Errno, O_NOFOLLOW, clone_and_run, close, fd_arg, fd_from_result, number,
    syscall, syscall_result, syscall_with_numbers, text_arg,
};

const AT_FDCWD: usize = fd_arg(-100);
const AT_RECURSIVE: usize = 0x8000;
const O_WRONLY: usize = 1;
const O_CREAT: usize = 0o100;
pub(super) const O_CLOEXEC: usize = 0o2_000_000;
const O_PATH: usize = 0o10_000_000;
const RESOLVE_NO_SYMLINKS: u64 = 4;
const OPEN_TREE_CLONE: usize = 1;
const MOVE_MOUNT_EMPTY_PATHS: usize = 0x4 | 0x40;
const MOUNT_ATTR_RDONLY: u64 = 1;
const MOUNT_ATTR_NOSUID: u64 = 2;
const MOUNT_ATTR_NODEV: u64 = 4;
const MOUNT_ATTR_NOEXEC: u64 = 8;
const MS_PRIVATE: u64 = 1 << 18;
const FSCONFIG_SET_FLAG: usize = 0;
const FSCONFIG_SET_STRING: usize = 1;
const FSCONFIG_CMD_CREATE: usize = 6;
const CLOEXEC: usize = 1;

/// Makes a system call with addresses among its arguments. The wrappers that use it vouch for them.
macro_rules! checked_syscall {
    ($nr:expr, [$($arg:expr),*]) => {{
        let args = [$($arg),*];
        // SAFETY: every address in this wrapper is of a live value of the type and size that the call takes.
        syscall_result(unsafe { syscall($nr, args) })
    }};
}
pub(super) use checked_syscall;

fn attributes(access: MountAccess) -> u64 {
    match access {
        MountAccess::Read => MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        MountAccess::Write => MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        MountAccess::Device => MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
        MountAccess::Mask => MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
    }
}

/// Opens a path as a reference (`O_PATH`), and refuses symbolic links everywhere on the way.
pub(super) fn open_path(path: &CStr) -> Result<i32, Errno> {
    let how: [u64; 3] = [(O_PATH | O_CLOEXEC | O_NOFOLLOW) as u64, 0, RESOLVE_NO_SYMLINKS];
    let fd = checked_syscall!(
        number::OPENAT2,
        [AT_FDCWD, text_arg(path), how.as_ptr() as usize, size_of_val(&how), 0, 0]
    )?;
    fd_from_result(fd)
}

/// Returns whether a path exists. An unknown state is an error.
pub(super) fn exists(path: &CStr) -> Result<bool, Errno> {
    const ENOTDIR: Errno = Errno(20);
    match open_path(path) {
        Ok(there) => close(there).map(|()| true),
        Err(ENOENT | ENOTDIR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn set_attributes(fd: usize, path: &CStr, flags: usize, set: u64, propagation: u64) -> Result<(), Errno> {
    let attr: [u64; 4] = [set, 0, propagation, 0];
    let args = attr.as_ptr() as usize;
    checked_syscall!(number::MOUNT_SETATTR, [fd, text_arg(path), flags, args, size_of_val(&attr), 0])
        .map(drop)
}

pub(super) fn make_private() -> Result<(), Errno> {
    set_attributes(AT_FDCWD, c"/", AT_RECURSIVE, 0, MS_PRIVATE)
}

pub(super) fn seal() -> Result<(), Errno> {
    set_attributes(AT_FDCWD, c"/", AT_RECURSIVE, attributes(MountAccess::Read), 0)
}

pub(super) fn clone_tree(path: &CStr, depth: CloneDepth, access: MountAccess) -> Result<i32, Errno> {
    let recursive = if depth == CloneDepth::All { AT_RECURSIVE } else { 0 };
    let place = open_path(path)?;
    let flags = OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH | recursive;
    let tree = checked_syscall!(number::OPEN_TREE, [fd_arg(place), text_arg(c""), flags, 0, 0, 0]);
    close(place)?;
    let tree = tree?;
    set_attributes(tree, c"", AT_EMPTY_PATH | recursive, attributes(access), 0)?;
    fd_from_result(tree)
}

/// Creates a file system that is not mounted yet. An option without a value is a flag.
pub(super) fn new_mount(
    kind: &CStr,
    options: &[(&CStr, Option<&CStr>)],
    access: MountAccess,
) -> Result<i32, Errno> {
    let context = checked_syscall!(number::FSOPEN, [text_arg(kind), CLOEXEC, 0, 0, 0, 0])?;
    for (key, value) in options {
        let (command, value) = match value {
            Some(value) => (FSCONFIG_SET_STRING, text_arg(value)),
            None => (FSCONFIG_SET_FLAG, 0),
        };
        checked_syscall!(number::FSCONFIG, [context, command, text_arg(key), value, 0, 0])?;
    }
    checked_syscall!(number::FSCONFIG, [context, FSCONFIG_CMD_CREATE, 0, 0, 0, 0])?;
    let attributes = usize::try_from(attributes(access)).map_err(|_| EINVAL)?;
    let mount = syscall_with_numbers(number::FSMOUNT, [context, CLOEXEC, attributes, 0, 0, 0])?;
    close(fd_from_result(context)?)?;
    fd_from_result(mount)
}

/// Creates a private pseudo-terminal file system.
pub(super) fn mount_devpts() -> Result<i32, Errno> {
    let options = [(c"ptmxmode", Some(c"0666")), (c"mode", Some(c"620")), (c"newinstance", None)];
    new_mount(c"devpts", &options, MountAccess::Device)
}

pub(super) fn attach(mount: i32, path: &CStr, missing: OnMissing) -> Result<(), Errno> {
    let place = match open_path(path) {
        Err(ENOENT) if missing != OnMissing::Fault => {
            make_place(path, missing)?;
            open_path(path)?
        }
        found => found?,
    };
    let empty = text_arg(c"");
    let moved = checked_syscall!(
        number::MOVE_MOUNT,
        [fd_arg(mount), empty, fd_arg(place), empty, MOVE_MOUNT_EMPTY_PATHS, 0]
    );
    close(place)?;
    close(mount)?;
    moved.map(drop)
}

/// The maximum length of a path that is created.
const PATH_MAX: usize = 4096;

fn make_place(path: &CStr, missing: OnMissing) -> Result<(), Errno> {
    let bytes = path.to_bytes();
    let mut above = [0u8; PATH_MAX];
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'/' && at > 0 {
            let prefix = CStr::from_bytes_until_nul(&above).map_err(|_| EINVAL)?;
            match open_path(prefix) {
                Ok(there) => close(there)?,
                Err(ENOENT) => directory(prefix, 0o755)?,
                Err(errno) => return Err(errno),
            }
        }
        *above.get_mut(at).ok_or(EINVAL)? = *byte;
    }
    match missing {
        OnMissing::Fault => Err(ENOENT),
        OnMissing::MakeDirectory => directory(path, 0o755),
        OnMissing::MakeFile => {
            let flags = O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW;
            let file = checked_syscall!(number::OPENAT, [AT_FDCWD, text_arg(path), flags, 0o444, 0, 0])?;
            close(fd_from_result(file)?)
        }
    }
}

fn directory(path: &CStr, mode: u32) -> Result<(), Errno> {
    checked_syscall!(number::MKDIRAT, [AT_FDCWD, text_arg(path), mode as usize, 0, 0, 0]).map(drop)
}

pub(super) fn link(path: &CStr, to: &CStr) -> Result<(), Errno> {
    checked_syscall!(number::SYMLINKAT, [text_arg(to), AT_FDCWD, text_arg(path), 0, 0, 0]).map(drop)
}

pub(super) fn write_file(path: &CStr, text: &[u8]) -> Result<(), Errno> {
    let file = checked_syscall!(number::OPENAT, [AT_FDCWD, text_arg(path), O_WRONLY | O_CLOEXEC, 0, 0, 0])?;
    let written = checked_syscall!(number::WRITE, [file, text.as_ptr() as usize, text.len(), 0, 0, 0]);
    close(fd_from_result(file)?)?;
    if written? == text.len() { Ok(()) } else { Err(EINVAL) }
}

/// Creates a file that everybody inside can read. It fails if the file exists.
pub(super) fn new_file(path: &CStr, text: &[u8]) -> Result<(), Errno> {
    const O_EXCL: usize = 0o200;
    let flags = O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW;
    let file = checked_syscall!(number::OPENAT, [AT_FDCWD, text_arg(path), flags, 0o444, 0, 0])?;
    let written = checked_syscall!(number::WRITE, [file, text.as_ptr() as usize, text.len(), 0, 0, 0]);
    close(fd_from_result(file)?)?;
    if written? == text.len() { Ok(()) } else { Err(EINVAL) }
}

pub(super) fn hostname(name: &CStr) -> Result<(), Errno> {
    checked_syscall!(number::SETHOSTNAME, [text_arg(name), name.to_bytes().len(), 0, 0, 0, 0]).map(drop)
}

pub(super) fn limit(resource: u32, soft: u64, hard: u64) -> Result<(), Errno> {
    let limits: [u64; 2] = [soft, hard];
    checked_syscall!(number::PRLIMIT64, [0, resource as usize, limits.as_ptr() as usize, 0, 0, 0]).map(drop)
}

pub(super) fn landlock_ruleset(attr: &[u64; 3], size: usize) -> Result<i32, Errno> {
    if size > size_of_val(attr) {
        return Err(EINVAL);
    }
    fd_from_result(checked_syscall!(
        number::LANDLOCK_CREATE_RULESET,
        [attr.as_ptr() as usize, size, 0, 0, 0, 0]
    )?)
}

pub(super) fn landlock_rule(ruleset: i32, path: &CStr, access: u64) -> Result<(), Errno> {
    #[repr(C, packed)]
    struct PathBeneath {
        access: u64,
        parent: i32,
    }
    const RULE_PATH_BENEATH: usize = 1;
    let parent = open_path(path)?;
    let rule = PathBeneath { access, parent };
    let added = checked_syscall!(
        number::LANDLOCK_ADD_RULE,
        [fd_arg(ruleset), RULE_PATH_BENEATH, (&raw const rule) as usize, 0, 0, 0]
    );
    close(parent)?;
    added.map(drop)
}

pub(super) fn landlock_port(ruleset: i32, port: u64, access: u64) -> Result<(), Errno> {
    const RULE_NET_PORT: usize = 2;
    let rule = [access, port];
    checked_syscall!(
        number::LANDLOCK_ADD_RULE,
        [fd_arg(ruleset), RULE_NET_PORT, rule.as_ptr() as usize, 0, 0, 0]
    )
    .map(drop)
}

pub(super) fn landlock_enter(ruleset: i32) -> Result<(), Errno> {
    syscall_with_numbers(number::LANDLOCK_RESTRICT_SELF, [fd_arg(ruleset), 0, 0, 0, 0, 0])?;
    close(ruleset)
}

/// Installs a filter with eight bytes per instruction.
pub(super) fn filter(program: &[u8]) -> Result<(), Errno> {
    install_filter(program, 0).map(drop)
}

/// Installs a filter of which some calls wait for a supervisor. Returns the descriptor through which it answers.
pub(super) fn supervised_filter(program: &[u8]) -> Result<i32, Errno> {
    const NEW_LISTENER: usize = 1 << 3;
    fd_from_result(install_filter(program, NEW_LISTENER)?)
}

fn install_filter(program: &[u8], flags: usize) -> Result<usize, Errno> {
    #[repr(C)]
    struct BpfProgram {
        length: u16,
        instructions: *const u8,
    }
    const SET_MODE_FILTER: usize = 1;
    let length = u16::try_from(program.len() / 8).map_err(|_| EINVAL)?;
    let program = BpfProgram { length, instructions: program.as_ptr() };
    checked_syscall!(number::SECCOMP, [SET_MODE_FILTER, flags, (&raw const program) as usize, 0, 0, 0])
}

/// Starts a new session without a terminal.
pub(super) fn new_session() -> Result<(), Errno> {
    syscall_with_numbers(number::SETSID, [0; 6]).map(drop)
}

pub(super) fn change_directory(path: &CStr) -> Result<(), Errno> {
    checked_syscall!(number::CHDIR, [text_arg(path), 0, 0, 0, 0, 0]).map(drop)
}

/// Resets every signal to its default, because ignored signals would be inherited.
pub(super) fn default_signals() -> Result<(), Errno> {
    const COUNT: usize = 64;
    const SIGKILL: usize = 9;
    const SIGSTOP: usize = 19;
    // The kernel's `struct sigaction`: handler, flags, restorer and mask; all zero is the default.
    let default = [0u64; 4];
    for signal in (1..=COUNT).filter(|signal| *signal != SIGKILL && *signal != SIGSTOP) {
        checked_syscall!(
            number::RT_SIGACTION,
            [signal, default.as_ptr() as usize, 0, size_of::<u64>(), 0, 0]
        )?;
    }
    Ok(())
}

/// Returns the mount namespace of this process as a descriptor, which keeps it alive.
pub(super) fn own_mounts() -> Result<i32, Errno> {
    fd_from_result(checked_syscall!(
        number::OPENAT,
        [AT_FDCWD, text_arg(c"/proc/self/ns/mnt"), O_CLOEXEC, 0, 0, 0]
    )?)
}

/// Makes ended children waitable again.
pub(super) fn reset_sigchld() -> Result<(), Errno> {
    const SIGCHLD: usize = 17;
    let default = [0u64; 4];
    checked_syscall!(number::RT_SIGACTION, [SIGCHLD, default.as_ptr() as usize, 0, size_of::<u64>(), 0, 0])
        .map(drop)
}

/// Makes ended children disappear without being waited for.
pub(super) fn ignore_children() -> Result<(), Errno> {
    const SIGCHLD: usize = 17;
    const SIG_IGN: u64 = 1;
    let ignore = [SIG_IGN, 0, 0, 0];
    checked_syscall!(number::RT_SIGACTION, [SIGCHLD, ignore.as_ptr() as usize, 0, size_of::<u64>(), 0, 0])
        .map(drop)
}

/// Starts a process with its own mount, process and IPC namespaces, in a cgroup if there is one. Returns zero in the child; its
/// id and its descriptor in the parent.
pub(super) fn fork_in_namespaces(group: Option<i32>) -> Result<(usize, i32), Errno> {
    /// `CLONE_PIDFD`, `CLONE_NEWNS`, `CLONE_NEWIPC`, `CLONE_NEWPID`.
    const FLAGS: u64 = 0x1000 | 0x2_0000 | 0x800_0000 | 0x2000_0000;
    const INTO_GROUP: u64 = 0x2_0000_0000;
    const SIGCHLD: u64 = 17;
    let mut process = -1i32;
    let (into, group) = match group {
        Some(group) => (INTO_GROUP, u64::from(group.cast_unsigned())),
        None => (0, 0),
    };
    // `struct clone_args`: flags, descriptor, two ids, signal, stack and its size, tls, ids to take and how many, cgroup.
    let args: [u64; 11] = [FLAGS | into, (&raw mut process) as u64, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, group];
    let pid = checked_syscall!(number::CLONE3, [args.as_ptr() as usize, size_of_val(&args), 0, 0, 0, 0])?;
    Ok((pid, process))
}

/// The kernel's layout of a message with descriptors.
#[repr(C)]
struct MessageHeader {
    name: usize,
    name_length: usize,
    parts: usize,
    part_count: usize,
    control: usize,
    control_length: usize,
    flags: usize,
}

impl MessageHeader {
    /// Creates a header for one part, with this many control bytes at this address.
    fn of(part: &IoVector, control: usize, control_length: usize) -> Self {
        let parts = (&raw const *part) as usize;
        Self { name: 0, name_length: 0, parts, part_count: 1, control, control_length, flags: 0 }
    }
}

/// One part of a message.
#[repr(C)]
struct IoVector {
    at: usize,
    length: usize,
}

const SOL_SOCKET_SCM_RIGHTS: u64 = 1 | 1 << 32;
const CONTROL_HEADER: usize = 16;

/// A received number with the descriptors that came with it.
#[derive(Clone, Copy)]
pub(super) struct DescriptorMessage {
    pub(super) number: u64,
    pub(super) descriptors: [i32; REQUEST_DESCRIPTORS + 1],
    pub(super) count: usize,
}

/// Receives the next message. `None` if the sender has gone or the message is invalid.
pub(super) fn receive(socket: i32) -> Option<DescriptorMessage> {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    let (mut number, mut control) = (0u64, [0u64; 8]);
    let part = IoVector { at: (&raw mut number) as usize, length: size_of::<u64>() };
    let mut message = MessageHeader::of(&part, control.as_mut_ptr() as usize, size_of_val(&control));
    let at = (&raw mut message) as usize;
    if checked_syscall!(number::RECVMSG, [fd_arg(socket), at, MSG_CMSG_CLOEXEC, 0, 0, 0])
        != Ok(size_of::<u64>())
    {
        return None;
    }
    let [length, kind, a, b, c, ..] = control;
    let length = usize::try_from(length).ok()?;
    if length > 0 && kind != SOL_SOCKET_SCM_RIGHTS {
        return None;
    }
    let count = length.saturating_sub(CONTROL_HEADER) / size_of::<i32>();
    let halves = |both: u64| {
        let [a, b, c, d, e, f, g, h] = both.to_ne_bytes();
        [i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h])]
    };
    let ([a, b], [c, d], [e, f]) = (halves(a), halves(b), halves(c));
    let descriptors = [a, b, c, d, e, f];
    (count <= descriptors.len()).then_some(DescriptorMessage { number, descriptors, count })
}

/// Sends one message with a descriptor.
pub(super) fn send_with_descriptor(socket: i32, bytes: &[u8], descriptor: i32) {
    const MSG_NOSIGNAL: usize = 0x4000;
    let part = IoVector { at: bytes.as_ptr() as usize, length: bytes.len() };
    let control = [(CONTROL_HEADER + 4) as u64, SOL_SOCKET_SCM_RIGHTS, u64::from(descriptor.cast_unsigned())];
    let message = MessageHeader::of(&part, control.as_ptr() as usize, size_of_val(&control));
    let args = [fd_arg(socket), (&raw const message) as usize, MSG_NOSIGNAL, 0, 0, 0];
    // SAFETY: a live message whose one part and control bytes are live as well.
    unsafe { syscall(number::SENDMSG, args) };
}

/// The stack of a process that shares our memory.
pub(super) type ChildStack = core::mem::MaybeUninit<[u128; 1024]>;

/// Starts a second process in the same memory, so that nothing is copied, on its own stack. Returns its id. It runs concurrently,
/// so that we need not wait for it.
///
/// # Safety
/// The stack and the child's input stay until it has execed or ended, and neither process writes what the other reads.
pub(super) unsafe fn fork_in_memory(
    stack: &mut ChildStack,
    child: extern "C" fn(*mut u8) -> !,
    told: *mut u8,
) -> Result<usize, Errno> {
    const CLONE_VM_SIGCHLD: usize = 0x100 | 17;
    let top = stack.as_mut_ptr() as usize + size_of::<ChildStack>();
    // SAFETY: the caller vouches for the stack, whose end is aligned as its elements are, and for the child's input.
    syscall_result(unsafe { clone_and_run(number::CLONE, [CLONE_VM_SIGCHLD, top], child, told) })
}

/// Starts a second process. Returns zero in the child, its id in the parent.
pub(super) fn fork() -> Result<usize, Errno> {
    const SIGCHLD: usize = 17;
    syscall_with_numbers(number::CLONE, [SIGCHLD, 0, 0, 0, 0, 0])
}

/// Replaces the program. Returns only if that failed.
///
/// # Safety
/// `argv` and `envp` end with a null pointer, and the others lead to strings.
pub(super) unsafe fn exec(program: &CStr, argv: *const usize, envp: *const usize) -> Errno {
    // SAFETY: the caller vouches for the arrays.
    match syscall_result(unsafe {
        syscall(number::EXECVE, [text_arg(program), argv as usize, envp as usize, 0, 0, 0])
    }) {
        Ok(_) => EINVAL,
        Err(errno) => errno,
    }
}

/// Reads a file of the kernel, as far as it fits.
pub(super) fn read_file<'a>(path: &CStr, room: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    let file =
        fd_from_result(checked_syscall!(number::OPENAT, [AT_FDCWD, text_arg(path), O_CLOEXEC, 0, 0, 0])?)?;
    let count =
        checked_syscall!(number::READ, [fd_arg(file), room.as_mut_ptr() as usize, room.len(), 0, 0, 0]);
    close(file)?;
    room.get(..count?).ok_or(EINVAL)
}

/// Kills a process, or with -1 every process that this one may signal, except for itself.
pub(super) fn kill(process: i32) -> Result<(), Errno> {
    const SIGKILL: usize = 9;
    syscall_with_numbers(number::KILL, [fd_arg(process), SIGKILL, 0, 0, 0, 0]).map(drop)
}

/// Stops every process that this one may signal, or lets all of them go on.
pub(super) fn pause_all(is_paused: bool) -> Result<(), Errno> {
    const SIGCONT: usize = 18;
    const SIGSTOP: usize = 19;
    let signal = if is_paused { SIGSTOP } else { SIGCONT };
    syscall_with_numbers(number::KILL, [fd_arg(-1), signal, 0, 0, 0, 0]).map(drop)
}

/// Reads a message of one byte that has arrived.
pub(super) fn read_byte(fd: i32) -> Option<u8> {
    let mut byte = [0u8; 1];
    let read = checked_syscall!(number::READ, [fd_arg(fd), byte.as_mut_ptr() as usize, byte.len(), 0, 0, 0]);
    (read.ok()? == 1).then_some(byte[0])
}

/// Waits until a child has ended. Returns whether there was one.
pub(super) fn wait_for_child() -> bool {
    const WALL: usize = 0x4000_0000;
    syscall_with_numbers(number::WAIT4, [fd_arg(-1), 0, WALL, 0, 0, 0]).is_ok()
}

/// Reaps an ended child. Returns its id, its status, and the microseconds of processor time of it and its children.
pub(super) fn reap() -> Option<(usize, i32, u64)> {
    const WNOHANG: usize = 1;
    let mut status = 0i32;
    // `struct rusage`: user and system time as seconds and microseconds, then twelve more numbers.
    let mut usage = [0u64; 18];
    let args = [(&raw mut status) as usize, usage.as_mut_ptr() as usize];
    let [status_at, usage_at] = args;
    let pid = checked_syscall!(number::WAIT4, [fd_arg(-1), status_at, WNOHANG, usage_at, 0, 0]).ok()?;
    let [user_s, user_us, system_s, system_us, ..] = usage;
    let micros = (user_s + system_s).saturating_mul(1_000_000).saturating_add(user_us + system_us);
    (pid > 0).then_some((pid, status, micros))
}

/// Returns a descriptor that is readable when a child has ended. The signal must be blocked.
pub(super) fn child_signals() -> Result<i32, Errno> {
    let mask = 1u64 << 16;
    let args = (&raw const mask) as usize;
    const NONBLOCK: usize = 0o4000;
    fd_from_result(checked_syscall!(
        number::SIGNALFD4,
        [fd_arg(-1), args, size_of::<u64>(), O_CLOEXEC | NONBLOCK, 0, 0]
    )?)
}

/// Waits until one of two descriptors is readable. Returns whether the second is.
pub(super) fn wait_for_either(first: i32, second: i32) -> Result<bool, Errno> {
    #[repr(C)]
    struct PollDescriptor {
        fd: i32,
        events: i16,
        returned: i16,
    }
    const POLLIN: i16 = 1;
    let mut both = [
        PollDescriptor { fd: first, events: POLLIN, returned: 0 },
        PollDescriptor { fd: second, events: POLLIN, returned: 0 },
    ];
    checked_syscall!(number::PPOLL, [both.as_mut_ptr() as usize, 2, 0, 0, 0, 0])?;
    let [_, second] = both;
    Ok(second.returned != 0)
}

/// Returns the process descriptor of this process, which is the first of its namespace.
pub(super) fn own_descriptor() -> Result<i32, Errno> {
    fd_from_result(syscall_with_numbers(number::PIDFD_OPEN, [1, 0, 0, 0, 0, 0])?)
}

/// Reads and discards what a descriptor has.
pub(super) fn drain(fd: i32) {
    let mut buffer = [0u8; 1024];
    while let Ok(1..) =
        checked_syscall!(number::READ, [fd_arg(fd), buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0])
    {
    }
}

/// Sends one message. A missing peer is ignored, because the next check of the control socket ends everything.
pub(super) fn send_message(socket: i32, message: &[u8]) {
    const MSG_NOSIGNAL: usize = 0x4000;
    let args = [fd_arg(socket), message.as_ptr() as usize, message.len(), MSG_NOSIGNAL, 0, 0];
    // SAFETY: the address and the length of a live message.
    unsafe { syscall(number::SENDTO, args) };
}

/// Maps the whole content of a file into memory that is never released.
pub(super) fn map(fd: i32) -> Result<&'static [u8], Errno> {
    const SEEK_END: usize = 2;
    const PROT_READ: usize = 1;
    const MAP_PRIVATE: usize = 2;
    let length = syscall_with_numbers(number::LSEEK, [fd_arg(fd), 0, SEEK_END, 0, 0, 0])?;
    let at = syscall_with_numbers(number::MMAP, [0, length, PROT_READ, MAP_PRIVATE, fd_arg(fd), 0])?;
    // SAFETY: a private mapping of `length` bytes that is never unmapped; the file is sealed against change.
    Ok(unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(at), length) })
}

/// Allocates zeroed memory for numbers that is never released.
pub(super) fn allocate_words(count: usize) -> Result<&'static mut [usize], Errno> {
    const PROT_READ_WRITE: usize = 3;
    const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
    let bytes = count.checked_mul(size_of::<usize>()).ok_or(EINVAL)?;
    let at = syscall_with_numbers(
        number::MMAP,
        [0, bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, fd_arg(-1), 0],
    )?;
    // SAFETY: a fresh mapping, zeroed and aligned to a page, that only the returned slice leads to.
    Ok(unsafe { core::slice::from_raw_parts_mut(core::ptr::with_exposed_provenance_mut(at), count) })
}

/// Opens `/dev/null` to replace the standard streams, so that only the command keeps its output open.
pub(super) fn open_null() -> Result<i32, Errno> {
    const O_RDWR: usize = 2;
    fd_from_result(checked_syscall!(
        number::OPENAT,
        [AT_FDCWD, text_arg(c"/dev/null"), O_RDWR | O_CLOEXEC, 0, 0, 0]
    )?)
}
