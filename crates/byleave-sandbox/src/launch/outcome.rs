//! The outcome of a command, as far as it is certain.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::network_bridge::NetworkReport;
use crate::limits::LimitKind;
use crate::tripwire::PlantedFile;

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandStatus {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It could not be started, with the error number.
    NotStarted(i32),
}

/// Signals that end a process, by number, as far as Linux has the same on x86-64 and 64-bit ARM.
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
            // Shells return this for a program that a signal ended, but any program can return it.
            Self::Exited(code) => match name(code.saturating_sub(128)) {
                Some(name) => write!(f, "exit status {code} (as after {name})"),
                None => write!(f, "exit status {code}"),
            },
            Self::Signalled(signal) => match name(signal) {
                Some(name) => write!(f, "ended by signal {signal} ({name})"),
                None => write!(f, "ended by signal {signal}"),
            },
            Self::NotStarted(errno) => write!(f, "the program could not be started (error {errno})"),
        }
    }
}

/// The captured output of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    /// The bytes that were kept.
    pub bytes: Vec<u8>,
    /// The number of further bytes.
    pub dropped_bytes: u64,
}

/// The outcome of a command. None of its processes runs any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutcome {
    /// How it ended.
    pub status: CommandStatus,
    /// The limit that ended it, if known.
    pub limit_exceeded: Option<LimitKind>,
    /// Limits that it reached without being ended by them, if known.
    pub limits_reached: Vec<LimitKind>,
    /// Files that were planted during the run for others to run later, with their new names.
    pub planted: Vec<PlantedFile>,
    /// Files that were disabled before the run, because earlier killed runs had planted them.
    pub planted_earlier: Vec<PlantedFile>,
    /// The files beside it that it could not see, because a rule keeps them from it.
    pub hidden: Vec<PathBuf>,
    /// Its standard output. If both streams were requested as one, this includes its errors.
    pub stdout: CapturedOutput,
    /// Its standard error.
    pub stderr: CapturedOutput,
    /// Elapsed time.
    pub wall_time: Duration,
    /// Processor time of all its processes. Without a cgroup, only of those that were waited for.
    pub cpu_time: Duration,
    /// Its requests to a proxied network.
    pub network: NetworkReport,
    /// How many packets had no route because they bypassed the proxy: connections or datagrams to an address, by IPv4 or IPv6.
    /// `None` if unknown: in a session, on the network of this machine, and for a command that was killed with all processes
    /// around it. It is only a number, because the kernel does not report the targets.
    pub unrouted_count: Option<u64>,
    /// How many processes were still running when the command itself ended. They were killed then. Zero if there were none, else
    /// at least one: of a process and a child that it waits for, only one may be counted. Also zero for a command that was killed
    /// with all processes around it.
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
            (CommandStatus::NotStarted(2), "the program could not be started (error 2)"),
        ] {
            assert_eq!(status.to_string(), told);
        }
    }
}
