//! Watches from outside, where no cgroup limits them, the memory and the number of the processes of a command together.
//!
//! The limits of the kernel hold for each process (`RLIMIT_DATA`), and not for memory that processes share or that only a descriptor keeps. It
//! checks at intervals, so a command can exceed a limit by what it takes in one interval. To read every process takes milliseconds, so the
//! counters of the machine say first whether that can be worth it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use byleave_files::own;
use rustix::net::SendFlags;

use super::resource_monitor::ProcessTree;
use crate::limits::{LimitKind, ResourceLimits};
use crate::plan_format::{REQUEST_CONTINUE, REQUEST_PAUSE};

/// The processes are read at least at one check of this many.
const SELDOM: u32 = 10;
/// A command is ended when this many checks in a row found it at the limit of processes. Otherwise a bomb of processes would live until
/// its time is over, because every end of one makes room for another.
const FULL_CHECKS: u32 = 2;

/// What the processes of a command use together.
#[derive(Debug)]
pub(super) struct TreeMonitor {
    memory_max: u64,
    threads_max: u64,
    /// The lowest counters of the machine so far. What others free is not credited to the command.
    base: MachineUse,
    checks: u32,
    full: u32,
}

impl TreeMonitor {
    /// Creates the monitor before a command begins.
    pub(super) fn new(limits: &ResourceLimits) -> Self {
        let (memory_max, threads_max) = (limits.memory_bytes, u64::from(limits.pids));
        Self { memory_max, threads_max, base: MachineUse::read().unwrap_or_default(), checks: 0, full: 0 }
    }

    /// Returns the limit that the command has exceeded, if any.
    pub(super) fn check(
        &mut self,
        process: BorrowedFd<'_>,
        pauser: Option<ProcessPauser<'_>>,
    ) -> Option<LimitKind> {
        self.checks = self.checks.wrapping_add(1);
        let worth = self.find_worth();
        if !worth.processes && !worth.memory {
            return None;
        }
        // A bomb of processes that no limit of the kernel holds grows faster than they can be counted.
        let pauser = pauser.filter(|_| worth.many_threads);
        if let Some(pauser) = pauser {
            pauser.pause(true);
        }
        let tree = ProcessTree::beneath(process).ok()?;
        if self.is_ended_by_processes(tree.threads, || counted_with(&tree))
            || pauser.is_some() && tree.threads >= self.threads_max
        {
            return Some(LimitKind::Pids);
        }
        if let Some(pauser) = pauser {
            pauser.pause(false);
            // These are the threads of others, so they are no reason to look again.
            self.base.threads = self.base.threads.max(worth.threads.saturating_sub(tree.threads));
        }
        if !worth.memory {
            return None;
        }
        let pids = || tree.pids.iter().copied();
        let grown = worth.shared_memory.saturating_sub(self.base.shared_memory);
        (rough_memory(pids(), grown) > self.memory_max && exact_memory(pids(), grown) > self.memory_max)
            .then_some(LimitKind::Memory)
    }

    /// Takes note of the threads of the command at one check, and returns whether it was full for long enough: it cannot start a process more,
    /// and has most of those that count. The others that count are read only if they matter, because a bomb takes the processor as well.
    fn is_ended_by_processes(&mut self, threads: u64, counted_with: impl FnOnce() -> u64) -> bool {
        let is_full = threads >= self.threads_max
            || threads > self.threads_max / 2 && threads.saturating_add(counted_with()) >= self.threads_max;
        self.full = if is_full { self.full.saturating_add(1) } else { 0 };
        self.full >= FULL_CHECKS
    }

    fn find_worth(&mut self) -> WorthReading {
        let Some(now) = MachineUse::read() else {
            return WorthReading { processes: true, memory: true, ..WorthReading::default() };
        };
        self.base = MachineUse {
            memory: self.base.memory.min(now.memory),
            shared_memory: self.base.shared_memory.min(now.shared_memory),
            threads: self.base.threads.min(now.threads),
        };
        let many_threads = now.threads - self.base.threads > self.threads_max / 2;
        let is_due = self.checks.is_multiple_of(SELDOM);
        WorthReading {
            processes: is_due || self.full > 0 || many_threads,
            // Of hundreds of processes this takes much longer, so many threads alone are no reason.
            memory: is_due && !many_threads || now.memory - self.base.memory > self.memory_max / 2,
            many_threads,
            threads: now.threads,
            shared_memory: now.shared_memory,
        }
    }
}

/// What can be worth reading from every process at a check.
#[derive(Clone, Copy, Debug, Default)]
struct WorthReading {
    processes: bool,
    memory: bool,
    /// Whether the machine has so many threads more that the command may have started them.
    many_threads: bool,
    /// The threads and the shared memory of the machine.
    threads: u64,
    shared_memory: u64,
}

/// Stops and continues all processes of a command at once, through its first process. Only where that may signal nothing else.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessPauser<'a> {
    pub(super) control_socket: BorrowedFd<'a>,
}

impl ProcessPauser<'_> {
    fn pause(self, is_paused: bool) {
        let request = if is_paused { REQUEST_PAUSE } else { REQUEST_CONTINUE };
        // If the first process has ended, so has everything else.
        rustix::net::send(self.control_socket, &[request], SendFlags::NOSIGNAL).unwrap_or_default();
    }
}

/// Returns the other threads that the kernel counts for the same limit: those of the same user in the same user namespace. They are the first
/// process inside, and those of other commands of a session.
fn counted_with(tree: &ProcessTree) -> u64 {
    let account = |pid: u32| {
        let user = fs::metadata(of_process(pid, "")).ok()?.uid();
        Some((user, fs::read_link(of_process(pid, "ns/user")).ok()?))
    };
    let Some(own) = tree.pids.iter().find_map(|pid| account(*pid)) else { return 0 };
    let counted = tree.others.iter().filter(|(pid, _)| account(*pid).as_ref() == Some(&own));
    counted.map(|(_, threads)| threads).sum()
}

/// The counters of the whole machine.
#[derive(Clone, Copy, Debug, Default)]
struct MachineUse {
    /// Bytes that belong to no file of a disk.
    memory: u64,
    /// The part of them that processes can share.
    shared_memory: u64,
    threads: u64,
}

impl MachineUse {
    fn read() -> Option<Self> {
        let memory = own::read_text("/proc/meminfo").ok()?;
        let load = own::read_text("/proc/loadavg").ok()?;
        let threads = load.split(' ').nth(3)?.split_once('/')?.1.parse().ok()?;
        let shared_memory = sum_of_lines(&memory, &["Shmem:"]);
        let memory = sum_of_lines(&memory, &["AnonPages:"]).saturating_add(shared_memory);
        Some(Self { memory, shared_memory, threads })
    }
}

/// Returns at least the memory of these processes. Pages that several of them share are counted for each. `grown` is by how much the shared
/// memory of the machine has grown since they began.
fn rough_memory(pids: impl Iterator<Item = u32> + Clone, grown: u64) -> u64 {
    let mapped: u64 = pids.clone().map(rough_memory_of).sum();
    mapped.saturating_add(kept_by_descriptors(pids).unwrap_or(grown))
}

fn rough_memory_of(pid: u32) -> u64 {
    let status = own::read_text(of_process(pid, "status")).unwrap_or_default();
    sum_of_lines(&status, &["RssAnon:", "RssShmem:", "VmSwap:"])
}

/// Returns at most the memory of these processes together: each page counts once. Memory with a descriptor may be mapped as well, so the larger
/// of both counts.
fn exact_memory(pids: impl Iterator<Item = u32> + Clone, grown: u64) -> u64 {
    let (mut own_pages, mut shared_pages) = (0u64, 0u64);
    for pid in pids.clone() {
        match own::read_text(of_process(pid, "smaps_rollup")) {
            Ok(rollup) => {
                own_pages += sum_of_lines(&rollup, &["Pss_Anon:", "SwapPss:"]);
                shared_pages += sum_of_lines(&rollup, &["Pss_Shmem:"]);
            }
            // It has ended, or it has made itself unreadable.
            Err(_) => own_pages += rough_memory_of(pid),
        }
    }
    own_pages.saturating_add(shared_pages.max(kept_by_descriptors(pids).unwrap_or(grown)))
}

/// Returns the bytes of files in memory that these processes hold open (`memfd_create`), each once, or nothing if that cannot be
/// told: one of them has made itself unreadable (`PR_SET_DUMPABLE`), or has descriptors in messages that nobody has received.
fn kept_by_descriptors(pids: impl Iterator<Item = u32>) -> Option<u64> {
    let mut files: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    for pid in pids {
        let entries = match fs::read_dir(of_process(pid, "fd")) {
            Err(error) if is_refused(&error) => return None,
            entries => entries.into_iter().flatten().flatten(),
        };
        for entry in entries {
            let path = match fs::read_link(entry.path()) {
                Err(error) if is_refused(&error) => return None,
                path => path.unwrap_or_default(),
            };
            let is_kind = |kind: &[u8]| path.as_os_str().as_encoded_bytes().starts_with(kind);
            if is_kind(b"socket:") && holds_descriptors(pid, &entry.file_name()) {
                return None;
            }
            let is_memory = is_kind(b"/memfd:");
            if is_memory && let Ok(found) = fs::metadata(entry.path()) {
                files.insert((found.dev(), found.ino()), found.blocks().saturating_mul(512));
            }
        }
    }
    Some(files.values().sum())
}

/// Checks whether a socket has descriptors in messages that nobody has received.
fn holds_descriptors(pid: u32, descriptor: &OsStr) -> bool {
    let info = own::read_text(of_process(pid, "fdinfo").join(descriptor)).unwrap_or_default();
    let count = info.lines().find_map(|line| line.strip_prefix("scm_fds:"));
    count.is_some_and(|count| count.trim() != "0")
}

fn of_process(pid: u32, file: &str) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join(file)
}

/// Returns the sum of the lines with these names, in bytes. The kernel writes kibibytes.
fn sum_of_lines(text: &str, names: &[&str]) -> u64 {
    let value = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let is_wanted = words.next().is_some_and(|name| names.contains(&name));
        is_wanted.then(|| words.next()?.parse::<u64>().ok()).flatten()
    };
    text.lines().filter_map(value).fold(0, |sum, kib| sum.saturating_add(kib.saturating_mul(1024)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_added_in_bytes() {
        let text = "Name:\tPss_Anon:\nPss_Anon:       12 kB\nPss_Shmem:      3 kB\nPss: 99 kB\n";
        assert_eq!(sum_of_lines(text, &["Pss_Anon:", "Pss_Shmem:"]), 15 << 10);
        assert_eq!(sum_of_lines("Pss_Anon: many kB", &["Pss_Anon:"]), 0);
        let now = MachineUse::read().unwrap();
        assert!(now.memory > 0 && now.threads > 0, "{now:?}");
    }

    // req: E2
    #[test]
    fn a_command_at_the_limit_of_processes_is_ended_at_the_second_check() {
        let limits = ResourceLimits { pids: 512, ..ResourceLimits::default() };
        let not_read = || -> u64 { panic!("the others do not matter") };
        let mut monitor = TreeMonitor::new(&limits);
        assert!(!monitor.is_ended_by_processes(512, not_read));
        assert!(monitor.is_ended_by_processes(512, not_read), "twice in a row");
        let mut monitor = TreeMonitor::new(&limits);
        assert!(!monitor.is_ended_by_processes(511, || 1));
        assert!(!monitor.is_ended_by_processes(500, || 1), "there is room again");
        assert!(!monitor.is_ended_by_processes(511, || 1));
        assert!(!monitor.is_ended_by_processes(200, not_read), "most are those of others");
        assert!(!monitor.is_ended_by_processes(300, || 212));
        assert!(monitor.is_ended_by_processes(300, || 212));
    }

    #[test]
    fn memory_with_a_descriptor_only_is_counted_once() {
        let file = rustix::fs::memfd_create("places", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let again = rustix::io::dup(&file).unwrap();
        rustix::io::write(&file, &[1; 1 << 20]).unwrap();
        let own = std::process::id();
        let counted = kept_by_descriptors([own, own].into_iter()).unwrap();
        // Other tests of this process may hold such files.
        assert!(counted >= 1 << 20, "{counted}");
        assert!(exact_memory([own].into_iter(), 0) > 0 && rough_memory([own].into_iter(), 0) > 0);
        drop(again);
    }
}
