//! The options and limits of a walk.

use ignore::overrides::Override;
use ignore::types::Types;

/// The maximum depth. Every level needs an open handle.
pub(super) const DEPTH_MAX: usize = 256;
/// The maximum number of entries.
pub(crate) const ENTRIES_MAX: u64 = 2_000_000;

/// The options of a walk.
pub(crate) struct WalkOptions {
    /// Whether to include dotfiles and ignored files, except for `.git`.
    pub(crate) all: bool,
    /// Whether to include dotfiles.
    pub(crate) dotted: bool,
    /// The depth in directories, from 1.
    pub(crate) depth: usize,
    /// The leading path components of everything that can match.
    pub(crate) steps: Vec<Vec<u8>>,
    /// The file filter by glob.
    pub(crate) globs: Override,
    /// The file filter by type.
    pub(crate) types: Types,
    /// The maximum number of entries.
    pub(crate) entries_max: u64,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self {
            all: false,
            dotted: false,
            depth: DEPTH_MAX,
            steps: Vec::new(),
            globs: Override::empty(),
            types: Types::empty(),
            entries_max: ENTRIES_MAX,
        }
    }
}
