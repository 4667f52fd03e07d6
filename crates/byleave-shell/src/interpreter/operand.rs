//! Operands: the words of a command with their source.

use super::expand::ExpandedField;
use crate::syntax::is_name;
use crate::syntax::tree::{RawWord, WordPart};

/// An expanded word with its source.
pub(super) struct ExpandedOperand<'a> {
    pub(super) field: ExpandedField,
    pub(super) raw: &'a RawWord,
}

/// Returns the text of an operand if it is a valid variable name.
pub(super) fn plain_name(operand: &ExpandedOperand<'_>) -> Option<String> {
    operand.field.word.as_text().filter(|text| is_name(text)).map(str::to_owned)
}

/// Returns the name in a word that is written `NAME=…`.
pub(super) fn written_name(raw: &RawWord) -> Option<String> {
    let Some(WordPart::Bare(text)) = raw.parts.first() else { return None };
    let (name, _) = text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    is_name(name).then(|| name.to_owned())
}
