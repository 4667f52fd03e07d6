//! What came of a command, as far as it is known for certain.

use std::time::Duration;

use super::uplink::Reached;
use crate::limits::Limit;
use crate::tripwire::Planted;

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
    /// Limits that it ran into and that did not end it, where that is known.
    pub reached: Vec<Limit>,
    /// What was planted while it ran, to be run later by somebody else, and where it was put out of action.
    pub planted: Vec<Planted>,
    /// What it printed.
    pub stdout: Printed,
    /// What it printed as errors.
    pub stderr: Printed,
    /// Time on the clock.
    pub wall: Duration,
    /// Time on processors, of all its processes; without a cgroup of its own, of those that were waited for.
    pub cpu: Duration,
    /// What it wanted of a network that is served.
    pub network: Reached,
    /// How often something wanted to go where no way leads, past what is served: a connection or a message to an address, by
    /// either protocol of the internet. `None` where it is not known: in a session or on the network of this machine, and of a
    /// command that was killed with everything around it. Only a number: the kernel does not say where.
    pub unrouted: Option<u64>,
    /// How many processes were still running when the command itself ended; they were killed then. Zero if there were none, else
    /// at least one: of a process and a child that it waits for, only one may be counted. Zero as well of a command that was killed
    /// with everything around it.
    pub survivors: u32,
}
