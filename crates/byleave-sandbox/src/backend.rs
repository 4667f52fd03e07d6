//! The backends that confine a command, strongest first, and the guarantees of each.
//!
//! A command runs on the strongest backend that works here and gives every guarantee that was requested and not waived. It must
//! never run on a backend that does not. There is no weaker fallback after the last one.

use std::fmt;

use crate::confinement::{Confinement, Network};
use crate::guarantee::{Enforcement, Guarantee};
use crate::launch::{self, Bwrap, LaunchError, NetworkServeError, RunAs, RunningCommand};
use crate::plan::CommandSpec;

/// The first version of Landlock that confines signals and abstract sockets.
const SCOPES_SINCE: u32 = 6;
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
    pub fn given(self, landlock: u32, confinement: &Confinement, guarantee: Guarantee) -> Enforcement {
        match self {
            Self::Native => launch::given(guarantee),
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
            Enforcement::Not("mounts alone hold it, for want of Landlock".into())
        }
        Guarantee::ReadsConfined if landlock == 0 => Enforcement::Not("this kernel has no Landlock".into()),
        Guarantee::NetworkConfined if confinement.network == Network::Proxied => {
            Enforcement::Not("the way to our proxy is made by the native launcher only".into())
        }
        Guarantee::MemoryLimited => each_by_itself(),
        Guarantee::TmpLimited => Enforcement::Partly("their size is limited, and their number is not".into()),
        _ => Enforcement::Fully,
    }
}

fn each_by_itself() -> Enforcement {
    Enforcement::Partly("every process is limited by itself, for want of a cgroup around them all".into())
}

fn given_by_landlock(landlock: u32, confinement: &Confinement, guarantee: Guarantee) -> Enforcement {
    let files = &confinement.files;
    let beneath_writable =
        |path: &std::path::PathBuf| files.writable.iter().any(|writable| path.starts_with(writable));
    match guarantee {
        Guarantee::WritesConfined if landlock < TRUNCATION_SINCE => Enforcement::Partly(
            "outside the writable paths files can be cut short, and modes, owners and times changed".into(),
        ),
        Guarantee::WritesConfined => Enforcement::Partly(
            "outside the writable paths modes, owners, times and attributes can be changed".into(),
        ),
        Guarantee::WritesLockedTwice => Enforcement::Not("Landlock alone holds it, without mounts".into()),
        Guarantee::SecretsHidden if files.hidden.iter().any(beneath_writable) => {
            Enforcement::Partly("what is hidden beneath a writable path can be read".into())
        }
        Guarantee::ProtectedKept => Enforcement::Not("what lies beneath a writable path can be written".into()),
        Guarantee::NetworkConfined if confinement.network == Network::Proxied => {
            Enforcement::Not("without a network of its own there are no sockets at all".into())
        }
        Guarantee::ProcessesApart if landlock < SCOPES_SINCE => {
            Enforcement::Partly("other processes of the user can be seen and signalled".into())
        }
        Guarantee::ProcessesApart => {
            Enforcement::Partly("other processes can be seen, and neither signalled nor traced".into())
        }
        Guarantee::TreeKilled if landlock < SCOPES_SINCE => {
            Enforcement::Partly("the command can kill the process that ends what it leaves behind".into())
        }
        Guarantee::MemoryLimited => each_by_itself(),
        Guarantee::ProcessesLimited => {
            Enforcement::Partly("everything else that the user starts meanwhile counts as well".into())
        }
        Guarantee::PrivilegesDropped => Enforcement::Partly(
            "devices can be seen, and not opened; the bounding set stays, which gives nothing without new privileges"
                .into(),
        ),
        Guarantee::TmpLimited => Enforcement::Not("they lie on a disk of this machine".into()),
        // Sockets and shared memory do not exist here. The other guarantees depend on nothing that is missing.
        Guarantee::SecretsHidden
        | Guarantee::HomeHidden
        | Guarantee::ReadsConfined
        | Guarantee::NetworkConfined
        | Guarantee::IpcApart
        | Guarantee::EnvironmentClean
        | Guarantee::TreeKilled => Enforcement::Fully,
    }
}

/// Starts a command on this backend, if it gives every requested guarantee.
pub fn start_on(
    rung: Backend,
    confinement: &Confinement,
    command: &CommandSpec,
    run_as: RunAs,
) -> Result<RunningCommand, LaunchError> {
    launch::identity(run_as)?;
    let landlock = crate::clone3::landlock_version();
    confinement.held_against(|guarantee| rung.given(landlock, confinement, guarantee))?;
    // The other backends cannot pass a terminal out.
    if rung != Backend::Native && command.terminal.is_some() {
        return Err(LaunchError::NoTerminal);
    }
    if rung != Backend::Native && !confinement.files.copied.is_empty() {
        return Err(LaunchError::NoCopies("on a lower rung of the ladder, which cannot mount one"));
    }
    if rung != Backend::Native && confinement.network == Network::Proxied {
        return Err(NetworkServeError::NoUplink.into());
    }
    match rung {
        Backend::Native => launch::start(confinement, command, run_as),
        Backend::Bwrap => {
            let bwrap = Bwrap::find().map_err(|said| LaunchError::Bwrap { said })?;
            bwrap.start(confinement, command, run_as)
        }
        Backend::Landlock if landlock == 0 => Err(LaunchError::NoLandlock),
        Backend::Landlock => launch::start_alone(confinement, command, run_as),
    }
}
