//! The result that a person gives in the place of the tool, as text of several lines.

use crate::keys::KeyPress;
use crate::text_input::TextField;

/// A result in an editor field.
pub struct ResultEditor {
    pub(super) field: TextField,
}

/// The result of a key.
pub(super) enum ResultEditorEvent {
    Nothing,
    Back,
    /// There is no text yet, and an empty result is not accepted.
    Empty,
    Editor(String),
    Text(String),
}

impl ResultEditor {
    pub(super) fn new() -> Self {
        Self { field: TextField::long("") }
    }

    pub(super) fn key(&mut self, key: &KeyPress) -> ResultEditorEvent {
        match key {
            KeyPress::Escape => ResultEditorEvent::Back,
            KeyPress::Control('o') => ResultEditorEvent::Editor(self.field.text()),
            KeyPress::Control('d') => match self.field.text() {
                text if text.trim().is_empty() => ResultEditorEvent::Empty,
                text => ResultEditorEvent::Text(text),
            },
            key => {
                self.field.key(key);
                ResultEditorEvent::Nothing
            }
        }
    }

    pub(super) fn replace(&mut self, text: &str) {
        self.field = TextField::long(text.trim_end());
    }
}
