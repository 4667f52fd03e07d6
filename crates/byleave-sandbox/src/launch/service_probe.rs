//! Finds out whether a running command is a service: it listens on a port, and waits.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use byleave_files::local_listener::listening_sockets_by_port;
use byleave_files::own;

/// The maximum number of processes whose time is counted.
const PROCESSES_MAX: usize = 512;
/// Lower ports are those of the system.
const FIRST_PORT: u16 = 1024;

/// Looks at the network and at the processes of a running command, from another thread.
#[derive(Clone, Debug)]
pub struct ServiceProbe {
    /// The first process inside.
    pid: u32,
    /// The ports of the sandbox itself.
    own_ports: BTreeSet<u16>,
    /// Whether other processes use the same network. Then only the sockets of the command count.
    is_shared: bool,
}

impl ServiceProbe {
    pub(super) const fn new(pid: u32, own_ports: BTreeSet<u16>, is_shared: bool) -> Self {
        Self { pid, own_ports, is_shared }
    }

    /// Returns the ports from 1024 on which the command listens now.
    pub fn listening(&self) -> BTreeSet<u16> {
        let tables = ["net/tcp", "net/tcp6"].into_iter();
        let tables = tables.filter_map(|table| own::read_text(process(self.pid).join(table)).ok());
        let listening: Vec<(u16, u64)> =
            tables.flat_map(|table| listening_sockets_by_port(&table).collect::<Vec<_>>()).collect();
        if listening.is_empty() {
            return BTreeSet::new();
        }
        let held = self.is_shared.then(|| self.sockets());
        let is_own = |inode: &u64| held.as_ref().is_none_or(|held| held.contains(inode));
        let ports = listening.iter().filter(|(_, inode)| is_own(inode)).map(|(port, _)| *port);
        ports.filter(|port| *port >= FIRST_PORT && !self.own_ports.contains(port)).collect()
    }

    /// Returns the inodes of the sockets that the processes of the command hold.
    fn sockets(&self) -> BTreeSet<u64> {
        let inode = |link: PathBuf| {
            let number = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            number.parse::<u64>().ok()
        };
        let mut held = BTreeSet::new();
        self.for_each_process(|process| {
            let descriptors = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            held.extend(descriptors.filter_map(|entry| inode(std::fs::read_link(entry.path()).ok()?)));
        });
        held
    }

    /// Returns the time that the processes of the command have used so far, in ticks of the clock. Ended ones are not counted.
    pub fn ticks(&self) -> u64 {
        let mut ticks = 0_u64;
        self.for_each_process(|process| {
            ticks = ticks.saturating_add(used_ticks(process).unwrap_or_default());
        });
        ticks
    }

    fn for_each_process(&self, mut visit: impl FnMut(&Path)) {
        let (mut ahead, mut seen) = (vec![self.pid], 0);
        while let Some(pid) = ahead.pop() {
            seen += 1;
            if seen > PROCESSES_MAX {
                break;
            }
            visit(&process(pid));
            ahead.extend(children(&process(pid)));
        }
    }
}

fn process(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

fn used_ticks(process: &Path) -> Option<u64> {
    let stat = own::read_text(process.join("stat")).ok()?;
    // The name of the program may have blanks and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user.saturating_add(system))
}

fn children(process: &Path) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(process.join("task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| own::read_text(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}
