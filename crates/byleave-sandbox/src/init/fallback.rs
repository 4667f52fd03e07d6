//! The first process on the weaker backends: in a sandbox that another program built, or without one.
//!
//! Without a process namespace nothing ends automatically with this process, so it must end all processes itself. It is outside
//! of the Landlock domain of the command, so that the command cannot signal it. It is inside a domain of its own, so that killing
//! every process it may signal kills only those that the command started.

use super::{
    GARBLED, InitCommand, InitError, LEASH, Never, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, PR_CAPBSET_DROP,
    PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_SECUREBITS, SECUREBITS, at, attend, become_command,
    end_namespace, harden, message, not_known, report, run_fault, start, syscalls,
};
use crate::plan_format::{
    InitProcessStep, PlanReader, REPORT_LISTENER, REPORT_NOT_STARTED, REPORT_READY, REQUEST_DESCRIPTORS,
};
use crate::syscall::{EINVAL, Errno, close, close_from, drop_capabilities, exit, prctl, set_blocked_signals};

const EPERM: Errno = Errno(1);
const PR_SET_CHILD_SUBREAPER: usize = 36;
/// A Landlock scope: signals reach only processes in the same domain or in one within it.
const SCOPE_SIGNAL: u64 = 2;
const ATTR_BYTES: usize = 24;
/// The Landlock right to link and to rename files between directories.
const REFER: u64 = 1 << 13;

/// Runs as the first process of a sandbox that another program built.
pub(super) fn run_inner(plan: &mut PlanReader<'_>, command: &InitCommand<'_>) -> Result<Never, InitError> {
    close_from(REQUEST_DESCRIPTORS, 0).map_err(at(InitProcessStep::Read))?;
    let mounts = syscalls::own_mounts().map_err(at(InitProcessStep::Start))?;
    harden(plan, capabilities_left, syscalls::filter)?;
    report([REPORT_READY, 0, 0, 0], 0);
    start(command, mounts, not_known)
}

/// Runs without its own sandbox.
pub(super) fn run_without_namespaces(
    plan: &mut PlanReader<'_>,
    command: &InitCommand<'_>,
) -> Result<Never, InitError> {
    let fault = at(InitProcessStep::Start);
    close_from(REQUEST_DESCRIPTORS, 0).map_err(at(InitProcessStep::Read))?;
    // Orphaned processes become children of this process.
    prctl(PR_SET_CHILD_SUBREAPER, [1, 0, 0, 0]).map_err(&fault)?;
    prctl(PR_SET_NO_NEW_PRIVS, [1, 0, 0, 0]).map_err(at(InitProcessStep::NoNewPrivileges))?;
    let apart = stand_apart(plan.clone())?;
    set_blocked_signals(u64::MAX).map_err(&fault)?;
    let children = syscalls::child_signals().map_err(&fault)?;
    let started = syscalls::fork().map_err(&fault)?;
    if started == 0 {
        if let Err(fault) = harden(plan, capabilities_left, supervised_filter) {
            run_fault(&fault);
        }
        let Err(errno) = become_command(command, None);
        report([REPORT_NOT_STARTED, 0, 0, errno.0.cast_unsigned()], 0);
        exit(127);
    }
    prctl(PR_SET_DUMPABLE, [0; 4]).map_err(at(InitProcessStep::Dumpable))?;
    attend(started, None, children, || end_all(apart), (apart, not_known))
}

/// Installs the filter, and passes the descriptor through which its calls are answered to the launcher.
fn supervised_filter(program: &[u8]) -> Result<(), Errno> {
    let listener = syscalls::supervised_filter(program)?;
    syscalls::send_with_descriptor(LEASH, &message([REPORT_LISTENER, 0, 0, 0], 0), listener);
    close(listener)
}

/// Enters a domain that confines signals, if this kernel supports it. Returns whether it does.
fn stand_apart(mut plan: PlanReader<'_>) -> Result<bool, InitError> {
    for _ in 0..plan.read_u32().ok_or(GARBLED)? {
        for _ in 0..3 {
            plan.read_number().ok_or(GARBLED)?;
        }
    }
    let [_size, _files, _net, scoped] =
        [plan.read_number(), plan.read_number(), plan.read_number(), plan.read_number()];
    let scoped = scoped.ok_or(GARBLED)?;
    if scoped & SCOPE_SIGNAL == 0 {
        return Ok(false);
    }
    let fault = at(InitProcessStep::Landlock);
    // Every domain refuses to move files between directories, unless it allows that.
    let ruleset = syscalls::landlock_ruleset(&[REFER, 0, scoped], ATTR_BYTES).map_err(&fault)?;
    syscalls::landlock_rule(ruleset, c"/", REFER).map_err(&fault)?;
    syscalls::landlock_enter(ruleset).map_err(&fault)?;
    Ok(true)
}

/// Kills all started processes, and waits until none is left. Returns how many there were.
fn end_all(apart: bool) -> u32 {
    // One signal reaches every process of the domain, and none of them can start another. With thousands of them, a signal before each wait
    // would take seconds.
    if apart {
        return end_namespace();
    }
    let mut ended = 0u32;
    loop {
        let killed = kill_children();
        // If nothing was killed, waiting could take forever.
        if killed.is_err() || !syscalls::wait_for_child() {
            return ended;
        }
        ended = ended.saturating_add(1);
    }
}

/// Kills the children. Their children become ours and are next.
fn kill_children() -> Result<(), Errno> {
    let mut room = [0u8; 4096];
    let listed = syscalls::read_file(c"/proc/thread-self/children", &mut room)?;
    // Every number is followed by a space, including the last. One without a space was cut off, and would be another number.
    for pid in listed.split_inclusive(|byte| *byte == b' ').filter(|pid| pid.last() == Some(&b' ')) {
        let digits = pid.iter().filter(|byte| byte.is_ascii_digit());
        let pid = digits.fold(0i32, |pid, digit| pid.wrapping_mul(10).wrapping_add(i32::from(digit - b'0')));
        // Never zero or less, which would mean a process group, or all processes.
        if pid > 1 {
            syscalls::kill(pid)?;
        }
    }
    Ok(())
}

/// Drops the remaining capabilities. A process that cannot change the bounding set cannot regain capabilities from it either,
/// because of `no_new_privs`.
fn capabilities_left() -> Result<(), Errno> {
    prctl(PR_CAP_AMBIENT, [PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0])?;
    let mut capability = 0;
    loop {
        match prctl(PR_CAPBSET_DROP, [capability, 0, 0, 0]) {
            Ok(_) => capability += 1,
            Err(EINVAL) if capability > 0 => break,
            Err(EPERM) => return drop_capabilities(),
            Err(errno) => return Err(errno),
        }
    }
    prctl(PR_SET_SECUREBITS, [SECUREBITS, 0, 0, 0])?;
    drop_capabilities()
}
