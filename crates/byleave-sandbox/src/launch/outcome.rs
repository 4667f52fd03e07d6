//! What came of a command, as far as it is known for certain.

use std::fmt;
use std::time::Duration;

use super::network_bridge::NetworkReport;
use crate::limits::LimitKind;
use crate::tripwire::PlantedFile;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandStatus {
    /// It returned this.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It could not be started: the kernel's answer.
    NotStarted(i32),
}

/// Signals that end a process, by number: those that Linux has in common on x86-64 and 64-bit ARM.
const SIGNALS: [(i32, &str); 23] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (16, "SIGSTKFLT"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (26, "SIGVTALRM"),
    (27, "SIGPROF"),
    (29, "SIGIO"),
    (30, "SIGPWR"),
    (31, "SIGSYS"),
];

fn name(signal: i32) -> Option<&'static str> {
    SIGNALS.iter().find(|(number, _)| *number == signal).map(|(_, name)| *name)
}

impl fmt::Display for CommandStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            // A shell says so of a program that a signal ended; anything else can say it too.
            Self::Exited(code) => match name(code.saturating_sub(128)) {
                Some(name) => write!(f, "exit status {code} (as after {name})"),
                None => write!(f, "exit status {code}"),
            },
            Self::Signalled(signal) => match name(signal) {
                Some(name) => write!(f, "ended by signal {signal} ({name})"),
                None => write!(f, "ended by signal {signal}"),
            },
            Self::NotStarted(errno) => write!(f, "it could not be started (error {errno})"),
        }
    }
}

/// What a command printed, as far as it was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    /// What was kept.
    pub bytes: Vec<u8>,
    /// How many more bytes there were.
    pub dropped: u64,
}

/// What came of a command. By now nothing that it started is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutcome {
    /// How it ended.
    pub status: CommandStatus,
    /// The limit that ended it, where that is known.
    pub ended_by: Option<LimitKind>,
    /// Limits that it ran into and that did not end it, where that is known.
    pub reached: Vec<LimitKind>,
    /// What was planted while it ran, to be run later by somebody else, and where it was put out of action.
    pub planted: Vec<PlantedFile>,
    /// What was put out of action before it ran: runs before it that were killed had planted it.
    pub earlier: Vec<PlantedFile>,
    /// What it printed; where it was to be together, with what it printed as errors.
    pub stdout: CapturedOutput,
    /// What it printed as errors.
    pub stderr: CapturedOutput,
    /// Time on the clock.
    pub wall: Duration,
    /// Time on processors, of all its processes; without a cgroup of its own, of those that were waited for.
    pub cpu: Duration,
    /// What it wanted of a network that is served.
    pub network: NetworkReport,
    /// How often something wanted to go where no way leads, past what is served: a connection or a message to an address, by
    /// either protocol of the internet. `None` where it is not known: in a session or on the network of this machine, and of a
    /// command that was killed with everything around it. Only a number: the kernel does not say where.
    pub unrouted: Option<u64>,
    /// How many processes were still running when the command itself ended; they were killed then. Zero if there were none, else
    /// at least one: of a process and a child that it waits for, only one may be counted. Zero as well of a command that was killed
    /// with everything around it.
    pub survivors: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: B1
    #[test]
    fn a_status_is_told_with_the_name_of_its_signal() {
        for (status, told) in [
            (CommandStatus::Exited(0), "exit status 0"),
            (CommandStatus::Exited(3), "exit status 3"),
            (CommandStatus::Exited(128), "exit status 128"),
            (CommandStatus::Exited(139), "exit status 139 (as after SIGSEGV)"),
            (CommandStatus::Signalled(11), "ended by signal 11 (SIGSEGV)"),
            (CommandStatus::Signalled(15), "ended by signal 15 (SIGTERM)"),
            (CommandStatus::Signalled(40), "ended by signal 40"),
            (CommandStatus::NotStarted(2), "it could not be started (error 2)"),
        ] {
            assert_eq!(status.to_string(), told);
        }
    }
}
