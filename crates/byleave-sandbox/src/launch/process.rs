//! The first process inside, seen from outside: how it is started, ended and waited for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Signal, pidfd_send_signal};

use super::{LaunchError, RunAs, ours};
use crate::cgroup::CommandCgroup;
use crate::clone3::{self, SpawnStage};

/// The first process inside, by its descriptor.
#[derive(Debug)]
pub(super) struct InitProcess {
    pub(super) pidfd: OwnedFd,
    /// Whether it is our child, and leaves something to be waited for.
    pub(super) child: bool,
    /// Where killing it would not end what it started: its leash, by which it ends everything itself.
    pub(super) leash: Option<OwnedFd>,
}

impl InitProcess {
    /// Ends it, and with it everything that it started. That it has ended already is no error.
    pub(super) fn kill(&self) -> Result<(), LaunchError> {
        kill(self.pidfd.as_fd(), self.leash.as_ref())
    }

    /// Something to end it by, from another thread.
    pub(super) fn stopper(&self) -> Result<Stopper, LaunchError> {
        let copy = |fd: &OwnedFd| fd.try_clone().map_err(ours("copying a descriptor"));
        let leash = self.leash.as_ref().map(copy).transpose()?;
        Ok(Stopper { pidfd: copy(&self.pidfd)?, leash })
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
    pub(super) fn reap(&self) -> Result<(), LaunchError> {
        if !self.child {
            return self.wait();
        }
        let error = io::Error::from_raw_os_error;
        clone3::reap(&self.pidfd).map_err(|errno| ours("waiting for the sandbox")(error(errno)))
    }
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

/// Starts the first process inside, with these descriptors and in namespaces of its own.
pub(super) fn spawn(
    program: BorrowedFd<'_>,
    descriptors: [BorrowedFd<'_>; 5],
    network_apart: bool,
    run_as: RunAs,
    group: Option<&CommandCgroup>,
) -> Result<OwnedFd, LaunchError> {
    let group = group.map(AsFd::as_fd);
    spawn_as(run_as, || clone3::spawn(program, descriptors, network_apart, group))
}

/// Starts something as this user.
pub(super) fn spawn_as(
    run_as: RunAs,
    spawn: impl FnOnce() -> Result<OwnedFd, (SpawnStage, i32)> + Send,
) -> Result<OwnedFd, LaunchError> {
    let spawned = match run_as {
        RunAs::Caller => spawn(),
        // The kernel keeps the user of each thread by itself.
        RunAs::User(identity) => std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                clone3::change_thread_user(identity).map_err(|errno| (SpawnStage::Capabilities, errno))?;
                spawn()
            });
            thread.join().unwrap_or(Err((SpawnStage::Clone, 11)))
        }),
    };
    spawned.map_err(|(stage, errno)| {
        let error = io::Error::from_raw_os_error(errno);
        match stage {
            SpawnStage::Clone => LaunchError::Namespaces(error),
            SpawnStage::Capabilities => LaunchError::Child { doing: "taking its user and its powers", error },
            SpawnStage::Descriptors => {
                LaunchError::Child { doing: "putting its descriptors in place", error }
            }
            SpawnStage::Exec => LaunchError::Child { doing: "running the first process inside", error },
        }
    })
}
