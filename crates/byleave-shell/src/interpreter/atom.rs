//! Atoms: what a word is made of while it is being expanded.

/// A word after parameters and substitutions, before it is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WordAtom {
    /// Not quoted, and written in the text.
    Bare(char),
    /// Exactly this character.
    Exact(char),
    /// Quotes: there is a word, even if nothing is in them.
    Mark,
    /// A value that is known and not quoted: it is split.
    Split(String),
    /// Something that is not known.
    Hole { why: String, splits: bool },
}
