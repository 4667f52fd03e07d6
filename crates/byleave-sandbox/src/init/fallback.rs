//! The first process on the lower rungs: in a place that another program made, or in none at all.
//!
//! Without a namespace of processes nothing ends with this one by itself, so it must end everything itself: it stands outside the
//! lock that the command is behind, where the command cannot signal it, and inside one of its own, so that killing everybody whom
//! it may kill is killing what the command started, and nobody else.

use super::{
    GARBLED, InitCommand, InitError, Never, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, PR_CAPBSET_DROP,
    PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_SECUREBITS, SECUREBITS, at, attend, become_command, harden,
    not_known, report, run_fault, start, syscalls,
};
use crate::plan_format::{InitProcessStep, PlanReader, REPORT_NOT_STARTED, REPORT_READY, REQUESTED};
use crate::syscall::{EINVAL, Errno, close_from, drop_capabilities, exit, prctl, signals_blocked};

const EPERM: Errno = Errno(1);
const PR_SET_CHILD_SUBREAPER: usize = 36;
/// In Landlock's scopes: signals go to those behind the same lock, or behind one within it.
const SCOPE_SIGNAL: u64 = 2;
const ATTR_BYTES: usize = 24;

/// In a place that another program made, as its first process.
pub(super) fn inner(plan: &mut PlanReader<'_>, command: &InitCommand<'_>) -> Result<Never, InitError> {
    close_from(REQUESTED, 0).map_err(at(InitProcessStep::Read))?;
    let mounts = syscalls::own_mounts().map_err(at(InitProcessStep::Start))?;
    harden(plan, capabilities_left)?;
    report([REPORT_READY, 0, 0, 0], 0);
    start(command, mounts, not_known)
}

/// In no place of its own.
pub(super) fn alone(plan: &mut PlanReader<'_>, command: &InitCommand<'_>) -> Result<Never, InitError> {
    let fault = at(InitProcessStep::Start);
    close_from(REQUESTED, 0).map_err(at(InitProcessStep::Read))?;
    // What loses its parent becomes a child of this process.
    prctl(PR_SET_CHILD_SUBREAPER, [1, 0, 0, 0]).map_err(&fault)?;
    prctl(PR_SET_NO_NEW_PRIVS, [1, 0, 0, 0]).map_err(at(InitProcessStep::NoNewPrivileges))?;
    let apart = stand_apart(plan.clone())?;
    signals_blocked(u64::MAX).map_err(&fault)?;
    let children = syscalls::child_signals().map_err(&fault)?;
    let started = syscalls::fork().map_err(&fault)?;
    if started == 0 {
        if let Err(fault) = harden(plan, capabilities_left) {
            run_fault(&fault);
        }
        let Err(errno) = become_command(command, None);
        report([REPORT_NOT_STARTED, 0, 0, errno.0.cast_unsigned()], 0);
        exit(127);
    }
    prctl(PR_SET_DUMPABLE, [0; 4]).map_err(at(InitProcessStep::Dumpable))?;
    attend(started, None, children, || end_all(apart), not_known)
}

/// Goes behind a lock that keeps signals within, if this kernel has it; whether it has.
fn stand_apart(mut plan: PlanReader<'_>) -> Result<bool, InitError> {
    for _ in 0..plan.small().ok_or(GARBLED)? {
        for _ in 0..3 {
            plan.number().ok_or(GARBLED)?;
        }
    }
    let [_size, _files, _net, scoped] = [plan.number(), plan.number(), plan.number(), plan.number()];
    let scoped = scoped.ok_or(GARBLED)?;
    if scoped & SCOPE_SIGNAL == 0 {
        return Ok(false);
    }
    let fault = at(InitProcessStep::Landlock);
    let ruleset = syscalls::landlock_ruleset(&[0, 0, scoped], ATTR_BYTES).map_err(&fault)?;
    syscalls::landlock_enter(ruleset).map_err(&fault)?;
    Ok(true)
}

/// Kills everything that was started, and waits until nothing of it is left; how many processes that were.
fn end_all(apart: bool) -> u32 {
    let mut ended = 0u32;
    loop {
        let killed = match apart {
            true => match syscalls::kill(-1) {
                // There is nobody left.
                Ok(()) | Err(Errno(3)) => Ok(()),
                refused => refused,
            },
            false => kill_children(),
        };
        // With nobody killed, waiting could take for ever.
        if killed.is_err() || !syscalls::wait_for_a_child() {
            return ended;
        }
        ended = ended.saturating_add(1);
    }
}

/// Kills the children; theirs become ours, and their turn comes next.
fn kill_children() -> Result<(), Errno> {
    let mut room = [0u8; 4096];
    let listed = syscalls::read_file(c"/proc/thread-self/children", &mut room)?;
    // A space after each, also after the last: what has none was cut off, and is another number.
    for pid in listed.split_inclusive(|byte| *byte == b' ').filter(|pid| pid.last() == Some(&b' ')) {
        let digits = pid.iter().filter(|byte| byte.is_ascii_digit());
        let pid = digits.fold(0i32, |pid, digit| pid.wrapping_mul(10).wrapping_add(i32::from(digit - b'0')));
        // Never zero or less, which would mean a group of processes, or all.
        if pid > 1 {
            syscalls::kill(pid)?;
        }
    }
    Ok(())
}

/// Gives up what is left. Who has no power over the bounding set has nothing in it either that could come back: there will be no
/// new privileges.
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
