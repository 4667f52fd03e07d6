//! The first process of a session: keeps the place, and starts a first process of its own for every command in it.
//!
//! It keeps its powers, which a new namespace of processes takes, so it must never be seen by a command: each has a namespace of
//! processes beneath this one, from which there is no way up.

use super::{LEASH, Never, PR_SET_DUMPABLE, at, live, message, report, run_fault, sys};
use crate::kernel::{close, close_from, dup3, exit, prctl};
use crate::wire::{REPORT_FAULT, REPORT_READY, REQUESTED, Step};

/// Starts what is asked for until nobody is left to ask.
pub(super) fn serve() -> Result<Never, super::Fault> {
    let fault = at(Step::Start);
    prctl(PR_SET_DUMPABLE, [0; 4]).map_err(at(Step::Dumpable))?;
    // Who ends is not waited for.
    sys::ignore_children().map_err(&fault)?;
    let null = sys::null().map_err(&fault)?;
    // Every low number is taken, so that what comes with a request is above the places where it goes.
    for low in (0..LEASH).filter(|low| *low != null) {
        dup3(null, low, 0).map_err(&fault)?;
    }
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
