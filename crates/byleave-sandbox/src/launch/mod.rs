//! The native launcher: runs a command in its own namespaces, behind Landlock and a system call filter. Its submodules are the
//! code that all launchers share (`stdio`, `process`, `running` and others), the weaker backends (`bwrap`, `landlock_only`), and
//! containers (`oci`).
//!
//! A failure before the command starts is an error, and the command has then not run. A command must never run with less
//! confinement than was requested. Nothing of it is left when [`RunningCommand::finish`] returns.

mod bwrap;
mod embedded_init;
mod error;
mod init_report;
mod landlock_only;
mod mapped_user;
mod mount_calls;
mod network_bridge;
mod oci;
mod outcome;
mod process;
mod resource_monitor;
mod running;
mod scan;
mod service_probe;
mod session;
mod started;
mod stdio;
mod streams;
mod temp_dir;
mod tree_monitor;
mod unmount_thread;

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use bwrap::Bwrap;
pub use error::LaunchError;
pub use init_report::InitFailure;
pub(crate) use landlock_only::start as start_alone;
pub use network_bridge::{NetworkBridge, NetworkReport, NetworkServeError};
pub use oci::{OciEngine, RunningContainer, is_image_name};
pub use outcome::{CapturedOutput, CommandOutcome, CommandStatus};
pub use process::Stopper;
pub(crate) use process::check_mapped_files;
pub use running::RunningCommand;
pub use scan::IndexCache;
pub use service_probe::ServiceProbe;
pub use session::SandboxSession;
pub use started::StartedCommand;
pub use streams::Pipes;
pub(crate) use temp_dir::CommandTempDir;

use crate::cgroup::{self, CommandCgroup};
use crate::clone3;
use crate::confinement::Confinement;
use crate::guarantee::{Enforcement, Guarantee};
use crate::limits::ResourceLimits;
use crate::net::egress::Egress;
use crate::net::session_router::SessionRouter;
use crate::plan::{CommandSpec, HostInfo, LaunchPlan, PathKind, UserIdentity};
use crate::tripwire::Tripwire;
use error::internal_error;
use network_bridge::CommandNetwork;
use process::{InitProcess, spawn};
use running::RunClock;
use stdio::ChildStdio;

/// The user that runs the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunAs {
    /// The user of the launcher. A command of root runs as an unprivileged user to whom root's files seem to belong.
    #[default]
    Caller,
    /// Another user, for a launcher that is root. It must own the writable paths.
    User(UserIdentity),
}

/// Runs a command to its end.
pub fn run(confinement: &Confinement, command: &CommandSpec) -> Result<CommandOutcome, LaunchError> {
    start(confinement, command, RunAs::Caller)?.finish()
}

/// Returns how far the native launcher gives a guarantee to a command that runs as its caller.
pub fn enforcement(guarantee: Guarantee) -> Enforcement {
    given_as(RunAs::Caller, guarantee)
}

/// Checks whether the native launcher gives all guarantees of a confinement to a command of this user. It starts nothing.
pub fn check_enforcement(confinement: &Confinement, run_as: RunAs) -> Result<(), LaunchError> {
    identity(run_as)?;
    Ok(confinement.check_enforcement(|guarantee| given_as(run_as, guarantee))?)
}

/// Returns how far the native launcher gives a guarantee. The limit on processes needs no cgroup, because the kernel counts the
/// processes of a user in a user namespace. That namespace belongs to one command or one session. In a session all commands share
/// one limit, which includes their first processes.
fn given_as(run_as: RunAs, guarantee: Guarantee) -> Enforcement {
    let partly = |why: &str| {
        Enforcement::Partial(format!("each process is limited separately, because there is no cgroup: {why}"))
    };
    match (guarantee, run_as) {
        (Guarantee::MemoryLimited, RunAs::Caller) => match cgroup::delegated_cgroup() {
            Ok(_) => Enforcement::Full,
            Err(absent) => partly(&absent.to_string()),
        },
        (Guarantee::MemoryLimited, RunAs::User(_)) => {
            partly("processes of another user cannot start in our cgroup")
        }
        (Guarantee::ReadsConfined, _) if clone3::landlock_version() == 0 => {
            Enforcement::Unavailable("this kernel has no Landlock".into())
        }
        (Guarantee::WritesLockedTwice, _) if clone3::landlock_version() == 0 => {
            Enforcement::Unavailable("only mounts enforce it, because this kernel has no Landlock".into())
        }
        _ => Enforcement::Full,
    }
}

fn has_groups(run_as: RunAs) -> bool {
    run_as == RunAs::Caller && cgroup::delegated_cgroup().is_ok()
}

/// Creates a cgroup for one command, if cgroups are available.
fn group(run_as: RunAs, limits: &ResourceLimits) -> Result<Option<CommandCgroup>, LaunchError> {
    match run_as {
        RunAs::Caller => match cgroup::delegated_cgroup() {
            Ok(delegated) => {
                delegated.create_cgroup(limits).map(Some).map_err(internal_error("creating a cgroup"))
            }
            Err(_) => Ok(None),
        },
        RunAs::User(_) => Ok(None),
    }
}

/// Starts a command. It refuses one with a proxied network: see [`start_with_network`].
pub fn start(
    confinement: &Confinement,
    command: &CommandSpec,
    run_as: RunAs,
) -> Result<RunningCommand, LaunchError> {
    start_by(confinement, command, run_as, None, None)
}

/// Starts a command. If its network is [`Network::Proxied`](crate::confinement::Network::Proxied), it goes only through this
/// egress. With any other network the egress is not used.
pub fn start_with_network(
    confinement: &Confinement,
    command: &CommandSpec,
    run_as: RunAs,
    uplink: &NetworkBridge,
    door: Egress,
) -> Result<RunningCommand, LaunchError> {
    start_by(confinement, command, run_as, Some((uplink, door)), None)
}

/// Starts a command as [`start`] does, or as [`start_with_network`] if there is an egress. It scans for paths to hide or protect only
/// as far as the cache does not know them.
pub fn start_with_cache(
    confinement: &Confinement,
    command: &CommandSpec,
    run_as: RunAs,
    through: Option<(&NetworkBridge, Egress)>,
    warm: &IndexCache,
) -> Result<RunningCommand, LaunchError> {
    start_by(confinement, command, run_as, through, Some(warm))
}

fn start_by(
    confinement: &Confinement,
    command: &CommandSpec,
    run_as: RunAs,
    through: Option<(&NetworkBridge, Egress)>,
    warm: Option<&IndexCache>,
) -> Result<RunningCommand, LaunchError> {
    let identity = identity(run_as)?;
    confinement.check_enforcement(|guarantee| given_as(run_as, guarantee))?;
    let through = match (network_bridge::is_served(confinement), through) {
        (false, _) => None,
        (true, None) => return Err(NetworkServeError::NoBridge.into()),
        (true, Some((uplink, door))) => Some((uplink, uplink.prepare_egress(door)?)),
    };
    let (confinement, tripwire) = scan::prepare_command(confinement, warm)?;
    let plan = LaunchPlan::new(&confinement, command, identity, &ThisHost)?;
    let Some((uplink, door)) = through else {
        return begin(plan, &confinement, tripwire, command, run_as)?.with_terminal();
    };
    let wiring = uplink.network_plan(&confinement);
    let plan = plan
        .with_network_plan(&wiring, &confinement.files, &ThisHost)?
        .with_variables(&wiring.variables(&format!("http://{}", network_bridge::proxy_address())))?;
    let mut running = begin(plan, &confinement, tripwire, command, run_as)?;
    let door = Arc::new(door);
    let mut serving = uplink.serve_command(
        &running.control_socket,
        &running.plan,
        &Arc::default(),
        SessionRouter::single(Arc::clone(&door)),
    )?;
    running.publisher = uplink.publisher(&mut serving, &wiring, running.process.pidfd.as_fd())?;
    running.own_ports = network_bridge::own_ports(&wiring);
    running.network = Some(CommandNetwork::Own { uplink: uplink.clone(), serving, door });
    running.with_terminal()
}

fn begin(
    plan: LaunchPlan,
    confinement: &Confinement,
    tripwire: Tripwire,
    command: &CommandSpec,
    run_as: RunAs,
) -> Result<RunningCommand, LaunchError> {
    let group = group(run_as, &confinement.limits)?;
    let plan = if group.is_some() { plan.for_cgroup() } else { plan };
    let program = embedded_init::init_program()?;
    let ends = ChildStdio::new(&plan, command, confinement.limits.output_bytes)?;
    let clock = RunClock::start(confinement);
    if let Some((kept_in, free)) = clock.monitor.find_full_disk() {
        let reserve = confinement.limits.reserve_bytes;
        return Err(LaunchError::DiskFull { store_dir: kept_in.to_path_buf(), free, reserve });
    }
    let pidfd = spawn(
        program,
        ends.child_descriptors(),
        plan.own_network,
        (run_as, &confinement.files),
        group.as_ref(),
    )?;
    let process = InitProcess { pidfd, is_child: true, control_socket: None };
    Ok(ends.into_running(process, group, plan, clock, tripwire))
}

/// Returns the user that runs a command on the native backend. A command of root runs as an unprivileged user, for whom the launcher maps
/// the owner of the files.
pub(crate) fn identity(run_as: RunAs) -> Result<UserIdentity, LaunchError> {
    let is_root = rustix::process::geteuid().is_root();
    if run_as == RunAs::Caller && is_root { mapped_user::identity() } else { own_identity(run_as) }
}

/// Returns the user that runs a command where files keep their owner. Root is refused.
pub(crate) fn own_identity(run_as: RunAs) -> Result<UserIdentity, LaunchError> {
    let identity = owner_on_disk(run_as);
    if identity.uid == 0 || identity.gid == 0 && matches!(run_as, RunAs::User(_)) {
        return Err(LaunchError::Root);
    }
    Ok(identity)
}

/// Returns the owner of the files that a command creates.
pub(crate) fn owner_on_disk(run_as: RunAs) -> UserIdentity {
    match run_as {
        RunAs::Caller => UserIdentity {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        },
        RunAs::User(identity) => identity,
    }
}

/// The machine that this runs on.
struct ThisHost;

impl HostInfo for ThisHost {
    fn target(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok()
    }

    fn kind(&self, path: &Path) -> Option<PathKind> {
        let kind = std::fs::symlink_metadata(path).ok()?.file_type();
        Some(match () {
            () if kind.is_dir() => PathKind::Directory,
            () if kind.is_symlink() => PathKind::Link,
            () => PathKind::File,
        })
    }

    fn landlock(&self) -> u32 {
        clone3::landlock_version()
    }
}
