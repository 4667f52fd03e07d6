//! The first process of a session: keeps the place, and starts a first process of its own for every command in it.
//!
//! It keeps its powers, which a new namespace of processes takes, so it must never be seen by a command: each has a namespace of
//! processes beneath this one, from which there is no way up.

use super::{
    GARBLED, InitCommand, InitError, LEASH, Never, PLAN, PR_SET_DUMPABLE, at, capabilities, harden, live,
    message, not_known, report, run_fault, start, syscalls,
};
use crate::plan_format::{
    InitProcessStep, MountAccess, OnMissing, PlanReader, REPORT_FAULT, REPORT_READY, REQUESTED,
};
use crate::syscall::{CLOEXEC, Errno, SchedPriority, close, close_from, dup3, exit, prctl, schedule};

/// Where a session that keeps processes ready is told to make another.
const ORDERS: i32 = 0;

/// Starts what is asked for until nobody is left to ask.
pub(super) fn serve() -> Result<Never, InitError> {
    let fault = at(InitProcessStep::Start);
    settle().map_err(&fault)?;
    report([REPORT_READY, 0, 0, 0], 0);
    loop {
        let Some((requested, group)) = syscalls::receive(LEASH).and_then(requested) else { exit(0) };
        match syscalls::fork_apart(group) {
            Ok((0, _)) => take_over(requested),
            Ok((_, process)) => {
                syscalls::tell_with(LEASH, &message([REPORT_READY, 0, 0, 0], 0), process);
                close(process).map_err(&fault)?;
            }
            Err(errno) => {
                report([REPORT_FAULT, InitProcessStep::Start as u32, 0, errno.0.cast_unsigned()], 0);
            }
        }
        for descriptor in requested.into_iter().chain(group) {
            close(descriptor).map_err(&fault)?;
        }
    }
}

/// What a request has to bring, and the cgroup that it may.
fn requested(received: syscalls::DescriptorMessage) -> Option<([i32; REQUESTED], Option<i32>)> {
    let [a, b, c, d, e, group] = received.descriptors;
    let group = match received.count {
        REQUESTED => None,
        count if count == REQUESTED + 1 => Some(group),
        _ => return None,
    };
    Some(([a, b, c, d, e], group))
}

/// Becomes the first process of a command, as if begun with these descriptors.
fn take_over(requested: [i32; REQUESTED]) -> ! {
    for (place, descriptor) in (0i32..).zip(requested) {
        if dup3(descriptor, place, 0).is_err() {
            exit(125);
        }
    }
    if close_from(REQUESTED, 0).is_err() || syscalls::heed_children().is_err() {
        exit(125);
    }
    let Err(fault) = live();
    run_fault(&fault)
}

fn settle() -> Result<(), Errno> {
    prctl(PR_SET_DUMPABLE, [0; 4])?;
    // Who ends is not waited for.
    syscalls::ignore_children()?;
    let null = syscalls::null()?;
    // Every low number is taken, so that what comes with a request is above the places where it goes.
    for low in (0..LEASH).filter(|low| *low != null && *low != ORDERS) {
        dup3(null, low, 0)?;
    }
    Ok(())
}

/// Makes first processes of commands as they are ordered, each in the cgroup that comes along; they take requests by themselves.
/// Until nobody is left to order.
pub(super) fn park(plan: &PlanReader<'static>) -> Result<Never, InitError> {
    let fault = at(InitProcessStep::Start);
    settle().map_err(&fault)?;
    // A command has just begun when the next one's process is ordered, and must not wait for it.
    schedule(SchedPriority::Patient).map_err(&fault)?;
    report([REPORT_READY, 0, 0, 0], 0);
    loop {
        let Some(order) = syscalls::receive(ORDERS).filter(|order| order.count <= 1) else { exit(0) };
        let group = order.descriptors.into_iter().take(order.count).next();
        match syscalls::fork_apart(group).map_err(&fault)? {
            (0, _) => {
                let Err(fault) = wait_parked(plan.clone(), order.number);
                run_fault(&fault);
            }
            (_, process) => close(process).map_err(&fault)?,
        }
        if let Some(group) = group {
            close(group).map_err(&fault)?;
        }
    }
}

/// Does everything that needs no command, and waits for one; says by which number it was ordered.
fn wait_parked(mut plan: PlanReader<'static>, number: u64) -> Result<Never, InitError> {
    let fault = at(InitProcessStep::Start);
    syscalls::heed_children().map_err(&fault)?;
    let terminals = syscalls::terminals().map_err(at(InitProcessStep::Mount))?;
    syscalls::attach(terminals, c"/dev/pts", OnMissing::Fault).map_err(at(InitProcessStep::Mount))?;
    let processes =
        syscalls::new_mount(c"proc", &[], MountAccess::Write).map_err(at(InitProcessStep::Mount))?;
    syscalls::attach(processes, c"/proc", OnMissing::Fault).map_err(at(InitProcessStep::Mount))?;
    let mounts = syscalls::own_mounts().map_err(&fault)?;
    InitCommand::read(&mut plan).ok_or(GARBLED)?;
    harden(&mut plan, capabilities)?;
    let own = syscalls::own_descriptor().map_err(&fault)?;
    schedule(SchedPriority::Usual).map_err(&fault)?;
    let Some((requested, None)) = syscalls::receive(LEASH).and_then(requested) else { exit(0) };
    syscalls::tell_with(LEASH, &message([REPORT_READY, 0, 0, 0], number), own);
    // From here on the leash is the command's, and the session's is gone.
    for (place, descriptor) in (0i32..).zip(requested) {
        dup3(descriptor, place, 0).map_err(&fault)?;
    }
    let kept = LEASH + 1;
    if mounts != kept {
        dup3(mounts, kept, CLOEXEC).map_err(&fault)?;
    }
    close_from(REQUESTED + 1, 0).map_err(&fault)?;
    let mut plan = PlanReader::new(syscalls::map(PLAN).map_err(at(InitProcessStep::Read))?);
    close(PLAN).map_err(at(InitProcessStep::Read))?;
    let command = command_of(&mut plan).ok_or(GARBLED)?;
    start(&command, kept, not_known)
}

/// The command in a plan whose other parts have been done.
fn command_of(plan: &mut PlanReader<'static>) -> Option<InitCommand<'static>> {
    plan.part()?;
    plan.number()?;
    plan.bytes()?;
    for _ in 0..2 {
        plan.number()?;
    }
    for _ in 0..plan.small()? {
        plan.op()?;
    }
    InitCommand::read(plan)
}
