//! Converts terminal input to key presses.
//!
//! Pasted text never becomes keys. A terminal's reply to a query of another program is ignored.

use termina::event::{KeyCode, KeyEventKind, Modifiers};
use termina::{Event, Parser};

/// Something that a person did at the keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPress {
    /// Typed a character.
    Char(char),
    /// Pressed Control and a letter.
    Control(char),
    /// Pressed Enter.
    Enter,
    /// Pressed Alt and Enter.
    AltEnter,
    /// Pressed Escape.
    Escape,
    /// Pressed Tab.
    Tab,
    /// Pressed Shift and Tab.
    BackTab,
    /// Pressed Backspace.
    Backspace,
    /// Pressed Delete.
    Delete,
    /// Pressed an arrow key.
    Up,
    /// Pressed an arrow key.
    Down,
    /// Pressed an arrow key.
    Left,
    /// Pressed an arrow key.
    Right,
    /// Pressed Page Up.
    PageUp,
    /// Pressed Page Down.
    PageDown,
    /// Pressed Home.
    Home,
    /// Pressed End.
    End,
    /// Pasted a text.
    Paste(String),
    /// Pressed a key without a meaning here.
    Other,
}

impl KeyPress {
    /// Checks whether the key only moves the cursor or the view. Nobody writes prose with it.
    pub const fn moves(&self) -> bool {
        matches!(
            self,
            Self::Up
                | Self::Down
                | Self::Left
                | Self::Right
                | Self::PageUp
                | Self::PageDown
                | Self::Home
                | Self::End
        )
    }
}

/// Parses keys from bytes, which may arrive in pieces.
#[derive(Debug, Default)]
pub struct KeyParser(Parser);

impl KeyParser {
    /// Returns the keys in these bytes. With `more`, an incomplete key at the end is kept.
    pub fn read(&mut self, bytes: &[u8], more: bool) -> Vec<KeyPress> {
        self.0.parse(bytes, more);
        std::iter::from_fn(|| self.0.pop()).filter_map(key).collect()
    }

    /// Finishes when no more bytes have come: an incomplete key becomes a key or is dropped.
    pub fn flush(&mut self) -> Vec<KeyPress> {
        self.read(&[], false)
    }
}

fn key(event: Event) -> Option<KeyPress> {
    let event = match event {
        Event::Paste(text) => return Some(KeyPress::Paste(text)),
        Event::Key(event) if event.kind == KeyEventKind::Press => event,
        _ => return None,
    };
    let plain = event.modifiers.difference(Modifiers::SHIFT).is_empty();
    Some(match event.code {
        KeyCode::Char(c) if plain => KeyPress::Char(c),
        KeyCode::Char(c) if event.modifiers == Modifiers::CONTROL => match c {
            // Enter from terminals that translate nothing.
            'j' | 'm' => KeyPress::Enter,
            c => KeyPress::Control(c),
        },
        KeyCode::Enter if event.modifiers == Modifiers::ALT => KeyPress::AltEnter,
        _ if !plain => KeyPress::Other,
        KeyCode::Enter => KeyPress::Enter,
        KeyCode::Escape => KeyPress::Escape,
        KeyCode::Tab => KeyPress::Tab,
        KeyCode::BackTab => KeyPress::BackTab,
        KeyCode::Backspace => KeyPress::Backspace,
        KeyCode::Delete => KeyPress::Delete,
        KeyCode::Up => KeyPress::Up,
        KeyCode::Down => KeyPress::Down,
        KeyCode::Left => KeyPress::Left,
        KeyCode::Right => KeyPress::Right,
        KeyCode::PageUp => KeyPress::PageUp,
        KeyCode::PageDown => KeyPress::PageDown,
        KeyCode::Home => KeyPress::Home,
        KeyCode::End => KeyPress::End,
        _ => KeyPress::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> Vec<KeyPress> {
        let mut keyboard = KeyParser::default();
        let mut keys = keyboard.read(bytes, true);
        keys.extend(keyboard.flush());
        keys
    }

    #[test]
    fn keys_are_told_from_what_a_terminal_sends() {
        let cases: &[(&[u8], &[KeyPress])] = &[
            (b"y", &[KeyPress::Char('y')]),
            ("é字".as_bytes(), &[KeyPress::Char('é'), KeyPress::Char('字')]),
            (b"\r", &[KeyPress::Enter]),
            (b"\n", &[KeyPress::Enter]),
            (b"\x1b", &[KeyPress::Escape]),
            (b"\x7f", &[KeyPress::Backspace]),
            (b"\x1b[A\x1b[6~\x1bOF", &[KeyPress::Up, KeyPress::PageDown, KeyPress::End]),
            (b"\x1b[200~y\r\x1b[201~", &[KeyPress::Paste("y\r".into())]),
            // Alt and y is not y. Reports of the terminal about itself are not typed.
            (b"\x1by", &[KeyPress::Other]),
            (b"\x1b\r", &[KeyPress::AltEnter]),
            (b"\x1b[12;40R", &[]),
            (b"\x1b[200~y\r", &[]),
        ];
        for (bytes, keys) in cases {
            assert_eq!(typed(bytes), *keys, "{bytes:?}");
        }
    }
}
