//! The bwrap backend. The system's bwrap creates the namespaces and mounts of our plan, and runs our first process in them, which
//! does the rest.
//!
//! It is for machines where bwrap may create namespaces and we may not. Its arguments come from the same mount program that the
//! native launcher runs, so that both build the same sandbox. It must never be given a sandbox that its options cannot express.

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
use super::{LaunchError, RunAs, ThisHost, embedded_init, init_report, internal_error, own_identity, scan};
use crate::clone3;
use crate::confinement::Confinement;
use crate::plan::{CommandSpec, LaunchPlan};
use crate::plan_format::{MountAccess, MountOp};

/// The paths where a system installs it. `PATH` is not searched, because a project may have changed it. Security exceptions for
/// bwrap also go by its path.
const PLACES: [&str; 4] =
    ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/wrappers/bin/bwrap", "/run/current-system/sw/bin/bwrap"];
/// The path of our first process inside: the descriptor after its five.
const INIT: &CStr = c"/proc/self/fd/5";
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The system's bwrap, and the options that it supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bwrap {
    /// Its path.
    pub path: PathBuf,
    /// Whether it can limit the size of an empty file system, which needs version 0.7.
    pub supports_size: bool,
    /// Whether it can forbid further user namespaces, which needs version 0.8. Otherwise only the filter forbids them.
    pub supports_disable_userns: bool,
}

impl Bwrap {
    /// Finds the system's bwrap, or returns why it cannot be used.
    pub fn find() -> Result<Self, String> {
        let found = PLACES.iter().map(Path::new).find(|path| path.exists());
        let Some(path) = found else { return Err("there is no bwrap on this system".into()) };
        let told = |error| format!("cannot check `{}`: {error}", path.display());
        let meta = fs::metadata(path).map_err(told)?;
        if meta.uid() != 0 || meta.mode() & 0o022 != 0 {
            return Err(format!("`{}` can be changed by users other than root", path.display()));
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
            supports_size: knows("--size"),
            supports_disable_userns: knows("--disable-userns"),
        })
    }

    /// Starts a command in a sandbox that bwrap builds. Returns when the sandbox is ready.
    pub(crate) fn start(
        &self,
        confinement: &Confinement,
        command: &CommandSpec,
        run_as: RunAs,
    ) -> Result<RunningCommand, LaunchError> {
        let (confinement, tripwire) = scan::prepare_command(confinement, None)?;
        let confinement = &confinement;
        let plan = LaunchPlan::new(confinement, command, own_identity(run_as)?, &ThisHost)?;
        let network_apart = plan.own_network;
        let (plan, mounts) = plan.for_inner();
        let arguments = self.arguments(&mounts, network_apart);
        let arguments: Vec<&CStr> = arguments.iter().map(CString::as_c_str).collect();
        let program = own::open(&self.path).map_err(internal_error("opening bwrap"))?;
        let (program, init) = (OwnedFd::from(program), embedded_init::init_program()?);
        let ends = ChildStdio::new(&plan, command, confinement.limits.output_bytes)?;
        let clock = RunClock::start(confinement);
        let mut given: Vec<BorrowedFd<'_>> = ends.child_descriptors().to_vec();
        given.push(init);
        let pidfd =
            spawn_as(run_as, || clone3::spawn_without_namespaces(program.as_fd(), &given, &arguments))?;
        let leash = ends.control_socket.try_clone().map_err(internal_error("copying a descriptor"))?;
        let process = InitProcess { pidfd, is_child: true, control_socket: Some(leash) };
        let mut running = ends.into_running(process, None, plan, clock, tripwire);
        match stands(&mut running) {
            Ok(()) => Ok(running),
            Err(error) => {
                // The first process may not run yet, and would then not notice the closed control socket.
                pidfd_send_signal(&running.process.pidfd, Signal::KILL).unwrap_or_default();
                Err(error)
            }
        }
    }

    /// Returns the arguments: namespaces, the file systems in order, and the program.
    fn arguments(&self, mounts: &[MountOp<CString>], network_apart: bool) -> Vec<CString> {
        let mut words =
            BwrapArguments { bwrap: self, words: vec![c"bwrap".into()], emptied: BTreeMap::new() };
        words.all(&[c"--unshare-user", c"--unshare-pid", c"--unshare-ipc", c"--unshare-uts"]);
        if network_apart {
            words.all(&[c"--unshare-net"]);
        }
        if self.supports_disable_userns {
            words.all(&[c"--disable-userns"]);
        }
        words.all(&[c"--as-pid-1", c"--new-session", c"--chdir", c"/", c"--ro-bind", c"/", c"/"]);
        words.mounts(mounts);
        words.all(&[c"--", INIT]);
        words.words
    }
}

/// Waits until the first process reports that it is ready. If it never does, the output of bwrap is the reason.
fn stands(running: &mut RunningCommand) -> Result<(), LaunchError> {
    let pidfd = running.process.pidfd.as_fd();
    let mut polled =
        [PollFd::new(&running.control_socket, PollFlags::IN), PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    let waited = loop {
        match poll(&mut polled, Some(&PATIENCE)) {
            Err(rustix::io::Errno::INTR) => {}
            waited => break waited.map_err(internal_error("waiting for bwrap"))?,
        }
    };
    if waited == 0 {
        return Err(LaunchError::Bwrap { message: "bwrap did not become ready in time".into() });
    }
    match init_report::read_message(&running.control_socket, &running.plan)? {
        Some(_) => Ok(()),
        None => {
            running
                .streams
                .copy_until_end(pidfd, Instant::now().checked_add(std::time::Duration::from_secs(1)))?;
            // If both streams are one, it is the first. Before the command starts, only bwrap prints.
            let said = running.streams.take_output().map(|printed| printed.bytes).concat();
            let said = String::from_utf8_lossy(&said).trim().to_owned();
            let said = said.strip_prefix("bwrap: ").unwrap_or(&said).to_owned();
            Err(LaunchError::Bwrap {
                message: if said.is_empty() { "bwrap gave no reason".into() } else { said },
            })
        }
    }
}

/// The content of a slot of the mount program.
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
    /// A mount that bwrap creates itself, with the devices or with `/proc`.
    Made,
}

struct BwrapArguments<'a> {
    bwrap: &'a Bwrap,
    words: Vec<CString>,
    /// Paths of empty mounts. A clone of such a path is empty as well.
    emptied: BTreeMap<CString, HeldMount>,
}

impl BwrapArguments<'_> {
    fn all(&mut self, words: &[&CStr]) {
        self.words.extend(words.iter().map(|word| CString::from(*word)));
    }

    fn number(&mut self, word: &CStr, digits: &str) {
        self.all(&[word]);
        // Digits contain no zero byte.
        self.words.extend(CString::new(digits));
    }

    fn mounts(&mut self, mounts: &[MountOp<CString>]) {
        let mut held: BTreeMap<u32, HeldMount> = BTreeMap::new();
        for op in mounts {
            match op {
                MountOp::CloneTree { slot, path, access, .. } => {
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
                // bwrap does these itself. It begins with private, read-only mounts, starts the loopback, creates the links of
                // the devices, and has an option for further namespaces.
                MountOp::MakePrivate
                | MountOp::Seal
                | MountOp::Loopback
                | MountOp::Link { .. }
                | MountOp::Write { .. } => {}
                // Part of a proxied network, which is never requested of this backend.
                MountOp::File { .. }
                | MountOp::Route
                | MountOp::OfferSocket { .. }
                | MountOp::WaitForReady => {}
                // Part of a copy, which is never requested of this backend either.
                MountOp::Layer { .. } | MountOp::Overlay { .. } | MountOp::SkipIfMissing { .. } => {}
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
                if self.bwrap.supports_size {
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
