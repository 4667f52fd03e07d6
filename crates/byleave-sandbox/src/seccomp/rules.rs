//! The refused system calls as data: one line, one reason. Other calls are allowed, up to the newest call that was known when
//! this was written. Newer calls fail as if they did not exist.

use super::{Syscall, SyscallAction};

const EPERM: u16 = 1;
const ENOSYS: u16 = 38;
const EAFNOSUPPORT: u16 = 97;
const AF_UNIX: u32 = 1;
/// `MSG_FASTOPEN`.
const OPENS_FAST: u32 = 0x2000_0000;

/// `CLONE_NEW` user, mount, pid, network, ipc, uts, cgroup.
const NEW_NAMESPACES: u32 = 0x7e02_0000;
/// `TIOCSTI`, `TIOCLINUX`, `TIOCCONS`, `TIOCSETD`.
const TERMINAL_TRICKS: &[u32] = &[0x5412, 0x541c, 0x541d, 0x5423];
/// Linux, 32-bit Linux, each with and without `UNAME26`; without randomisation, for debuggers and benchmarks; queries.
const PERSONALITIES: &[u32] = &[0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, 0xffff_ffff];
/// `S_ISUID`, `S_ISGID`.
const SET_ID_MODES: u32 = 0o6000;
/// `O_CREAT`, `__O_TMPFILE`.
const MAKES_A_FILE: u32 = 0o20_000_100;

/// The newest known system call. The numbers are the same on every architecture from 424 on.
pub(super) const NEWEST_SYSCALL: u32 = 469;

/// Calls with the same action, and the reason.
pub(super) struct SyscallGroup {
    #[expect(dead_code, reason = "for people who read this table")]
    pub(super) reason: &'static str,
    pub(super) action: SyscallAction,
    pub(super) calls: &'static [Syscall],
}

const fn call(name: &'static str, x86_64: u32, aarch64: u32) -> Syscall {
    Syscall { name, x86_64: Some(x86_64), aarch64: Some(aarch64) }
}

/// Describes a call that only x86_64 has.
const fn x86(name: &'static str, number: u32) -> Syscall {
    Syscall { name, x86_64: Some(number), aarch64: None }
}

pub(super) const GROUPS: &[SyscallGroup] = &[
    SyscallGroup {
        reason: "only the launcher may mount",
        action: SyscallAction::Refuse(EPERM),
        calls: &[
            call("mount", 165, 40),
            call("umount2", 166, 39),
            call("pivot_root", 155, 41),
            call("open_tree", 428, 428),
            call("open_tree_attr", 467, 467),
            call("move_mount", 429, 429),
            call("fsopen", 430, 430),
            call("fsconfig", 431, 431),
            call("fsmount", 432, 432),
            call("fspick", 433, 433),
            call("mount_setattr", 442, 442),
            call("chroot", 161, 51),
        ],
    },
    SyscallGroup {
        reason: "a new namespace could bypass this one",
        action: SyscallAction::Refuse(EPERM),
        calls: &[call("setns", 308, 268), call("unshare", 272, 97)],
    },
    SyscallGroup {
        reason: "opening a file by its handle bypasses all path masks",
        action: SyscallAction::Refuse(EPERM),
        calls: &[call("name_to_handle_at", 303, 264), call("open_by_handle_at", 304, 265)],
    },
    SyscallGroup {
        reason: "the memory and descriptors of other processes",
        action: SyscallAction::Refuse(EPERM),
        calls: &[
            call("ptrace", 101, 117),
            call("process_vm_readv", 310, 270),
            call("process_vm_writev", 311, 271),
            call("process_madvise", 440, 440),
            call("pidfd_getfd", 438, 438),
            call("kcmp", 312, 272),
        ],
    },
    SyscallGroup {
        reason: "keyrings are not confined by any namespace",
        action: SyscallAction::Refuse(EPERM),
        calls: &[call("add_key", 248, 217), call("request_key", 249, 218), call("keyctl", 250, 219)],
    },
    SyscallGroup {
        reason: "code in the kernel",
        action: SyscallAction::Refuse(EPERM),
        calls: &[
            call("bpf", 321, 280),
            call("init_module", 175, 105),
            call("finit_module", 313, 273),
            call("delete_module", 176, 106),
            call("kexec_load", 246, 104),
            call("kexec_file_load", 320, 294),
        ],
    },
    SyscallGroup {
        reason: "kernel interfaces with a long history of vulnerabilities, which no build needs",
        action: SyscallAction::Refuse(EPERM),
        calls: &[
            call("perf_event_open", 298, 241),
            call("userfaultfd", 323, 282),
            call("fanotify_init", 300, 262),
            call("fanotify_mark", 301, 263),
            call("move_pages", 279, 239),
            call("migrate_pages", 256, 238),
            call("mbind", 237, 235),
            call("set_mempolicy", 238, 237),
            x86("modify_ldt", 154),
        ],
    },
    SyscallGroup {
        reason: "the machine itself",
        action: SyscallAction::Refuse(EPERM),
        calls: &[
            call("reboot", 169, 142),
            call("swapon", 167, 224),
            call("swapoff", 168, 225),
            call("acct", 163, 89),
            call("syslog", 103, 116),
            call("vhangup", 153, 58),
            call("settimeofday", 164, 170),
            call("clock_settime", 227, 112),
            call("clock_adjtime", 305, 266),
            call("adjtimex", 159, 171),
            call("sethostname", 170, 161),
            call("setdomainname", 171, 162),
            x86("iopl", 172),
            x86("ioperm", 173),
            call("quotactl", 179, 60),
            call("quotactl_fd", 443, 443),
            call("file_setattr", 469, 469),
        ],
    },
    SyscallGroup {
        reason: "obsolete, or used only by old C libraries",
        action: SyscallAction::Refuse(EPERM),
        calls: &[
            call("nfsservctl", 180, 42),
            call("lookup_dcookie", 212, 18),
            x86("uselib", 134),
            x86("ustat", 136),
            x86("sysfs", 139),
            x86("_sysctl", 156),
        ],
    },
    SyscallGroup {
        reason: "performs operations that a filter cannot see",
        action: SyscallAction::Refuse(ENOSYS),
        calls: &[
            call("io_uring_setup", 425, 425),
            call("io_uring_enter", 426, 426),
            call("io_uring_register", 427, 427),
        ],
    },
    SyscallGroup {
        reason: "takes its flags by reference, which a filter cannot read; programs fall back to `clone`",
        action: SyscallAction::Refuse(ENOSYS),
        calls: &[call("clone3", 435, 435)],
    },
    SyscallGroup {
        reason: "takes its mode by reference, which a filter cannot read; programs fall back to `openat`",
        action: SyscallAction::Refuse(ENOSYS),
        calls: &[call("openat2", 437, 437)],
    },
    SyscallGroup {
        reason: "namespaces through the old system call",
        action: SyscallAction::RefuseBits { argument: 0, bits: NEW_NAMESPACES, errno: EPERM },
        calls: &[call("clone", 56, 220)],
    },
    SyscallGroup {
        reason: "typing into a terminal, and taking over the console",
        action: SyscallAction::RefuseValues { argument: 1, values: TERMINAL_TRICKS, errno: EPERM },
        calls: &[call("ioctl", 16, 29)],
    },
    SyscallGroup {
        reason: "the limits of other processes, of the first one inside above all, which has the same user",
        action: SyscallAction::AllowValues { argument: 0, values: &[0], errno: EPERM },
        calls: &[call("prlimit64", 302, 261)],
    },
    SyscallGroup {
        reason: "other personalities weaken the layout of memory",
        action: SyscallAction::AllowValues { argument: 0, values: PERSONALITIES, errno: EPERM },
        calls: &[call("personality", 135, 92)],
    },
    SyscallGroup {
        reason: "socket families that a network namespace does not confine, or that no program needs",
        action: SyscallAction::Families { errno: EAFNOSUPPORT },
        calls: &[call("socket", 41, 198)],
    },
    SyscallGroup {
        reason: "pairs of local sockets and nothing else",
        action: SyscallAction::AllowValues { argument: 0, values: &[AF_UNIX], errno: EAFNOSUPPORT },
        calls: &[call("socketpair", 53, 199)],
    },
    SyscallGroup {
        reason: "a file that runs as its owner outlives the sandbox",
        action: SyscallAction::RefuseBits { argument: 1, bits: SET_ID_MODES, errno: EPERM },
        calls: &[
            x86("chmod", 90),
            call("fchmod", 91, 52),
            x86("creat", 85),
            x86("mkdir", 83),
            x86("mknod", 133),
        ],
    },
    SyscallGroup {
        reason: "the same, where the mode is the third argument",
        action: SyscallAction::RefuseBits { argument: 2, bits: SET_ID_MODES, errno: EPERM },
        calls: &[
            call("fchmodat", 268, 53),
            call("fchmodat2", 452, 452),
            call("mkdirat", 258, 34),
            call("mknodat", 259, 33),
        ],
    },
    SyscallGroup {
        reason: "the same, for a file that is made by opening it",
        action: SyscallAction::RefuseBitsWith {
            argument: 2,
            bits: SET_ID_MODES,
            with: 1,
            with_bits: MAKES_A_FILE,
            errno: EPERM,
        },
        calls: &[x86("open", 2)],
    },
    SyscallGroup {
        reason: "the same, for a file that is made by opening it in a directory",
        action: SyscallAction::RefuseBitsWith {
            argument: 3,
            bits: SET_ID_MODES,
            with: 2,
            with_bits: MAKES_A_FILE,
            errno: EPERM,
        },
        calls: &[call("openat", 257, 56)],
    },
];

/// Calls that the first process of a command in a session needs until the command begins: a new process namespace, and mounting
/// its `/proc`.
pub(super) const NEEDED_BEFORE_START: &[Syscall] = &[
    call("move_mount", 429, 429),
    call("fsopen", 430, 430),
    call("fsconfig", 431, 431),
    call("fsmount", 432, 432),
    call("clone3", 435, 435),
    call("openat2", 437, 437),
];

/// Typing into a terminal as above, and what changes a file through a descriptor that may only read it: its flags
/// (`FS_IOC_SETFLAGS`, `FS_IOC32_SETFLAGS`, `FS_IOC_FSSETXATTR`, `FS_IOC_SETVERSION`, `FS_IOC_SET_ENCRYPTION_POLICY`, `FS_IOC_ENABLE_VERITY`),
/// and the subvolumes of btrfs (`SNAP_CREATE`, `SUBVOL_CREATE`, `SNAP_DESTROY`, each with its second version, `SUBVOL_SETFLAGS`).
const UNCONFINED_CHANGES: &[u32] = &[
    0x5412,
    0x541c,
    0x541d,
    0x5423,
    0x4008_6602,
    0x4004_6602,
    0x401c_5820,
    0x4008_7602,
    0x800c_6613,
    0x4080_6685,
    0x5000_9401,
    0x5000_940e,
    0x5000_940f,
    0x5000_9417,
    0x5000_9418,
    0x5000_943f,
    0x4008_941a,
];

/// Further refusals without namespaces: calls that would reach the network, sockets and shared memory of other processes.
pub(super) const WITHOUT_NAMESPACES: &[SyscallGroup] = &[
    SyscallGroup {
        reason: "Landlock confines no changes of modes, owners, times and attributes; the supervisor performs them beneath the writable \
                 paths",
        action: SyscallAction::Supervise,
        calls: &[
            x86("chmod", 90),
            call("fchmod", 91, 52),
            call("fchmodat", 268, 53),
            call("fchmodat2", 452, 452),
            x86("chown", 92),
            call("fchown", 93, 55),
            x86("lchown", 94),
            call("fchownat", 260, 54),
            x86("utime", 132),
            x86("utimes", 235),
            x86("futimesat", 261),
            call("utimensat", 280, 88),
            call("setxattr", 188, 5),
            call("lsetxattr", 189, 6),
            call("fsetxattr", 190, 7),
            call("removexattr", 197, 14),
            call("lremovexattr", 198, 15),
            call("fremovexattr", 199, 16),
        ],
    },
    SyscallGroup {
        reason: "the same; programs fall back to the older calls",
        action: SyscallAction::Refuse(ENOSYS),
        calls: &[call("setxattrat", 463, 463), call("removexattrat", 466, 466)],
    },
    SyscallGroup {
        reason: "Landlock confines no other calls of `ioctl` on files, and these change them",
        action: SyscallAction::RefuseValues { argument: 1, values: UNCONFINED_CHANGES, errno: EPERM },
        calls: &[call("ioctl", 16, 29)],
    },
    SyscallGroup {
        reason: "any socket could reach another process: there is no network namespace, and a local socket is opened by its path",
        action: SyscallAction::Refuse(EAFNOSUPPORT),
        calls: &[call("socket", 41, 198)],
    },
    SyscallGroup {
        reason: "a datagram socket of a pair can be connected to any other local socket by its path",
        action: SyscallAction::BoundPairs { errno: EAFNOSUPPORT },
        calls: &[call("socketpair", 53, 199)],
    },
    SyscallGroup {
        reason: "how other processes of the user are scheduled, which has no wall but a process namespace; a thread changes its own",
        action: SyscallAction::AllowValues { argument: 0, values: &[0], errno: EPERM },
        calls: &[
            call("sched_setaffinity", 203, 122),
            call("sched_setscheduler", 144, 119),
            call("sched_setparam", 142, 118),
            call("sched_setattr", 314, 274),
        ],
    },
    SyscallGroup {
        reason: "the same; `who` is the second argument",
        action: SyscallAction::AllowValues { argument: 1, values: &[0], errno: EPERM },
        calls: &[call("setpriority", 141, 140), call("ioprio_set", 251, 30)],
    },
    SyscallGroup {
        reason: "shared memory, semaphores and queues are shared by all users",
        action: SyscallAction::Refuse(ENOSYS),
        calls: &[
            call("shmget", 29, 194),
            call("shmat", 30, 196),
            call("shmctl", 31, 195),
            call("semget", 64, 190),
            call("semop", 65, 193),
            call("semctl", 66, 191),
            call("semtimedop", 220, 192),
            call("msgget", 68, 186),
            call("msgsnd", 69, 189),
            call("msgrcv", 70, 188),
            call("msgctl", 71, 187),
            call("mq_open", 240, 180),
            call("mq_unlink", 241, 181),
        ],
    },
];

/// What replaces or adds to these refusals for a command that may use TCP on the ports that Landlock allows.
pub(super) const WITH_TCP: &[SyscallGroup] = &[
    SyscallGroup {
        reason: "Landlock confines TCP, and no other protocol",
        action: SyscallAction::TcpSockets { errno: EAFNOSUPPORT },
        calls: &[call("socket", 41, 198)],
    },
    SyscallGroup {
        reason: "a connection that is opened by sending, which Landlock does not see",
        action: SyscallAction::RefuseBits { argument: 3, bits: OPENS_FAST, errno: EPERM },
        calls: &[call("sendto", 44, 206), call("sendmmsg", 307, 269)],
    },
    SyscallGroup {
        reason: "the same, where the flags are the third argument",
        action: SyscallAction::RefuseBits { argument: 2, bits: OPENS_FAST, errno: EPERM },
        calls: &[call("sendmsg", 46, 211)],
    },
];
