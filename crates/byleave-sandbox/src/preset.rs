//! The usual confinement of a workspace: what an everyday command needs, and no more.
//!
//! Of the home directory an allow-list, because a list of what to hide always misses something, and sockets hide there as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::confinement::{Confinement, Files, Network};
use crate::limits::Limits;
use crate::tripwire::{Look, each_beneath};

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
/// In a workspace: what editors, shells, agents and this program run or obey.
const PROTECTED: [&str; 16] = [
    ".vscode",
    ".idea",
    ".claude",
    ".cursor",
    ".mcp.json",
    ".envrc",
    ".husky",
    ".pre-commit-config.yaml",
    ".gitmodules",
    ".gitattributes",
    ".bashrc",
    ".profile",
    ".byleave",
    ".zshrc",
    ".direnv",
    "AGENTS.md",
];
/// In `.git`: what git runs or is redirected by. The index, HEAD, refs, objects and logs stay writable, so that everyday git works.
const PROTECTED_IN_GIT: [&str; 8] = [
    "config",
    "config.worktree",
    "hooks",
    "commondir",
    "info",
    "objects/info/alternates",
    "modules",
    "worktrees",
];
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

/// The usual confinement of a workspace: it can be written, the system can be read, there is no network.
pub fn workspace(
    workspace: &Path,
    home: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> io::Result<Confinement> {
    let workspace = workspace.canonicalize()?;
    let home = home.map(Path::canonicalize).transpose()?;
    let mut hidden = credentials(home.as_deref());
    hidden.extend(other_homes(home.as_deref()));
    hidden.extend(secrets(&workspace)?);
    let mut protected = plain(PROTECTED.iter().map(|name| workspace.join(name)));
    protected.extend(in_git(&workspace.join(".git")));
    Ok(Confinement {
        files: Files {
            cwd: workspace.clone(),
            home_readable: toolchains(home.as_deref()),
            home,
            writable: vec![workspace],
            hidden,
            protected,
            ..Files::default()
        },
        network: Network::Off,
        environment: self::environment(environment),
        limits: Limits::default(),
        waived: BTreeSet::new(),
    })
}

/// Those that are there and no symbolic links: what a link leads to is named by its own path or not at all.
fn plain(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let link = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink());
    paths.filter(link).collect()
}

fn in_git(git: &Path) -> Vec<PathBuf> {
    if git.is_dir() {
        plain(PROTECTED_IN_GIT.iter().map(|name| git.join(name)))
    } else {
        // The file that leads a linked worktree to its repository.
        plain(std::iter::once(git.to_path_buf()))
    }
}

/// The home directories of others.
pub(crate) fn other_homes(home: Option<&Path>) -> Vec<PathBuf> {
    let homes = fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path());
    let homes = homes.chain([PathBuf::from("/root")]);
    plain(homes.filter(|other| home.is_none_or(|home| other != home)))
}

/// Files with secrets, by their names, anywhere in the workspace.
fn secrets(workspace: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    each_beneath(workspace, &mut |path, name| {
        let example = [".example", ".sample", ".template", ".dist"].iter().any(|end| name.ends_with(end));
        if (name == ".env" || name.starts_with(".env.")) && !example {
            found.push(path.to_path_buf());
            return Look::Past;
        }
        if matches!(name, ".git" | "node_modules" | "target") { Look::Past } else { Look::Into }
    })?;
    Ok(plain(found.into_iter()))
}
