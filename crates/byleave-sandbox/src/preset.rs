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
const TOOLCHAINS: [&str; 13] = [
    ".cargo",
    ".rustup",
    ".nvm",
    ".pyenv",
    ".local/bin",
    ".local/lib",
    "go",
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

/// The usual confinement of a workspace: it can be written, the system can be read, there is no network.
pub fn workspace(
    workspace: &Path,
    home: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> io::Result<Confinement> {
    let workspace = workspace.canonicalize()?;
    let home = home.map(Path::canonicalize).transpose()?;
    let beneath_home = |names: &[&str]| match &home {
        Some(home) => plain(names.iter().map(|name| home.join(name))),
        None => Vec::new(),
    };
    let mut hidden = beneath_home(&CREDENTIALS);
    hidden.extend(other_homes(home.as_deref()));
    hidden.extend(secrets(&workspace)?);
    let mut protected = plain(PROTECTED.iter().map(|name| workspace.join(name)));
    protected.extend(in_git(&workspace.join(".git")));
    let allowed = |name: &str| VARIABLES.contains(&name) || name.starts_with("LC_");
    Ok(Confinement {
        files: Files {
            cwd: workspace.clone(),
            home_readable: beneath_home(&TOOLCHAINS),
            home,
            writable: vec![workspace],
            hidden,
            protected,
        },
        network: Network::Off,
        environment: environment.into_iter().filter(|(name, _)| allowed(name)).collect::<BTreeMap<_, _>>(),
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

fn other_homes(home: Option<&Path>) -> Vec<PathBuf> {
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
