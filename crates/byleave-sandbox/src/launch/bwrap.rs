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

use super::process::{InitProcess, spawn_as};
use super::running::{RunClock, RunningCommand};
use super::stdio::ChildStdio;
use super::{LaunchError, RunAs, ThisHost, embedded_init, identity, init_report, ours, scan};
use crate::clone3;
use crate::confinement::Confinement;
use crate::plan::{CommandSpec, LaunchPlan};
use crate::plan_format::{MountAccess, MountOp};

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
        command: &CommandSpec,
        run_as: RunAs,
    ) -> Result<RunningCommand, LaunchError> {
        let (confinement, tripwire) = scan::once(confinement, None)?;
        let confinement = &confinement;
        let plan = LaunchPlan::new(confinement, command, identity(run_as)?, &ThisHost)?;
        let network_apart = plan.network_apart;
        let (plan, mounts) = plan.for_inner();
        let arguments = self.arguments(&mounts, network_apart);
        let arguments: Vec<&CStr> = arguments.iter().map(CString::as_c_str).collect();
        let program = own::open(&self.path).map_err(ours("opening bwrap"))?;
        let (program, init) = (OwnedFd::from(program), embedded_init::program()?);
        let ends = ChildStdio::new(&plan, command, confinement.limits.output)?;
        let clock = RunClock::start(confinement);
        let mut given: Vec<BorrowedFd<'_>> = ends.given().to_vec();
        given.push(init);
        let pidfd = spawn_as(run_as, || clone3::spawn_here(program.as_fd(), &given, &arguments))?;
        let leash = ends.leash.try_clone().map_err(ours("copying a descriptor"))?;
        let process = InitProcess { pidfd, child: true, leash: Some(leash) };
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
    fn arguments(&self, mounts: &[MountOp<CString>], network_apart: bool) -> Vec<CString> {
        let mut words =
            BwrapArguments { bwrap: self, words: vec![c"bwrap".into()], emptied: BTreeMap::new() };
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
fn stands(running: &mut RunningCommand) -> Result<(), LaunchError> {
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
    match init_report::heard(&running.leash, &running.plan)? {
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
enum HeldMount {
    Tree {
        path: CString,
        access: MountAccess,
    },
    Empty {
        bytes: u64,
        mode: u32,
        access: MountAccess,
    },
    /// What bwrap makes by itself, with the devices or with the processes.
    Made,
}

struct BwrapArguments<'a> {
    bwrap: &'a Bwrap,
    words: Vec<CString>,
    /// Where something empty was put; what is taken from there is as empty.
    emptied: BTreeMap<CString, HeldMount>,
}

impl BwrapArguments<'_> {
    fn all(&mut self, words: &[&CStr]) {
        self.words.extend(words.iter().map(|word| CString::from(*word)));
    }

    fn number(&mut self, word: &CStr, digits: &str) {
        self.all(&[word]);
        // Digits have no zero byte.
        self.words.extend(CString::new(digits));
    }

    fn mounts(&mut self, mounts: &[MountOp<CString>]) {
        let mut held: BTreeMap<u32, HeldMount> = BTreeMap::new();
        for op in mounts {
            match op {
                MountOp::Hold { slot, path, access, .. } => {
                    let tree = || HeldMount::Tree { path: path.clone(), access: *access };
                    held.insert(*slot, self.emptied.get(path).cloned().unwrap_or_else(tree));
                }
                MountOp::Scratch { slot, bytes, mode, access, .. } => {
                    held.insert(*slot, HeldMount::Empty { bytes: *bytes, mode: *mode, access: *access });
                }
                MountOp::Terminals { slot } | MountOp::Processes { slot } => {
                    held.insert(*slot, HeldMount::Made);
                }
                MountOp::Attach { slot, path, .. } => {
                    if let Some(held) = held.get(slot).cloned() {
                        self.attach(&held, path);
                    }
                }
                MountOp::Hostname { name } => self.all(&[c"--hostname", name]),
                // Its own affair: it begins with everything private and read-only, starts the loopback, links what belongs to
                // the devices, and was told about further namespaces.
                MountOp::Seclude
                | MountOp::Seal
                | MountOp::Loopback
                | MountOp::Link { .. }
                | MountOp::Write { .. } => {}
                // Of a network that is served, which the ladder does not let it make.
                MountOp::File { .. } | MountOp::Route | MountOp::Offer { .. } | MountOp::Await => {}
                // Of a copy, likewise.
                MountOp::Layer { .. } | MountOp::Overlay { .. } | MountOp::IfThere { .. } => {}
            }
        }
    }

    fn attach(&mut self, held: &HeldMount, path: &CStr) {
        let at = Path::new(OsStr::from_bytes(path.to_bytes()));
        match held {
            _ if at == Path::new("/dev") => self.all(&[c"--dev", path, c"--remount-ro", path]),
            _ if at == Path::new("/proc") => self.all(&[c"--proc", path]),
            // The devices and terminals that come with `--dev`.
            HeldMount::Made => {}
            HeldMount::Tree { .. } if at.starts_with("/dev") => {}
            HeldMount::Tree { path: source, access } => {
                let word = match access {
                    MountAccess::Write => c"--bind",
                    MountAccess::Device => c"--dev-bind",
                    MountAccess::Read | MountAccess::Mask => c"--ro-bind",
                };
                self.all(&[word, source, path]);
            }
            HeldMount::Empty { bytes, mode, access } => {
                self.number(c"--perms", &format!("{mode:04o}"));
                if self.bwrap.sizes {
                    self.number(c"--size", &bytes.to_string());
                }
                self.all(&[c"--tmpfs", path]);
                if *access == MountAccess::Mask {
                    self.all(&[c"--remount-ro", path]);
                }
                self.emptied.insert(path.into(), held.clone());
            }
        }
    }
}
