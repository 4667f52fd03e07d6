//! File changes: the changes of a command to a copy of the files, one path each. This module is data only. It does not know how a copy is
//! made or committed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::effect::{Effect, is_at_or_beneath};

/// The bits with which a program runs with the rights of its owner or group.
const SET_ID_BITS: u32 = 0o6000;
/// The directories of system programs, which every command can read.
const SYSTEM_DIRS: [&str; 6] = ["/usr", "/bin", "/lib", "/lib64", "/opt", "/nix"];

/// The directories that tools fill, and fill again.
const GENERATED_DIRS: [&str; 22] = [
    "node_modules",
    "target",
    "dist",
    "build",
    "out",
    "__pycache__",
    ".venv",
    "venv",
    ".tox",
    ".nox",
    ".cache",
    "coverage",
    ".next",
    ".nuxt",
    ".turbo",
    ".gradle",
    ".terraform",
    "vendor",
    "obj",
    "bin",
    ".pytest_cache",
    ".mypy_cache",
];

/// All differences between a copy and its original.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChanges {
    /// One change for each path, sorted by path. The contents of a created or removed directory are listed as well.
    pub list: Vec<FileChange>,
    /// The pairs that are renames, as far as the contents show. For people only: each rename is in the list twice, as created and as
    /// removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renames: Vec<FileRename>,
    /// The ways in which a rehearsal differs from a direct run, in words: the limits of copies that this run met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<String>,
}

/// One path that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    /// The path, absolute and resolved.
    pub path: String,
    /// The state before, if something existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileNode>,
    /// The state after, if something exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileNode>,
    /// The status of the path in its git repository.
    #[serde(default)]
    pub git_status: GitStatus,
    /// The unified diff of the text without its header. Absent if there is no text to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// The state of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileNode {
    /// The kind of the node.
    pub kind: FileNodeKind,
    /// The permission bits: the lower twelve bits of the mode. Zero for a link, which has none.
    pub mode: u32,
    /// The modification time of a file in nanoseconds. Zero for everything else.
    #[serde(default)]
    pub modified_ns: i64,
}

/// The kind of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileNodeKind {
    /// A file.
    File {
        /// The size in bytes.
        size: u64,
        /// The digest of the content. Absent if nobody needed to read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Link {
        /// The target, as it is written.
        target: String,
    },
    /// A pipe, a socket or a device.
    Special {
        /// The exact kind.
        kind: String,
    },
}

/// A rename.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRename {
    /// The old path.
    pub from: String,
    /// The new path.
    pub to: String,
}

/// The status of a path in a git repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GitStatus {
    /// The path is in the index. Committed content can be restored from there.
    Tracked,
    /// The path exists only on the disk.
    #[default]
    Untracked,
    /// The path is ignored by git. Most often it can be generated again.
    Ignored,
    /// The path belongs to the repository's own directory.
    Repository,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileChangeKind {
    /// The path is new.
    Created,
    /// The content, or the kind of the node, is different.
    Modified,
    /// Only the mode or the time is different.
    MetadataChanged,
    /// The path no longer exists.
    Deleted,
}

impl FileChangeKind {
    /// Returns the kind in a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Modified => "changed",
            Self::MetadataChanged => "mode or time",
            Self::Deleted => "deleted",
        }
    }

    /// Returns the verb for applying the change, for the person who decides on it.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Created => "create",
            Self::Modified => "change",
            Self::MetadataChanged => "set mode or time of",
            Self::Deleted => "delete",
        }
    }
}

impl fmt::Display for FileChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FileChange {
    /// Returns the kind of the change.
    pub fn kind(&self) -> FileChangeKind {
        match (&self.before, &self.after) {
            (None, _) => FileChangeKind::Created,
            (Some(_), None) => FileChangeKind::Deleted,
            (Some(before), Some(after)) if before.kind == after.kind => FileChangeKind::MetadataChanged,
            (Some(_), Some(_)) => FileChangeKind::Modified,
        }
    }

    /// Returns the kind of a node that git never creates in a repository's own directory: a link or a special file, in words. Such a node
    /// would lead git and every other reader of the repository to another file, or block them forever.
    pub fn unexpected_in_git_dir(&self) -> Option<&str> {
        match &self.after.as_ref()?.kind {
            _ if self.git_status != GitStatus::Repository => None,
            FileNodeKind::Link { .. } => Some("link"),
            FileNodeKind::Special { kind: what } => Some(what),
            FileNodeKind::File { .. } | FileNodeKind::Directory => None,
        }
    }

    /// Returns why no rule about paths can allow what the path became: a special file, a new set-id bit, or a link in a repository's own
    /// directory.
    pub fn special_reason(&self) -> Option<String> {
        let after = self.after.as_ref()?;
        let path = self.path.escape_debug();
        if let Some(what) = self.unexpected_in_git_dir() {
            return Some(format!("`{path}` becomes a {what}, which git never creates"));
        }
        if let FileNodeKind::Special { kind } = &after.kind {
            return Some(format!("`{path}` becomes a {kind}"));
        }
        let had = self.before.as_ref().map_or(0, |before| before.mode);
        let is_file = matches!(after.kind, FileNodeKind::File { .. });
        (is_file && after.mode & SET_ID_BITS & !had != 0)
            .then(|| format!("`{path}` would run with the rights of its owner or group"))
    }

    /// Returns whether it is a change to a file, a directory, or a link that leads to the workspace or to a system program.
    pub fn is_plain(&self, workspace: &str) -> bool {
        let target = self.after.as_ref().and_then(|after| match &after.kind {
            FileNodeKind::Link { target } => Some(target),
            _ => None,
        });
        let stays = |target: &String| {
            let led = resolve_link(&self.path, target);
            is_at_or_beneath(&led, workspace) || SYSTEM_DIRS.iter().any(|dir| is_at_or_beneath(&led, dir))
        };
        self.special_reason().is_none() && target.is_none_or(stays)
    }

    /// Returns whether it is a directory that did not exist.
    pub fn is_new_directory(&self) -> bool {
        let is_directory = |node: &FileNode| node.kind == FileNodeKind::Directory;
        self.before.is_none() && self.after.as_ref().is_some_and(is_directory)
    }

    /// Returns whether git ignores the path, so that most often it can be generated again.
    pub fn is_regenerated(&self) -> bool {
        self.git_status == GitStatus::Ignored
    }

    /// Returns whether it counts when a person must be able to oversee a run: not if a tool generates the path again. An ignored file that
    /// existed may hold data that nothing generates.
    pub fn is_counted(&self) -> bool {
        let is_generated =
            || self.path.split('/').any(|step| GENERATED_DIRS.contains(&step.to_ascii_lowercase().as_str()));
        !self.is_regenerated() || self.before.is_some() && !is_generated()
    }

    /// Returns the change as an effect.
    pub fn to_effect(&self) -> Effect {
        let path = self.path.clone();
        match self.kind() {
            FileChangeKind::Deleted => Effect::Delete { path },
            FileChangeKind::Created | FileChangeKind::Modified | FileChangeKind::MetadataChanged => {
                Effect::Write { path }
            }
        }
    }
}

/// Returns the path that a link leads to, by its text. Links on the way are changes of their own.
fn resolve_link(link: &str, target: &str) -> String {
    let parent = link.rsplit_once('/').map_or("", |(parent, _)| parent);
    let whole = if target.starts_with('/') { target.to_owned() } else { format!("{parent}/{target}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

impl FileChanges {
    /// Returns whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the digest of what would be committed: paths, kinds, modes and contents, before and after.
    pub fn digest(&self) -> Digest {
        let plain: Vec<_> =
            self.list.iter().map(|change| (&change.path, &change.before, &change.after)).collect();
        Digest::compute_parts("byleave.changes", &[&serde_json::to_vec(&plain).unwrap_or_default()])
    }

    /// Returns the size of the before-images: the files as they were, and a block for each path.
    pub fn before_image_bytes(&self) -> u64 {
        const BLOCK: u64 = 4096;
        let kept = self.list.iter().filter_map(|change| change.before.as_ref());
        kept.map(|node| match node.kind {
            FileNodeKind::File { size, .. } => size.saturating_add(BLOCK),
            FileNodeKind::Directory | FileNodeKind::Link { .. } | FileNodeKind::Special { .. } => BLOCK,
        })
        .fold(0, u64::saturating_add)
    }

    /// Returns the changes as effects, in their order.
    pub fn to_effects(&self) -> Vec<Effect> {
        self.list.iter().map(FileChange::to_effect).collect()
    }

    /// Returns only the changes at these paths and beneath them.
    #[must_use]
    pub fn only_paths(&self, paths: &[String]) -> Self {
        self.filter_paths(paths, true)
    }

    /// Returns all changes except those at these paths and beneath them.
    #[must_use]
    pub fn without_paths(&self, paths: &[String]) -> Self {
        self.filter_paths(paths, false)
    }

    fn filter_paths(&self, paths: &[String], wanted: bool) -> Self {
        let chosen = |path: &str| paths.iter().any(|outer| is_at_or_beneath(path, outer)) == wanted;
        Self {
            list: self.list.iter().filter(|change| chosen(&change.path)).cloned().collect(),
            renames: self
                .renames
                .iter()
                .filter(|one| chosen(&one.from) && chosen(&one.to))
                .cloned()
                .collect(),
            caveats: self.caveats.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: u64) -> Option<FileNode> {
        let kind = FileNodeKind::File { size, digest: Some(Digest::compute(&size.to_le_bytes())) };
        Some(FileNode { kind, mode: 0o644, modified_ns: 1 })
    }

    fn change(path: &str, before: Option<FileNode>, after: Option<FileNode>) -> FileChange {
        FileChange { path: path.into(), before, after, git_status: GitStatus::Tracked, diff: None }
    }

    #[test]
    fn what_was_done_is_told_by_before_and_after() {
        let cases = [
            (None, file(1), FileChangeKind::Created, "write /w/a"),
            (file(1), file(2), FileChangeKind::Modified, "write /w/a"),
            (
                file(1),
                file(1).map(|node| FileNode { mode: 0o755, ..node }),
                FileChangeKind::MetadataChanged,
                "write /w/a",
            ),
            (file(1), None, FileChangeKind::Deleted, "delete /w/a"),
        ];
        for (before, after, what, effect) in cases {
            let change = change("/w/a", before, after);
            assert_eq!((change.kind(), change.to_effect().to_string()), (what, effect.to_owned()));
        }
    }

    #[test]
    fn the_digest_is_of_what_would_be_committed() {
        let of = |list: Vec<FileChange>| FileChanges { list, ..FileChanges::default() };
        let one = of(vec![change("/w/a", None, file(1))]);
        let mut shown = one.clone();
        shown.caveats.push("hard links".into());
        shown.list.iter_mut().for_each(|change| change.diff = Some("+x".into()));
        assert_eq!(one.digest(), shown.digest());
        for other in
            [change("/w/b", None, file(1)), change("/w/a", None, file(2)), change("/w/a", file(1), None)]
        {
            assert_ne!(one.digest(), of(vec![other]).digest());
        }
        let both = of(vec![change("/w/a", None, file(1)), change("/w/ab", None, file(1))]);
        assert_eq!(both.only_paths(&["/w/a".into()]), one);
        assert_eq!(both.only_paths(&["/w/".into()]), both);
        assert_eq!(both.without_paths(&["/w/ab".into()]), one);
        assert_eq!(
            (both.without_paths(&[]), both.without_paths(&["/w".into()]).is_empty()),
            (both.clone(), true)
        );
    }
}
