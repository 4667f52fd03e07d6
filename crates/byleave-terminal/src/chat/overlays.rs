//! Overlays over the conversation: a page to read, or a list to choose from.

use byleave_core::escape::{EscapeLevel, Escaper, make_visible};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};

use crate::keys::KeyPress;
use crate::palette::Palette;
use crate::text::{fit, wrap_text};
use crate::text_input::TextField;

/// A text page to read.
pub(super) struct TextPage {
    title: String,
    lines: Vec<String>,
    top: usize,
    /// The number of rows of the text, and the height of the page.
    rows: usize,
    height: usize,
}

impl TextPage {
    pub(super) fn new(title: &str, text: &str) -> Self {
        let mut escaper = Escaper::default();
        let shown = |line: &str| {
            let mut out = String::new();
            escaper.write(line, EscapeLevel::Text, &mut out);
            out
        };
        let lines = text.lines().map(shown).collect();
        Self { title: title.to_owned(), lines, top: 0, rows: 0, height: 0 }
    }

    /// Handles a key and returns whether the page was closed.
    pub(super) fn key(&mut self, key: &KeyPress) -> bool {
        let page = self.height.saturating_sub(1).max(1);
        self.top = match key {
            KeyPress::Escape | KeyPress::Enter | KeyPress::Char('q') => return true,
            KeyPress::Up => self.top.saturating_sub(1),
            KeyPress::Down => self.top + 1,
            KeyPress::PageUp => self.top.saturating_sub(page),
            KeyPress::PageDown | KeyPress::Char(' ') => self.top + page,
            KeyPress::Home => 0,
            KeyPress::End => self.rows,
            _ => self.top,
        };
        self.top = self.top.min(self.rows.saturating_sub(self.height));
        false
    }

    pub(super) fn draw(&mut self, area: Rect, buf: &mut Buffer, palette: Palette) {
        let wide = usize::from(area.width);
        let rows: Vec<String> = self.lines.iter().flat_map(|line| wrap_text(line, wide)).collect();
        let body = Rect { y: area.y + 1, height: area.height.saturating_sub(2), ..area };
        (self.rows, self.height) = (rows.len(), usize::from(body.height));
        self.top = self.top.min(self.rows.saturating_sub(self.height));
        bar(&self.title, area, buf, palette);
        for (row, y) in rows.iter().skip(self.top).take(self.height).zip(body.y..) {
            buf.set_stringn(area.x, y, row, wide, Style::new());
        }
        let more = if self.top + self.height < self.rows { "  PageDown: more" } else { "" };
        foot(&format!("Esc goes back{more}"), area, buf, palette);
    }
}

/// An item to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickerItem {
    /// The identifier of the item.
    pub key: String,
    /// The title of the item.
    pub title: String,
    /// Details about the item.
    pub description: String,
}

/// The result of a key.
pub(super) enum PickerEvent {
    Nothing,
    Back,
    Picked(String),
}

/// A list to choose from. Typed text filters it.
pub(super) struct Picker {
    picks: Vec<PickerItem>,
    field: TextField,
    place: usize,
    top: usize,
}

impl Picker {
    pub(super) fn new(picks: Vec<PickerItem>) -> Self {
        Self { picks, field: TextField::line(), place: 0, top: 0 }
    }

    fn fitting(&self) -> Vec<&PickerItem> {
        let text = self.field.text().to_lowercase();
        let fits = |pick: &&PickerItem| {
            [&pick.title, &pick.description].iter().any(|place| place.to_lowercase().contains(&text))
        };
        self.picks.iter().filter(fits).collect()
    }

    pub(super) fn key(&mut self, key: &KeyPress) -> PickerEvent {
        let last = self.fitting().len().saturating_sub(1);
        self.place = match key {
            KeyPress::Escape => return PickerEvent::Back,
            KeyPress::Enter => {
                let picked = self.fitting().get(self.place).map(|pick| pick.key.clone());
                return picked.map_or(PickerEvent::Nothing, PickerEvent::Picked);
            }
            KeyPress::Up => self.place.saturating_sub(1),
            KeyPress::Down => (self.place + 1).min(last),
            KeyPress::PageUp => self.place.saturating_sub(5),
            KeyPress::PageDown => (self.place + 5).min(last),
            key => {
                self.field.key(key);
                0
            }
        };
        PickerEvent::Nothing
    }

    pub(super) fn draw(&mut self, area: Rect, buf: &mut Buffer, palette: Palette) -> Option<Position> {
        let wide = usize::from(area.width);
        bar("Conversations", area, buf, palette);
        let body = Rect { y: area.y + 1, height: area.height.saturating_sub(3), ..area };
        // Each item takes two rows.
        let height = usize::from(body.height / 2).max(1);
        self.top = self.top.min(self.place).max((self.place + 1).saturating_sub(height));
        let (place, top) = (self.place, self.top);
        let fitting = self.fitting();
        if fitting.is_empty() && body.height > 0 {
            buf.set_stringn(
                area.x,
                body.y,
                " no conversation; press Esc to start one",
                wide,
                palette.faint(),
            );
        }
        for ((nth, pick), y) in
            fitting.iter().enumerate().skip(top).take(height).zip((body.y..body.bottom()).step_by(2))
        {
            let chosen = if nth == place { Modifier::REVERSED } else { Modifier::empty() };
            let title = fit(&make_visible(&pick.title, EscapeLevel::Text), wide.saturating_sub(1));
            let style = Style::new().add_modifier(Modifier::BOLD | chosen);
            buf.set_stringn(area.x, y, format!(" {title}"), wide, style);
            if y + 1 < body.bottom() {
                let about = fit(&make_visible(&pick.description, EscapeLevel::Text), wide.saturating_sub(3));
                buf.set_stringn(area.x, y + 1, format!("   {about}"), wide, palette.faint());
            }
        }
        foot("Enter opens  Esc goes back  type to filter", area, buf, palette);
        if area.height < 3 {
            return None;
        }
        let line = Rect { y: area.bottom() - 2, height: 1, ..area };
        let (x, _) = buf.set_stringn(line.x, line.y, "with: ", wide, palette.key());
        let room = Rect { x, width: line.right().saturating_sub(x), ..line };
        self.field.draw(room, buf, Style::new())
    }
}

fn bar(title: &str, area: Rect, buf: &mut Buffer, palette: Palette) {
    if area.height > 0 {
        buf.set_style(Rect { height: 1, ..area }, palette.bar());
        buf.set_stringn(area.x, area.y, format!(" {title}"), usize::from(area.width), palette.bar());
    }
}

fn foot(text: &str, area: Rect, buf: &mut Buffer, palette: Palette) {
    if area.height > 1 {
        buf.set_stringn(area.x, area.bottom() - 1, text, usize::from(area.width), palette.faint());
    }
}
