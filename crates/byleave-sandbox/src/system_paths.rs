//! The system paths that an everyday command needs, and no more.
//!
//! The home directory has an allow-list. A list of paths to hide would always miss some, and the home directory also contains
//! sockets.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Paths beneath the home directory that compilers, interpreters and Git read.
const TOOLCHAINS: [&str; 14] = [
    ".cargo",
    ".rustup",
    ".nvm",
    ".pyenv",
    ".local/bin",
    ".local/lib",
    // Not `go/src`, because people keep their work there.
    "go/bin",
    "go/pkg",
    ".bun",
    ".deno",
    ".volta",
    ".gitconfig",
    ".config/git",
    ".sdkman",
];
/// Files with credentials inside toolchain directories.
const CREDENTIALS: [&str; 4] =
    [".cargo/credentials", ".cargo/credentials.toml", ".config/git/credentials", ".local/lib/credentials"];
const VARIABLES: [&str; 9] = ["PATH", "HOME", "LANG", "LANGUAGE", "TERM", "USER", "LOGNAME", "SHELL", "TZ"];

/// System paths that every command may read: programs, libraries, their settings, and information from the kernel.
const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/sys",
    "/var/lib/dpkg",
];
/// Paths that every command gets a private version of.
const SCRATCH: [&str; 2] = ["/tmp", "/var/tmp"];
/// Kernel file systems that are created for each command.
const KERNEL: [&str; 2] = ["/dev", "/proc"];

/// Returns the system paths that every command may read.
pub(crate) fn system_paths<'a>() -> impl Iterator<Item = &'a Path> {
    SYSTEM.iter().map(Path::new)
}

/// Returns whether a path is a system path that every command may read.
pub(crate) fn is_system(path: &Path) -> bool {
    system_paths().any(|place| path.starts_with(place))
}

/// Returns whether every command can access a path without a grant.
pub(crate) fn is_always_available(path: &Path) -> bool {
    is_system(path) || is_kernel(path)
}

/// Returns whether a path is in a kernel file system, which is created for each command.
pub(crate) fn is_kernel(path: &Path) -> bool {
    KERNEL.iter().any(|place| path.starts_with(place))
}

/// Returns whether a path is in a private temporary directory of the command.
pub(crate) fn is_scratch(path: &Path) -> bool {
    SCRATCH.iter().any(|place| path.starts_with(place))
}

/// Returns whether a directory contains a private temporary directory of the command.
pub(crate) fn contains_scratch(path: &Path) -> bool {
    SCRATCH.iter().any(|place| Path::new(place).starts_with(path))
}

/// Returns the existing toolchain directories beneath the home directory.
pub(crate) fn toolchains(home: Option<&Path>) -> Vec<PathBuf> {
    beneath(home, &TOOLCHAINS)
}

/// Returns the files with credentials inside toolchain directories.
pub(crate) fn credentials(home: Option<&Path>) -> Vec<PathBuf> {
    beneath(home, &CREDENTIALS)
}

fn beneath(home: Option<&Path>, names: &[&str]) -> Vec<PathBuf> {
    let home = home.into_iter();
    plain(home.flat_map(|home| names.iter().map(|name| home.join(name))))
}

/// Returns the variables of this environment that are passed on.
pub(crate) fn environment(all: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let allowed = |name: &str| VARIABLES.contains(&name) || name.starts_with("LC_");
    all.into_iter().filter(|(name, _)| allowed(name)).collect()
}

/// Keeps paths that exist and are not symbolic links. The target of a link must be named by its own path.
fn plain(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let link = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink());
    paths.filter(link).collect()
}

/// Returns the home directories of other users.
pub(crate) fn other_homes(home: Option<&Path>) -> Vec<PathBuf> {
    let homes = fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path());
    let homes = homes.chain([PathBuf::from("/root")]);
    plain(homes.filter(|other| home.is_none_or(|home| other != home)))
}
