//! Keys: what a terminal sends, as what a person did.
//!
//! What is pasted is never keys. What a terminal answers to a question of somebody else's is nothing at all.

use termina::event::{KeyCode, KeyEventKind, Modifiers};
use termina::{Event, Parser};

/// Something a person did at the keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
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
    /// Pressed something that means nothing here.
    Other,
}

impl Key {
    /// Whether it only moves about: nobody writes prose with it.
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

/// Reads keys out of bytes, which may come in pieces.
#[derive(Debug, Default)]
pub struct Keyboard(Parser);

impl Keyboard {
    /// The keys in these bytes. With `more`, the last may be the beginning of one and is kept.
    pub fn read(&mut self, bytes: &[u8], more: bool) -> Vec<Key> {
        self.0.parse(bytes, more);
        std::iter::from_fn(|| self.0.pop()).filter_map(key).collect()
    }

    /// Nothing more has come: what looked like the beginning of a key is one, or nothing.
    pub fn settle(&mut self) -> Vec<Key> {
        self.read(&[], false)
    }
}

fn key(event: Event) -> Option<Key> {
    let event = match event {
        Event::Paste(text) => return Some(Key::Paste(text)),
        Event::Key(event) if event.kind == KeyEventKind::Press => event,
        _ => return None,
    };
    let plain = event.modifiers.difference(Modifiers::SHIFT).is_empty();
    Some(match event.code {
        KeyCode::Char(c) if plain => Key::Char(c),
        KeyCode::Char(c) if event.modifiers == Modifiers::CONTROL => match c {
            // Enter as terminals send it that translate nothing.
            'j' | 'm' => Key::Enter,
            c => Key::Control(c),
        },
        KeyCode::Enter if event.modifiers == Modifiers::ALT => Key::AltEnter,
        _ if !plain => Key::Other,
        KeyCode::Enter => Key::Enter,
        KeyCode::Escape => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => Key::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> Vec<Key> {
        let mut keyboard = Keyboard::default();
        let mut keys = keyboard.read(bytes, true);
        keys.extend(keyboard.settle());
        keys
    }

    #[test]
    fn keys_are_told_from_what_a_terminal_sends() {
        let cases: &[(&[u8], &[Key])] = &[
            (b"y", &[Key::Char('y')]),
            ("é字".as_bytes(), &[Key::Char('é'), Key::Char('字')]),
            (b"\r", &[Key::Enter]),
            (b"\n", &[Key::Enter]),
            (b"\x1b", &[Key::Escape]),
            (b"\x7f", &[Key::Backspace]),
            (b"\x1b[A\x1b[6~\x1bOF", &[Key::Up, Key::PageDown, Key::End]),
            (b"\x1b[200~y\r\x1b[201~", &[Key::Paste("y\r".into())]),
            // Alt and y is not y; what the terminal says of itself is not typed.
            (b"\x1by", &[Key::Other]),
            (b"\x1b\r", &[Key::AltEnter]),
            (b"\x1b[12;40R", &[]),
            (b"\x1b[200~y\r", &[]),
        ];
        for (bytes, keys) in cases {
            assert_eq!(typed(bytes), *keys, "{bytes:?}");
        }
    }
}
