//! An input field with one line or several.
//!
//! Invisible characters are drawn in brackets, as everywhere. Pasted text cannot hide anything either.

use byleave_core::escape::{EscapeLevel, make_visible};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use unicode_width::UnicodeWidthChar as _;

use crate::keys::KeyPress;

/// The maximum number of characters in a field.
const CHARS_MAX: usize = 1_000_000;

/// An input field.
#[derive(Clone, Debug, Default)]
pub struct TextField {
    text: Vec<char>,
    cursor: usize,
    is_long: bool,
    top: usize,
}

impl TextField {
    /// Creates a field of one line.
    pub fn line() -> Self {
        Self::default()
    }

    /// Creates a field of several lines with this text and the cursor at its beginning.
    pub fn long(text: &str) -> Self {
        Self { text: text.chars().collect(), is_long: true, ..Self::default() }
    }

    /// Creates a field of several lines with this text and the cursor at its end.
    pub fn long_at_end(text: &str) -> Self {
        let mut field = Self::long(text);
        field.cursor = field.text.len();
        field
    }

    /// Returns the text.
    pub fn text(&self) -> String {
        self.text.iter().collect()
    }

    /// Checks whether the field is empty.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Handles a key, and returns whether it had a meaning here.
    pub fn key(&mut self, key: &KeyPress) -> bool {
        match key {
            KeyPress::Char(c) => self.insert([*c]),
            KeyPress::Enter if self.is_long => self.insert(['\n']),
            KeyPress::Tab if self.is_long => self.insert([' ', ' ']),
            KeyPress::Paste(text) => {
                let text = text.replace("\r\n", "\n").replace('\r', "\n");
                let text = if self.is_long { text } else { text.replace('\n', " ") };
                self.insert(text.chars().collect::<Vec<_>>());
            }
            KeyPress::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.text.remove(self.cursor);
            }
            KeyPress::Delete if self.cursor < self.text.len() => drop(self.text.remove(self.cursor)),
            KeyPress::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyPress::Right => self.cursor = (self.cursor + 1).min(self.text.len()),
            KeyPress::Home | KeyPress::Control('a') => self.cursor = self.line_start(self.cursor),
            KeyPress::End | KeyPress::Control('e') => self.cursor = self.line_end(self.cursor),
            KeyPress::Up if self.is_long => self.vertical(false),
            KeyPress::Down if self.is_long => self.vertical(true),
            KeyPress::Control('u') => {
                let start = self.line_start(self.cursor);
                self.text.drain(start..self.cursor);
                self.cursor = start;
            }
            _ => return false,
        }
        true
    }

    /// Moves the cursor to a line and column, both counted from 1.
    pub fn move_cursor(&mut self, line: usize, column: usize) {
        self.cursor = 0;
        for _ in 1..line {
            self.cursor = (self.line_end(self.cursor) + 1).min(self.text.len());
        }
        self.cursor = (self.cursor + column.saturating_sub(1)).min(self.line_end(self.cursor));
    }

    /// Draws the text and returns the position of the cursor.
    pub fn draw(&mut self, area: Rect, buf: &mut Buffer, style: Style) -> Option<Position> {
        let (rows, at) = self.rows(usize::from(area.width).max(4));
        let height = usize::from(area.height).max(1);
        self.top = self.top.min(at.1).max((at.1 + 1).saturating_sub(height));
        for (row, y) in rows.iter().skip(self.top).take(height).zip(area.y..) {
            buf.set_stringn(area.x, y, row, usize::from(area.width), style);
        }
        let x = u16::try_from(at.0).ok()?.min(area.width.saturating_sub(1));
        let y = u16::try_from(at.1 - self.top).ok()?;
        (area.height > 0).then(|| Position::new(area.x + x, area.y + y))
    }

    /// Returns the number of rows at this width.
    pub fn height(&self, width: usize) -> usize {
        self.rows(width.max(4)).0.len()
    }

    /// Returns the rows of the text, and column and row of the cursor.
    fn rows(&self, width: usize) -> (Vec<String>, (usize, usize)) {
        let mut rows = vec![String::new()];
        let (mut used, mut at) = (0, None);
        for (place, c) in self.text.iter().enumerate() {
            // Each character separately, so that right-to-left text does not move others.
            let shown = if c.is_ascii_graphic() || *c == ' ' {
                c.to_string()
            } else {
                make_visible(&c.to_string(), EscapeLevel::Text)
            };
            let wide: usize = shown.chars().map(|c| c.width().unwrap_or(0)).sum();
            if *c != '\n' && used + wide > width - 1 {
                rows.push(String::new());
                used = 0;
            }
            if place == self.cursor {
                at = Some((used, rows.len() - 1));
            }
            if *c == '\n' {
                rows.push(String::new());
                used = 0;
                continue;
            }
            if let Some(row) = rows.last_mut() {
                row.push_str(&shown);
            }
            used += wide;
        }
        let end = (used, rows.len() - 1);
        (rows, at.unwrap_or(end))
    }

    fn insert(&mut self, chars: impl IntoIterator<Item = char>) {
        for c in chars {
            if self.text.len() < CHARS_MAX {
                self.text.insert(self.cursor, c);
                self.cursor += 1;
            }
        }
    }

    fn line_start(&self, from: usize) -> usize {
        let before = self.text.get(..from).unwrap_or_default();
        before.iter().rposition(|c| *c == '\n').map_or(0, |place| place + 1)
    }

    fn line_end(&self, from: usize) -> usize {
        let after = self.text.get(from..).unwrap_or_default();
        after.iter().position(|c| *c == '\n').map_or(self.text.len(), |place| from + place)
    }

    fn vertical(&mut self, down: bool) {
        let start = self.line_start(self.cursor);
        let column = self.cursor - start;
        let to = match down {
            true => Some(self.line_end(self.cursor) + 1).filter(|next| *next <= self.text.len()),
            false => start.checked_sub(1).map(|end| self.line_start(end)),
        };
        if let Some(to) = to {
            self.cursor = (to + column).min(self.line_end(to));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byleave_core::escape::is_printable;

    fn typed(field: &mut TextField, keys: &[KeyPress]) -> String {
        for key in keys {
            field.key(key);
        }
        field.text()
    }

    #[test]
    fn a_character_can_be_fixed_in_place() {
        let mut field = TextField::long("{\n  \"path\": \"/w/a\"\n}");
        field.move_cursor(2, 12);
        let text = typed(&mut field, &[KeyPress::Delete, KeyPress::Char('b')]);
        assert_eq!(text, "{\n  \"path\": \"bw/a\"\n}");
        let text = typed(
            &mut field,
            &[
                KeyPress::Up,
                KeyPress::End,
                KeyPress::Enter,
                KeyPress::Down,
                KeyPress::Down,
                KeyPress::Home,
                KeyPress::Char('x'),
            ],
        );
        assert_eq!(text, "{\n\n  \"path\": \"bw/a\"\nx}");
    }

    #[test]
    fn what_is_pasted_into_one_line_stays_one_line() {
        let mut field = TextField::line();
        assert_eq!(typed(&mut field, &[KeyPress::Paste("a\r\nb\u{202e}".into())]), "a b\u{202e}");
        let area = Rect::new(0, 0, 30, 1);
        let mut buf = Buffer::empty(area);
        field.draw(area, &mut buf, Style::new());
        assert!(buf.content().iter().all(|cell| cell.symbol().chars().all(is_printable)), "{buf:?}");
        assert!(!field.key(&KeyPress::Enter));
    }
}
