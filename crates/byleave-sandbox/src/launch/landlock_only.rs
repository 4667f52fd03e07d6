//! The backend without namespaces: the command runs behind Landlock and a system call filter, among all other processes.
//!
//! `backend` knows what it cannot guarantee. A confinement that needs such a guarantee and did not waive it must never get here.

mod command_proxy;
mod home;
mod metadata_supervisor;
mod root_only;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt as _};
use std::path::{Path, PathBuf};

use byleave_files::own;

use super::init_report::{self, InitMessage};
use super::process::{InitProcess, spawn_as};
use super::running::{RunClock, RunningCommand};
use super::stdio::ChildStdio;
use super::temp_dir::CommandTempDir;
use command_proxy::CommandProxy;
pub(super) use metadata_supervisor::MetadataSupervisor;

use super::{
    IndexCache, LaunchError, NetworkBridge, RunAs, ThisHost, embedded_init, internal_error, owner_on_disk,
    scan,
};
use crate::clone3;
use crate::confinement::{Confinement, CopySource, FileConfinement};
use crate::net::egress::Egress;
use crate::plan::{CommandSpec, LaunchPlan};
use crate::plan_format::REPORT_LISTENER;

/// Starts a command behind Landlock and the filter alone. Root stays root, without any capability.
pub(crate) fn start(
    confinement: &Confinement,
    command: &CommandSpec,
    run_as: RunAs,
    through: Option<(&NetworkBridge, Egress)>,
    warm: Option<&IndexCache>,
) -> Result<RunningCommand, LaunchError> {
    let identity = owner_on_disk(run_as);
    let (mut confinement, tripwire) = scan::prepare_command(confinement, warm)?;
    check_blank(&confinement.files)?;
    let scratch = CommandTempDir::new(identity)?;
    // The limits are those of a run on copies. What grows besides is the temporary directory.
    let mut watched = confinement.clone();
    watched.files.writable.push(scratch.path.clone());
    let home = home::make(&confinement.files, &scratch.path, identity)?;
    if let Some(variable) = confinement.environment.get_mut("HOME") {
        *variable = home;
    }
    confinement.files = on_trees(&confinement.files);
    if identity.uid == 0 {
        confinement.files.hidden.extend(root_only::paths());
    }
    let confinement = &confinement;
    let plan = LaunchPlan::new(&at_originals(confinement), command, identity, &ThisHost)?;
    let processes = processes_of(identity.uid);
    let plan = plan.without_namespaces(&confinement.files, &scratch.path, processes, &ThisHost, entries)?;
    let network = through.map(|(bridge, door)| CommandProxy::serve(bridge, door)).transpose()?;
    let plan = match &network {
        Some(proxy) => proxy.add_to(plan, confinement, &scratch.path)?,
        None => plan,
    };
    let program = embedded_init::init_program()?;
    let ends = ChildStdio::new(&plan, command, confinement.limits.output_bytes)?;
    let clock = RunClock::start(&watched);
    if let Some((kept_in, free)) = clock.monitor.find_full_disk() {
        let reserve = confinement.limits.reserve_bytes;
        return Err(LaunchError::DiskFull { store_dir: kept_in.to_path_buf(), free, reserve });
    }
    let pidfd = spawn_as(run_as, || {
        clone3::spawn_without_namespaces(program, &ends.child_descriptors(), &[c"byleave-init"])
    })?;
    let leash = ends.control_socket.try_clone().map_err(internal_error("copying a descriptor"))?;
    let process = InitProcess { pidfd, is_child: true, control_socket: Some(leash) };
    let mut running = ends.into_running(process, None, plan, clock, tripwire);
    let listener = match init_report::read_message(&running.control_socket, &running.plan)? {
        Some(InitMessage { words: [REPORT_LISTENER, ..], descriptor: Some(listener), .. }) => listener,
        _ => return Err(LaunchError::InvalidReport),
    };
    let writable = confinement.files.writable.iter().chain([&scratch.path]).cloned().collect::<Vec<_>>();
    running.supervisor = Some(MetadataSupervisor::start(listener, &writable, identity.uid)?);
    running.temp_dir = Some(scratch);
    running.network = network.map(CommandProxy::into_network);
    Ok(running)
}

/// Returns the files with every copy in the place of its original: the command works at the path of the copy.
///
/// The originals can be read, because programs name them by absolute paths (in `#!` lines, in the settings of a virtual environment).
fn on_trees(files: &FileConfinement) -> FileConfinement {
    let moved = |path: &PathBuf| files.path_on_copy(path);
    let mut files = FileConfinement {
        cwd: moved(&files.cwd),
        writable: files.writable.iter().map(moved).collect(),
        // What is protected or hidden on a copy: see `check_blank`, and what becomes of the changes.
        protected: Vec::new(),
        copies: Vec::new(),
        path_policy: None,
        ..files.clone()
    };
    files.writable.dedup();
    files
}

/// Returns a confinement for planning what depends on no mounts.
fn at_originals(confinement: &Confinement) -> Confinement {
    let files = FileConfinement { cwd: confinement.files.cwd.clone(), ..FileConfinement::default() };
    Confinement { files, ..confinement.clone() }
}

/// Checks that no copy has the content of a hidden file: Landlock cannot hide a part of a writable tree.
fn check_blank(files: &FileConfinement) -> Result<(), LaunchError> {
    for copied in &files.copies {
        let CopySource::Tree { path: tree } = &copied.source else {
            return Err(LaunchError::CopiesUnsupported("without namespaces, where nothing can be mounted"));
        };
        for hidden in &files.hidden {
            let Ok(inside) = hidden.strip_prefix(&copied.root) else { continue };
            if !is_blank(&tree.join(inside)) {
                return Err(LaunchError::HiddenInCopy(hidden.clone()));
            }
        }
    }
    Ok(())
}

/// Checks that nothing is at a path, or only a file or directory without content.
fn is_blank(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Err(error) => {
            matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
        }
        Ok(found) if found.is_file() => found.len() == 0,
        Ok(found) if found.is_dir() => is_empty(path, &found),
        // A link has no content. Its target has its own path.
        Ok(found) => found.is_symlink(),
    }
}

/// Checks whether a directory of a copy is empty. It is ours, and closed also for its owner.
fn is_empty(path: &Path, found: &fs::Metadata) -> bool {
    let is_closed = found.permissions().mode() & 0o700 == 0;
    if is_closed && fs::set_permissions(path, fs::Permissions::from_mode(0o700)).is_err() {
        return false;
    }
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    is_empty && (!is_closed || fs::set_permissions(path, found.permissions()).is_ok())
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
