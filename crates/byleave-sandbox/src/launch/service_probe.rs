//! Finds out whether a running command is a service: it listens on a port, and waits.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use byleave_files::local_listener::listening_ports;
use byleave_files::own;

/// The maximum number of processes whose time is counted.
const PROCESSES_MAX: usize = 512;

/// Looks at the network and at the processes of a running command, from another thread.
#[derive(Clone, Debug)]
pub struct ServiceProbe {
    /// The first process inside.
    pid: u32,
    /// The ports of the sandbox itself.
    own_ports: BTreeSet<u16>,
}

impl ServiceProbe {
    pub(super) const fn new(pid: u32, own_ports: BTreeSet<u16>) -> Self {
        Self { pid, own_ports }
    }

    /// Returns the ports from 1024 on which the command listens now.
    pub fn listening(&self) -> BTreeSet<u16> {
        let tables = ["net/tcp", "net/tcp6"].into_iter();
        let tables = tables.filter_map(|table| own::read_text(process(self.pid).join(table)).ok());
        let ports = tables.flat_map(|table| listening_ports(&table));
        ports.filter(|port| !self.own_ports.contains(port)).collect()
    }

    /// Returns the time that the processes of the command have used so far, in ticks of the clock. Ended ones are not counted.
    pub fn ticks(&self) -> u64 {
        let mut ticks = 0_u64;
        let (mut ahead, mut seen) = (vec![self.pid], 0);
        while let Some(pid) = ahead.pop() {
            seen += 1;
            if seen > PROCESSES_MAX {
                break;
            }
            ticks = ticks.saturating_add(used_ticks(&process(pid)).unwrap_or_default());
            ahead.extend(children(&process(pid)));
        }
        ticks
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
