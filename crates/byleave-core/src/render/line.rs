//! The lines of a rendered question.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::escape::{MARK_CLOSE, MARK_OPEN, is_mark};

/// A question as lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendering {
    /// The lines, top to bottom. A screen may wrap and scroll them, but must not leave any out.
    pub lines: Vec<RenderLine>,
    /// Whether everything is shown. If not, it must not be possible to approve.
    pub complete: bool,
}

impl Rendering {
    /// Returns everything as plain text: one line each, and an empty line before each part.
    pub fn to_text(&self) -> String {
        self.to_string()
    }

    /// Wraps the lines for a screen of this width. Wrapped lines keep their gutter.
    ///
    /// Widths are estimated on the safe side: a character that may take two columns is treated as two.
    pub fn wrap(&self, columns: usize) -> Vec<RenderLine> {
        self.lines.iter().flat_map(|line| line.wrap(columns)).collect()
    }
}

impl fmt::Display for Rendering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            if line.role == LineRole::Heading && line.gutter == 0 {
                writeln!(f)?;
            }
            writeln!(f, "{}", line.text)?;
        }
        Ok(())
    }
}

/// One line of a rendering.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderLine {
    /// The kind of the line, so that a screen can style it.
    pub role: LineRole,
    /// The text, including its gutter. Printable characters only.
    pub text: String,
    /// The number of characters at its start that are the gutter. A screen that wraps the line repeats them.
    #[serde(default)]
    pub gutter: u16,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineRole {
    /// The command, the edit or the call, at the top of a card.
    Headline,
    /// What came of the run on a copy, what it will use, and whether it can be undone: lines of a card.
    Outcome,
    /// The question itself.
    Title,
    /// The heading of a part.
    Heading,
    /// One effect.
    Effect,
    /// Part of the arguments or of a result.
    Content,
    /// A change by a reviewer or a person.
    Change,
    /// The model's own words.
    Model,
    /// A reason why it asks.
    Reason,
    /// A note of a reviewer.
    Review,
    /// Part of the challenge.
    Challenge,
    /// A warning.
    Warning,
    /// An id or a digest.
    Detail,
    /// The time of expiry, in milliseconds. A screen may show the remaining time instead.
    Expiry,
}

impl RenderLine {
    /// Splits the line into pieces that fit, each with the gutter.
    pub fn wrap(&self, columns: usize) -> Vec<Self> {
        if self.text.chars().map(char_columns).sum::<usize>() <= columns {
            return vec![self.clone()];
        }
        let (gutter, body) = self.split_gutter();
        let hanging = continuation_gutter(gutter);
        let room = columns.saturating_sub(gutter.chars().map(char_columns).sum()).max(8);
        let pieces = split(body, room, char_columns);
        let lines = pieces.into_iter().enumerate().map(|(place, piece)| Self {
            role: self.role,
            text: format!("{}{piece}", if place == 0 { gutter } else { &hanging }),
            gutter: self.gutter,
        });
        lines.collect()
    }

    /// Returns the gutter and the rest.
    pub fn split_gutter(&self) -> (&str, &str) {
        let at = self.text.char_indices().nth(usize::from(self.gutter)).map_or(self.text.len(), |(at, _)| at);
        self.text.split_at_checked(at).unwrap_or(("", &self.text))
    }
}

/// Returns the gutter of a continued line: the same width, without the number.
pub(super) fn continuation_gutter(gutter: &str) -> String {
    gutter.chars().map(|c| if matches!(c, '│' | '┃' | ' ') { c } else { ' ' }).collect()
}

/// Returns the maximum number of columns of a character.
const fn char_columns(c: char) -> usize {
    if (c as u32) < 0x1100 { 1 } else { 2 }
}

/// Splits a text into pieces no wider than `room`. It does not split one of our marks, or a base from its marks, as long as those fit.
pub(super) fn split(text: &str, room: usize, width: impl Fn(char) -> usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut used = 0;
    let mut atom = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        atom.push(c);
        if c == MARK_OPEN {
            for next in chars.by_ref() {
                atom.push(next);
                if next == MARK_CLOSE {
                    break;
                }
            }
        }
        while let Some(mark) = chars.next_if(|next| is_mark(*next)) {
            atom.push(mark);
        }
        let wide: usize = atom.chars().map(&width).sum();
        if used + wide > room && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            used = 0;
        }
        if wide <= room {
            piece.push_str(&atom);
            used += wide;
        } else {
            for c in atom.chars() {
                if used + width(c) > room && !is_mark(c) && !piece.is_empty() {
                    pieces.push(std::mem::take(&mut piece));
                    used = 0;
                }
                piece.push(c);
                used += width(c);
            }
        }
        atom.clear();
    }
    pieces.push(piece);
    pieces
}
