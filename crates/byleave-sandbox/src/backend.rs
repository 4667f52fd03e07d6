//! The backends that confine a command, strongest first, and the guarantees of each.
//!
//! A command runs on the strongest backend that works here and gives every guarantee that was requested and not waived. It must
//! never run on a backend that does not. There is no weaker fallback after the last one.

use std::fmt;

use crate::confinement::{Confinement, Network};
use crate::guarantee::{Enforcement, Guarantee};
use crate::launch::{
    self, Bwrap, IndexCache, LaunchError, NetworkBridge, NetworkServeError, RunAs, RunningCommand,
};
use crate::net::egress::Egress;
use crate::plan::{CommandSpec, TCP_SINCE};

/// The first version of Landlock that confines signals and abstract sockets.
pub(crate) const SCOPES_SINCE: u32 = 6;
/// The first version of Landlock that controls truncation.
const TRUNCATION_SINCE: u32 = 3;

/// A way to confine a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// Our own namespaces and mounts, with Landlock and a system call filter.
    Native,
    /// The same environment, created by the system's bwrap. For machines that permit bwrap to do it, but not us.
    Bwrap,
    /// Landlock and the filter alone.
    Landlock,
}

impl Backend {
    /// All backends, strongest first.
    pub const ALL: [Self; 3] = [Self::Native, Self::Bwrap, Self::Landlock];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
        }
    }

    /// Returns how far this backend gives a guarantee of a confinement, with this version of Landlock.
    pub fn enforcement(self, landlock: u32, confinement: &Confinement, guarantee: Guarantee) -> Enforcement {
        match self {
            Self::Native => launch::enforcement(guarantee),
            Self::Bwrap => given_by_bwrap(landlock, confinement, guarantee),
            Self::Landlock => given_by_landlock(landlock, confinement, guarantee),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn given_by_bwrap(landlock: u32, confinement: &Confinement, guarantee: Guarantee) -> Enforcement {
    match guarantee {
        Guarantee::WritesLockedTwice if landlock == 0 => {
            Enforcement::Unavailable("only mounts enforce it, because this kernel has no Landlock".into())
        }
        Guarantee::ReadsConfined if landlock == 0 => {
            Enforcement::Unavailable("this kernel has no Landlock".into())
        }
        Guarantee::NetworkConfined if confinement.network == Network::Proxied => {
            Enforcement::Unavailable("only the native backend can connect the command to the proxy".into())
        }
        Guarantee::MemoryLimited => each_by_itself(),
        Guarantee::TmpLimited => {
            Enforcement::Partial("the size of temporary files is limited, but their number is not".into())
        }
        _ => Enforcement::Full,
    }
}

fn each_by_itself() -> Enforcement {
    Enforcement::Partial(
        "each process is limited separately, because there is no cgroup for all of them".into(),
    )
}

fn given_by_landlock(landlock: u32, confinement: &Confinement, guarantee: Guarantee) -> Enforcement {
    let files = &confinement.files;
    // Of a full copy the hidden files are left out, and what is protected is judged before it is committed.
    let directly_writable = files.directly_writable();
    let beneath_writable =
        |path: &std::path::PathBuf| directly_writable.iter().any(|writable| path.starts_with(writable));
    match guarantee {
        Guarantee::WritesConfined if landlock < TRUNCATION_SINCE => {
            Enforcement::Partial("the command can truncate files outside the writable paths".into())
        }
        Guarantee::WritesLockedTwice => Enforcement::Unavailable("only Landlock enforces it, without mounts".into()),
        Guarantee::SecretsHidden
            if files.hidden.iter().any(beneath_writable)
                || files.path_policy.is_some() && !directly_writable.is_empty() =>
        {
            Enforcement::Partial("the command can read hidden files below a writable path".into())
        }
        Guarantee::ProtectedKept if !directly_writable.is_empty() => {
            Enforcement::Unavailable("the command can write everything below a writable path".into())
        }
        Guarantee::NetworkConfined if confinement.network == Network::Proxied && landlock >= TCP_SINCE => {
            Enforcement::Partial("the command can reach every host on the ports that it was granted, and on that of the proxy".into())
        }
        Guarantee::NetworkConfined if confinement.network == Network::Proxied => {
            Enforcement::Unavailable("this version of Landlock does not confine TCP".into())
        }
        Guarantee::ProcessesApart if landlock < SCOPES_SINCE => {
            Enforcement::Partial("the command can see and signal other processes of the user".into())
        }
        Guarantee::ProcessesApart => {
            Enforcement::Partial("the command can see other processes, but can neither signal nor trace them".into())
        }
        Guarantee::TreeKilled if landlock < SCOPES_SINCE => {
            Enforcement::Partial("the command can kill the process that ends its background processes".into())
        }
        Guarantee::MemoryLimited => each_by_itself(),
        Guarantee::ProcessesLimited => {
            Enforcement::Partial("the limit includes all other processes that the user starts meanwhile".into())
        }
        Guarantee::PrivilegesDropped => Enforcement::Partial(
            "devices are visible but cannot be opened; the capability bounding set stays, but is useless without new privileges"
                .into(),
        ),
        Guarantee::TmpLimited => Enforcement::Unavailable("temporary files are on a disk of this machine".into()),
        // Sockets and shared memory do not exist here. The other guarantees depend on nothing that is missing.
        Guarantee::WritesConfined
        | Guarantee::SecretsHidden
        | Guarantee::ProtectedKept
        | Guarantee::HomeHidden
        | Guarantee::ReadsConfined
        | Guarantee::NetworkConfined
        | Guarantee::IpcApart
        | Guarantee::EnvironmentClean
        | Guarantee::TreeKilled => Enforcement::Full,
    }
}

/// Starts a command on this backend, if it gives every requested guarantee.
pub fn start_on(
    rung: Backend,
    confinement: &Confinement,
    command: &CommandSpec,
    run_as: RunAs,
) -> Result<RunningCommand, LaunchError> {
    match rung {
        Backend::Native => launch::identity(run_as)?,
        Backend::Bwrap => launch::own_identity(run_as)?,
        Backend::Landlock => return start_on_landlock(confinement, command, run_as, None, None),
    };
    let landlock = crate::clone3::landlock_version();
    confinement.check_enforcement(|guarantee| rung.enforcement(landlock, confinement, guarantee))?;
    if rung == Backend::Native {
        return launch::start(confinement, command, run_as);
    }
    check_no_terminal(command)?;
    if !confinement.files.copies.is_empty() {
        return Err(LaunchError::CopiesUnsupported("on this backend, because it cannot mount a copy"));
    }
    if confinement.network == Network::Proxied {
        return Err(NetworkServeError::NoBridge.into());
    }
    let bwrap = Bwrap::find().map_err(|said| LaunchError::Bwrap { message: said })?;
    bwrap.start(confinement, command, run_as)
}

/// Checks whether Landlock and the system call filter alone give every requested guarantee. It starts nothing.
pub fn check_landlock(confinement: &Confinement) -> Result<(), LaunchError> {
    let landlock = crate::clone3::landlock_version();
    let given = |guarantee| Backend::Landlock.enforcement(landlock, confinement, guarantee);
    Ok(confinement.check_enforcement(given)?)
}

/// Starts a command behind Landlock and the system call filter alone, if they give every requested guarantee. It runs at the paths of
/// its copies, which must be complete and without hidden files. A proxied network goes through this egress.
pub fn start_on_landlock(
    confinement: &Confinement,
    command: &CommandSpec,
    run_as: RunAs,
    through: Option<(&NetworkBridge, Egress)>,
    warm: Option<&IndexCache>,
) -> Result<RunningCommand, LaunchError> {
    let landlock = crate::clone3::landlock_version();
    check_landlock(confinement)?;
    check_no_terminal(command)?;
    if landlock == 0 {
        return Err(LaunchError::NoLandlock);
    }
    let through = match (confinement.network == Network::Proxied, through) {
        (false, _) => None,
        // Waived or not: without confinement of TCP, no socket would be confined at all.
        (true, Some(through)) if landlock >= TCP_SINCE => Some(through),
        (true, _) => return Err(NetworkServeError::NoBridge.into()),
    };
    launch::start_alone(confinement, command, run_as, through, warm)
}

/// Only the native backend can pass a terminal out.
fn check_no_terminal(command: &CommandSpec) -> Result<(), LaunchError> {
    if command.terminal.is_some() { Err(LaunchError::NoTerminal) } else { Ok(()) }
}
