//! Recognises which files Git runs later, which lines of its todo lists are commands, and which directories are repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Paths in a repository's own directory that redirect Git to other settings, or that Git runs.
const RUN: [&str; 7] = [
    "commondir",
    "config",
    "config.worktree",
    "info/attributes",
    "objects/info/alternates",
    "modules",
    "worktrees",
];
/// Todo lists. A line may be a command, which Git runs when it continues.
const LISTS: [&str; 2] = ["rebase-merge/git-rebase-todo", "sequencer/todo"];
/// Paths that Git obeys in a directory that is a repository by its contents. For `.git`, rules name them.
pub const SETTINGS: [&str; 4] = ["config", "config.worktree", "commondir", "hooks"];
/// The maximum size of a todo list. A list of this size has more commits than a real rebase.
pub const LIST_BYTES_MAX: u64 = 1 << 20;

/// The commands in todo lists, by path. `None` for a list that cannot be read.
pub type TodoCommands = BTreeMap<PathBuf, Option<BTreeSet<String>>>;

/// The meaning of a path in a repository's own directory to Git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitPathKind {
    /// Git runs it, or runs commands in it.
    Run,
    /// A directory that contains such a path.
    Parent,
    /// Git runs those of its lines that are commands.
    List,
    /// A path of everyday work.
    Other,
}

/// Classifies a path beneath a repository's own directory.
pub fn classify_git_path(beneath: &str) -> GitPathKind {
    let above = |place: &&str| place.strip_prefix(beneath).is_some_and(|rest| rest.starts_with('/'));
    match beneath {
        // Git runs a hook by its exact name, which has no dot.
        _ if beneath.strip_prefix("hooks/").is_some_and(|name| !name.contains(['.', '/'])) => {
            GitPathKind::Run
        }
        "hooks" => GitPathKind::Parent,
        _ if RUN.contains(&beneath) => GitPathKind::Run,
        _ if LISTS.contains(&beneath) => GitPathKind::List,
        _ if RUN.iter().any(above) || LISTS.iter().any(above) => GitPathKind::Parent,
        _ => GitPathKind::Other,
    }
}

/// Returns whether a path is a todo list of any repository.
pub fn is_list(path: &str) -> bool {
    LISTS.iter().any(|list| path.strip_suffix(list).is_some_and(|above| above.ends_with('/')))
}

/// Returns the lines of a todo list that are commands.
pub fn todo_commands(list: &str) -> BTreeSet<String> {
    list.lines().filter(|line| is_command(line)).map(str::to_owned).collect()
}

/// Returns whether Git reads a line as a command: the word or its letter, followed by a blank or nothing.
pub fn is_command(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '\t']);
    let rest = line.strip_prefix("exec").or_else(|| line.strip_prefix('x'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']))
}

/// Detects whether a directory is a repository by its contents, whatever its name. Git treats it as one when it runs in there.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepositoryDetector {
    has_head: bool,
    has_objects: bool,
    has_refs: bool,
    has_commondir: bool,
}

impl RepositoryDetector {
    /// The names that make a directory a repository.
    pub const NAMES: [&'static str; 4] = ["HEAD", "commondir", "objects", "refs"];

    /// Takes note of an entry with this name.
    pub fn note_name(&mut self, name: &OsStr) {
        match name.as_bytes() {
            b"HEAD" => self.has_head = true,
            b"objects" => self.has_objects = true,
            b"refs" => self.has_refs = true,
            b"commondir" => self.has_commondir = true,
            _ => {}
        }
    }

    /// Returns whether Git would treat it as a repository.
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
        assert_eq!(todo_commands("pick 1 a\nexec b\n x c\r\n").len(), 2);
    }

    // req: E2
    #[test]
    fn what_git_runs_is_told_from_everyday_work() {
        for (beneath, is) in [
            ("config", GitPathKind::Run),
            ("hooks", GitPathKind::Parent),
            ("hooks/pre-commit", GitPathKind::Run),
            ("hooks/pre-commit.sample", GitPathKind::Other),
            ("info", GitPathKind::Parent),
            ("objects/info", GitPathKind::Parent),
            ("rebase-merge", GitPathKind::Parent),
            ("rebase-merge/git-rebase-todo", GitPathKind::List),
            ("rebase-merge/done", GitPathKind::Other),
            ("index", GitPathKind::Other),
            ("refs/heads/main", GitPathKind::Other),
        ] {
            assert_eq!(classify_git_path(beneath), is, "{beneath}");
        }
        assert!(is_list("/w/.git/rebase-merge/git-rebase-todo") && !is_list("/w/git-rebase-todo"));
    }
}
