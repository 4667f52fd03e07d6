//! The places that every command knows: what an everyday command needs of a machine, and no more.
//!
//! Of the home directory an allow-list, because a list of what to hide always misses something, and sockets hide there as well.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Beneath the home directory: what compilers, interpreters and git read.
const TOOLCHAINS: [&str; 14] = [
    ".cargo",
    ".rustup",
    ".nvm",
    ".pyenv",
    ".local/bin",
    ".local/lib",
    // Not `go/src`, where people have their work.
    "go/bin",
    "go/pkg",
    ".bun",
    ".deno",
    ".volta",
    ".gitconfig",
    ".config/git",
    ".sdkman",
];
/// Credentials that toolchains keep among their files.
const CREDENTIALS: [&str; 4] =
    [".cargo/credentials", ".cargo/credentials.toml", ".config/git/credentials", ".local/lib/credentials"];
const VARIABLES: [&str; 9] = ["PATH", "HOME", "LANG", "LANGUAGE", "TERM", "USER", "LOGNAME", "SHELL", "TZ"];

/// What every command may read of the system: programs, libraries, their settings, and what the kernel tells.
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
/// What every command has of its own.
const SCRATCH: [&str; 2] = ["/tmp", "/var/tmp"];
/// What every command sees of the kernel, made for it alone.
const KERNEL: [&str; 2] = ["/dev", "/proc"];

/// What every command may read of the system.
pub(crate) fn system<'a>() -> impl Iterator<Item = &'a Path> {
    SYSTEM.iter().map(Path::new)
}

/// Whether a path is among what every command may read of the system.
pub(crate) fn is_system(path: &Path) -> bool {
    system().any(|place| path.starts_with(place))
}

/// Whether a path is in what every command can read or has of its own, so that nobody need grant it.
pub(crate) fn is_everywhere(path: &Path) -> bool {
    is_system(path) || is_kernel(path)
}

/// Whether a path is the kernel's: made for every command alone.
pub(crate) fn is_kernel(path: &Path) -> bool {
    KERNEL.iter().any(|place| path.starts_with(place))
}

/// Whether a path is in what every command has of its own.
pub(crate) fn is_scratch(path: &Path) -> bool {
    SCRATCH.iter().any(|place| path.starts_with(place))
}

/// Whether something that every command has of its own lies in a directory.
pub(crate) fn holds_scratch(path: &Path) -> bool {
    SCRATCH.iter().any(|place| Path::new(place).starts_with(path))
}

/// The toolchains that are there, beneath the home directory.
pub(crate) fn toolchains(home: Option<&Path>) -> Vec<PathBuf> {
    beneath(home, &TOOLCHAINS)
}

/// The credentials that toolchains keep among their files.
pub(crate) fn credentials(home: Option<&Path>) -> Vec<PathBuf> {
    beneath(home, &CREDENTIALS)
}

fn beneath(home: Option<&Path>, names: &[&str]) -> Vec<PathBuf> {
    let home = home.into_iter();
    plain(home.flat_map(|home| names.iter().map(|name| home.join(name))))
}

/// Of this environment, what is passed on.
pub(crate) fn environment(all: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let allowed = |name: &str| VARIABLES.contains(&name) || name.starts_with("LC_");
    all.into_iter().filter(|(name, _)| allowed(name)).collect()
}

/// Those that are there and no symbolic links: what a link leads to is named by its own path or not at all.
fn plain(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let link = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink());
    paths.filter(link).collect()
}

/// The home directories of others.
pub(crate) fn other_homes(home: Option<&Path>) -> Vec<PathBuf> {
    let homes = fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path());
    let homes = homes.chain([PathBuf::from("/root")]);
    plain(homes.filter(|other| home.is_none_or(|home| other != home)))
}
