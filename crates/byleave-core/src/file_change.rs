//! Changes: what a command did to a copy of the files, one path each. Data; how a copy is made and committed is not known here.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::effect::{Effect, is_at_or_beneath};

/// Everything that differs between a copy and what it is a copy of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChanges {
    /// One for each path, by path. What lies in a directory that was made or removed is listed as well.
    pub list: Vec<FileChange>,
    /// Which of them are one thing under another name, as far as the contents tell. For people: each is in the list twice, as made
    /// and as removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renames: Vec<FileRename>,
    /// What a run without a copy would have done otherwise, in words: the limits of copies that this one ran into.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// One path that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    /// Where, absolute and resolved.
    pub path: String,
    /// What was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileNode>,
    /// What is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileNode>,
    /// What the repository that it lies in knows of it.
    #[serde(default)]
    pub standing: GitStatus,
    /// How the text differs, as a unified diff without its heading; absent where there is no text to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileNode {
    /// What it is.
    pub kind: FileNodeKind,
    /// Who may do what with it: the lower twelve bits. Zero for a link, which has none.
    pub mode: u32,
    /// When the content of a file was last changed, in nanoseconds; zero for everything else.
    #[serde(default)]
    pub modified: i64,
}

/// What is at a path, in a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileNodeKind {
    /// A file.
    File {
        /// How long it is.
        size: u64,
        /// Its content; absent where nobody needed to read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Link {
        /// Where it leads, as it is written.
        to: String,
    },
    /// A pipe, a socket or a device.
    Special {
        /// Which.
        what: String,
    },
}

/// One thing under another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRename {
    /// The path it had.
    pub from: String,
    /// The path it has.
    pub to: String,
}

/// What a repository knows of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GitStatus {
    /// It is in the index: what was committed can be had back from there.
    Tracked,
    /// Nobody but the disk has it.
    #[default]
    Untracked,
    /// It is not to be committed: most often something that is made again.
    Ignored,
    /// It belongs to the repository itself.
    Repository,
}

/// What was done to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileChangeKind {
    /// Was not there.
    Created,
    /// Is another content, or another kind of thing.
    Changed,
    /// Has another mode, or another time, and nothing else.
    Marked,
    /// Is not there any more.
    Deleted,
}

impl FileChangeKind {
    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Marked => "mode or time",
            Self::Deleted => "deleted",
        }
    }

    /// What is done to the path when the change is applied: for who decides whether it is.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Created => "create",
            Self::Changed => "change",
            Self::Marked => "set mode or time of",
            Self::Deleted => "delete",
        }
    }
}

impl fmt::Display for FileChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FileChange {
    /// What was done to the path.
    pub fn what(&self) -> FileChangeKind {
        match (&self.before, &self.after) {
            (None, _) => FileChangeKind::Created,
            (Some(_), None) => FileChangeKind::Deleted,
            (Some(before), Some(after)) if before.kind == after.kind => FileChangeKind::Marked,
            (Some(_), Some(_)) => FileChangeKind::Changed,
        }
    }

    /// What it makes of a path in a repository's own directory that git never makes there: a link or a special file, in words. It would
    /// lead git, and everybody else who reads the repository, to another file, or hold them for ever.
    pub fn foreign_to_git(&self) -> Option<&str> {
        match &self.after.as_ref()?.kind {
            _ if self.standing != GitStatus::Repository => None,
            FileNodeKind::Link { .. } => Some("link"),
            FileNodeKind::Special { what } => Some(what),
            FileNodeKind::File { .. } | FileNodeKind::Directory => None,
        }
    }

    /// The effect that this change is.
    pub fn effect(&self) -> Effect {
        let path = self.path.clone();
        match self.what() {
            FileChangeKind::Deleted => Effect::Delete { path },
            FileChangeKind::Created | FileChangeKind::Changed | FileChangeKind::Marked => {
                Effect::Write { path }
            }
        }
    }
}

impl FileChanges {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The digest of what would be committed: paths, kinds, modes and contents, before and after.
    pub fn digest(&self) -> Digest {
        let plain: Vec<_> =
            self.list.iter().map(|change| (&change.path, &change.before, &change.after)).collect();
        Digest::of_parts("byleave.changes", &[&serde_json::to_vec(&plain).unwrap_or_default()])
    }

    /// The effects that these changes are, in their order.
    pub fn effects(&self) -> Vec<Effect> {
        self.list.iter().map(FileChange::effect).collect()
    }

    /// Only what is at these paths, with everything beneath them.
    #[must_use]
    pub fn only(&self, paths: &[String]) -> Self {
        self.where_in(paths, true)
    }

    /// All but what is at these paths and beneath them.
    #[must_use]
    pub fn except(&self, paths: &[String]) -> Self {
        self.where_in(paths, false)
    }

    fn where_in(&self, paths: &[String], wanted: bool) -> Self {
        let chosen = |path: &str| paths.iter().any(|outer| is_at_or_beneath(path, outer)) == wanted;
        Self {
            list: self.list.iter().filter(|change| chosen(&change.path)).cloned().collect(),
            renames: self
                .renames
                .iter()
                .filter(|one| chosen(&one.from) && chosen(&one.to))
                .cloned()
                .collect(),
            limits: self.limits.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: u64) -> Option<FileNode> {
        let kind = FileNodeKind::File { size, digest: Some(Digest::of(&size.to_le_bytes())) };
        Some(FileNode { kind, mode: 0o644, modified: 1 })
    }

    fn change(path: &str, before: Option<FileNode>, after: Option<FileNode>) -> FileChange {
        FileChange { path: path.into(), before, after, standing: GitStatus::Tracked, diff: None }
    }

    #[test]
    fn what_was_done_is_told_by_before_and_after() {
        let cases = [
            (None, file(1), FileChangeKind::Created, "write /w/a"),
            (file(1), file(2), FileChangeKind::Changed, "write /w/a"),
            (
                file(1),
                file(1).map(|node| FileNode { mode: 0o755, ..node }),
                FileChangeKind::Marked,
                "write /w/a",
            ),
            (file(1), None, FileChangeKind::Deleted, "delete /w/a"),
        ];
        for (before, after, what, effect) in cases {
            let change = change("/w/a", before, after);
            assert_eq!((change.what(), change.effect().to_string()), (what, effect.to_owned()));
        }
    }

    #[test]
    fn the_digest_is_of_what_would_be_committed() {
        let of = |list: Vec<FileChange>| FileChanges { list, ..FileChanges::default() };
        let one = of(vec![change("/w/a", None, file(1))]);
        let mut shown = one.clone();
        shown.limits.push("hard links".into());
        shown.list.iter_mut().for_each(|change| change.diff = Some("+x".into()));
        assert_eq!(one.digest(), shown.digest());
        for other in
            [change("/w/b", None, file(1)), change("/w/a", None, file(2)), change("/w/a", file(1), None)]
        {
            assert_ne!(one.digest(), of(vec![other]).digest());
        }
        let both = of(vec![change("/w/a", None, file(1)), change("/w/ab", None, file(1))]);
        assert_eq!(both.only(&["/w/a".into()]), one);
        assert_eq!(both.only(&["/w/".into()]), both);
        assert_eq!(both.except(&["/w/ab".into()]), one);
        assert_eq!((both.except(&[]), both.except(&["/w".into()]).is_empty()), (both.clone(), true));
    }
}
