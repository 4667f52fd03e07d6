//! Limits: how much a command may use up. On by default.

use std::time::Duration;

/// How much a command may use up, with all of its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Time on the clock.
    pub wall: Duration,
    /// Time on processors, looked at in intervals; without a cgroup a process whose parent does not care how it ended counts only
    /// while it is there, and is limited by itself.
    pub cpu: Duration,
    /// Bytes of memory: in a cgroup those that all processes use together, else those that each can write to.
    pub memory: u64,
    /// Processes and threads at a time. Without a cgroup, those of all commands of a session together.
    pub pids: u32,
    /// Bytes in one file that it writes.
    pub file: u64,
    /// Bytes in its temporary directory.
    pub tmp: u64,
    /// Bytes by which what it can write may grow. Looked at in intervals, from outside: it ends a command that fills a disk, and is
    /// no quota.
    pub growth: u64,
    /// Bytes by which copies that it runs on may grow. As with `growth`, no quota.
    pub copy: u64,
    /// Bytes that stay free where copies are kept: with less, a command on one is not started, and one that runs is ended. It is
    /// looked at in intervals as well, and whatever else fills the disk counts.
    pub reserve: u64,
    /// Bytes that are kept of what it prints; the rest is counted and dropped.
    pub output: u64,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(600),
            cpu: Duration::from_secs(600),
            memory: 4 << 30,
            pids: 512,
            file: 1 << 30,
            tmp: 1 << 30,
            growth: 8 << 30,
            copy: 4 << 30,
            reserve: 512 << 20,
            output: 1 << 20,
        }
    }
}

/// A limit, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitKind {
    /// Time on the clock.
    Wall,
    /// Time on processors.
    Cpu,
    /// Memory.
    Memory,
    /// Processes and threads at a time.
    Pids,
    /// Growth of what can be written.
    Growth,
    /// Growth of copies that it runs on.
    Copy,
    /// What stays free where copies are kept.
    Reserve,
    /// What is kept of what it prints.
    Output,
}
