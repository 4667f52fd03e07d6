//! Why a command was not run, or not to its end.

use std::io;
use std::path::PathBuf;

use super::{InitFailure, NetworkServeError};
use crate::guarantee::UnenforceableError;
use crate::plan::PlanError;
use crate::protected_paths::IndexError;
use crate::tripwire::TripwireError;

/// Why a command was not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The launcher is root, and was not told whom to run the command as.
    #[error(
        "cannot confine a command as root: what is root outside is root for the kernel's own files; run as another user"
    )]
    Root,
    /// A guarantee cannot be given.
    #[error(transparent)]
    Unenforceable(#[from] UnenforceableError),
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// What has to be hidden is not known.
    #[error(transparent)]
    Marked(#[from] IndexError),
    /// What was planted is not known, or still in action.
    #[error(transparent)]
    Tripwire(#[from] TripwireError),
    /// The kernel gives no namespaces.
    #[error(
        "cannot make a sandbox: {0}; unprivileged user namespaces may be switched off, `byleave doctor` says how to get them"
    )]
    Namespaces(#[source] io::Error),
    /// The child could not become the first process inside.
    #[error("cannot start the sandbox: {doing}: {error}")]
    Child {
        /// What it was doing.
        doing: &'static str,
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
    /// The first process inside could not build the place.
    #[error("cannot build the sandbox: {inside}: {error}")]
    Inside {
        /// What it was doing.
        inside: InitFailure,
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
    /// There is no copy to run the command on; it has not run. Found out when it was started, or when it was waited for.
    #[error(
        "cannot run the command on a copy of `{root}`: {error}; `byleave doctor` says whether overlays can be had, and what helps",
        root = root.display()
    )]
    NotCopied {
        /// What there was to be a copy of, or the layer that is not there.
        root: PathBuf,
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
    /// Too little is free where copies are kept; the command has not run.
    #[error(
        "cannot run the command on a copy: {free} bytes are free where `{kept_in}` is, and {reserve} have to stay free; make room",
        kept_in = kept_in.display()
    )]
    NoRoom {
        /// Where one of them is kept.
        kept_in: PathBuf,
        /// How much is free.
        free: u64,
        /// How much has to stay free.
        reserve: u64,
    },
    /// Copies are for commands that are started by themselves on the native rung.
    #[error("cannot run the command on a copy {0}; start it by itself, on the native rung")]
    NoCopies(&'static str),
    /// Nobody serves its network.
    #[error("cannot start the command: its network is not served: {0}")]
    Unserved(#[from] NetworkServeError),
    /// The terminal did not come out of the sandbox.
    #[error("cannot start the command: its terminal did not come out of the sandbox")]
    NoTerminal,
    /// The system's bwrap could not make the place.
    #[error("cannot build the sandbox with bwrap: {said}")]
    Bwrap {
        /// What it said.
        said: String,
    },
    /// The container engine could not run the command.
    #[error("cannot run the command in a container: {said}")]
    Oci {
        /// What it said.
        said: String,
    },
    /// The kernel has no Landlock, which this rung stands on.
    #[error("cannot confine the command by Landlock: this kernel has none")]
    NoLandlock,
    /// No rung of the ladder stands here.
    #[error("cannot confine a command on this machine ({obstacles}); `byleave doctor` says what would help")]
    NoRung {
        /// Why not, rung by rung.
        obstacles: String,
    },
    /// A session does not answer.
    #[error("cannot start the command: its session does not answer; open another")]
    Silent,
    /// What the first process inside reports makes no sense.
    #[error("cannot tell how the command ended: the sandbox's report is garbled")]
    Garbled,
    /// A pipe, a file in memory or a thread of ours.
    #[error("cannot run the sandbox: {doing}: {error}")]
    Ours {
        /// What we were doing.
        doing: &'static str,
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
}

pub(super) fn ours<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> LaunchError {
    move |error| LaunchError::Ours { doing, error: error.into() }
}
