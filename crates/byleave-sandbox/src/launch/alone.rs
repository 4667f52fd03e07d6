//! The rung without namespaces: the command behind Landlock and a system call filter, among everybody else's processes.
//!
//! What it cannot do is for the ladder to say; this must never be reached by a confinement that needs it and did not waive it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::{
    Clock, Ends, LaunchError, Process, RunAs, Running, ThisHost, carried, identity, looked, ours, spawn_as,
};
use crate::confinement::Confinement;
use crate::plan::{Command, Identity, Plan};
use crate::sys;

/// Starts a command behind Landlock and the filter alone.
pub(crate) fn start(
    confinement: &Confinement,
    command: &Command,
    run_as: RunAs,
) -> Result<Running, LaunchError> {
    let identity = identity(run_as)?;
    let (confinement, tripwire) = &looked::once(confinement, None)?;
    let scratch = Scratch::new(identity)?;
    let plan = Plan::new(confinement, command, identity, &ThisHost)?;
    let processes = processes_of(identity.uid);
    let plan = plan.for_alone(&confinement.files, &scratch.path, processes, &ThisHost, entries)?;
    let program = carried::program()?;
    let ends = Ends::new(&plan, command, confinement.limits.output)?;
    let clock = Clock::start(confinement);
    let pidfd = spawn_as(run_as, || sys::spawn_here(program, &ends.given(), &[c"byleave-init"]))?;
    let leash = ends.leash.try_clone().map_err(ours("copying a descriptor"))?;
    let process = Process { pidfd, child: true, leash: Some(leash) };
    let mut running = ends.running(process, None, plan, clock, tripwire.clone());
    running.scratch = Some(scratch);
    Ok(running)
}

fn entries(path: &Path) -> Vec<PathBuf> {
    // What cannot be listed is not allowed either.
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// How many processes and threads a user has, as far as can be seen.
fn processes_of(uid: u32) -> u64 {
    let threads = |process: fs::DirEntry| {
        let owner = process.metadata().ok()?.uid();
        let status = (owner == uid).then(|| fs::read_to_string(process.path().join("status")).ok())??;
        status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse::<u64>().ok()
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(threads).sum()
}

/// A temporary directory of one command, which goes with it.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Scratch {
    pub(crate) fn new(owner: Identity) -> Result<Self, LaunchError> {
        Self::within(&std::env::temp_dir(), owner)
    }

    /// In this directory.
    pub(crate) fn within(above: &Path, owner: Identity) -> Result<Self, LaunchError> {
        let making = "making a temporary directory";
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(|error| ours(making)(std::io::Error::other(error)))?;
        let name = format!("byleave-{:016x}", u64::from_ne_bytes(random));
        let above = above.canonicalize().map_err(ours(making))?;
        let path = above.join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(ours(making))?;
        let made = Self { path };
        let ours_already = fs::metadata(&made.path).map_err(ours(making))?.uid() == owner.uid;
        if !ours_already {
            chown(&made.path, Some(owner.uid), Some(owner.gid)).map_err(ours(making))?;
        }
        Ok(made)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A command may have locked directories of its own; best effort, it is a temporary directory after all.
        if fs::remove_dir_all(&self.path).is_err() {
            open_all(&self.path);
            fs::remove_dir_all(&self.path).unwrap_or_default();
        }
    }
}

/// Makes every directory one that can be emptied. Follows no link.
fn open_all(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap_or_default();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_all(&entry.path());
        }
    }
}
