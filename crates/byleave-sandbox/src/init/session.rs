//! The first process of a session: keeps the place, and starts a first process of its own for every command in it.
//!
//! It keeps its powers, which a new namespace of processes takes, so it must never be seen by a command: each has a namespace of
//! processes beneath this one, from which there is no way up.

use super::{
    Command, Fault, GARBLED, LEASH, Never, PLAN, PR_SET_DUMPABLE, at, capabilities, harden, live, message,
    report, run_fault, start, sys,
};
use crate::kernel::{Errno, close, close_from, dup3, exit, prctl};
use crate::wire::{Access, Missing, REPORT_FAULT, REPORT_READY, REQUESTED, Reader, Step};

/// Starts what is asked for until nobody is left to ask.
pub(super) fn serve() -> Result<Never, Fault> {
    let fault = at(Step::Start);
    settle().map_err(&fault)?;
    report([REPORT_READY, 0, 0, 0], 0);
    loop {
        let Some(requested) = sys::receive(LEASH) else { exit(0) };
        match sys::fork_apart() {
            Ok((0, _)) => take_over(requested),
            Ok((_, process)) => {
                sys::tell_with(LEASH, &message([REPORT_READY, 0, 0, 0], 0), process);
                close(process).map_err(&fault)?;
            }
            Err(errno) => {
                report([REPORT_FAULT, Step::Start as u32, 0, errno.0.cast_unsigned()], 0);
            }
        }
        for descriptor in requested {
            close(descriptor).map_err(&fault)?;
        }
    }
}

/// Becomes the first process of a command, as if begun with these descriptors.
fn take_over(requested: [i32; REQUESTED]) -> ! {
    for (place, descriptor) in (0i32..).zip(requested) {
        if dup3(descriptor, place, 0).is_err() {
            exit(125);
        }
    }
    if close_from(REQUESTED, 0).is_err() || sys::default_signals().is_err() {
        exit(125);
    }
    let Err(fault) = live();
    run_fault(&fault)
}

fn settle() -> Result<(), Errno> {
    prctl(PR_SET_DUMPABLE, [0; 4])?;
    // Who ends is not waited for.
    sys::ignore_children()?;
    let null = sys::null()?;
    // Every low number is taken, so that what comes with a request is above the places where it goes.
    for low in (0..LEASH).filter(|low| *low != null) {
        dup3(null, low, 0)?;
    }
    Ok(())
}

/// Keeps first processes of commands ready, which take requests by themselves, until nobody is left to ask.
pub(super) fn park(plan: &Reader<'static>, parked: u32) -> Result<Never, Fault> {
    let fault = at(Step::Start);
    settle().map_err(&fault)?;
    let taken = sys::counter().map_err(&fault)?;
    report([REPORT_READY, 0, 0, 0], 0);
    let mut wanted = u64::from(parked);
    loop {
        for _ in 0..wanted {
            match sys::fork_apart().map_err(&fault)? {
                (0, _) => {
                    let Err(fault) = wait_parked(plan.clone(), taken);
                    run_fault(&fault);
                }
                (_, process) => close(process).map_err(&fault)?,
            }
        }
        if sys::wait_or_hangup(taken, LEASH).map_err(&fault)? {
            exit(0);
        }
        wanted = sys::count(taken);
    }
}

/// Does everything that needs no command, and waits for one.
fn wait_parked(mut plan: Reader<'static>, taken: i32) -> Result<Never, Fault> {
    let fault = at(Step::Start);
    sys::default_signals().map_err(&fault)?;
    let terminals = sys::terminals().map_err(at(Step::Mount))?;
    sys::attach(terminals, c"/dev/pts", Missing::Fault).map_err(at(Step::Mount))?;
    let processes = sys::new_mount(c"proc", &[], Access::Write).map_err(at(Step::Mount))?;
    sys::attach(processes, c"/proc", Missing::Fault).map_err(at(Step::Mount))?;
    Command::read(&mut plan).ok_or(GARBLED)?;
    harden(&mut plan, capabilities)?;
    let Some(requested) = sys::receive(LEASH) else { exit(0) };
    sys::count_one(taken).map_err(&fault)?;
    let own = sys::own_descriptor().map_err(&fault)?;
    sys::tell_with(LEASH, &message([REPORT_READY, 0, 0, 0], 0), own);
    // From here on the leash is the command's, and the session's is gone.
    for (place, descriptor) in (0i32..).zip(requested) {
        dup3(descriptor, place, 0).map_err(&fault)?;
    }
    close_from(REQUESTED, 0).map_err(&fault)?;
    let mut plan = Reader::new(sys::map(PLAN).map_err(at(Step::Read))?);
    close(PLAN).map_err(at(Step::Read))?;
    let command = command_of(&mut plan).ok_or(GARBLED)?;
    start(&command)
}

/// The command in a plan whose other parts have been done.
fn command_of(plan: &mut Reader<'static>) -> Option<Command<'static>> {
    plan.part()?;
    for _ in 0..3 {
        plan.number()?;
    }
    for _ in 0..plan.small()? {
        plan.op()?;
    }
    Command::read(plan)
}
