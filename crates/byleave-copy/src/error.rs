//! Errors of copies, and conflicts of commits.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use byleave_core::file_change::FileNode;
use uuid::Uuid;

/// An error of an operation on a copy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {operation} `{}`: {source}", path.display())]
    Io {
        /// The operation.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process works with the copy.
    #[error("the copy {0} is in use by another process: wait for it, or end it")]
    Busy(Uuid),
    /// A commit with this id exists already.
    #[error("{0} is already committed: a new copy needs another id")]
    Exists(Uuid),
    /// No copy with this id exists.
    #[error("there is no copy {0} in the store")]
    Missing(Uuid),
    /// The copy was dropped because it was old or the store was full.
    #[error("the before-images of {id} were dropped on {} because {reason}", crate::date::format_day(*at))]
    Dropped {
        /// The copy.
        id: Uuid,
        /// The time.
        at: SystemTime,
        /// The reason.
        reason: String,
    },
    /// The copy is not committed, so there is nothing to undo.
    #[error("{0} was never committed: there is nothing to undo")]
    NotCommitted(Uuid),
    /// The commit was undone already.
    #[error("{id} is already undone, by {undo_id}: undo {undo_id} to restore the changes")]
    AlreadyUndone {
        /// The commit.
        id: Uuid,
        /// The commit that undid it.
        undo_id: Uuid,
    },
    /// A commit was interrupted and is not recovered yet.
    #[error("the commit of {0} was interrupted: recover the store first")]
    Interrupted(Uuid),
    /// A plain copy would be larger than the limit.
    #[error("cannot copy `{}`: it is larger than {limit_bytes} bytes", path.display())]
    TooLarge {
        /// The directory to copy.
        path: PathBuf,
        /// The limit.
        limit_bytes: u64,
    },
    /// A directory that cannot be copied: it is a link, contains the store, or lies inside another copied directory.
    #[error("cannot copy `{}`: {reason}", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// A file that cannot be written or removed on the copy.
    #[error("cannot change `{}`: {reason}", path.display())]
    CannotWrite {
        /// The path.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// A name or link target that is not UTF-8.
    #[error("`{}` is not UTF-8: nothing of this copy can be committed", path.display())]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// Directories that are nested too deep to be scanned.
    #[error("`{}` has more than {} levels of nested directories: nothing of this copy can be committed", path.display(), crate::dir_handle::DEPTH_MAX)]
    TooDeep {
        /// The root directory.
        path: PathBuf,
    },
    /// The layer contains a mark that only another kind of mount creates.
    #[error("the layer at `{}` has the attribute `{attribute}`, which Byleave never sets", path.display())]
    UnsupportedLayer {
        /// The path.
        path: PathBuf,
        /// The mark.
        attribute: String,
    },
    /// A file of the store that cannot be parsed.
    #[error("cannot parse `{}` in the store: {source}", path.display())]
    InvalidFile {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A change that is not on the list of the copy, or differs from it.
    #[error("the change of `{0}` does not belong to this copy: list the changes again")]
    NotListed(String),
    /// A partial choice that cannot be committed alone.
    #[error("`{path}` cannot be committed without `{needs}`: choose both")]
    Incomplete {
        /// The chosen path.
        path: String,
        /// The path that is missing from the choice.
        needs: String,
    },
    /// Files are not as expected, and nothing was done.
    #[error("{} changed meanwhile, first `{}`: nothing was done", format_count(.0.len()), .0.first().map_or("", |one| &one.path))]
    Conflicts(Vec<Conflict>),
    /// A step failed, and all steps before it were reverted.
    #[error("cannot commit `{path}`, all changes were rolled back: {source}")]
    RolledBack {
        /// The path of the failed step.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A step failed, and not all steps before it could be reverted.
    #[error("cannot commit `{path}` ({source}), and cannot roll back {}: inspect the store and recover it", paths.join(", "))]
    RollbackFailed {
        /// The path of the failed step.
        path: String,
        /// The error of the operating system.
        source: io::Error,
        /// The paths that remain as committed.
        paths: Vec<String>,
    },
}

fn format_count(conflicts: usize) -> String {
    if conflicts == 1 { "1 path".into() } else { format!("{conflicts} paths") }
}

/// A path that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The path.
    pub path: String,
    /// The expected file.
    pub expected: Option<FileNode>,
    /// The file that is there now.
    pub actual: Option<FileNode>,
    /// The reason as text.
    pub reason: &'static str,
    /// The texts, if there are any.
    pub texts: Option<ConflictTexts>,
}

/// The texts of a conflict: the common base and both versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictTexts {
    /// The text as the call left it, if it is still known.
    pub base: Option<String>,
    /// The text as it is now.
    pub ours: String,
    /// The text as the undo would leave it.
    pub theirs: String,
}

impl Conflict {
    /// Returns a merge of both versions with conflict markers, or the diff between them if the base is not known.
    pub fn merge_text(&self) -> Option<String> {
        let texts = self.texts.as_ref()?;
        Some(match &texts.base {
            Some(base) => diffy::merge(base, &texts.ours, &texts.theirs).unwrap_or_else(|marked| marked),
            None => diffy::create_patch(&texts.ours, &texts.theirs).to_string(),
        })
    }
}

/// Adds the operation and the path to an I/O error.
pub(crate) trait IoContext<T> {
    fn context(self, what: &'static str, path: impl AsRef<Path>) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> IoContext<T> for Result<T, E> {
    fn context(self, what: &'static str, path: impl AsRef<Path>) -> Result<T, Error> {
        self.map_err(|source| Error::Io {
            operation: what,
            path: path.as_ref().to_owned(),
            source: source.into(),
        })
    }
}
