//! The native launcher: a command in namespaces of its own, behind Landlock and a system call filter.
//!
//! Whatever fails before the command starts is an error, and the command has then not run. It must never run a command weaker
//! than it was asked for, and nothing of it is left when [`Running::finish`] returns.

mod alone;
mod bwrap;
mod carried;
mod inside;
mod oci;
mod session;
mod streams;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, pidfd_send_signal};

pub(crate) use alone::{Scratch, start as start_alone};
pub use bwrap::Bwrap;
pub use inside::Inside;
pub use oci::Oci;
pub use session::Session;

use crate::confinement::Confinement;
use crate::guarantee::{Given, Guarantee, Unenforceable};
use crate::limits::Limit;
use crate::plan::{Command, Host, Identity, Kind, Plan, PlanError};
use crate::sys::{self, Stage};
use streams::Streams;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It returned this.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It could not be started: the kernel's answer.
    NotStarted(i32),
}

/// What a command printed, as far as it was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// What was kept.
    pub bytes: Vec<u8>,
    /// How many more bytes there were.
    pub dropped: u64,
}

/// What came of a command. By now nothing that it started is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The limit that ended it, where that is known.
    pub ended_by: Option<Limit>,
    /// What it printed.
    pub stdout: Printed,
    /// What it printed as errors.
    pub stderr: Printed,
    /// Time on the clock.
    pub wall: Duration,
    /// Time on processors, of all its processes that were waited for.
    pub cpu: Duration,
}

/// Why a command was not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The launcher is root, and was not told whom to run the command as.
    #[error(
        "cannot confine a command as root: what is root outside is root for the kernel's own files; run as another user"
    )]
    Root,
    /// A guarantee cannot be given.
    #[error(transparent)]
    Unenforceable(#[from] Unenforceable),
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The kernel gives no namespaces.
    #[error(
        "cannot make a sandbox: {0}; unprivileged user namespaces may be switched off, `byleave doctor` says how to get them"
    )]
    Namespaces(#[source] io::Error),
    /// The child could not become the first process inside.
    #[error("cannot start the sandbox: {doing}: {error}")]
    Child {
        /// What it was doing.
        doing: &'static str,
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
    /// The first process inside could not build the place.
    #[error("cannot build the sandbox: {inside}: {error}")]
    Inside {
        /// What it was doing.
        inside: Inside,
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
    /// The system's bwrap could not make the place.
    #[error("cannot build the sandbox with bwrap: {said}")]
    Bwrap {
        /// What it said.
        said: String,
    },
    /// The container engine could not run the command.
    #[error("cannot run the command in a container: {said}")]
    Oci {
        /// What it said.
        said: String,
    },
    /// The kernel has no Landlock, which this rung stands on.
    #[error("cannot confine the command by Landlock: this kernel has none")]
    NoLandlock,
    /// No rung of the ladder stands here.
    #[error("cannot confine a command on this machine ({obstacles}); `byleave doctor` says what would help")]
    NoRung {
        /// Why not, rung by rung.
        obstacles: String,
    },
    /// A session does not answer.
    #[error("cannot start the command: its session does not answer; open another")]
    Silent,
    /// What the first process inside reports makes no sense.
    #[error("cannot tell how the command ended: the sandbox's report is garbled")]
    Garbled,
    /// A pipe, a file in memory or a thread of ours.
    #[error("cannot run the sandbox: {doing}: {error}")]
    Ours {
        /// What we were doing.
        doing: &'static str,
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
}

fn ours<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> LaunchError {
    move |error| LaunchError::Ours { doing, error: error.into() }
}

/// Who runs the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunAs {
    /// Whoever runs the launcher; root is refused.
    #[default]
    Caller,
    /// Another user, for a launcher that is root: it has to be one that owns what is writable.
    User(Identity),
}

/// Runs a command to its end.
pub fn run(confinement: &Confinement, command: &Command) -> Result<Outcome, LaunchError> {
    start(confinement, command, RunAs::Caller)?.finish()
}

/// How far the native launcher gives a guarantee.
pub fn given(guarantee: Guarantee) -> Given {
    match guarantee {
        Guarantee::MemoryLimited => {
            Given::Partly("every process is limited by itself, for want of a cgroup around them all".into())
        }
        Guarantee::WritesLockedTwice if sys::landlock_version() == 0 => {
            Given::Not("mounts alone hold it, for want of Landlock".into())
        }
        _ => Given::Fully,
    }
}

/// Starts a command.
pub fn start(confinement: &Confinement, command: &Command, run_as: RunAs) -> Result<Running, LaunchError> {
    let identity = identity(run_as)?;
    confinement.held_against(given)?;
    let plan = Plan::new(confinement, command, identity, &ThisHost)?;
    let program = carried::program()?;
    let ends = Ends::new(&plan, command, confinement.limits.output)?;
    let began = Instant::now();
    let process = spawn(program, ends.given(), plan.network_apart, run_as)?;
    Ok(ends.running(
        Process { pidfd: process, child: true, leash: None },
        plan,
        began,
        confinement.limits.wall,
    ))
}

/// Both ends of everything between a command and us.
struct Ends {
    given: [OwnedFd; 5],
    leash: OwnedFd,
    streams: Streams,
}

impl Ends {
    fn new(plan: &Plan, command: &Command, kept_max: u64) -> Result<Self, LaunchError> {
        let written = carried::sealed(c"byleave-plan", &plan.encode())?;
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(ours("making a pipe"));
        let ((stdin, to_stdin), (from_stdout, stdout), (from_stderr, stderr)) = (pipe()?, pipe()?, pipe()?);
        let (leash, inner) = leash()?;
        let streams = Streams::new(to_stdin, &command.stdin, [from_stdout, from_stderr], kept_max)?;
        Ok(Self { given: [stdin, stdout, stderr, written, inner], leash, streams })
    }

    /// What the first process inside has, in the order of its numbers.
    fn given(&self) -> [BorrowedFd<'_>; 5] {
        self.given.each_ref().map(AsFd::as_fd)
    }

    /// Closes the ends that are not ours, so that the end of the output is the command's.
    fn running(self, process: Process, plan: Plan, began: Instant, wall: Duration) -> Running {
        let Self { given, leash, streams } = self;
        drop(given);
        Running { process, leash, streams, plan, began, wall, over: false, scratch: None }
    }
}

fn leash() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(ours("making the leash"))
}

/// The first process inside, by its descriptor.
#[derive(Debug)]
struct Process {
    pidfd: OwnedFd,
    /// Whether it is our child, and leaves something to be waited for.
    child: bool,
    /// Where killing it would not end what it started: its leash, by which it ends everything itself.
    leash: Option<OwnedFd>,
}

impl Process {
    /// Ends it, and with it everything that it started. That it has ended already is no error.
    fn kill(&self) -> Result<(), LaunchError> {
        kill(self.pidfd.as_fd(), self.leash.as_ref())
    }

    /// Waits until it has ended, and with it everything in its namespace.
    fn wait(&self) -> Result<(), LaunchError> {
        loop {
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], None) {
                Err(rustix::io::Errno::INTR) => {}
                waited => return waited.map(drop).map_err(ours("waiting for the command")),
            }
        }
    }

    /// Waits, and leaves nothing of it.
    fn reap(&self) -> Result<(), LaunchError> {
        if !self.child {
            return self.wait();
        }
        let error = io::Error::from_raw_os_error;
        sys::reap(&self.pidfd).map_err(|errno| ours("waiting for the sandbox")(error(errno)))
    }
}

pub(crate) fn identity(run_as: RunAs) -> Result<Identity, LaunchError> {
    let caller =
        Identity { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    match run_as {
        RunAs::Caller if caller.uid == 0 => Err(LaunchError::Root),
        RunAs::User(identity) if identity.uid == 0 || identity.gid == 0 => Err(LaunchError::Root),
        RunAs::Caller => Ok(caller),
        RunAs::User(identity) => Ok(identity),
    }
}

fn spawn(
    program: BorrowedFd<'_>,
    descriptors: [BorrowedFd<'_>; 5],
    network_apart: bool,
    run_as: RunAs,
) -> Result<OwnedFd, LaunchError> {
    spawn_as(run_as, || sys::spawn(program, descriptors, network_apart))
}

/// Starts something as this user.
fn spawn_as(
    run_as: RunAs,
    spawn: impl FnOnce() -> Result<OwnedFd, (Stage, i32)> + Send,
) -> Result<OwnedFd, LaunchError> {
    let spawned = match run_as {
        RunAs::Caller => spawn(),
        // The kernel keeps the user of each thread by itself.
        RunAs::User(identity) => std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                sys::change_thread_user(identity).map_err(|errno| (Stage::Capabilities, errno))?;
                spawn()
            });
            thread.join().unwrap_or(Err((Stage::Clone, 11)))
        }),
    };
    spawned.map_err(|(stage, errno)| {
        let error = io::Error::from_raw_os_error(errno);
        match stage {
            Stage::Clone => LaunchError::Namespaces(error),
            Stage::Capabilities => LaunchError::Child { doing: "taking its user and its powers", error },
            Stage::Descriptors => LaunchError::Child { doing: "putting its descriptors in place", error },
            Stage::Exec => LaunchError::Child { doing: "running the first process inside", error },
        }
    })
}

/// A command that is running. When this is dropped, the command and everything that it started end.
#[derive(Debug)]
pub struct Running {
    process: Process,
    leash: OwnedFd,
    streams: Streams,
    plan: Plan,
    began: Instant,
    wall: Duration,
    over: bool,
    /// Gone when the command is.
    scratch: Option<Scratch>,
}

/// Ends a command from another thread.
#[derive(Debug)]
pub struct Stopper {
    pidfd: OwnedFd,
    leash: Option<OwnedFd>,
}

impl Stopper {
    /// Kills the command and everything that it started. That it has ended already is no error.
    pub fn stop(&self) -> Result<(), LaunchError> {
        kill(self.pidfd.as_fd(), self.leash.as_ref())
    }
}

fn kill(pidfd: BorrowedFd<'_>, leash: Option<&OwnedFd>) -> Result<(), LaunchError> {
    let ended = match leash {
        // What it reports can still be read.
        Some(leash) => match shutdown(leash, Shutdown::Write) {
            Err(rustix::io::Errno::NOTCONN) => Ok(()),
            cut => cut,
        },
        None => pidfd_send_signal(pidfd, Signal::KILL),
    };
    match ended {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(errno) => Err(ours("killing the command")(errno)),
    }
}

impl Running {
    /// Something to end the command by, from another thread.
    pub fn stopper(&self) -> Result<Stopper, LaunchError> {
        let copy = |fd: &OwnedFd| fd.try_clone().map_err(ours("copying a descriptor"));
        let leash = self.process.leash.as_ref().map(copy).transpose()?;
        Ok(Stopper { pidfd: copy(&self.process.pidfd)?, leash })
    }

    /// Waits until the command and everything that it started have ended, or the time is over.
    pub fn finish(mut self) -> Result<Outcome, LaunchError> {
        let deadline = self.began.checked_add(self.wall);
        let in_time = self.streams.carry(self.process.pidfd.as_fd(), deadline)?;
        if !in_time {
            self.process.kill()?;
            self.streams.carry(self.process.pidfd.as_fd(), None)?;
        }
        self.process.reap()?;
        self.over = true;
        let wall = self.began.elapsed();
        let (status, cpu) = match inside::reports(&self.leash, &self.plan)? {
            Some(ended) => ended,
            // Killed, by us or by somebody who may: the first process had no time to say so.
            None => (Status::Signalled(Signal::KILL.as_raw()), Duration::ZERO),
        };
        let ended_by = match status {
            _ if !in_time => Some(Limit::Wall),
            Status::Signalled(signal) if signal == Signal::XCPU.as_raw() => Some(Limit::Cpu),
            _ => None,
        };
        let [stdout, stderr] = self.streams.printed();
        Ok(Outcome { status, ended_by, stdout, stderr, wall, cpu })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Best effort, and not the only one: the leash goes with this as well.
        if !self.over && self.process.kill().is_ok() {
            self.process.reap().unwrap_or_default();
        }
    }
}

/// The machine that this runs on.
struct ThisHost;

impl Host for ThisHost {
    fn kind(&self, path: &Path) -> Option<Kind> {
        let kind = std::fs::symlink_metadata(path).ok()?.file_type();
        Some(match () {
            () if kind.is_dir() => Kind::Directory,
            () if kind.is_symlink() => Kind::Link,
            () => Kind::File,
        })
    }

    fn landlock(&self) -> u32 {
        sys::landlock_version()
    }
}
