//! What a policy says of paths, and what came of asking it.

use std::any::Any;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Entries that are looked at, at most. Beyond that a walk before every command would take longer than the command.
pub const ENTRIES_MAX: usize = 1_000_000;

/// What a policy says of a path.
pub trait PathPolicy {
    /// It must not be read.
    fn hides(&self, path: &str) -> bool;

    /// It must not be changed.
    fn protects(&self, path: &str) -> bool;

    /// Something that comes into being there would be obeyed or run later, by somebody else.
    fn plants(&self, _path: &str) -> bool {
        false
    }

    /// Whether another says the same of every path, now and as long as both live. Not knowing is no.
    fn agrees_with(&self, _other: &dyn PathPolicy) -> bool {
        false
    }

    /// Itself, for another of its kind to compare itself with.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtectedPaths {
    /// Not to be read; of a directory and what is in it, the directory alone.
    pub hidden: Vec<PathBuf>,
    /// Not to be changed; of a directory and what is in it, the directory alone.
    pub protected: Vec<PathBuf>,
}

/// Why a directory could not be looked through.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Something in it cannot be looked at.
    #[error("cannot look for secrets in `{path}`: {error}; make it readable, or work in another directory", path = path.display())]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A name in it is not text.
    #[error("cannot look for secrets in `{path}`: its name is not readable as text; rename it", path = path.display())]
    NotText {
        /// Where.
        path: PathBuf,
    },
    /// There is too much in it.
    #[error("cannot look for secrets in `{path}`: it has more than {ENTRIES_MAX} files; work in a smaller directory", path = path.display())]
    TooMany {
        /// Where.
        path: PathBuf,
    },
}

impl<M: PathPolicy + ?Sized> PathPolicy for &M {
    fn hides(&self, path: &str) -> bool {
        (**self).hides(path)
    }

    fn protects(&self, path: &str) -> bool {
        (**self).protects(path)
    }

    fn plants(&self, path: &str) -> bool {
        (**self).plants(path)
    }
}

impl<M: PathPolicy + ?Sized> PathPolicy for Arc<M> {
    fn hides(&self, path: &str) -> bool {
        (**self).hides(path)
    }

    fn protects(&self, path: &str) -> bool {
        (**self).protects(path)
    }

    fn plants(&self, path: &str) -> bool {
        (**self).plants(path)
    }

    fn agrees_with(&self, other: &dyn PathPolicy) -> bool {
        (**self).agrees_with(other)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        (**self).as_any()
    }
}
