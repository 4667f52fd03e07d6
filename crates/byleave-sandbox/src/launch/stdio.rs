//! Both ends of the connections to a command: its standard streams, its plan, its control socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use byleave_files::own;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use super::process::InitProcess;
use super::running::{RunClock, RunningCommand};
use super::streams::CommandStreams;
use super::{LaunchError, embedded_init, internal_error};
use crate::cgroup::CommandCgroup;
use crate::plan::{CommandSpec, LaunchPlan};
use crate::tripwire::{Tripwire, TripwireGuard};

/// Both ends of all connections to a command.
pub(super) struct ChildStdio {
    given: [OwnedFd; 5],
    pub(super) control_socket: OwnedFd,
    streams: CommandStreams,
}

impl ChildStdio {
    pub(super) fn new(plan: &LaunchPlan, command: &CommandSpec, kept_max: u64) -> Result<Self, LaunchError> {
        let written = embedded_init::sealed_memfd(c"byleave-plan", &plan.encode())?;
        let (leash, inner) = control_socket_pair()?;
        if command.terminal.is_some() {
            let null = || open_null().map(OwnedFd::from);
            let given = [null()?, null()?, null()?, written, inner];
            return Ok(Self {
                given,
                control_socket: leash,
                streams: CommandStreams::pending_terminal(&command.stdin, kept_max),
            });
        }
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(internal_error("creating a pipe"));
        let (from_stdout, stdout) = pipe()?;
        // Without input it gets no pipe, because some programs read a pipe as their input.
        let (stdin, to_stdin) = match command.stdin.is_empty() && !command.caller_owns_streams {
            true => (OwnedFd::from(open_null()?), None),
            false => pipe().map(|(stdin, to_stdin)| (stdin, Some(to_stdin)))?,
        };
        if command.merge_output && !command.caller_owns_streams {
            let stderr = stdout.try_clone().map_err(internal_error("copying a descriptor"))?;
            let streams = CommandStreams::new(to_stdin, &command.stdin, [Some(from_stdout), None], kept_max)?;
            return Ok(Self {
                given: [stdin, stdout, stderr, written, inner],
                control_socket: leash,
                streams,
            });
        }
        let (from_stderr, stderr) = pipe()?;
        let streams = match to_stdin {
            Some(to_stdin) if command.caller_owns_streams => {
                CommandStreams::for_caller(to_stdin, [from_stdout, from_stderr])
            }
            to_stdin => CommandStreams::new(
                to_stdin,
                &command.stdin,
                [Some(from_stdout), Some(from_stderr)],
                kept_max,
            )?,
        };
        // Without input it gets no pipe, because programs would read it: `rg foo` would search the pipe instead of the directory.
        let reads_nothing = command.stdin.is_empty() && !command.caller_owns_streams;
        let nothing = || own::open("/dev/null").map_err(internal_error("opening /dev/null"));
        let stdin = if reads_nothing { nothing()?.into() } else { stdin };
        Ok(Self { given: [stdin, stdout, stderr, written, inner], control_socket: leash, streams })
    }

    /// Returns the descriptors of the first process inside, in the order of their numbers.
    pub(super) fn child_descriptors(&self) -> [BorrowedFd<'_>; 5] {
        self.given.each_ref().map(AsFd::as_fd)
    }

    /// Closes the ends that are not ours, so that the output ends with the command.
    pub(super) fn into_running(
        self,
        process: InitProcess,
        group: Option<CommandCgroup>,
        plan: LaunchPlan,
        clock: RunClock,
        tripwire: Tripwire,
    ) -> RunningCommand {
        let Self { given, control_socket: leash, streams } = self;
        drop(given);
        RunningCommand {
            process,
            group,
            control_socket: leash,
            streams,
            plan,
            clock,
            guard: TripwireGuard::new(tripwire),
            network: None,
            publisher: None,
            own_ports: std::collections::BTreeSet::new(),
            is_finished: false,
            temp_dir: None,
            supervisor: None,
        }
    }
}

/// Opens `/dev/null` for an unused stream.
#[expect(clippy::disallowed_methods, reason = "a device that no agent can replace")]
pub(super) fn open_null() -> Result<std::fs::File, LaunchError> {
    std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(internal_error("opening /dev/null"))
}

/// Creates a control socket, our end first. When our end closes, the process at the other end ends.
pub(super) fn control_socket_pair() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(internal_error("creating the control socket"))
}
