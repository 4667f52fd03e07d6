//! What is wrong with a block, and where: to be told to the model that wrote it.

use std::fmt;

use super::OPENING_BYTES_MAX;

/// Characters shown on each side of a place.
const NEAR_CHARS: usize = 30;

/// A tool block that is no call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolBlockError {
    /// Which block of the reply, from one.
    pub block: usize,
    /// What is wrong with it.
    pub wrong: ToolBlockErrorKind,
}

/// What is wrong with a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolBlockErrorKind {
    /// Its first line is not the line that opens a block, but for its first word. It stays in the text.
    Opening,
    /// The reply ended within it.
    Unfinished,
    /// It has more bytes than a block may have.
    TooLarge {
        /// How many it may have.
        bytes_max: usize,
    },
    /// What it holds is not a call.
    Malformed(ErrorLocation),
}

/// A place in a block, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLocation {
    /// On which line, from one: that after the line that opens the block.
    pub line: usize,
    /// At which character of it, from one.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub what: String,
    /// What stands around it, on one line, with everything that cannot be seen escaped.
    pub near: String,
}

impl ErrorLocation {
    /// The place of a byte.
    pub(super) fn at(text: &str, byte: usize, what: String) -> Self {
        let (before, after) = text.split_at(text.floor_char_boundary(byte));
        // The line feed of such an end is still on the line that it ends.
        let before = before.strip_suffix('\r').filter(|_| after.starts_with('\n')).unwrap_or(before);
        let ended = before.trim_end_matches(|c| c != '\n' && c != '\r');
        // A carriage return and a line feed end one line.
        let ends = ended.matches(['\n', '\r']).count() - ended.matches("\r\n").count();
        let mut near: Vec<char> = before.chars().rev().take(NEAR_CHARS).collect();
        near.reverse();
        near.extend(after.chars().take(NEAR_CHARS));
        let column = before.chars().count() - ended.chars().count() + 1;
        Self { line: ends + 1, column, what, near: shown(near) }
    }
}

impl fmt::Display for ToolBlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tool block {} was not run: ", self.block)?;
        match &self.wrong {
            ToolBlockErrorKind::Opening => write!(
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
            ToolBlockErrorKind::Malformed(ErrorLocation { line, column, what, near }) => {
                write!(f, "line {line}, column {column}: {what}; near: {near}")
            }
        }
    }
}

/// Characters with everything escaped that cannot be seen. Quotes and backslashes are JSON's own and stay.
pub(super) fn shown(text: impl IntoIterator<Item = char>) -> String {
    let mut out = String::new();
    for c in text {
        match c {
            '"' | '\'' | '\\' => out.push(c),
            _ => out.extend(c.escape_debug()),
        }
    }
    out
}
