//! Finds the programs that listen on a port of this machine's loopback, from `/proc`.
//!
//! A grant for a port of this machine names the program that listened when a person answered. So the question, the check before the
//! call runs and the check of each connection must describe that program in the same words.
//!
//! The process of another user cannot be looked into. Then only its user is known.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::own;

/// The length of a command line that is shown, in characters.
const COMMAND_CHARS_MAX: usize = 160;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Programs that obey whoever connects to them, or that are Byleave itself: container engines, browsers, debuggers.
const CONTROL_PROGRAMS: [&str; 23] = [
    "adb",
    "brave",
    "buildkitd",
    "chrome",
    "chromedriver",
    "chromium",
    "containerd",
    "delve",
    "dlv",
    "docker",
    "dockerd",
    "firefox",
    "firefox-esr",
    "gdbserver",
    "geckodriver",
    "k3s",
    "kubelet",
    "lldb-server",
    "msedge",
    "msedgedriver",
    "opera",
    "podman",
    "vivaldi-bin",
];

/// A program that listens on a port of the loopback.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalListener {
    /// The user id of the program.
    pub owner: u32,
    /// The program. `None` for the process of another user, which cannot be looked into.
    pub program: Option<PathBuf>,
    /// The command line.
    pub command: Vec<String>,
}

impl LocalListener {
    /// Describes the program in words, on one line.
    fn describe(&self) -> String {
        let Some(program) = &self.program else {
            return format!("a program of the user {}", user_name(self.owner));
        };
        let command: String = self.command.join(" ").chars().take(COMMAND_CHARS_MAX).collect();
        format!("{} ({command}) of the user {}", program.display(), user_name(self.owner))
    }

    /// Returns the reason why nothing can open the port to a command while this program listens there.
    fn never_opened(&self, port: u16) -> Option<String> {
        let name = self.program.as_deref()?.file_name()?.to_string_lossy().into_owned();
        let name = name.trim_end_matches(" (deleted)");
        if name == "byleave" || name.starts_with("byleave-") {
            return Some("Byleave itself listens there".to_owned());
        }
        if CONTROL_PROGRAMS.contains(&name) {
            return Some(format!("`{name}` listens there, which obeys whoever connects"));
        }
        let port = port.to_string();
        let debugs = |word: &String| {
            ["--inspect", "--remote-debugging-port", "jdwp", "debugpy", "--start-debugger-server"]
                .iter()
                .any(|option| word.contains(option))
        };
        let names_port = self.command.iter().any(|word| word.ends_with(&port));
        (self.command.iter().any(debugs) && names_port).then(|| "a debugger listens there".to_owned())
    }
}

/// The programs that listen on one port of the loopback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalListeners {
    port: u16,
    listeners: BTreeSet<LocalListener>,
}

impl LocalListeners {
    /// Finds the programs that listen on this port, on the loopback or on every address.
    pub fn find(port: u16) -> io::Result<Self> {
        Self::find_in(Path::new("/proc"), port)
    }

    /// Checks whether any program listens on this port. It is quicker than finding out which one.
    pub fn is_served(port: u16) -> bool {
        let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].into_iter();
        let mut tables = tables.filter_map(|table| own::read_text(table).ok());
        tables.any(|table| listening_sockets(&table, port).next().is_some())
    }

    fn find_in(proc: &Path, port: u16) -> io::Result<Self> {
        let mut sockets = BTreeSet::new();
        for table in ["self/net/tcp", "self/net/tcp6"] {
            match own::read_text(proc.join(table)) {
                Ok(text) => sockets.extend(listening_sockets(&text, port)),
                // A kernel without IPv6 has no such table.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if sockets.is_empty() {
            return Ok(Self { port, ..Self::default() });
        }
        let holders = find_holders(proc, &sockets);
        let listeners = sockets.iter().flat_map(|socket| {
            let own: Vec<LocalListener> = holders
                .iter()
                .filter(|(inode, _)| *inode == socket.inode)
                .map(|(_, listener)| LocalListener { owner: socket.owner, ..listener.clone() })
                .collect();
            let unknown = LocalListener { owner: socket.owner, program: None, command: Vec::new() };
            if own.is_empty() { vec![unknown] } else { own }
        });
        Ok(Self { port, listeners: listeners.collect() })
    }

    /// Checks whether nothing listens there.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Describes the programs in words, on one line. The same programs have the same description.
    pub fn describe(&self) -> String {
        let all: Vec<String> = self.listeners.iter().map(LocalListener::describe).collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join("; ") }
    }

    /// Returns the reason why nothing can open the port to a command while these programs listen there.
    pub fn never_opened(&self) -> Option<String> {
        self.listeners.iter().find_map(|listener| listener.never_opened(self.port))
    }
}

/// A listening socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListeningSocket {
    inode: u64,
    owner: u32,
}

/// Returns the ports above 1023 on which something listens in this table of sockets, on the loopback or on every address.
pub fn listening_ports(table: &str) -> BTreeSet<u16> {
    rows(table).map(|(port, _)| port).filter(|port| *port >= 1024).collect()
}

/// Returns the ports on which something listens in this table of sockets, on the loopback or on every address, with the inodes of the sockets.
pub fn listening_sockets_by_port(table: &str) -> impl Iterator<Item = (u16, u64)> {
    rows(table).map(|(port, socket)| (port, socket.inode))
}

fn listening_sockets(table: &str, port: u16) -> impl Iterator<Item = ListeningSocket> {
    rows(table).filter(move |(own, _)| *own == port).map(|(_, socket)| socket)
}

/// Parses the rows of a table of sockets that listen on the loopback or on every address.
fn rows(table: &str) -> impl Iterator<Item = (u16, ListeningSocket)> {
    table.lines().skip(1).filter_map(|row| {
        let words: Vec<&str> = row.split_whitespace().collect();
        let (address, port) = words.get(1)?.split_once(':')?;
        let is_local = [
            "00000000",
            "0100007F",
            "00000000000000000000000000000000",
            "00000000000000000000000001000000",
            "0000000000000000FFFF00000100007F",
            "0000000000000000FFFF000000000000",
        ]
        .contains(&address);
        if !is_local || *words.get(3)? != LISTENING {
            return None;
        }
        let socket =
            ListeningSocket { owner: words.get(7)?.parse().ok()?, inode: words.get(9)?.parse().ok()? };
        Some((u16::from_str_radix(port, 16).ok()?, socket))
    })
}

/// Returns the processes that hold these sockets, as far as this user can see them.
fn find_holders(proc: &Path, sockets: &BTreeSet<ListeningSocket>) -> Vec<(u64, LocalListener)> {
    let wanted: Vec<(u64, PathBuf)> =
        sockets.iter().map(|socket| (socket.inode, format!("socket:[{}]", socket.inode).into())).collect();
    let mut found = Vec::new();
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    for process in
        processes.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
    {
        let place = process.path();
        let descriptors = fs::read_dir(place.join("fd")).into_iter().flatten().flatten();
        let held: BTreeSet<PathBuf> =
            descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
        for (inode, _) in wanted.iter().filter(|(_, name)| held.contains(name)) {
            let program = fs::read_link(place.join("exe")).ok();
            let command = own::read(place.join("cmdline")).unwrap_or_default();
            let command = command.split(|byte| *byte == 0).filter(|word| !word.is_empty());
            let command = command.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            found.push((*inode, LocalListener { owner: 0, program, command }));
        }
    }
    found
}

/// Returns the name of a user, or the number.
fn user_name(owner: u32) -> String {
    let users = own::read_text("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut words = line.split(':');
        let name = words.next()?;
        (words.nth(1)?.parse() == Ok(owner)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| owner.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_program_that_listens_is_named_and_a_free_port_has_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = LocalListeners::find(port).unwrap();
        let own = std::env::current_exe().unwrap();
        assert!(found.describe().starts_with(&format!("{} (", own.display())), "{}", found.describe());
        drop(listener);
        let free = LocalListeners::find(port).unwrap();
        assert_eq!((free.is_empty(), free.describe().as_str()), (true, "nothing"));
    }

    #[test]
    fn only_listening_sockets_of_the_loopback_are_listed() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 100 0 0 10 0\n\
             1: 0100007F:1F91 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0 100 0 0 10 0\n\
             2: 0200A8C0:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 13 1 0 100 0 0 10 0\n\
             3: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 14 1 0 100 0 0 10 0\n";
        assert_eq!(listening_ports(table), BTreeSet::from([8080]));
        assert_eq!(
            listening_sockets(table, 80).collect::<Vec<_>>(),
            [ListeningSocket { inode: 14, owner: 0 }]
        );
    }

    // req: E7
    #[test]
    fn a_program_that_obeys_whoever_connects_is_never_opened() {
        let of = |program: &str, command: &[&str]| LocalListener {
            owner: 1000,
            program: Some(program.into()),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
        };
        for (program, command, port, refused) in [
            ("/usr/bin/byleave", &["byleave", "serve"][..], 8410, true),
            ("/usr/bin/dockerd", &["dockerd"], 9999, true),
            ("/opt/google/chrome/chrome", &["chrome"], 40_000, true),
            ("/usr/bin/node", &["node", "--inspect=127.0.0.1:7000", "a.js"], 7000, true),
            ("/usr/bin/node", &["node", "--inspect=127.0.0.1:7000", "a.js"], 3000, false),
            ("/usr/bin/docker-proxy", &["docker-proxy", "-host-port", "5432"], 5432, false),
            ("/usr/lib/postgresql/17/bin/postgres", &["postgres", "-D", "/d"], 5432, false),
        ] {
            assert_eq!(of(program, command).never_opened(port).is_some(), refused, "{program} {command:?}");
        }
    }
}
