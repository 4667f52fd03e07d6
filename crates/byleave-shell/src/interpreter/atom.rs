//! Atoms: the parts of a word during its expansion.

/// A part of a word after parameters and substitutions, before it is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WordAtom {
    /// An unquoted character that is written in the text.
    Bare(char),
    /// Exactly this character.
    Exact(char),
    /// Quotes: they make a word even if they are empty.
    EmptyQuotes,
    /// A known unquoted value, which is split.
    Split(String),
    /// An unknown value.
    UnknownValue { why: String, splits: bool },
}
