//! The first process of a session: keeps the sandbox, and starts a first process for every command in it.
//!
//! It keeps the capabilities for new process namespaces, so a command must never see it. Each command has a process namespace
//! beneath this one, from which there is no way up.

use super::{
    GARBLED, InitCommand, InitError, LEASH, Never, PLAN, PR_SET_DUMPABLE, at, capabilities, harden, live,
    message, not_known, report, run_fault, start, syscalls,
};
use crate::plan_format::{
    InitProcessStep, MountAccess, OnMissing, PlanReader, REPORT_FAULT, REPORT_READY, REQUEST_DESCRIPTORS,
};
use crate::syscall::{
    CLOEXEC, Errno, SchedPriority, close, close_from, dup3, exit, prctl, set_sched_priority,
};

/// The descriptor for orders to prepare another process.
const ORDERS: i32 = 0;

/// Starts requested commands until the launcher has gone.
pub(super) fn serve() -> Result<Never, InitError> {
    let fault = at(InitProcessStep::Start);
    settle().map_err(&fault)?;
    report([REPORT_READY, 0, 0, 0], 0);
    loop {
        let Some((requested, group)) = syscalls::receive(LEASH).and_then(requested) else { exit(0) };
        match syscalls::fork_in_namespaces(group) {
            Ok((0, _)) => take_over(requested),
            Ok((_, process)) => {
                syscalls::send_with_descriptor(LEASH, &message([REPORT_READY, 0, 0, 0], 0), process);
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

/// Checks the descriptors of a request: the required ones, and an optional cgroup.
fn requested(received: syscalls::DescriptorMessage) -> Option<([i32; REQUEST_DESCRIPTORS], Option<i32>)> {
    let [a, b, c, d, e, group] = received.descriptors;
    let group = match received.count {
        REQUEST_DESCRIPTORS => None,
        count if count == REQUEST_DESCRIPTORS + 1 => Some(group),
        _ => return None,
    };
    Some(([a, b, c, d, e], group))
}

/// Becomes the first process of a command, as if started with these descriptors.
fn take_over(requested: [i32; REQUEST_DESCRIPTORS]) -> ! {
    for (place, descriptor) in (0i32..).zip(requested) {
        if dup3(descriptor, place, 0).is_err() {
            exit(125);
        }
    }
    if close_from(REQUEST_DESCRIPTORS, 0).is_err() || syscalls::reset_sigchld().is_err() {
        exit(125);
    }
    let Err(fault) = live();
    run_fault(&fault)
}

fn settle() -> Result<(), Errno> {
    prctl(PR_SET_DUMPABLE, [0; 4])?;
    // Ended children are not waited for.
    syscalls::ignore_children()?;
    let null = syscalls::open_null()?;
    // Occupies every low number, so that descriptors of a request are above their final places.
    for low in (0..LEASH).filter(|low| *low != null && *low != ORDERS) {
        dup3(null, low, 0)?;
    }
    Ok(())
}

/// Creates first processes of commands as they are ordered, each in the attached cgroup, until the launcher has gone. They take
/// requests by themselves.
pub(super) fn park(plan: &PlanReader<'static>) -> Result<Never, InitError> {
    let fault = at(InitProcessStep::Start);
    settle().map_err(&fault)?;
    // The order comes when a command has just begun, which must not be delayed by it.
    set_sched_priority(SchedPriority::Idle).map_err(&fault)?;
    report([REPORT_READY, 0, 0, 0], 0);
    loop {
        let Some(order) = syscalls::receive(ORDERS).filter(|order| order.count <= 1) else { exit(0) };
        let group = order.descriptors.into_iter().take(order.count).next();
        match syscalls::fork_in_namespaces(group).map_err(&fault)? {
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

/// Does all steps that need no command, and waits for one. Then reports the number of its order.
fn wait_parked(mut plan: PlanReader<'static>, number: u64) -> Result<Never, InitError> {
    let fault = at(InitProcessStep::Start);
    syscalls::reset_sigchld().map_err(&fault)?;
    let terminals = syscalls::mount_devpts().map_err(at(InitProcessStep::Mount))?;
    syscalls::attach(terminals, c"/dev/pts", OnMissing::Fault).map_err(at(InitProcessStep::Mount))?;
    let processes =
        syscalls::new_mount(c"proc", &[], MountAccess::Write).map_err(at(InitProcessStep::Mount))?;
    syscalls::attach(processes, c"/proc", OnMissing::Fault).map_err(at(InitProcessStep::Mount))?;
    let mounts = syscalls::own_mounts().map_err(&fault)?;
    InitCommand::read(&mut plan).ok_or(GARBLED)?;
    harden(&mut plan, capabilities, syscalls::filter)?;
    let own = syscalls::own_descriptor().map_err(&fault)?;
    set_sched_priority(SchedPriority::Normal).map_err(&fault)?;
    let Some((requested, None)) = syscalls::receive(LEASH).and_then(requested) else { exit(0) };
    syscalls::send_with_descriptor(LEASH, &message([REPORT_READY, 0, 0, 0], number), own);
    // From here on the control socket is the command's, and that of the session is closed.
    for (place, descriptor) in (0i32..).zip(requested) {
        dup3(descriptor, place, 0).map_err(&fault)?;
    }
    let kept = LEASH + 1;
    if mounts != kept {
        dup3(mounts, kept, CLOEXEC).map_err(&fault)?;
    }
    close_from(REQUEST_DESCRIPTORS + 1, 0).map_err(&fault)?;
    let mut plan = PlanReader::new(syscalls::map(PLAN).map_err(at(InitProcessStep::Read))?);
    close(PLAN).map_err(at(InitProcessStep::Read))?;
    let command = command_of(&mut plan).ok_or(GARBLED)?;
    start(&command, kept, not_known)
}

/// Reads the command from a plan whose other parts are done.
fn command_of(plan: &mut PlanReader<'static>) -> Option<InitCommand<'static>> {
    plan.read_part()?;
    plan.read_number()?;
    plan.bytes()?;
    for _ in 0..2 {
        plan.read_number()?;
    }
    for _ in 0..plan.read_u32()? {
        plan.read_op()?;
    }
    InitCommand::read(plan)
}
