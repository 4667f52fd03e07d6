//! A started command, in the sandbox of this machine or in a container.

use std::os::fd::OwnedFd;

use super::{CommandOutcome, LaunchError, Pipes, RunningCommand, RunningContainer, Stopper};

/// A command that runs in the sandbox of this machine or in a container. Dropping it ends the command.
#[derive(Debug)]
pub enum StartedCommand {
    /// In the sandbox of this machine.
    Sandbox(Box<RunningCommand>),
    /// In a container.
    Container(Box<RunningContainer>),
}

impl From<RunningCommand> for StartedCommand {
    fn from(running: RunningCommand) -> Self {
        Self::Sandbox(Box::new(running))
    }
}

impl From<RunningContainer> for StartedCommand {
    fn from(running: RunningContainer) -> Self {
        Self::Container(Box::new(running))
    }
}

impl StartedCommand {
    /// Takes the outer end of the command's terminal, as [`RunningCommand::take_terminal`] does. A container has none, because
    /// its engine uses the terminal of this process.
    pub fn take_terminal(&mut self) -> Result<Option<OwnedFd>, LaunchError> {
        match self {
            Self::Sandbox(running) => running.take_terminal(),
            Self::Container(_) => Ok(None),
        }
    }

    /// Takes the ends of the command's standard streams, if the caller handles them.
    pub fn take_pipes(&mut self) -> Option<Pipes> {
        match self {
            Self::Sandbox(running) => running.take_pipes(),
            Self::Container(running) => running.take_pipes(),
        }
    }

    /// Forwards output as it arrives, as [`RunningCommand::forward_output`] does.
    pub fn forward_output(&mut self, to: impl FnMut(&[u8]) + Send + Sync + 'static) {
        match self {
            Self::Sandbox(running) => running.forward_output(to),
            Self::Container(running) => running.forward_output(to),
        }
    }

    /// Returns a handle to end the command from another thread.
    pub fn stopper(&self) -> Result<Stopper, LaunchError> {
        match self {
            Self::Sandbox(running) => running.stopper(),
            Self::Container(running) => running.stopper(),
        }
    }

    /// Waits until the command has ended, as [`RunningCommand::finish`] does.
    pub fn finish(self) -> Result<CommandOutcome, LaunchError> {
        match self {
            Self::Sandbox(running) => running.finish(),
            Self::Container(running) => running.finish(),
        }
    }
}
