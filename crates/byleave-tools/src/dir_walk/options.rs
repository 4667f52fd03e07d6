//! The options and limits of a walk.

use ignore::overrides::Override;
use ignore::types::Types;

/// The maximum depth. Every level needs an open handle.
pub(super) const MAX_DEPTH: usize = 256;
/// The maximum number of entries.
pub(crate) const MAX_ENTRIES: u64 = 2_000_000;

/// The options of a walk.
pub(crate) struct WalkOptions {
    /// Whether to include dotfiles and ignored files, except for `.git`.
    pub(crate) include_ignored: bool,
    /// Whether to include dotfiles.
    pub(crate) include_dotfiles: bool,
    /// The depth in directories, from 1.
    pub(crate) max_depth: usize,
    /// The leading path components of everything that can match.
    pub(crate) path_prefix: Vec<Vec<u8>>,
    /// The file filter by glob.
    pub(crate) globs: Override,
    /// The file filter by type.
    pub(crate) types: Types,
    /// The maximum number of entries.
    pub(crate) max_entries: u64,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self {
            include_ignored: false,
            include_dotfiles: false,
            max_depth: MAX_DEPTH,
            path_prefix: Vec::new(),
            globs: Override::empty(),
            types: Types::empty(),
            max_entries: MAX_ENTRIES,
        }
    }
}
