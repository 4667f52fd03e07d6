//! The program of the first process inside: its entry point, and functions that the compiler expects.
//!
//! The crate's build script builds it, static and at a fixed address, so that starting it is very cheap. From the build machine
//! it needs only a linker.

#![no_std]
#![no_main]

#[path = "mod.rs"]
mod init;
#[path = "../syscall.rs"]
#[expect(dead_code, unused_imports, reason = "the launcher uses the rest")]
mod syscall;
#[path = "../plan_format.rs"]
#[expect(dead_code, reason = "the launcher uses the rest")]
mod plan_format;

use core::arch::{asm, naked_asm};

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("xor ebp, ebp", "and rsp, -16", "call {begin}", "ud2", begin = sym begin)
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("mov x29, xzr", "mov x30, xzr", "bl {begin}", "brk 1", begin = sym begin)
}

extern "C" fn begin() -> ! {
    init::run()
}

/// Nothing here panics on purpose. On a panic the command has not been started, or ends with this process.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    syscall::exit(125)
}

/// Referenced by the precompiled `core`, but never called, because panics abort.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for both regions; the direction flag is clear in the calling convention.
    unsafe {
        asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") count => _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    for at in 0..count {
        // The empty instruction prevents the compiler from recognising a copy and calling this function for it.
        // SAFETY: the caller vouches for both regions.
        unsafe {
            to.add(at).write(from.add(at).read());
            asm!("", options(nostack));
        }
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if (to as usize) <= (from as usize) || (to as usize) >= (from as usize) + count {
        // SAFETY: copying forwards is correct here, because no source byte is overwritten before it is read.
        return unsafe { memcpy(to, from, count) };
    }
    for at in (0..count).rev() {
        // SAFETY: the caller vouches for both regions; backwards, because the end is overwritten last.
        unsafe {
            to.add(at).write(from.add(at).read());
            asm!("", options(nostack));
        }
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
    for at in 0..count {
        // SAFETY: the caller vouches for the region.
        unsafe {
            to.add(at).write(byte as u8);
            asm!("", options(nostack));
        }
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    for at in 0..count {
        // SAFETY: the caller vouches for both regions.
        let (a, b) = unsafe { (one.add(at).read(), other.add(at).read()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
        // SAFETY: the instruction is empty.
        unsafe { asm!("", options(nostack)) };
    }
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(one, other, count) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: the caller vouches for a zero byte at the end.
    while unsafe { text.add(length).read() } != 0 {
        length += 1;
        // SAFETY: the instruction is empty.
        unsafe { asm!("", options(nostack)) };
    }
    length
}
