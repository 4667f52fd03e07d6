//! Finds out which backends work on this machine by running a command on each, and what would help with the others.
//!
//! A kernel setting shows what is configured, not what works. A backend works if a command has run on it. Settings are read only
//! to give advice. The command is `true`, in a temporary directory that is removed afterwards.

mod container_wall;
mod host_environment;
mod overlays;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::time::Duration;

use byleave_files::own;

pub use container_wall::check_container_wall;
pub use host_environment::{BackendFailure, ContainerKind, HostEnvironment, WslVersion, remedies};
pub use overlays::probe_overlays;

use crate::backend::{self, Backend};
use crate::clone3;
use crate::confinement::{
    Confinement, CopiedPath, CopySource, FileConfinement, Network, ReadScope, SandboxPorts,
};
use crate::guarantee::{Enforcement, Guarantee, UnenforceableError};
use crate::launch::{
    CommandOutcome, CommandStatus, CommandTempDir, LaunchError, RunAs, check_mapped_files, identity,
    owner_on_disk,
};
use crate::limits::ResourceLimits;
use crate::plan::CommandSpec;
use crate::plan_format::{InitProcessStep, MountOp};

const WALL: Duration = Duration::from_secs(3);
const PATH: &str = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin";

/// The result of a probe of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// The kernel release.
    pub kernel: String,
    /// The version of Landlock, or zero without Landlock.
    pub landlock: u32,
    /// The environment of this program, as far as it matters here.
    pub environment: HostEnvironment,
    /// The results of all backends, strongest first.
    pub backends: Vec<BackendProbe>,
}

/// The result of trying one backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendProbe {
    /// The backend.
    pub backend: Backend,
    /// The time that a command took, or why none runs.
    pub start_time: Result<Duration, BackendError>,
    /// The guarantees for a usual confinement, if the backend works.
    pub enforcement: Vec<(Guarantee, Enforcement)>,
}

/// The reason why a backend does not work, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    /// The failure.
    pub reason: String,
    /// Remedies, most likely first. Empty if none is known.
    pub remedies: Vec<String>,
}

/// Checks whether the native launcher can start a command at all, by starting one.
pub fn check_native(run_as: RunAs) -> Result<(), LaunchError> {
    let outcome = attempt(Backend::Native, run_as)?;
    if outcome.status == CommandStatus::Exited(0) {
        return Ok(());
    }
    let why = format!("{}: `true` ended with {:?}", Backend::Native, outcome.status);
    Err(LaunchError::NoBackend { obstacles: why })
}

/// Returns the backend for commands on copies of these directories: namespaces if they work here, otherwise Landlock alone. The error
/// is that of the namespaces.
pub fn choose_for_copies(run_as: RunAs, files: &FileConfinement) -> Result<Backend, LaunchError> {
    let mapped = || if run_as == RunAs::Caller { check_mapped_files(files) } else { Ok(()) };
    let Err(error) = check_native(run_as).and_then(|()| mapped()) else { return Ok(Backend::Native) };
    let alone = attempt(Backend::Landlock, run_as);
    if alone.is_ok_and(|outcome| outcome.status == CommandStatus::Exited(0)) {
        return Ok(Backend::Landlock);
    }
    Err(error)
}

impl ProbeReport {
    /// Tries every backend on this machine, as the user that commands will run as.
    pub fn run_all(run_as: RunAs) -> Self {
        let surroundings = HostEnvironment::detect();
        let landlock = clone3::landlock_version();
        let rungs = Backend::ALL.map(|rung| climb(rung, run_as, landlock, &surroundings)).into();
        let kernel = own::read_text("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        Self { kernel, landlock, environment: surroundings, backends: rungs }
    }

    /// Returns the backends that work, strongest first.
    pub fn available(&self) -> impl Iterator<Item = Backend> {
        self.backends.iter().filter(|tried| tried.start_time.is_ok()).map(|tried| tried.backend)
    }

    /// Returns the strongest backend that gives every guarantee of this confinement. Otherwise returns what the strongest working
    /// one lacks.
    pub fn choose(&self, confinement: &Confinement) -> Result<Backend, LaunchError> {
        let mut lacking: Option<UnenforceableError> = None;
        for rung in self.available() {
            match confinement
                .check_enforcement(|guarantee| rung.enforcement(self.landlock, confinement, guarantee))
            {
                Ok(()) => return Ok(rung),
                Err(lacks) => lacking = lacking.or(Some(lacks)),
            }
        }
        Err(lacking.map_or_else(|| self.nothing(), LaunchError::Unenforceable))
    }

    /// Does the same as probing and choosing, but does not try backends that are weaker than the chosen one.
    pub fn choose_first(confinement: &Confinement, run_as: RunAs) -> Result<Backend, LaunchError> {
        identity(run_as)?;
        let landlock = clone3::landlock_version();
        let gives = |rung: &Backend| {
            confinement
                .check_enforcement(|guarantee| rung.enforcement(landlock, confinement, guarantee))
                .is_ok()
        };
        let stands = |rung: &Backend| {
            attempt(*rung, run_as).is_ok_and(|outcome| outcome.status == CommandStatus::Exited(0))
        };
        match Backend::ALL.into_iter().filter(gives).find(stands) {
            Some(rung) => Ok(rung),
            None => Self::run_all(run_as).choose(confinement),
        }
    }

    fn nothing(&self) -> LaunchError {
        let obstacles = self.backends.iter().filter_map(|tried| {
            let obstacle = tried.start_time.as_ref().err()?;
            Some(format!("{}: {}", tried.backend, obstacle.reason))
        });
        LaunchError::NoBackend { obstacles: obstacles.collect::<Vec<_>>().join("; ") }
    }

    /// Runs a command to its end on the strongest backend that gives every requested guarantee.
    pub fn run(
        &self,
        confinement: &Confinement,
        command: &CommandSpec,
    ) -> Result<CommandOutcome, LaunchError> {
        backend::start_on(self.choose(confinement)?, confinement, command, RunAs::Caller)?.finish()
    }
}

fn climb(rung: Backend, run_as: RunAs, landlock: u32, surroundings: &HostEnvironment) -> BackendProbe {
    let obstacle = |failed: BackendFailure, why: String| BackendError {
        reason: why,
        remedies: remedies(rung, failed, surroundings),
    };
    let took = match attempt(rung, run_as) {
        Ok(outcome) if outcome.status == CommandStatus::Exited(0) => Ok(outcome.wall_time),
        Ok(outcome) => {
            let said = String::from_utf8_lossy(&outcome.stderr.bytes).trim().to_owned();
            Err(obstacle(BackendFailure::Other, format!("`true` ended with {:?} {said}", outcome.status)))
        }
        // This error refers to `doctor`, which is the caller here.
        Err(LaunchError::Namespaces(error)) => {
            Err(obstacle(BackendFailure::Namespaces, format!("cannot create namespaces: {error}")))
        }
        Err(error) => Err(obstacle(failed(&error), error.to_string())),
    };
    let mut usual = usual(std::path::Path::new("/"));
    if rung == Backend::Landlock {
        // As commands run there: on a full copy.
        let copied = |root: &PathBuf| {
            let source = CopySource::Tree { path: "/copy".into() };
            CopiedPath { root: root.clone(), source }
        };
        usual.files.copies = usual.files.writable.iter().map(copied).collect();
    }
    let given = |guarantee| (guarantee, rung.enforcement(landlock, &usual, guarantee));
    let given = if took.is_ok() { usual.guarantees().into_iter().map(given).collect() } else { Vec::new() };
    BackendProbe { backend: rung, start_time: took, enforcement: given }
}

fn attempt(rung: Backend, run_as: RunAs) -> Result<CommandOutcome, LaunchError> {
    let owner = owner_on_disk(run_as);
    let folder = CommandTempDir::new(owner)?;
    let mut confinement = usual(&folder.path);
    // Missing guarantees are reported later. They must not prevent the attempt.
    confinement.waived.extend(Guarantee::ALL);
    let making = |error| LaunchError::Internal { doing: "creating a test workspace", error };
    let files = &confinement.files;
    for directory in files.home.iter().chain(&files.writable).chain(&files.protected) {
        fs::create_dir_all(directory).map_err(making)?;
        chown(directory, Some(owner.uid), Some(owner.gid)).map_err(making)?;
    }
    for file in &files.hidden {
        fs::write(file, "").map_err(making)?;
    }
    let command = CommandSpec { argv: vec!["true".into()], ..CommandSpec::default() };
    backend::start_on(rung, &confinement, &command, run_as)?.finish()
}

/// Returns an everyday confinement: a hidden home directory with a workspace that has a secret and a protected path.
fn usual(folder: &std::path::Path) -> Confinement {
    let home = folder.join("home");
    let workspace = home.join("workspace");
    Confinement {
        files: FileConfinement {
            cwd: workspace.clone(),
            home: Some(home),
            readable: ReadScope::Only(vec![workspace.clone()]),
            writable: vec![workspace.clone()],
            hidden: vec![workspace.join(".env")],
            protected: vec![workspace.join(".git/hooks")],
            ..FileConfinement::default()
        },
        network: Network::Off,
        ports: SandboxPorts::default(),
        environment: BTreeMap::from([("PATH".into(), PATH.into())]),
        limits: ResourceLimits { wall_time: WALL, ..ResourceLimits::default() },
        waived: BTreeSet::new(),
        required: BTreeSet::new(),
    }
}

fn failed(error: &LaunchError) -> BackendFailure {
    match error {
        LaunchError::Root => BackendFailure::Root,
        LaunchError::NoLandlock => BackendFailure::Landlock,
        LaunchError::Namespaces(_) => BackendFailure::Namespaces,
        LaunchError::Bwrap { message: said } if said.contains("there is no bwrap") => BackendFailure::NoBwrap,
        // Matches the text of bwrap, which only selects the advice.
        LaunchError::Bwrap { message: said } if said.contains("mount proc") => BackendFailure::Processes,
        LaunchError::Bwrap { .. } => BackendFailure::Namespaces,
        LaunchError::Init { failure: inside, error } => match (inside.step, &inside.mount) {
            (Some(InitProcessStep::Identity), _) => BackendFailure::Namespaces,
            (Some(InitProcessStep::Mount), Some(MountOp::Processes { .. })) => BackendFailure::Processes,
            (Some(InitProcessStep::Mount), _) if error.raw_os_error() == Some(38) => {
                BackendFailure::OldKernel
            }
            (Some(InitProcessStep::Mount), _) => BackendFailure::Mounts,
            _ => BackendFailure::Other,
        },
        _ => BackendFailure::Other,
    }
}
