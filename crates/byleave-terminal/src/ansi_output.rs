//! Converts the cells of a drawing to terminal output.
//!
//! It writes only printable characters and styles. Each row is positioned explicitly. If the terminal draws a character wider
//! than expected, only that row is affected.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Position;
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr as _;

/// Returns the rows of a drawing, each with its styles.
pub(crate) fn rows(buf: &Buffer) -> Vec<String> {
    let area = *buf.area();
    (area.top()..area.bottom()).map(|y| row(buf, y)).collect()
}

fn row(buf: &Buffer, y: u16) -> String {
    let area = *buf.area();
    let mut out = String::new();
    let mut style = Cell::EMPTY;
    let mut x = area.left();
    while x < area.right() {
        let Some(cell) = buf.cell(Position::new(x, y)) else { break };
        if (cell.fg, cell.bg, cell.modifier) != (style.fg, style.bg, style.modifier) {
            out.push_str(&codes(cell));
            style = cell.clone();
        }
        let symbol = cell.symbol();
        // Last check: no control character leaves this program as part of a question.
        match symbol.chars().any(char::is_control) {
            true => out.push('\u{fffd}'),
            false => out.push_str(symbol),
        }
        x += u16::try_from(symbol.width().max(1)).unwrap_or(1);
    }
    out.push_str("\x1b[0m");
    out
}

fn codes(cell: &Cell) -> String {
    let mut codes = String::from("\x1b[0");
    let modifiers = [
        (Modifier::BOLD, 1),
        (Modifier::DIM, 2),
        (Modifier::ITALIC, 3),
        (Modifier::UNDERLINED, 4),
        (Modifier::REVERSED, 7),
    ];
    for (modifier, code) in modifiers {
        if cell.modifier.contains(modifier) {
            // Writing to a string cannot fail.
            write!(codes, ";{code}").unwrap_or_default();
        }
    }
    for (colour, base) in [(cell.fg, 30), (cell.bg, 40)] {
        if let Some(code) = code(colour) {
            write!(codes, ";{}", base + code).unwrap_or_default();
        }
    }
    codes.push('m');
    codes
}

/// Returns the offset of one of the sixteen terminal colours from its base.
const fn code(colour: Color) -> Option<u8> {
    Some(match colour {
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
        Color::Reset | Color::Indexed(_) | Color::Rgb(..) => return None,
    })
}
