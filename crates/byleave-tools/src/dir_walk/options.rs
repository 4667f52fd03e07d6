//! What a walk looks at, and how far it goes.

use ignore::overrides::Override;
use ignore::types::Types;

/// How deep it goes: every step on the way is a handle.
pub(super) const DEPTH_MAX: usize = 256;
/// How much is looked at.
pub(crate) const ENTRIES_MAX: u64 = 2_000_000;

/// What is looked at.
pub(crate) struct WalkOptions {
    /// Also what is hidden by its name or ignored, but for `.git`.
    pub(crate) all: bool,
    /// Also what is hidden by its name.
    pub(crate) dotted: bool,
    /// How many directories deep, from 1.
    pub(crate) depth: usize,
    /// The first steps that everything wanted begins with.
    pub(crate) steps: Vec<Vec<u8>>,
    /// Which files, by glob.
    pub(crate) globs: Override,
    /// Which files, by type.
    pub(crate) types: Types,
    /// How many entries, at most.
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
