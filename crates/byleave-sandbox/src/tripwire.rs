//! The tripwire: what a command left in its workspace for somebody else to run later, found and put out of action.
//!
//! What exists can be protected by a mount; what does not exist yet cannot. So the places where editors, shells and git look for
//! something to run are listed before a command, and what is new there afterwards gets a name under which nothing runs it. It
//! follows no symbolic link, and deletes nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names that make something run when a person or a program comes by, wherever they are.
const NAMES: [&str; 13] = [
    ".git",
    ".envrc",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".claude",
    ".cursor",
    ".husky",
    ".pre-commit-config.yaml",
    ".bashrc",
    ".profile",
    ".gitmodules",
    ".byleave",
];
/// Beneath `.git`: what redirects git to other configuration, or is run by it.
const IN_GIT: [&str; 6] =
    ["commondir", "config.worktree", "info/attributes", "objects/info/alternates", "modules", "worktrees"];
const QUARANTINED: &str = "quarantined";

/// The list of what was there before a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tripwire {
    roots: Vec<PathBuf>,
    before: BTreeSet<PathBuf>,
}

/// Something that was planted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planted {
    /// Where it was.
    pub path: PathBuf,
    /// Where it is now.
    pub quarantined: PathBuf,
}

impl Tripwire {
    /// Lists what is in these directories.
    pub fn set(roots: &[PathBuf]) -> io::Result<Self> {
        Ok(Self { roots: roots.to_vec(), before: listed(roots)? })
    }

    /// Puts what is new out of action, and says what it was.
    pub fn spring(&self) -> io::Result<Vec<Planted>> {
        let mut planted: Vec<Planted> = Vec::new();
        for path in listed(&self.roots)?.difference(&self.before) {
            // What lies in something that was moved went with it.
            if planted.iter().any(|above| path.starts_with(&above.path)) {
                continue;
            }
            planted.push(Planted { path: path.clone(), quarantined: quarantine(path)? });
        }
        Ok(planted)
    }
}

fn quarantine(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for number in 0..1000 {
        let to = path.with_file_name(format!("{name}.{QUARANTINED}-{number}"));
        if fs::symlink_metadata(&to).is_err() {
            fs::rename(path, &to)?;
            return Ok(to);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!("too many of `{}` are quarantined", path.display()),
    ))
}

fn listed(roots: &[PathBuf]) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for root in roots {
        each_beneath(root, &mut |path, name| {
            if !NAMES.contains(&name) {
                return Look::Into;
            }
            found.insert(path.to_path_buf());
            if name == ".git" {
                found.extend(IN_GIT.map(|place| path.join(place)).into_iter().filter(|place| there(place)));
                let hooks = fs::read_dir(path.join("hooks")).into_iter().flatten().flatten();
                found.extend(hooks.map(|hook| hook.path()).filter(|hook| runs(hook)));
            }
            Look::Past
        })?;
    }
    Ok(found)
}

fn there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Git runs a hook by its exact name, which has no dot.
fn runs(hook: &Path) -> bool {
    hook.extension().is_none()
}

pub(crate) enum Look {
    Into,
    Past,
}

/// Visits everything beneath a directory, with its name. What has gone meanwhile, or cannot be read, is passed over: it was the
/// command's own, since what was there before could be read then.
pub(crate) fn each_beneath(root: &Path, visit: &mut impl FnMut(&Path, &str) -> Look) -> io::Result<()> {
    let mut left = vec![root.to_path_buf()];
    while let Some(directory) = left.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if directory == root => return Err(error),
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let look = visit(&path, &entry.file_name().to_string_lossy());
            let directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if directory && matches!(look, Look::Into) {
                left.push(path);
            }
        }
    }
    Ok(())
}
