//! The error in a tool block and its position, to be reported to the model that wrote it.

use std::fmt;

use super::OPENING_BYTES_MAX;

/// The number of characters that are shown on each side of a position.
const NEAR_CHARS: usize = 30;

/// An invalid tool block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolBlockError {
    /// The number of the block in the reply, from one.
    pub block: usize,
    /// The error.
    pub kind: ToolBlockErrorKind,
}

/// The kind of error in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolBlockErrorKind {
    /// The first line is not a valid opening line, although its first word is the tag. The block stays in the text.
    InvalidOpening,
    /// The reply ended within it.
    Unfinished,
    /// The block is too large.
    TooLarge {
        /// The maximum size.
        bytes_max: usize,
    },
    /// The content is not a valid call.
    Malformed(ErrorLocation),
}

/// A position in a block, and the error there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLocation {
    /// The line, from one. Line one follows the opening line.
    pub line: usize,
    /// The character in the line, from one.
    pub column: usize,
    /// The error, and what was expected.
    pub message: String,
    /// The surrounding text on one line, with invisible characters escaped.
    pub excerpt: String,
}

impl ErrorLocation {
    /// Creates an error at a byte.
    pub(super) fn from_byte_offset(text: &str, byte: usize, what: String) -> Self {
        let (before, after) = text.split_at(text.floor_char_boundary(byte));
        // The line feed of this line end still belongs to the line that it ends.
        let before = before.strip_suffix('\r').filter(|_| after.starts_with('\n')).unwrap_or(before);
        let ended = before.trim_end_matches(|c| c != '\n' && c != '\r');
        // A carriage return and a line feed together end one line.
        let ends = ended.matches(['\n', '\r']).count() - ended.matches("\r\n").count();
        let mut near: Vec<char> = before.chars().rev().take(NEAR_CHARS).collect();
        near.reverse();
        near.extend(after.chars().take(NEAR_CHARS));
        let column = before.chars().count() - ended.chars().count() + 1;
        Self { line: ends + 1, column, message: what, excerpt: escape_invisible(near) }
    }
}

impl fmt::Display for ToolBlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tool block {} was not run: ", self.block)?;
        match &self.kind {
            ToolBlockErrorKind::InvalidOpening => write!(
                f,
                "expected a first line of three or more backticks or tildes, `tool` and nothing else, with at most three spaces \
                 before it and {OPENING_BYTES_MAX} bytes in all"
            ),
            ToolBlockErrorKind::Unfinished => {
                write!(f, "the reply ended before it was closed, expected a line of the marks that opened it")
            }
            ToolBlockErrorKind::TooLarge { bytes_max } => {
                write!(f, "it is too large, expected at most {bytes_max} bytes")
            }
            ToolBlockErrorKind::Malformed(ErrorLocation { line, column, message: what, excerpt: near }) => {
                write!(f, "line {line}, column {column}: {what}; near: {near}")
            }
        }
    }
}

/// Escapes invisible characters. Quotes and backslashes belong to JSON and stay.
pub(super) fn escape_invisible(text: impl IntoIterator<Item = char>) -> String {
    let mut out = String::new();
    for c in text {
        match c {
            '"' | '\'' | '\\' => out.push(c),
            _ => out.extend(c.escape_debug()),
        }
    }
    out
}
