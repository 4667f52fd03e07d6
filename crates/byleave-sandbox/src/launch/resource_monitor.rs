//! Watches, from outside, resources that no single process accounts for: processor time, memory, processes and disk growth.
//!
//! It checks at intervals, so a command can exceed a limit by what it uses in one interval. The limit on growth is not a quota: a
//! command can fill a disk within a tenth of a second. The results are certain: a command that is reported for a limit has
//! exceeded it. The monitor must never attribute the use of others to a command.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use byleave_files::own;

use super::process::process_id;
use super::tree_monitor::{ProcessPauser, TreeMonitor};
use crate::cgroup::CommandCgroup;
use crate::confinement::{CopySource, FileConfinement};
use crate::limits::{LimitKind, ResourceLimits};

/// The minimum time between two checks.
const INTERVAL: Duration = Duration::from_millis(100);
/// The clock tick of the kernel for file times. The slowest clock ticks a hundred times a second.
const CLOCK_TICK: Duration = Duration::from_millis(20);
/// Units of processor time in `/proc`, the same on every supported architecture.
const TICKS_PER_SECOND: u64 = 100;

/// The limits of a command and its use so far.
#[derive(Debug)]
pub(super) struct ResourceMonitor {
    cpu_max: Duration,
    cpu_used: Duration,
    cpu_next: Instant,
    growth: GrowthMonitor,
    copies: GrowthMonitor,
    reserve: u64,
    tree: TreeMonitor,
    next: Instant,
}

impl ResourceMonitor {
    /// Creates the monitor before a command begins.
    pub(super) fn new(limits: &ResourceLimits, files: &FileConfinement, began: Instant) -> Self {
        let written = files.copies.iter().map(|copied| match &copied.source {
            CopySource::Overlay { upper_dir: upper, .. } => upper.clone(),
            CopySource::Tree { path: at } => at.clone(),
        });
        let roots = files.copies.iter().map(|copied| copied.root.clone()).collect();
        let mut watch = Self {
            cpu_max: limits.cpu_time,
            cpu_used: Duration::ZERO,
            cpu_next: began,
            growth: GrowthMonitor::new(limits.growth_bytes, files.directly_writable()),
            copies: GrowthMonitor {
                seen_at: roots,
                ..GrowthMonitor::new(limits.copy_bytes, written.collect())
            },
            reserve: limits.reserve_bytes,
            tree: TreeMonitor::new(limits),
            next: began + INTERVAL,
        };
        watch.cpu_next = watch.cpu_earliest(began);
        watch
    }

    /// Returns the time of the next check.
    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Returns the limit that the command has exceeded, if any.
    pub(super) fn check_limits(
        &mut self,
        process: BorrowedFd<'_>,
        group: Option<&CommandCgroup>,
        pauser: Option<ProcessPauser<'_>>,
    ) -> Option<LimitKind> {
        let now = Instant::now();
        self.next = now + INTERVAL;
        if now >= self.cpu_next {
            self.cpu_used = self.cpu_used.max(cpu(process, group, self.cpu_max));
            if self.cpu_used >= self.cpu_max {
                return Some(LimitKind::Cpu);
            }
            self.cpu_next = self.cpu_earliest(now);
        }
        if group.is_none()
            && let Some(limit) = self.tree.check(process, pauser)
        {
            return Some(limit);
        }
        if self.growth.passed(|| ProcessTree::beneath(process).ok()) {
            return Some(LimitKind::Growth);
        }
        if self.copies.passed(|| ProcessTree::beneath(process).ok()) {
            return Some(LimitKind::Copy);
        }
        self.find_full_disk().map(|_| LimitKind::Reserve)
    }

    /// Returns the exceeded limits on growth, after everything has ended.
    pub(super) fn grown_limits(&mut self) -> impl Iterator<Item = LimitKind> {
        let nobody = || Some(ProcessTree::default());
        let grew =
            [(self.growth.passed(nobody), LimitKind::Growth), (self.copies.passed(nobody), LimitKind::Copy)];
        grew.into_iter().filter_map(|(grew, limit)| grew.then_some(limit))
    }

    /// Returns a location of copies with less free space than required, and its free space.
    pub(super) fn find_full_disk(&self) -> Option<(&Path, u64)> {
        let rooms = self.copies.bases.iter().map(|(path, ..)| (path.as_path(), free(path)));
        rooms.filter_map(|(path, free)| Some((path, free?))).find(|(_, free)| *free < self.reserve)
    }

    /// Returns the processor time at the last check.
    pub(super) const fn cpu_used(&self) -> Duration {
        self.cpu_used
    }

    /// Returns the earliest time at which the limit on processor time can be reached, with every processor busy.
    fn cpu_earliest(&self, now: Instant) -> Instant {
        let left = self.cpu_max.saturating_sub(self.cpu_used) / processors();
        // A limit beyond the range of the clock is not a limit.
        now.checked_add(left.max(INTERVAL)).unwrap_or(now + Duration::from_secs(3600))
    }
}

/// Returns the number of processors. It is cached, because it is read from several files.
fn processors() -> u32 {
    static COUNT: OnceLock<u32> = OnceLock::new();
    *COUNT.get_or_init(|| {
        std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
    })
}

/// Returns the processor time so far. Without a cgroup, this is the time of running and reaped processes. A value over the limit
/// is measured again, because a process that ends during the measurement may be included twice.
fn cpu(process: BorrowedFd<'_>, group: Option<&CommandCgroup>, max: Duration) -> Duration {
    if let Some(group) = group {
        return group.cpu().unwrap_or_default();
    }
    let used = || ProcessTree::beneath(process).map_or(Duration::ZERO, |tree| tree.cpu);
    let first = used();
    if first < max { first } else { first.min(used()) }
}

/// The processes of a command.
#[derive(Debug, Default)]
pub(super) struct ProcessTree {
    cpu: Duration,
    /// All processes except for the first one, which is ours.
    pub(super) pids: Vec<u32>,
    /// The threads of these.
    pub(super) threads: u64,
    /// All other processes of the machine, with their threads.
    pub(super) others: Vec<(u32, u64)>,
}

impl ProcessTree {
    pub(super) fn beneath(process: BorrowedFd<'_>) -> io::Result<Self> {
        let first = process_id(process)?;
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut used = BTreeMap::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let stat = own::read_text(entry.path().join("stat")).ok();
            let Some(stat) = stat.as_deref().and_then(ProcessStat::parse) else { continue };
            children.entry(stat.parent).or_default().push(pid);
            used.insert(pid, stat);
        }
        let mut tree = Self::default();
        let mut left = vec![first];
        while let Some(pid) = left.pop() {
            let stat = used.get(&pid).copied().unwrap_or_default();
            tree.cpu += Duration::from_millis(stat.ticks.saturating_mul(1000 / TICKS_PER_SECOND));
            if pid != first {
                tree.pids.push(pid);
                tree.threads += stat.threads;
            }
            left.extend(children.remove(&pid).into_iter().flatten());
        }
        let inside: BTreeSet<u32> = tree.pids.iter().copied().collect();
        let others = used.iter().filter(|(pid, _)| !inside.contains(pid));
        tree.others = others.map(|(pid, stat)| (*pid, stat.threads)).collect();
        Ok(tree)
    }
}

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProcessStat {
    parent: u32,
    /// Processor time, including reaped children.
    ticks: u64,
    threads: u64,
}

impl ProcessStat {
    fn parse(stat: &str) -> Option<Self> {
        // The name may contain anything, including a closing bracket.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let ticks = [11, 12, 13, 14].into_iter().map(number).sum::<Option<u64>>()?;
        Some(Self { parent: u32::try_from(number(1)?).ok()?, ticks, threads: number(17)? })
    }
}

/// The growth of file systems since before a command began. Others use them too. So when one has grown too much, the sizes of
/// files that changed since then are added up. These are whole files in writable paths, and open files without a name.
#[derive(Debug)]
struct GrowthMonitor {
    max: u64,
    began: SystemTime,
    writable: Vec<PathBuf>,
    /// The path inside, if it differs from the path outside.
    seen_at: Vec<PathBuf>,
    /// One directory of each file system, its device, and its used bytes before the command.
    bases: Vec<(PathBuf, u64, u64)>,
}

impl GrowthMonitor {
    fn new(max: u64, writable: Vec<PathBuf>) -> Self {
        let mut bases: Vec<(PathBuf, u64, u64)> = Vec::new();
        for path in &writable {
            let Ok(device) = fs::symlink_metadata(path).map(|found| found.dev()) else { continue };
            if bases.iter().all(|(_, known, _)| *known != device)
                && let Some(used) = used(path)
            {
                bases.push((path.clone(), device, used));
            }
        }
        Self { max, began: SystemTime::now() - CLOCK_TICK, writable, seen_at: Vec::new(), bases }
    }

    fn passed(&mut self, tree: impl Fn() -> Option<ProcessTree>) -> bool {
        for at in 0..self.bases.len() {
            let Some((path, device, base)) = self.bases.get_mut(at) else { continue };
            let Some(now) = used(path) else { continue };
            // Space that others free is not credited to the command.
            *base = now.min(*base);
            let (device, grown) = (*device, now - *base);
            if grown <= self.max {
                continue;
            }
            let own = tree().map_or(0, |tree| self.changed(device, &tree));
            if own > self.max {
                return true;
            }
            // The rest was used by others.
            if let Some((_, _, base)) = self.bases.get_mut(at) {
                *base += grown - own;
            }
        }
        false
    }

    /// Returns the bytes of files that have changed since the command began. If a process, or a directory that changed since, cannot be
    /// read, everything is attributed to the command, because only the command can have caused that.
    fn changed(&self, device: u64, tree: &ProcessTree) -> u64 {
        let (mut bytes, mut seen) = (0u64, BTreeSet::new());
        let mut add = |found: &Metadata| {
            if self.is_new(found) && (found.nlink() == 1 || seen.insert(found.ino())) {
                bytes = bytes.saturating_add(found.blocks().saturating_mul(512));
            }
        };
        let mut left = self.writable.clone();
        while let Some(path) = left.pop() {
            let found = match fs::symlink_metadata(&path) {
                Ok(found) => found,
                // The file is so deep that it has no valid path.
                Err(error) if error.kind() == io::ErrorKind::InvalidFilename => return u64::MAX,
                Err(_) => continue,
            };
            if found.dev() == device {
                add(&found);
            }
            if !found.is_dir() {
                continue;
            }
            match fs::read_dir(&path) {
                Ok(entries) => left.extend(entries.flatten().map(|entry| entry.path())),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && self.is_new(&found) => {
                    return u64::MAX;
                }
                Err(_) => {}
            }
        }
        for pid in &tree.pids {
            let open = Path::new("/proc").join(pid.to_string()).join("fd");
            match fs::read_dir(&open) {
                Ok(entries) => entries
                    .flatten()
                    .filter_map(|entry| Some((fs::metadata(entry.path()).ok()?, entry.path())))
                    .filter(|(found, _)| found.is_file() && found.nlink() == 0)
                    // An overlay has its own device number, wherever its layers are.
                    .filter(|(found, open)| found.dev() == device || self.is_seen(open))
                    .for_each(|(found, _)| add(&found)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return u64::MAX,
                Err(_) => {}
            }
        }
        bytes
    }

    fn is_seen(&self, open: &Path) -> bool {
        let path = if self.seen_at.is_empty() { None } else { fs::read_link(open).ok() };
        path.is_some_and(|path| self.seen_at.iter().any(|root| path.starts_with(root)))
    }

    fn is_new(&self, found: &Metadata) -> bool {
        let since = u64::try_from(found.ctime()).unwrap_or_default();
        let nanos = u32::try_from(found.ctime_nsec()).unwrap_or_default();
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::new(since, nanos))
            .is_none_or(|changed| changed >= self.began)
    }
}

/// Returns the used bytes of the file system of a path.
fn used(path: &Path) -> Option<u64> {
    let told = rustix::fs::statvfs(path).ok()?;
    Some(told.f_blocks.saturating_sub(told.f_bfree).saturating_mul(told.f_frsize))
}

/// Returns the bytes available to unprivileged users on the file system of a path.
fn free(path: &Path) -> Option<u64> {
    let told = rustix::fs::statvfs(path).ok()?;
    Some(told.f_bavail.saturating_mul(told.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_process_is_read_past_its_name() {
        let line = "12 (a) b) S 7 12 12 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 99 1 2";
        assert_eq!(ProcessStat::parse(line), Some(ProcessStat { parent: 7, ticks: 100, threads: 1 }));
        assert_eq!(ProcessStat::parse("12 (a"), None);
    }

    // req: E2
    #[test]
    fn what_others_add_to_a_disk_is_not_the_commands() {
        let (workspace, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut growth = GrowthMonitor::new(4 << 20, vec![workspace.path().to_path_buf()]);
        fs::write(elsewhere.path().join("theirs"), vec![1; 16 << 20]).unwrap();
        assert!(!growth.passed(|| Some(ProcessTree::default())), "16 MiB elsewhere");
        fs::write(workspace.path().join("own"), vec![1; 6 << 20]).unwrap();
        fs::write(elsewhere.path().join("more"), vec![1; 16 << 20]).unwrap();
        assert!(growth.passed(|| Some(ProcessTree::default())), "6 MiB of its own");
    }
}
