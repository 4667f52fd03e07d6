//! The ladder: ways to confine a command, the strongest first, and what each is worth.
//!
//! A command runs on the highest rung that stands here and gives every guarantee that was asked for and not waived. It must never
//! run on one that does not; there is no rung below the last.

use std::fmt;

use crate::confinement::{Confinement, Network};
use crate::guarantee::{Given, Guarantee};
use crate::launch::{self, Bwrap, LaunchError, RunAs, Running, Unserved};
use crate::plan::Command;

/// The version of Landlock that keeps signals and abstract sockets within.
const SCOPES_SINCE: u32 = 6;
/// The version of Landlock that knows truncation.
const TRUNCATION_SINCE: u32 = 3;

/// A way to confine a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// Namespaces and mounts of our own, with Landlock and a system call filter.
    Native,
    /// The same place made by the system's bwrap, where it may and we may not.
    Bwrap,
    /// Landlock and the filter alone.
    Landlock,
}

impl Rung {
    /// All of them, the strongest first.
    pub const ALL: [Self; 3] = [Self::Native, Self::Bwrap, Self::Landlock];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
        }
    }

    /// How far it gives a guarantee of a confinement, with this version of Landlock.
    pub fn given(self, landlock: u32, confinement: &Confinement, guarantee: Guarantee) -> Given {
        match self {
            Self::Native => launch::given(guarantee),
            Self::Bwrap => given_by_bwrap(landlock, confinement, guarantee),
            Self::Landlock => given_by_landlock(landlock, confinement, guarantee),
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn given_by_bwrap(landlock: u32, confinement: &Confinement, guarantee: Guarantee) -> Given {
    match guarantee {
        Guarantee::WritesLockedTwice if landlock == 0 => {
            Given::Not("mounts alone hold it, for want of Landlock".into())
        }
        Guarantee::ReadsConfined if landlock == 0 => Given::Not("this kernel has no Landlock".into()),
        Guarantee::NetworkConfined if confinement.network == Network::Proxied => {
            Given::Not("the way to our proxy is made by the native launcher only".into())
        }
        Guarantee::MemoryLimited => each_by_itself(),
        Guarantee::TmpLimited => Given::Partly("their size is limited, and their number is not".into()),
        _ => Given::Fully,
    }
}

fn each_by_itself() -> Given {
    Given::Partly("every process is limited by itself, for want of a cgroup around them all".into())
}

fn given_by_landlock(landlock: u32, confinement: &Confinement, guarantee: Guarantee) -> Given {
    let files = &confinement.files;
    let beneath_writable =
        |path: &std::path::PathBuf| files.writable.iter().any(|writable| path.starts_with(writable));
    match guarantee {
        Guarantee::WritesConfined if landlock < TRUNCATION_SINCE => Given::Partly(
            "outside the writable paths files can be cut short, and modes, owners and times changed".into(),
        ),
        Guarantee::WritesConfined => Given::Partly(
            "outside the writable paths modes, owners, times and attributes can be changed".into(),
        ),
        Guarantee::WritesLockedTwice => Given::Not("Landlock alone holds it, without mounts".into()),
        Guarantee::SecretsHidden if files.hidden.iter().any(beneath_writable) => {
            Given::Partly("what is hidden beneath a writable path can be read".into())
        }
        Guarantee::ProtectedKept => Given::Not("what lies beneath a writable path can be written".into()),
        Guarantee::NetworkConfined if confinement.network == Network::Proxied => {
            Given::Not("without a network of its own there are no sockets at all".into())
        }
        Guarantee::ProcessesApart if landlock < SCOPES_SINCE => {
            Given::Partly("other processes of the user can be seen and signalled".into())
        }
        Guarantee::ProcessesApart => {
            Given::Partly("other processes can be seen, and neither signalled nor traced".into())
        }
        Guarantee::TreeKilled if landlock < SCOPES_SINCE => {
            Given::Partly("the command can kill the process that ends what it leaves behind".into())
        }
        Guarantee::MemoryLimited => each_by_itself(),
        Guarantee::ProcessesLimited => {
            Given::Partly("everything else that the user starts meanwhile counts as well".into())
        }
        Guarantee::PrivilegesDropped => Given::Partly(
            "devices can be seen, and not opened; the bounding set stays, which gives nothing without new privileges"
                .into(),
        ),
        Guarantee::TmpLimited => Given::Not("they lie on a disk of this machine".into()),
        // Sockets and shared memory do not exist; the rest rests on nothing that is missing here.
        Guarantee::SecretsHidden
        | Guarantee::HomeHidden
        | Guarantee::ReadsConfined
        | Guarantee::NetworkConfined
        | Guarantee::IpcApart
        | Guarantee::EnvironmentClean
        | Guarantee::TreeKilled => Given::Fully,
    }
}

/// Starts a command on this rung, if it gives all that was asked for.
pub fn start_on(
    rung: Rung,
    confinement: &Confinement,
    command: &Command,
    run_as: RunAs,
) -> Result<Running, LaunchError> {
    launch::identity(run_as)?;
    let landlock = crate::sys::landlock_version();
    confinement.held_against(|guarantee| rung.given(landlock, confinement, guarantee))?;
    // The others have no way to hand them out.
    if rung != Rung::Native && command.terminal.is_some() {
        return Err(LaunchError::NoTerminal);
    }
    if rung != Rung::Native && !confinement.files.copied.is_empty() {
        return Err(LaunchError::NoCopies("on a lower rung of the ladder, which cannot mount one"));
    }
    if rung != Rung::Native && confinement.network == Network::Proxied {
        return Err(Unserved::NoUplink.into());
    }
    match rung {
        Rung::Native => launch::start(confinement, command, run_as),
        Rung::Bwrap => {
            let bwrap = Bwrap::find().map_err(|said| LaunchError::Bwrap { said })?;
            bwrap.start(confinement, command, run_as)
        }
        Rung::Landlock if landlock == 0 => Err(LaunchError::NoLandlock),
        Rung::Landlock => launch::start_alone(confinement, command, run_as),
    }
}
