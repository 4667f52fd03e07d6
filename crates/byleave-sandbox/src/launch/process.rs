//! Starts, ends and waits for the first process inside, from outside.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use byleave_files::own;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Signal, pidfd_send_signal};

use super::mapped_user::MappedUser;
use super::{LaunchError, RunAs, identity, internal_error};
use crate::cgroup::CommandCgroup;
use crate::clone3::{self, SpawnStage};
use crate::confinement::FileConfinement;

/// The first process inside, by its descriptor.
#[derive(Debug)]
pub(super) struct InitProcess {
    pub(super) pidfd: OwnedFd,
    /// Whether it is our child and must be reaped.
    pub(super) is_child: bool,
    /// Its control socket, if killing it would not end the processes that it started. It then ends them all itself.
    pub(super) control_socket: Option<OwnedFd>,
}

impl InitProcess {
    /// Ends it, and all processes that it started. It is not an error if it has already ended.
    pub(super) fn kill(&self) -> Result<(), LaunchError> {
        kill(self.pidfd.as_fd(), self.control_socket.as_ref())
    }

    /// Returns a handle to end it from another thread.
    pub(super) fn stopper(&self) -> Result<Stopper, LaunchError> {
        let copy = |fd: &OwnedFd| fd.try_clone().map_err(internal_error("copying a descriptor"));
        let leash = self.control_socket.as_ref().map(copy).transpose()?;
        Ok(Stopper(StopAction::Process { pidfd: copy(&self.pidfd)?, leash }))
    }

    /// Waits until it has ended, and all processes in its namespace with it.
    fn wait(&self) -> Result<(), LaunchError> {
        loop {
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], None) {
                Err(rustix::io::Errno::INTR) => {}
                waited => return waited.map(drop).map_err(internal_error("waiting for the command")),
            }
        }
    }

    /// Waits for its end and reaps it.
    pub(super) fn reap(&self) -> Result<(), LaunchError> {
        if !self.is_child {
            return self.wait();
        }
        let error = io::Error::from_raw_os_error;
        clone3::reap(&self.pidfd).map_err(|errno| internal_error("waiting for the sandbox")(error(errno)))
    }
}

/// Returns the id of a process that has not been reaped.
pub(super) fn process_id(pidfd: BorrowedFd<'_>) -> io::Result<u32> {
    let text = own::read_text(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    let id = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse::<u32>().ok());
    id.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Ends a command from another thread.
#[derive(Debug)]
pub struct Stopper(StopAction);

enum StopAction {
    /// Kills the first process inside, or closes its control socket.
    Process { pidfd: OwnedFd, leash: Option<OwnedFd> },
    /// For a command whose processes are not ours.
    Call(Box<dyn Fn() -> Result<(), LaunchError> + Send + Sync>),
}

impl fmt::Debug for StopAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pidfd, leash } => f.debug_tuple("Process").field(pidfd).field(leash).finish(),
            Self::Call(_) => f.write_str("Call"),
        }
    }
}

impl Stopper {
    /// Creates a handle that ends a command in this way.
    pub(super) fn new(stop: impl Fn() -> Result<(), LaunchError> + Send + Sync + 'static) -> Self {
        Self(StopAction::Call(Box::new(stop)))
    }

    /// Kills the command and all processes that it started. It is not an error if it has already ended. For a container it blocks
    /// until the container is gone.
    pub fn stop(&self) -> Result<(), LaunchError> {
        match &self.0 {
            StopAction::Process { pidfd, leash } => kill(pidfd.as_fd(), leash.as_ref()),
            StopAction::Call(stop) => stop(),
        }
    }
}

fn kill(pidfd: BorrowedFd<'_>, leash: Option<&OwnedFd>) -> Result<(), LaunchError> {
    let ended = match leash {
        // Its reports can still be read.
        Some(leash) => match shutdown(leash, Shutdown::Write) {
            Err(rustix::io::Errno::NOTCONN) => Ok(()),
            cut => cut,
        },
        None => pidfd_send_signal(pidfd, Signal::KILL),
    };
    match ended {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(errno) => Err(internal_error("killing the command")(errno)),
    }
}

/// Starts the first process inside, with these descriptors and in its own namespaces.
pub(super) fn spawn(
    program: BorrowedFd<'_>,
    descriptors: [BorrowedFd<'_>; 5],
    network_apart: bool,
    (run_as, files): (RunAs, &FileConfinement),
    group: Option<&CommandCgroup>,
) -> Result<OwnedFd, LaunchError> {
    let group = group.map(AsFd::as_fd);
    let spawn = || clone3::spawn(program, descriptors, network_apart, group);
    if run_as != RunAs::Caller || !rustix::process::geteuid().is_root() {
        return spawn_as(run_as, spawn);
    }
    let user = MappedUser::new(files, identity(run_as)?);
    let entered = in_thread(|| match user.enter() {
        Ok(()) => Ok(spawn()),
        Err((doing, error)) => Err(LaunchError::MappedUser { doing, error }),
    })?;
    entered.map_err(spawn_error)
}

/// Checks whether the files of root can be mounted for an unprivileged user, if this process is root.
pub(crate) fn check_mapped_files(files: &FileConfinement) -> Result<(), LaunchError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let checked = MappedUser::new(files, identity(RunAs::Caller)?).check();
    checked.map_err(|(doing, error)| LaunchError::MappedUser { doing, error })
}

/// Calls a function in a thread of its own: the kernel stores the user and the namespaces of each thread separately.
fn in_thread<T: Send>(call: impl FnOnce() -> Result<T, LaunchError> + Send) -> Result<T, LaunchError> {
    let ended = || internal_error("starting a thread")(io::Error::other("it ended early"));
    std::thread::scope(|scope| scope.spawn(call).join().unwrap_or_else(|_| Err(ended())))
}

/// Starts a process as this user.
pub(super) fn spawn_as(
    run_as: RunAs,
    spawn: impl FnOnce() -> Result<OwnedFd, (SpawnStage, i32)> + Send,
) -> Result<OwnedFd, LaunchError> {
    let spawned = match run_as {
        RunAs::Caller => spawn(),
        RunAs::User(identity) => in_thread(move || {
            let changed = clone3::change_thread_user(identity);
            Ok(changed.map_err(|errno| (SpawnStage::Capabilities, errno)).and_then(|()| spawn()))
        })?,
    };
    spawned.map_err(spawn_error)
}

fn spawn_error((stage, errno): (SpawnStage, i32)) -> LaunchError {
    let error = io::Error::from_raw_os_error(errno);
    match stage {
        SpawnStage::Clone => LaunchError::Namespaces(error),
        SpawnStage::Capabilities => {
            LaunchError::Child { doing: "setting its user and its capabilities", error }
        }
        SpawnStage::Descriptors => LaunchError::Child { doing: "putting its descriptors in place", error },
        SpawnStage::Exec => LaunchError::Child { doing: "running the first process inside", error },
    }
}
