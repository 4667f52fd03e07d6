//! The rung through the system's bwrap: it makes the namespaces and mounts what our plan says, and runs our first process in
//! them, which does the rest.
//!
//! For machines where bwrap may make namespaces and we may not. It is told what to mount by the very mount program that the native
//! launcher performs, so that both give the same place; it must never be given a place to make that it has not the words for.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use byleave_files::own;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};

use super::ends::Ends;
use super::process::{Process, spawn_as};
use super::running::{Clock, Running};
use super::{LaunchError, RunAs, ThisHost, carried, identity, inside, looked, ours};
use crate::confinement::Confinement;
use crate::plan::{Command, Plan};
use crate::sys;
use crate::wire::{Access, Op};

/// Where a system keeps it. Not looked for in `PATH`, which a project may have changed; and exceptions for it go by its path.
const PLACES: [&str; 4] =
    ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/wrappers/bin/bwrap", "/run/current-system/sw/bin/bwrap"];
/// Where the place finds our first process: the descriptor after its five.
const INIT: &CStr = c"/proc/self/fd/5";
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The system's bwrap, and which of its words it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bwrap {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it can limit the size of an empty file system; before 0.7 it cannot.
    pub sizes: bool,
    /// Whether it can forbid further user namespaces; before 0.8 it cannot, and the filter alone does.
    pub forbids_namespaces: bool,
}

impl Bwrap {
    /// The system's bwrap, or why it cannot be used.
    pub fn find() -> Result<Self, String> {
        let found = PLACES.iter().map(Path::new).find(|path| path.exists());
        let Some(path) = found else { return Err("there is no bwrap on this system".into()) };
        let told = |error| format!("cannot look at `{}`: {error}", path.display());
        let meta = fs::metadata(path).map_err(told)?;
        if meta.uid() != 0 || meta.mode() & 0o022 != 0 {
            return Err(format!("`{}` can be changed by others than root", path.display()));
        }
        let help = std::process::Command::new(path).arg("--help").env_clear().output().map_err(told)?;
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let knows = |word: &str| help.split_whitespace().any(|other| other == word);
        if let Some(missing) = ["--as-pid-1", "--perms", "--remount-ro"].into_iter().find(|word| !knows(word))
        {
            return Err(format!("`{}` is too old: it has no `{missing}`", path.display()));
        }
        Ok(Self {
            path: path.to_path_buf(),
            sizes: knows("--size"),
            forbids_namespaces: knows("--disable-userns"),
        })
    }

    /// Starts a command in a place that it makes. Returns when the place stands.
    pub(crate) fn start(
        &self,
        confinement: &Confinement,
        command: &Command,
        run_as: RunAs,
    ) -> Result<Running, LaunchError> {
        let (confinement, tripwire) = looked::once(confinement, None)?;
        let confinement = &confinement;
        let plan = Plan::new(confinement, command, identity(run_as)?, &ThisHost)?;
        let network_apart = plan.network_apart;
        let (plan, mounts) = plan.for_inner();
        let arguments = self.arguments(&mounts, network_apart);
        let arguments: Vec<&CStr> = arguments.iter().map(CString::as_c_str).collect();
        let program = own::open(&self.path).map_err(ours("opening bwrap"))?;
        let (program, init) = (OwnedFd::from(program), carried::program()?);
        let ends = Ends::new(&plan, command, confinement.limits.output)?;
        let clock = Clock::start(confinement);
        let mut given: Vec<BorrowedFd<'_>> = ends.given().to_vec();
        given.push(init);
        let pidfd = spawn_as(run_as, || sys::spawn_here(program.as_fd(), &given, &arguments))?;
        let leash = ends.leash.try_clone().map_err(ours("copying a descriptor"))?;
        let process = Process { pidfd, child: true, leash: Some(leash) };
        let mut running = ends.running(process, None, plan, clock, tripwire);
        match stands(&mut running) {
            Ok(()) => Ok(running),
            Err(error) => {
                // Nobody may be there yet to notice the leash.
                pidfd_send_signal(&running.process.pidfd, Signal::KILL).unwrap_or_default();
                Err(error)
            }
        }
    }

    /// What it is told: namespaces, the file systems in their order, and what to run.
    fn arguments(&self, mounts: &[Op<CString>], network_apart: bool) -> Vec<CString> {
        let mut words = Words { bwrap: self, words: vec![c"bwrap".into()], emptied: BTreeMap::new() };
        words.all(&[c"--unshare-user", c"--unshare-pid", c"--unshare-ipc", c"--unshare-uts"]);
        if network_apart {
            words.all(&[c"--unshare-net"]);
        }
        if self.forbids_namespaces {
            words.all(&[c"--disable-userns"]);
        }
        words.all(&[c"--as-pid-1", c"--new-session", c"--chdir", c"/", c"--ro-bind", c"/", c"/"]);
        words.mounts(mounts);
        words.all(&[c"--", INIT]);
        words.words
    }
}

/// Waits until the first process says that it is ready. If it never comes to that, what bwrap said is why.
fn stands(running: &mut Running) -> Result<(), LaunchError> {
    let pidfd = running.process.pidfd.as_fd();
    let mut polled =
        [PollFd::new(&running.leash, PollFlags::IN), PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    let waited = loop {
        match poll(&mut polled, Some(&PATIENCE)) {
            Err(rustix::io::Errno::INTR) => {}
            waited => break waited.map_err(ours("waiting for bwrap"))?,
        }
    };
    if waited == 0 {
        return Err(LaunchError::Bwrap { said: "it took too long".into() });
    }
    match inside::heard(&running.leash, &running.plan)? {
        Some(_) => Ok(()),
        None => {
            running.streams.carry(pidfd, Instant::now().checked_add(std::time::Duration::from_secs(1)))?;
            // Where both are one, it is the first; and before the command starts, nobody but bwrap prints.
            let said = running.streams.printed().map(|printed| printed.bytes).concat();
            let said = String::from_utf8_lossy(&said).trim().to_owned();
            let said = said.strip_prefix("bwrap: ").unwrap_or(&said).to_owned();
            Err(LaunchError::Bwrap { said: if said.is_empty() { "it says nothing".into() } else { said } })
        }
    }
}

/// What is in a hand of the mount program.
#[derive(Clone)]
enum Held {
    Tree {
        path: CString,
        access: Access,
    },
    Empty {
        bytes: u64,
        mode: u32,
        access: Access,
    },
    /// What bwrap makes by itself, with the devices or with the processes.
    Made,
}

struct Words<'a> {
    bwrap: &'a Bwrap,
    words: Vec<CString>,
    /// Where something empty was put; what is taken from there is as empty.
    emptied: BTreeMap<CString, Held>,
}

impl Words<'_> {
    fn all(&mut self, words: &[&CStr]) {
        self.words.extend(words.iter().map(|word| CString::from(*word)));
    }

    fn number(&mut self, word: &CStr, digits: &str) {
        self.all(&[word]);
        // Digits have no zero byte.
        self.words.extend(CString::new(digits));
    }

    fn mounts(&mut self, mounts: &[Op<CString>]) {
        let mut held: BTreeMap<u32, Held> = BTreeMap::new();
        for op in mounts {
            match op {
                Op::Hold { slot, path, access, .. } => {
                    let tree = || Held::Tree { path: path.clone(), access: *access };
                    held.insert(*slot, self.emptied.get(path).cloned().unwrap_or_else(tree));
                }
                Op::Scratch { slot, bytes, mode, access, .. } => {
                    held.insert(*slot, Held::Empty { bytes: *bytes, mode: *mode, access: *access });
                }
                Op::Terminals { slot } | Op::Processes { slot } => {
                    held.insert(*slot, Held::Made);
                }
                Op::Attach { slot, path, .. } => {
                    if let Some(held) = held.get(slot).cloned() {
                        self.attach(&held, path);
                    }
                }
                Op::Hostname { name } => self.all(&[c"--hostname", name]),
                // Its own affair: it begins with everything private and read-only, starts the loopback, links what belongs to
                // the devices, and was told about further namespaces.
                Op::Seclude | Op::Seal | Op::Loopback | Op::Link { .. } | Op::Write { .. } => {}
                // Of a network that is served, which the ladder does not let it make.
                Op::File { .. } | Op::Route | Op::Offer { .. } | Op::Await => {}
                // Of a copy, likewise.
                Op::Layer { .. } | Op::Overlay { .. } | Op::IfThere { .. } => {}
            }
        }
    }

    fn attach(&mut self, held: &Held, path: &CStr) {
        let at = Path::new(OsStr::from_bytes(path.to_bytes()));
        match held {
            _ if at == Path::new("/dev") => self.all(&[c"--dev", path, c"--remount-ro", path]),
            _ if at == Path::new("/proc") => self.all(&[c"--proc", path]),
            // The devices and terminals that come with `--dev`.
            Held::Made => {}
            Held::Tree { .. } if at.starts_with("/dev") => {}
            Held::Tree { path: source, access } => {
                let word = match access {
                    Access::Write => c"--bind",
                    Access::Device => c"--dev-bind",
                    Access::Read | Access::Mask => c"--ro-bind",
                };
                self.all(&[word, source, path]);
            }
            Held::Empty { bytes, mode, access } => {
                self.number(c"--perms", &format!("{mode:04o}"));
                if self.bwrap.sizes {
                    self.number(c"--size", &bytes.to_string());
                }
                self.all(&[c"--tmpfs", path]);
                if *access == Access::Mask {
                    self.all(&[c"--remount-ro", path]);
                }
                self.emptied.insert(path.into(), held.clone());
            }
        }
    }
}
