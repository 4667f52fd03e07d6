//! aarch64: the instruction, the numbers, and the flags that differ between architectures. Run on an
//! emulated machine only (`packaging/emulate`).

use core::arch::asm;

pub(crate) const O_NOFOLLOW: usize = 0o100_000;

/// Makes one system call.
///
/// # Safety
/// The arguments are valid for this call: every address is valid for what the kernel does with it.
pub(crate) unsafe fn syscall(nr: usize, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    let returned: isize;
    // SAFETY: the convention of the kernel, which overwrites x0 alone. The caller vouches for the arguments.
    unsafe {
        asm!("svc 0", in("x8") nr, inlateout("x0") a as isize => returned, in("x1") b, in("x2") c, in("x3") d,
            in("x4") e, in("x5") f, options(nostack));
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
        asm!("svc 0", "cbnz x0, 2f", "mov x29, xzr", "mov x0, x21", "blr x20", "brk 1", "2:",
            in("x8") nr, inlateout("x0") first as isize => returned, in("x1") second,
            in("x20") child, in("x21") arg, lateout("x30") _);
    }
    returned
}

/// System call numbers below 424, which differ between architectures.
pub(crate) mod number {
    pub(crate) const READ: usize = 63;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const LSEEK: usize = 62;
    pub(crate) const MMAP: usize = 222;
    pub(crate) const RT_SIGACTION: usize = 134;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const IOCTL: usize = 29;
    pub(crate) const SOCKET: usize = 198;
    pub(crate) const BIND: usize = 200;
    pub(crate) const LISTEN: usize = 201;
    pub(crate) const SENDTO: usize = 206;
    pub(crate) const SENDMSG: usize = 211;
    pub(crate) const RECVMSG: usize = 212;
    pub(crate) const CLONE: usize = 220;
    pub(crate) const EXECVE: usize = 221;
    pub(crate) const KILL: usize = 129;
    pub(crate) const WAIT4: usize = 260;
    pub(crate) const CHDIR: usize = 49;
    pub(crate) const SETSID: usize = 157;
    pub(crate) const SETRESUID: usize = 147;
    pub(crate) const SETRESGID: usize = 149;
    pub(crate) const SETGROUPS: usize = 159;
    pub(crate) const CAPGET: usize = 90;
    pub(crate) const CAPSET: usize = 91;
    pub(crate) const SCHED_SETSCHEDULER: usize = 119;
    pub(crate) const PRCTL: usize = 167;
    pub(crate) const SETHOSTNAME: usize = 161;
    pub(crate) const EXIT_GROUP: usize = 94;
    pub(crate) const WAITID: usize = 95;
    pub(crate) const OPENAT: usize = 56;
    pub(crate) const MKDIRAT: usize = 34;
    pub(crate) const SYMLINKAT: usize = 36;
    pub(crate) const PPOLL: usize = 73;
    pub(crate) const UNSHARE: usize = 97;
    pub(crate) const SIGNALFD4: usize = 74;
    pub(crate) const DUP3: usize = 24;
    pub(crate) const PRLIMIT64: usize = 261;
    pub(crate) const SECCOMP: usize = 277;
    pub(crate) const EXECVEAT: usize = 281;
}
