//! x86_64: the instruction, the numbers, and the flags that differ between architectures.

use core::arch::asm;

pub(crate) const O_NOFOLLOW: usize = 0o400_000;

/// Makes one system call.
///
/// # Safety
/// The arguments are valid for this call: every address is valid for what the kernel does with it.
pub(crate) unsafe fn syscall(nr: usize, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    let returned: isize;
    // SAFETY: the convention of the kernel; rcx and r11 are what it overwrites. The caller vouches for the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") nr as isize => returned, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    returned
}

/// Calls `clone3`, or `clone` with no flags that take further arguments. The child runs `child(arg)` on its own stack. Only the
/// parent returns.
///
/// # Safety
/// The two arguments are valid for this call, and name a stack that nothing else uses until the child has execed or ended.
/// `child` is sound with `arg` in a child that may share the parent's memory.
pub(crate) unsafe fn clone_and_run(
    nr: usize,
    [first, second]: [usize; 2],
    child: extern "C" fn(*mut u8) -> !,
    arg: *mut u8,
) -> isize {
    let returned: isize;
    // SAFETY: the child leaves this frame at once, by a call on its own stack that never returns.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r13", "and rsp, -16", "call r12", "ud2", "2:",
            inlateout("rax") nr as isize => returned, in("rdi") first, in("rsi") second,
            in("r12") child, in("r13") arg, lateout("rcx") _, lateout("r11") _);
    }
    returned
}

/// System call numbers below 424, which differ between architectures.
pub(crate) mod number {
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const LSEEK: usize = 8;
    pub(crate) const MMAP: usize = 9;
    pub(crate) const RT_SIGACTION: usize = 13;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const IOCTL: usize = 16;
    pub(crate) const SOCKET: usize = 41;
    pub(crate) const BIND: usize = 49;
    pub(crate) const LISTEN: usize = 50;
    pub(crate) const SENDTO: usize = 44;
    pub(crate) const SENDMSG: usize = 46;
    pub(crate) const RECVMSG: usize = 47;
    pub(crate) const CLONE: usize = 56;
    pub(crate) const EXECVE: usize = 59;
    pub(crate) const KILL: usize = 62;
    pub(crate) const WAIT4: usize = 61;
    pub(crate) const CHDIR: usize = 80;
    pub(crate) const SETSID: usize = 112;
    pub(crate) const SETRESUID: usize = 117;
    pub(crate) const SETRESGID: usize = 119;
    pub(crate) const SETGROUPS: usize = 116;
    pub(crate) const CAPGET: usize = 125;
    pub(crate) const CAPSET: usize = 126;
    pub(crate) const SCHED_SETSCHEDULER: usize = 144;
    pub(crate) const PRCTL: usize = 157;
    pub(crate) const SETHOSTNAME: usize = 170;
    pub(crate) const EXIT_GROUP: usize = 231;
    pub(crate) const WAITID: usize = 247;
    pub(crate) const OPENAT: usize = 257;
    pub(crate) const MKDIRAT: usize = 258;
    pub(crate) const SYMLINKAT: usize = 266;
    pub(crate) const PPOLL: usize = 271;
    pub(crate) const UNSHARE: usize = 272;
    pub(crate) const SIGNALFD4: usize = 289;
    pub(crate) const DUP3: usize = 292;
    pub(crate) const PRLIMIT64: usize = 302;
    pub(crate) const SECCOMP: usize = 317;
    pub(crate) const EXECVEAT: usize = 322;
}
