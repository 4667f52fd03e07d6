//! What can go wrong with a copy, and what stands in the way of a commit.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use byleave_core::file_change::FileNode;
use uuid::Uuid;

/// Why something about a copy could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk said no.
    #[error("cannot {what} `{}`: {source}", path.display())]
    Disk {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
    /// Another process works with the copy.
    #[error("the copy {0} is in use by another process: wait for it, or end it")]
    Busy(Uuid),
    /// There is a commit under this name already.
    #[error("{0} was committed already: a copy needs a name of its own")]
    Exists(Uuid),
    /// There is no such copy.
    #[error("there is no copy {0} in the store")]
    Missing(Uuid),
    /// It was forgotten, to make room or because it was old.
    #[error("the before-images of {id} were dropped on {} because {why}", crate::date::day(*at))]
    Dropped {
        /// Which.
        id: Uuid,
        /// When.
        at: SystemTime,
        /// Why.
        why: String,
    },
    /// It is not committed, so there is nothing to undo.
    #[error("{0} was never committed: there is nothing to undo")]
    Uncommitted(Uuid),
    /// It was undone already.
    #[error("{id} was undone already, by {by}: undo that one to bring the changes back")]
    Undone {
        /// Which.
        id: Uuid,
        /// By which.
        by: Uuid,
    },
    /// A commit was interrupted and not recovered yet.
    #[error("the commit of {0} was interrupted: recover the store first")]
    Interrupted(Uuid),
    /// A plain copy would be larger than the limit.
    #[error("`{}` is larger than {limit_bytes} bytes: it is not copied", path.display())]
    TooLarge {
        /// What was to be copied.
        path: PathBuf,
        /// How much may be.
        limit_bytes: u64,
    },
    /// A directory that cannot be copied: it is a link, or the store lies in it, or it lies in another.
    #[error("cannot copy `{}`: {why}", path.display())]
    Root {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Something that cannot be put there, or taken away.
    #[error("cannot change `{}`: {why}", path.display())]
    Put {
        /// Where.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// A name or the target of a link that is not text.
    #[error("`{}` is not UTF-8: nothing of this copy can be committed", path.display())]
    NotText {
        /// Where.
        path: PathBuf,
    },
    /// More directories in each other than are looked into.
    #[error("in `{}` lie more than {} directories in each other: nothing of this copy can be committed", path.display(), crate::dir_handle::DEPTH_MAX)]
    TooDeep {
        /// In which directory.
        path: PathBuf,
    },
    /// The layer has something that only another way of mounting makes.
    #[error("the layer at `{}` has `{what}`, which no copy of ours has", path.display())]
    Layer {
        /// Where.
        path: PathBuf,
        /// What.
        what: String,
    },
    /// A file of the store that cannot be read.
    #[error("cannot understand `{}` in the store: {source}", path.display())]
    Garbled {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// Something to commit that the copy does not have, or not like that.
    #[error("the change of `{0}` is not one of this copy: list the changes again")]
    NotListed(String),
    /// A part was chosen that cannot be had alone.
    #[error("`{path}` cannot be committed without `{needs}`: choose both")]
    Incomplete {
        /// What was chosen.
        path: String,
        /// What was not.
        needs: String,
    },
    /// Files are not as they were expected: nothing was done.
    #[error("{} changed meanwhile, the first is `{}`: nothing was done", count(.0.len()), .0.first().map_or("", |one| &one.path))]
    Conflicts(Vec<Conflict>),
    /// A step failed; what was done before it was taken back.
    #[error("cannot commit `{path}`, everything was taken back: {source}")]
    TakenBack {
        /// At which path.
        path: String,
        /// What the disk said.
        source: io::Error,
    },
    /// A step failed, and what was done before it could not be taken back wholly.
    #[error("cannot commit `{path}` ({source}), and could not take back {}: see the store, and recover it", paths.join(", "))]
    Stuck {
        /// At which path.
        path: String,
        /// What the disk said.
        source: io::Error,
        /// What remains as committed.
        paths: Vec<String>,
    },
}

fn count(conflicts: usize) -> String {
    if conflicts == 1 { "1 path".into() } else { format!("{conflicts} paths") }
}

/// A path that is not as it was expected to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Where.
    pub path: String,
    /// What was expected there.
    pub was: Option<FileNode>,
    /// What is there.
    pub is: Option<FileNode>,
    /// What is wrong, in words.
    pub why: &'static str,
    /// The texts of it, where there are any.
    pub texts: Option<ConflictTexts>,
}

/// The texts of a conflict: what both started from, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictTexts {
    /// As the call left it; absent where that is not known any more.
    pub base: Option<String>,
    /// As it is now.
    pub ours: String,
    /// As the undo would leave it.
    pub theirs: String,
}

impl Conflict {
    /// The text of a merge of both, with marks where they differ; where the start is not known, the difference between both.
    pub fn three_way(&self) -> Option<String> {
        let texts = self.texts.as_ref()?;
        Some(match &texts.base {
            Some(base) => diffy::merge(base, &texts.ours, &texts.theirs).unwrap_or_else(|marked| marked),
            None => diffy::create_patch(&texts.ours, &texts.theirs).to_string(),
        })
    }
}

/// Says what was tried with which path.
pub(crate) trait IoContext<T> {
    fn at(self, what: &'static str, path: impl AsRef<Path>) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> IoContext<T> for Result<T, E> {
    fn at(self, what: &'static str, path: impl AsRef<Path>) -> Result<T, Error> {
        self.map_err(|source| Error::Disk { what, path: path.as_ref().to_owned(), source: source.into() })
    }
}
