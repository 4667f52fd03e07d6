//! The backend without namespaces: the command runs behind Landlock and a system call filter, among all other processes.
//!
//! `backend` knows what it cannot guarantee. A confinement that needs such a guarantee and did not waive it must never get here.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use byleave_files::own;

use super::process::{InitProcess, spawn_as};
use super::running::{RunClock, RunningCommand};
use super::stdio::ChildStdio;
use super::temp_dir::CommandTempDir;
use super::{LaunchError, RunAs, ThisHost, embedded_init, internal_error, own_identity, scan};
use crate::clone3;
use crate::confinement::Confinement;
use crate::plan::{CommandSpec, LaunchPlan};

/// Starts a command behind Landlock and the filter alone.
pub(crate) fn start(
    confinement: &Confinement,
    command: &CommandSpec,
    run_as: RunAs,
) -> Result<RunningCommand, LaunchError> {
    let identity = own_identity(run_as)?;
    let (confinement, tripwire) = scan::prepare_command(confinement, None)?;
    let confinement = &confinement;
    let scratch = CommandTempDir::new(identity)?;
    let plan = LaunchPlan::new(confinement, command, identity, &ThisHost)?;
    let processes = processes_of(identity.uid);
    let plan = plan.without_namespaces(&confinement.files, &scratch.path, processes, &ThisHost, entries)?;
    let program = embedded_init::init_program()?;
    let ends = ChildStdio::new(&plan, command, confinement.limits.output_bytes)?;
    let clock = RunClock::start(confinement);
    let pidfd = spawn_as(run_as, || {
        clone3::spawn_without_namespaces(program, &ends.child_descriptors(), &[c"byleave-init"])
    })?;
    let leash = ends.control_socket.try_clone().map_err(internal_error("copying a descriptor"))?;
    let process = InitProcess { pidfd, is_child: true, control_socket: Some(leash) };
    let mut running = ends.into_running(process, None, plan, clock, tripwire);
    running.temp_dir = Some(scratch);
    Ok(running)
}

fn entries(path: &Path) -> Vec<PathBuf> {
    // A directory that cannot be listed is not allowed either.
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Returns how many processes and threads a user has, as far as they are visible.
fn processes_of(uid: u32) -> u64 {
    let threads = |process: fs::DirEntry| {
        let owner = process.metadata().ok()?.uid();
        let status = (owner == uid).then(|| own::read_text(process.path().join("status")).ok())??;
        status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse::<u64>().ok()
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(threads).sum()
}
