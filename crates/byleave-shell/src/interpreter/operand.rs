//! Operands: the words of a command, with what they were written as.

use super::expand::ExpandedField;
use crate::syntax::is_name;
use crate::syntax::tree::{RawWord, WordPart};

/// A word with what it was written as.
pub(super) struct ExpandedOperand<'a> {
    pub(super) field: ExpandedField,
    pub(super) raw: &'a RawWord,
}

/// Whether an operand is a name as it stands.
pub(super) fn plain_name(operand: &ExpandedOperand<'_>) -> Option<String> {
    operand.field.word.text().filter(|text| is_name(text)).map(str::to_owned)
}

/// The name in a word that is written `NAME=…`.
pub(super) fn written_name(raw: &RawWord) -> Option<String> {
    let Some(WordPart::Bare(text)) = raw.parts.first() else { return None };
    let (name, _) = text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    is_name(name).then(|| name.to_owned())
}
