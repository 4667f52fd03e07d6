//! The probe: which rungs of the ladder stand on this machine, found by climbing them, and how to get those that do not.
//!
//! A setting of the kernel says what is configured and not what works: a rung stands when a command has run on it. Settings are
//! looked at only to say what would help. The command is `true`, in a temporary directory that goes with it.

mod host_environment;
mod overlays;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::chown;
use std::time::Duration;

use byleave_files::own;

pub use host_environment::{BackendFailure, ContainerKind, HostEnvironment, WslVersion, remedies};
pub use overlays::probe_overlays;

use crate::backend::{self, Backend};
use crate::clone3;
use crate::confinement::{Confinement, FileConfinement, Network, ReadScope};
use crate::guarantee::{Enforcement, Guarantee, UnenforceableError};
use crate::launch::{CommandOutcome, CommandStatus, CommandTempDir, LaunchError, RunAs, identity};
use crate::limits::ResourceLimits;
use crate::plan::CommandSpec;
use crate::plan_format::{InitProcessStep, MountOp};

const WALL: Duration = Duration::from_secs(3);
const PATH: &str = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin";

/// What was found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// The kernel's release.
    pub kernel: String,
    /// The version of Landlock; zero without.
    pub landlock: u32,
    /// What this program runs in, as far as it matters here.
    pub surroundings: HostEnvironment,
    /// Every rung, the strongest first.
    pub rungs: Vec<BackendProbe>,
}

/// What came of climbing a rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendProbe {
    /// Which.
    pub rung: Backend,
    /// How long a command took on it, or why none runs.
    pub took: Result<Duration, BackendError>,
    /// What it gives of a usual confinement, where it stands.
    pub given: Vec<(Guarantee, Enforcement)>,
}

/// Why a rung does not stand, and how to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    /// What happened.
    pub why: String,
    /// What would help, most likely first; empty when we know nothing.
    pub remedies: Vec<String>,
}

/// Whether a command can be started by the native launcher at all, found by starting one.
pub fn native(run_as: RunAs) -> Result<(), LaunchError> {
    let outcome = attempt(Backend::Native, run_as)?;
    if outcome.status == CommandStatus::Exited(0) {
        return Ok(());
    }
    let why = format!("{}: `true` ended with {:?}", Backend::Native, outcome.status);
    Err(LaunchError::NoRung { obstacles: why })
}

impl ProbeReport {
    /// Climbs every rung on this machine, as the user whom commands will run as.
    pub fn here(run_as: RunAs) -> Self {
        let surroundings = HostEnvironment::here();
        let landlock = clone3::landlock_version();
        let rungs = Backend::ALL.map(|rung| climb(rung, run_as, landlock, &surroundings)).into();
        let kernel = own::read_text("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        Self { kernel, landlock, surroundings, rungs }
    }

    /// The rungs that stand, the strongest first.
    pub fn standing(&self) -> impl Iterator<Item = Backend> {
        self.rungs.iter().filter(|tried| tried.took.is_ok()).map(|tried| tried.rung)
    }

    /// The highest rung that gives all that this confinement asks for. Otherwise what the highest one that stands lacks.
    pub fn choose(&self, confinement: &Confinement) -> Result<Backend, LaunchError> {
        let mut lacking: Option<UnenforceableError> = None;
        for rung in self.standing() {
            match confinement.held_against(|guarantee| rung.given(self.landlock, confinement, guarantee)) {
                Ok(()) => return Ok(rung),
                Err(lacks) => lacking = lacking.or(Some(lacks)),
            }
        }
        Err(lacking.map_or_else(|| self.nothing(), LaunchError::Unenforceable))
    }

    /// The same as climbing every rung and choosing, but for climbing those beneath the one that is chosen.
    pub fn first(confinement: &Confinement, run_as: RunAs) -> Result<Backend, LaunchError> {
        identity(run_as)?;
        let landlock = clone3::landlock_version();
        let gives = |rung: &Backend| {
            confinement.held_against(|guarantee| rung.given(landlock, confinement, guarantee)).is_ok()
        };
        let stands = |rung: &Backend| {
            attempt(*rung, run_as).is_ok_and(|outcome| outcome.status == CommandStatus::Exited(0))
        };
        match Backend::ALL.into_iter().filter(gives).find(stands) {
            Some(rung) => Ok(rung),
            None => Self::here(run_as).choose(confinement),
        }
    }

    fn nothing(&self) -> LaunchError {
        let obstacles = self.rungs.iter().filter_map(|tried| {
            let obstacle = tried.took.as_ref().err()?;
            Some(format!("{}: {}", tried.rung, obstacle.why))
        });
        LaunchError::NoRung { obstacles: obstacles.collect::<Vec<_>>().join("; ") }
    }

    /// Runs a command to its end on the highest rung that gives all that was asked for.
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
        why,
        remedies: remedies(rung, failed, surroundings),
    };
    let took = match attempt(rung, run_as) {
        Ok(outcome) if outcome.status == CommandStatus::Exited(0) => Ok(outcome.wall),
        Ok(outcome) => {
            let said = String::from_utf8_lossy(&outcome.stderr.bytes).trim().to_owned();
            Err(obstacle(BackendFailure::Otherwise, format!("`true` ended with {:?} {said}", outcome.status)))
        }
        // The error sends to the doctor, who is asking.
        Err(LaunchError::Namespaces(error)) => {
            Err(obstacle(BackendFailure::Namespaces, format!("cannot make namespaces: {error}")))
        }
        Err(error) => Err(obstacle(failed(&error), error.to_string())),
    };
    let usual = usual(std::path::Path::new("/"));
    let given = |guarantee| (guarantee, rung.given(landlock, &usual, guarantee));
    let given = if took.is_ok() { usual.guarantees().into_iter().map(given).collect() } else { Vec::new() };
    BackendProbe { rung, took, given }
}

fn attempt(rung: Backend, run_as: RunAs) -> Result<CommandOutcome, LaunchError> {
    let identity = identity(run_as)?;
    let folder = CommandTempDir::new(identity)?;
    let mut confinement = usual(&folder.path);
    // What is missing is told later; here it must not keep us from trying.
    confinement.waived.extend(Guarantee::ALL);
    let making = |error| LaunchError::Ours { doing: "making a workspace to try", error };
    let files = &confinement.files;
    for directory in files.home.iter().chain(&files.writable).chain(&files.protected) {
        fs::create_dir_all(directory).map_err(making)?;
        chown(directory, Some(identity.uid), Some(identity.gid)).map_err(making)?;
    }
    for file in &files.hidden {
        fs::write(file, "").map_err(making)?;
    }
    let command = CommandSpec { argv: vec!["true".into()], ..CommandSpec::default() };
    backend::start_on(rung, &confinement, &command, run_as)?.finish()
}

/// What everyday work asks for: a home directory that is hidden, a workspace in it with a secret and something protected.
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
        environment: BTreeMap::from([("PATH".into(), PATH.into())]),
        limits: ResourceLimits { wall: WALL, ..ResourceLimits::default() },
        waived: BTreeSet::new(),
        required: BTreeSet::new(),
    }
}

fn failed(error: &LaunchError) -> BackendFailure {
    match error {
        LaunchError::Root => BackendFailure::Root,
        LaunchError::NoLandlock => BackendFailure::Landlock,
        LaunchError::Namespaces(_) => BackendFailure::Namespaces,
        LaunchError::Bwrap { said } if said.contains("there is no bwrap") => BackendFailure::NoBwrap,
        // By its own words; they only choose the advice.
        LaunchError::Bwrap { said } if said.contains("mount proc") => BackendFailure::Processes,
        LaunchError::Bwrap { .. } => BackendFailure::Namespaces,
        LaunchError::Inside { inside, error } => match (inside.step, &inside.mount) {
            (Some(InitProcessStep::Identity), _) => BackendFailure::Namespaces,
            (Some(InitProcessStep::Mount), Some(MountOp::Processes { .. })) => BackendFailure::Processes,
            (Some(InitProcessStep::Mount), _) if error.raw_os_error() == Some(38) => {
                BackendFailure::OldKernel
            }
            (Some(InitProcessStep::Mount), _) => BackendFailure::Mounts,
            _ => BackendFailure::Otherwise,
        },
        _ => BackendFailure::Otherwise,
    }
}
