//! Confinement: what a command may touch, reach and use up. Data; how it comes about is the backend's business.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::guarantee::Guarantee;
use crate::limits::Limits;

/// What a command may touch, reach and use up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The file system as the command finds it.
    pub files: Files,
    /// What it may connect to.
    pub network: Network,
    /// The environment it starts with, and nothing else.
    pub environment: BTreeMap<String, String>,
    /// What it may use up.
    pub limits: Limits,
    /// Guarantees that the operator does without, by name. Never chosen by an agent; they stand in the book.
    pub waived: BTreeSet<Guarantee>,
}

/// The file system as a command finds it. Everything that is not named can be read and not written, but for the home
/// directory, of which nothing is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The directory that it starts in, absolute and resolved.
    pub cwd: PathBuf,
    /// The home directory, which is empty inside.
    pub home: Option<PathBuf>,
    /// Beneath the home directory: what can be read all the same (toolchains).
    pub home_readable: Vec<PathBuf>,
    /// What can be written, with everything beneath it: the workspace first.
    pub writable: Vec<PathBuf>,
    /// Files and directories that are not there at all: secrets, sockets, the state directory.
    pub hidden: Vec<PathBuf>,
    /// Beneath something writable: what can be read and neither written, renamed nor replaced.
    pub protected: Vec<PathBuf>,
}

/// What a command may connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing: there is a loopback of its own, and no way out.
    #[default]
    Off,
    /// Through our proxy alone, which asks for every host by name.
    Proxied,
    /// The network of this machine. Waives the guarantee about it.
    Host,
}
