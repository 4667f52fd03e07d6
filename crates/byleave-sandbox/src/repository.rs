//! What git runs later: by the names of files in a repository, by what its lists say, and which directories are repositories at all.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Beneath a repository's own directory: what redirects git to other settings, or is run by it.
const RUN: [&str; 7] = [
    "commondir",
    "config",
    "config.worktree",
    "info/attributes",
    "objects/info/alternates",
    "modules",
    "worktrees",
];
/// Lists of what is still to be done. A line of one may be a command, which git runs when it goes on.
const LISTS: [&str; 2] = ["rebase-merge/git-rebase-todo", "sequencer/todo"];
/// What git obeys in a directory that is a repository by what is in it. In `.git` rules say so.
pub const SETTINGS: [&str; 4] = ["config", "config.worktree", "commondir", "hooks"];
/// A list of this many bytes is one of more commits than anybody rebases.
pub const LIST_BYTES_MAX: u64 = 1 << 20;

/// The commands in lists, by the paths of those; none where a list cannot be read.
pub type TodoCommands = BTreeMap<PathBuf, Option<BTreeSet<String>>>;

/// What something in a repository's own directory is to git, by the path beneath that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitPathKind {
    /// Git runs what it says, or runs it.
    Run,
    /// A directory with something like that in it.
    Above,
    /// Git runs the lines of it that are commands.
    List,
    /// Everyday work.
    Other,
}

/// What a path beneath a repository's own directory is to git.
pub fn part(beneath: &str) -> GitPathKind {
    let above = |place: &&str| place.strip_prefix(beneath).is_some_and(|rest| rest.starts_with('/'));
    match beneath {
        // Git runs a hook by its exact name, which has no dot.
        _ if beneath.strip_prefix("hooks/").is_some_and(|name| !name.contains(['.', '/'])) => {
            GitPathKind::Run
        }
        "hooks" => GitPathKind::Above,
        _ if RUN.contains(&beneath) => GitPathKind::Run,
        _ if LISTS.contains(&beneath) => GitPathKind::List,
        _ if RUN.iter().any(above) || LISTS.iter().any(above) => GitPathKind::Above,
        _ => GitPathKind::Other,
    }
}

/// Whether a path is that of a list, in whatever repository.
pub fn is_list(path: &str) -> bool {
    LISTS.iter().any(|list| path.strip_suffix(list).is_some_and(|above| above.ends_with('/')))
}

/// The lines of a list that are commands.
pub fn commands(list: &str) -> BTreeSet<String> {
    list.lines().filter(|line| is_command(line)).map(str::to_owned).collect()
}

/// Whether a line of a list is a command, as git reads it: the word or its letter, and a blank or nothing behind it.
pub fn is_command(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '\t']);
    let rest = line.strip_prefix("exec").or_else(|| line.strip_prefix('x'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']))
}

/// Whether a directory is a repository by what is in it, whatever it is called: git takes it for one when it is run in there.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepositoryDetector {
    has_head: bool,
    has_objects: bool,
    has_refs: bool,
    has_commondir: bool,
}

impl RepositoryDetector {
    /// The names that make one.
    pub const NAMES: [&'static str; 4] = ["HEAD", "commondir", "objects", "refs"];

    /// Takes in that something of this name is in it.
    pub fn look_at(&mut self, name: &OsStr) {
        match name.as_bytes() {
            b"HEAD" => self.has_head = true,
            b"objects" => self.has_objects = true,
            b"refs" => self.has_refs = true,
            b"commondir" => self.has_commondir = true,
            _ => {}
        }
    }

    /// Whether git would take it for one.
    pub const fn is_repository(self) -> bool {
        self.has_head && (self.has_commondir || self.has_objects && self.has_refs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: E2
    #[test]
    fn commands_are_found_as_git_reads_them() {
        for line in ["exec touch x", "x touch x", "  exec touch x", "\tx touch x", "exec\ttouch x", "exec"] {
            assert!(is_command(line), "{line:?}");
        }
        for line in ["pick 1234 exec", "# exec x", "execute x", "xx", "Exec x", "", "label x", "edit 12 x"] {
            assert!(!is_command(line), "{line:?}");
        }
        assert_eq!(commands("pick 1 a\nexec b\n x c\r\n").len(), 2);
    }

    // req: E2
    #[test]
    fn what_git_runs_is_told_from_everyday_work() {
        for (beneath, is) in [
            ("config", GitPathKind::Run),
            ("hooks", GitPathKind::Above),
            ("hooks/pre-commit", GitPathKind::Run),
            ("hooks/pre-commit.sample", GitPathKind::Other),
            ("info", GitPathKind::Above),
            ("objects/info", GitPathKind::Above),
            ("rebase-merge", GitPathKind::Above),
            ("rebase-merge/git-rebase-todo", GitPathKind::List),
            ("rebase-merge/done", GitPathKind::Other),
            ("index", GitPathKind::Other),
            ("refs/heads/main", GitPathKind::Other),
        ] {
            assert_eq!(part(beneath), is, "{beneath}");
        }
        assert!(is_list("/w/.git/rebase-merge/git-rebase-todo") && !is_list("/w/git-rebase-todo"));
    }
}
