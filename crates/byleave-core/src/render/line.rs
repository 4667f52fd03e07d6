//! Lines: what a screen gets.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::escape::{CLOSE, OPEN, is_mark};

/// A question as lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendering {
    /// The lines, top to bottom. A screen may wrap and scroll them; it may not leave any out.
    pub lines: Vec<RenderLine>,
    /// Whether everything is there. If not, it must not be possible to approve.
    pub complete: bool,
}

impl Rendering {
    /// All of it as plain text: a line each, and an empty one before each part.
    pub fn to_text(&self) -> String {
        self.to_string()
    }

    /// The lines for a screen of so many columns: what is broken keeps its gutter.
    ///
    /// Widths are counted on the safe side: what may take two columns counts as two.
    pub fn wrapped(&self, columns: usize) -> Vec<RenderLine> {
        self.lines.iter().flat_map(|line| line.wrapped(columns)).collect()
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
    /// What kind of line it is, so that a screen can style it.
    pub role: LineRole,
    /// The text, its gutter included; printable characters only.
    pub text: String,
    /// How many characters at its start are gutter. Whoever wraps the line repeats them.
    #[serde(default)]
    pub gutter: u16,
}

/// What kind of line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineRole {
    /// What is asked.
    Title,
    /// The heading of a part.
    Heading,
    /// One effect.
    Effect,
    /// Part of the arguments or of a result.
    Content,
    /// What a reviewer or a person changed.
    Change,
    /// Words of the model.
    Model,
    /// Why it asks.
    Reason,
    /// What a reviewer said.
    Review,
    /// Part of the challenge.
    Challenge,
    /// Something to be careful about.
    Warning,
    /// Identity, digest.
    Detail,
    /// When it expires, in milliseconds; a screen may show the time left in its place.
    Expiry,
}

impl RenderLine {
    /// The line in pieces that fit, each with the gutter.
    pub fn wrapped(&self, columns: usize) -> Vec<Self> {
        if self.text.chars().map(columns_of).sum::<usize>() <= columns {
            return vec![self.clone()];
        }
        let (gutter, body) = self.parts();
        let hanging = continued(gutter);
        let room = columns.saturating_sub(gutter.chars().map(columns_of).sum()).max(8);
        let pieces = split(body, room, columns_of);
        let lines = pieces.into_iter().enumerate().map(|(place, piece)| Self {
            role: self.role,
            text: format!("{}{piece}", if place == 0 { gutter } else { &hanging }),
            gutter: self.gutter,
        });
        lines.collect()
    }

    /// The gutter and the rest.
    pub fn parts(&self) -> (&str, &str) {
        let at = self.text.char_indices().nth(usize::from(self.gutter)).map_or(self.text.len(), |(at, _)| at);
        self.text.split_at_checked(at).unwrap_or(("", &self.text))
    }
}

/// The gutter of a line that goes on from the one before: as wide, without the number.
pub(super) fn continued(gutter: &str) -> String {
    gutter.chars().map(|c| if matches!(c, '│' | '┃' | ' ') { c } else { ' ' }).collect()
}

/// How many columns a character may take.
const fn columns_of(c: char) -> usize {
    if (c as u32) < 0x1100 { 1 } else { 2 }
}

/// Cuts a text into pieces no wider than `room`, never inside one of our marks or between a base and its marks, as long
/// as those fit.
pub(super) fn split(text: &str, room: usize, width: impl Fn(char) -> usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut used = 0;
    let mut atom = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        atom.push(c);
        if c == OPEN {
            for next in chars.by_ref() {
                atom.push(next);
                if next == CLOSE {
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
