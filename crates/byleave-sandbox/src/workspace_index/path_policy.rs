//! The interface of a path policy, and the result of a scan with it.

use std::any::Any;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The maximum number of scanned entries. With more, a scan before every command would take longer than the command.
pub const MAX_ENTRIES: usize = 1_000_000;

/// A policy for paths.
pub trait PathPolicy {
    /// Returns whether the path must not be read.
    fn is_hidden(&self, path: &str) -> bool;

    /// Returns whether the path must not be changed.
    fn protects(&self, path: &str) -> bool;

    /// Returns whether a new file at this path would later be obeyed or run by somebody else.
    fn is_runnable_later(&self, _path: &str) -> bool {
        false
    }

    /// Returns whether another policy gives the same answer for every path, as long as both live. If unknown, returns `false`.
    fn agrees_with(&self, _other: &dyn PathPolicy) -> bool {
        false
    }

    /// Returns itself, for comparison with another policy of the same type.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtectedPaths {
    /// Paths that must not be read. A directory stands for its contents.
    pub hidden: Vec<PathBuf>,
    /// Paths that must not be changed. A directory stands for its contents.
    pub protected: Vec<PathBuf>,
}

/// The error for a directory that could not be scanned.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// An entry cannot be read.
    #[error("cannot look for secrets in `{path}`: {error}; make it readable, or work in another directory", path = path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// There are too many entries.
    #[error("cannot look for secrets in `{path}`: it has more than {MAX_ENTRIES} files; work in a smaller directory", path = path.display())]
    TooManyEntries {
        /// The directory.
        path: PathBuf,
    },
}

impl<M: PathPolicy + ?Sized> PathPolicy for &M {
    fn is_hidden(&self, path: &str) -> bool {
        (**self).is_hidden(path)
    }

    fn protects(&self, path: &str) -> bool {
        (**self).protects(path)
    }

    fn is_runnable_later(&self, path: &str) -> bool {
        (**self).is_runnable_later(path)
    }
}

impl<M: PathPolicy + ?Sized> PathPolicy for Arc<M> {
    fn is_hidden(&self, path: &str) -> bool {
        (**self).is_hidden(path)
    }

    fn protects(&self, path: &str) -> bool {
        (**self).protects(path)
    }

    fn is_runnable_later(&self, path: &str) -> bool {
        (**self).is_runnable_later(path)
    }

    fn agrees_with(&self, other: &dyn PathPolicy) -> bool {
        (**self).agrees_with(other)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        (**self).as_any()
    }
}
