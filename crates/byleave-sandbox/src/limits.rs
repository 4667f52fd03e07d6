//! Resource limits of a command. They are on by default.

use std::time::Duration;

/// The resources that a command may use, including all of its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Elapsed time.
    pub wall_time: Duration,
    /// Processor time, checked at intervals. Without a cgroup, a process whose parent ignores its exit is included only while it
    /// runs, and it is also limited by itself.
    pub cpu_time: Duration,
    /// Bytes of memory. With a cgroup, this is the use of all processes together. Otherwise it is the writable memory of each
    /// process.
    pub memory_bytes: u64,
    /// Processes and threads at a time. Without a cgroup, those of all commands of a session together.
    pub pids: u32,
    /// Bytes in one file that it writes.
    pub file_bytes: u64,
    /// Bytes in its temporary directory.
    pub tmp_bytes: u64,
    /// Bytes by which the writable paths may grow. They are checked at intervals from outside. The limit ends a command that
    /// fills a disk, but it is not a quota.
    pub growth_bytes: u64,
    /// Bytes by which the copies that it runs on may grow. Like `growth`, this is not a quota.
    pub copy_bytes: u64,
    /// Bytes that stay free on the disk of the copies. With less, a command on a copy is not started, and a running one is ended.
    /// The limit is checked at intervals, and other use of the disk is included.
    pub reserve_bytes: u64,
    /// Bytes of output that are kept. Further output is counted and dropped.
    pub output_bytes: u64,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            wall_time: Duration::from_secs(600),
            cpu_time: Duration::from_secs(600),
            memory_bytes: 4 << 30,
            pids: 512,
            file_bytes: 1 << 30,
            tmp_bytes: 1 << 30,
            growth_bytes: 8 << 30,
            copy_bytes: 4 << 30,
            reserve_bytes: 512 << 20,
            output_bytes: 1 << 20,
        }
    }
}

/// A limit, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitKind {
    /// Elapsed time.
    Wall,
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Processes and threads at a time.
    Pids,
    /// Growth of the writable paths.
    Growth,
    /// Growth of the copies that it runs on.
    Copy,
    /// Free space on the disk of the copies.
    Reserve,
    /// Output that is kept.
    Output,
}
