//! A running container: transfers its streams, watches its limits and waits until it is gone.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::process::Stopper;
use super::super::running::RunClock;
use super::super::streams::CommandStreams;
use super::super::{CommandOutcome, CommandStatus, LaunchError, NetworkReport, Pipes, internal_error};
use super::OciEngine;
use crate::confinement::Confinement;
use crate::limits::LimitKind;
use crate::plan::CommandSpec;
use crate::tripwire::{Tripwire, TripwireGuard};

/// The exit status of `run` for failures of the engine itself.
const ENGINE_FAILED: i32 = 125;
/// How much of the output is kept for the message of a failed engine.
const MESSAGE_MAX: usize = 2048;
/// How often the container is killed before the engine itself is killed, and how long to wait each time.
const KILL_ATTEMPTS: u32 = 50;
const KILL_PAUSE: Duration = Duration::from_millis(200);

/// A container of an engine, by its name.
#[derive(Clone, Debug)]
pub(super) struct ContainerClient {
    pub(super) engine: OciEngine,
    pub(super) name: String,
}

/// A command that runs in a container. Dropping it ends the command and removes the container.
#[derive(Debug)]
pub struct RunningContainer {
    client: ContainerClient,
    process: Child,
    pidfd: OwnedFd,
    streams: CommandStreams,
    clock: RunClock,
    guard: TripwireGuard,
    /// The beginning of output that a listener got.
    heard: Arc<Mutex<Vec<u8>>>,
    is_finished: bool,
}

impl RunningContainer {
    /// Starts the engine with these arguments.
    pub(super) fn start(
        client: ContainerClient,
        words: Vec<OsString>,
        confinement: &Confinement,
        command: &CommandSpec,
        tripwire: Tripwire,
    ) -> Result<Self, LaunchError> {
        let clock = RunClock::start(confinement);
        if let Some((store_dir, free)) = clock.monitor.find_full_disk() {
            let reserve = confinement.limits.reserve_bytes;
            return Err(LaunchError::DiskFull { store_dir: store_dir.to_path_buf(), free, reserve });
        }
        let mut engine = client.engine.client();
        engine.args(words);
        if command.terminal.is_none() {
            // Without input it gets no pipe, because some programs read a pipe as their input.
            let stdin = if has_input(command) { Stdio::piped() } else { Stdio::null() };
            engine.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let mut process = engine.spawn().map_err(internal_error("starting the container engine"))?;
        let watched = watch(&process)
            .and_then(|pidfd| Ok((pidfd, streams(&mut process, command, confinement.limits.output_bytes)?)));
        let (pidfd, streams) = match watched {
            Ok(watched) => watched,
            Err(error) => {
                // Without its descriptor the container cannot be waited for.
                process.kill().and_then(|()| process.wait().map(drop)).unwrap_or_default();
                client.remove()?;
                return Err(error);
            }
        };
        let guard = TripwireGuard::new(tripwire);
        let heard = Arc::default();
        Ok(Self { client, process, pidfd, streams, clock, guard, heard, is_finished: false })
    }

    /// Takes the ends of the command's standard streams, if the caller handles them.
    pub fn take_pipes(&mut self) -> Option<Pipes> {
        self.streams.take_pipes()
    }

    /// Forwards output as it arrives, instead of keeping it, as
    /// [`RunningCommand::forward_output`](super::super::RunningCommand::forward_output) does.
    pub fn forward_output(&mut self, mut to: impl FnMut(&[u8]) + Send + Sync + 'static) {
        let heard = Arc::clone(&self.heard);
        self.streams.forward_output(Box::new(move |bytes| {
            let mut heard = heard.lock();
            let left = MESSAGE_MAX.saturating_sub(heard.len());
            heard.extend(bytes.iter().take(left));
            drop(heard);
            to(bytes);
        }));
    }

    /// Returns a handle to end the command from another thread.
    pub fn stopper(&self) -> Result<Stopper, LaunchError> {
        let pidfd = self.pidfd.try_clone().map_err(internal_error("copying a descriptor"))?;
        let client = self.client.clone();
        Ok(Stopper::new(move || stop(&client, pidfd.as_fd(), || has_ended(pidfd.as_fd()))))
    }

    /// Waits until the container has ended, or a limit is exceeded. Meanwhile it checks for planted files. If that fails, the
    /// container is removed and an error is returned.
    pub fn finish(mut self) -> Result<CommandOutcome, LaunchError> {
        let killed_for = self.carry()?;
        if killed_for.is_some() {
            let Self { client, pidfd, streams, .. } = &mut self;
            // The engine does not end before its output is read.
            let has_ended = || streams.copy_until_end(pidfd.as_fd(), Instant::now().checked_add(KILL_PAUSE));
            stop(client, pidfd.as_fd(), has_ended)?;
            self.streams.copy_until_end(self.pidfd.as_fd(), None)?;
        }
        let code = self.process.wait().map_err(internal_error("waiting for the container engine"))?.code();
        self.is_finished = true;
        let planted = self.guard.finish()?;
        let wall_time = self.clock.began.elapsed();
        let [stdout, stderr] = self.streams.take_output();
        let status = match code {
            _ if killed_for.is_some() => CommandStatus::Signalled(Signal::KILL.as_raw()),
            Some(ENGINE_FAILED) => return Err(self.engine_failed(&stderr.bytes)),
            // The engine reports signals and programs that cannot be started by the numbers of shells. A command that returns
            // such a number itself cannot be distinguished.
            Some(code) => CommandStatus::Exited(code),
            None => return Err(LaunchError::InvalidReport),
        };
        let grew = self.clock.monitor.grown_limits().filter(|limit| killed_for != Some(*limit));
        let dropped = (stdout.dropped_bytes + stderr.dropped_bytes > 0).then_some(LimitKind::Output);
        let limits_reached = grew.chain(dropped).collect();
        Ok(CommandOutcome {
            status,
            limit_exceeded: killed_for,
            limits_reached,
            planted,
            planted_earlier: self.guard.earlier(),
            hidden: self.guard.hidden(),
            stdout,
            stderr,
            wall_time,
            cpu_time: Duration::ZERO,
            network: NetworkReport::default(),
            unrouted_count: None,
            survivors: 0,
        })
    }

    /// Transfers input and output until the container has ended or a limit is exceeded. Returns that limit.
    fn carry(&mut self) -> Result<Option<LimitKind>, LaunchError> {
        let deadline = self.clock.began.checked_add(self.clock.limits.wall_time);
        loop {
            let next = self.clock.monitor.next().min(self.guard.next());
            let until = deadline.map_or(next, |deadline| deadline.min(next));
            if self.streams.copy_until_end(self.pidfd.as_fd(), Some(until))? {
                return Ok(None);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(Some(LimitKind::Wall));
            }
            let exceeded = self.clock.monitor.check_limits(self.pidfd.as_fd(), None, None);
            if exceeded.is_some() {
                return Ok(exceeded);
            }
            self.guard.check_if_due()?;
        }
    }

    fn engine_failed(&self, stderr: &[u8]) -> LaunchError {
        let heard = self.heard.lock();
        let bytes = if stderr.is_empty() { heard.as_slice() } else { stderr };
        let message = String::from_utf8_lossy(bytes).trim().to_owned();
        let unknown = "the engine failed, or the command itself ended with the exit status 125";
        LaunchError::Oci { message: if message.is_empty() { unknown.to_owned() } else { message } }
    }
}

impl Drop for RunningContainer {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // Best effort: no caller is left to receive the result.
        let pidfd = self.pidfd.as_fd();
        if stop(&self.client, pidfd, || has_ended(pidfd)).is_ok() {
            self.process.wait().map(drop).unwrap_or_default();
            self.guard.finish().map(drop).unwrap_or_default();
        }
    }
}

impl ContainerClient {
    /// Kills the container. It is not an error if the container is not running.
    fn kill(&self) -> Result<(), LaunchError> {
        self.call(&["kill", &self.name])
    }

    /// Kills and removes the container. It is not an error if the container is already gone.
    fn remove(&self) -> Result<(), LaunchError> {
        // Removing alone would ask the container to end, and wait.
        self.kill()?;
        self.call(&["rm", "--force", &self.name])
    }

    fn call(&self, words: &[&str]) -> Result<(), LaunchError> {
        let mut engine = self.engine.client();
        engine.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        engine.status().map(drop).map_err(internal_error("removing a container"))
    }
}

/// Ends a container with all of its processes, and waits in this way until its engine has ended. It is not an error if it has
/// already ended.
fn stop(
    client: &ContainerClient,
    pidfd: BorrowedFd<'_>,
    mut has_ended: impl FnMut() -> Result<bool, LaunchError>,
) -> Result<(), LaunchError> {
    for _ in 0..KILL_ATTEMPTS {
        // The engine may not have started the container yet.
        client.kill()?;
        if has_ended()? {
            return client.remove();
        }
    }
    match pidfd_send_signal(pidfd, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => client.remove(),
        Err(errno) => Err(internal_error("killing the container engine")(errno)),
    }
}

/// Waits a moment for the end of a process.
fn has_ended(pidfd: BorrowedFd<'_>) -> Result<bool, LaunchError> {
    let pause = Timespec::try_from(KILL_PAUSE).ok();
    match poll(&mut [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)], pause.as_ref()) {
        Err(rustix::io::Errno::INTR) => Ok(false),
        waited => Ok(waited.map_err(internal_error("waiting for the container engine"))? > 0),
    }
}

/// Returns whether a command gets an input.
pub(super) fn has_input(command: &CommandSpec) -> bool {
    command.terminal.is_some() || command.caller_owns_streams || !command.stdin.is_empty()
}

fn watch(process: &Child) -> Result<OwnedFd, LaunchError> {
    let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw).ok_or(LaunchError::InvalidReport)?;
    pidfd_open(pid, PidfdFlags::empty()).map_err(internal_error("watching the container engine"))
}

fn streams(process: &mut Child, command: &CommandSpec, kept_max: u64) -> Result<CommandStreams, LaunchError> {
    let stdin = process.stdin.take().map(OwnedFd::from);
    let (stdout, stderr) =
        (process.stdout.take().map(OwnedFd::from), process.stderr.take().map(OwnedFd::from));
    match (stdin, stdout, stderr) {
        (Some(stdin), Some(stdout), Some(stderr)) if command.caller_owns_streams => {
            Ok(CommandStreams::for_caller(stdin, [stdout, stderr]))
        }
        (stdin, stdout, stderr) => CommandStreams::new(stdin, &command.stdin, [stdout, stderr], kept_max),
    }
}
