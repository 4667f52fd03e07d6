//! The errors of running a command.

use std::io;
use std::path::PathBuf;

use super::{InitFailure, NetworkServeError};
use crate::guarantee::UnenforceableError;
use crate::plan::PlanError;
use crate::protected_paths::IndexError;
use crate::tripwire::TripwireError;

/// The reason why a command was not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The launcher is root, and no user was given for the command.
    #[error(
        "cannot confine a command as root: root outside the sandbox is also root for the kernel's own files; run as another user"
    )]
    Root,
    /// The files of root could not be mounted for an unprivileged user.
    #[error("cannot run a command of root as an unprivileged user: {doing}: {error}; run as another user")]
    MappedUser {
        /// The step.
        doing: &'static str,
        /// The error of the kernel.
        #[source]
        error: io::Error,
    },
    /// A guarantee cannot be given.
    #[error(transparent)]
    Unenforceable(#[from] UnenforceableError),
    /// The plan could not be created.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The paths to hide could not be determined.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Planted files are unknown, or still in place.
    #[error(transparent)]
    Tripwire(#[from] TripwireError),
    /// The kernel refuses to create namespaces.
    #[error(
        "cannot create a sandbox: {0}; unprivileged user namespaces may be disabled, `byleave doctor` says how to enable them"
    )]
    Namespaces(#[source] io::Error),
    /// The child could not become the first process inside.
    #[error("cannot start the sandbox: {doing}: {error}")]
    Child {
        /// The step.
        doing: &'static str,
        /// The error of the kernel.
        #[source]
        error: io::Error,
    },
    /// The first process inside could not build the sandbox.
    #[error("cannot build the sandbox: {failure}: {error}")]
    Init {
        /// The step.
        failure: InitFailure,
        /// The error of the kernel.
        #[source]
        error: io::Error,
    },
    /// The copy could not be mounted, and the command has not run. It is found at the start, or when the command is waited for.
    #[error(
        "cannot run the command on a copy of `{root}`: {error}; `byleave doctor` says whether overlays work, and what helps",
        root = root.display()
    )]
    CopyFailed {
        /// The original path, or the missing layer.
        root: PathBuf,
        /// The error of the kernel.
        #[source]
        error: io::Error,
    },
    /// Too little space is free for copies, and the command has not run.
    #[error(
        "cannot run the command on a copy: {free} bytes are free on the disk of `{store_dir}`, and {reserve} must stay free; free some space",
        store_dir = store_dir.display()
    )]
    DiskFull {
        /// The location of one of them.
        store_dir: PathBuf,
        /// The free bytes.
        free: u64,
        /// The bytes that must stay free.
        reserve: u64,
    },
    /// Copies are only for single commands on the native backend.
    #[error("cannot run the command on a copy {0}; start the command separately, on the native backend")]
    CopiesUnsupported(&'static str),
    /// A copy has the content of a hidden file, which this backend cannot hide there.
    #[error("cannot run the command on a copy: the copy has the content of `{}`, which must stay hidden", .0.display())]
    HiddenInCopy(PathBuf),
    /// Its network is not served.
    #[error("cannot start the command: cannot serve its network: {0}")]
    Network(#[from] NetworkServeError),
    /// The terminal was not passed out of the sandbox.
    #[error("cannot start the command: the sandbox did not hand over its terminal")]
    NoTerminal,
    /// The system's bwrap could not build the sandbox.
    #[error("cannot build the sandbox with bwrap: {message}")]
    Bwrap {
        /// Its output.
        message: String,
    },
    /// The container engine could not run the command.
    #[error("cannot run the command in a container: {message}")]
    Oci {
        /// Its output.
        message: String,
    },
    /// The kernel has no Landlock, which this backend needs.
    #[error("cannot confine the command with Landlock: this kernel does not have it")]
    NoLandlock,
    /// No backend works here.
    #[error("cannot confine a command on this machine ({obstacles}); `byleave doctor` says what would help")]
    NoBackend {
        /// The reasons, by backend.
        obstacles: String,
    },
    /// A session does not answer.
    #[error("cannot start the command: its session does not respond; open a new session")]
    NoResponse,
    /// A report of the first process inside is invalid.
    #[error("cannot tell how the command ended: the sandbox's report is garbled")]
    InvalidReport,
    /// A pipe, a file in memory or a thread of the launcher failed.
    #[error("cannot run the sandbox: {doing}: {error}")]
    Internal {
        /// The step.
        doing: &'static str,
        /// The error of the kernel.
        #[source]
        error: io::Error,
    },
}

pub(super) fn internal_error<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> LaunchError {
    move |error| LaunchError::Internal { doing, error: error.into() }
}
