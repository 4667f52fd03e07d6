//! Edits the arguments of a call, or a held result, as text. The result is evaluated like a new call.

use byleave_core::escape::escape_json;
use byleave_core::outcome::Output;
use byleave_core::question::QuestionKind;
use byleave_core::question_view::QuestionView;
use byleave_gate::redact::redact_output;
use serde_json::Value;

use crate::keys::KeyPress;
use crate::text_input::TextField;

/// A value in an editor field.
pub struct ValueEditor {
    pub(super) field: TextField,
    pub(super) error: Option<String>,
}

/// The result of a key.
pub(super) enum ValueEditorEvent {
    Nothing,
    Back,
    Editor(String),
    Value(Value),
}

impl ValueEditor {
    /// Creates an editor for the arguments of a call or its held result.
    pub fn for_question(sheet: &QuestionView) -> Self {
        let value = match (sheet.question.kind, &sheet.output) {
            (QuestionKind::Release, Some(output)) => serde_json::to_value(output).unwrap_or_default(),
            _ => sheet.arguments.clone(),
        };
        // Invisible characters are written as code points, so that nobody edits around them.
        Self { field: TextField::long(&escape_json(&format!("{value:#}"))), error: None }
    }

    pub(super) fn key(&mut self, key: &KeyPress) -> ValueEditorEvent {
        match key {
            KeyPress::Escape => return ValueEditorEvent::Back,
            KeyPress::Control('o') => return ValueEditorEvent::Editor(self.field.text()),
            KeyPress::Control('d') => return self.done(),
            key => {
                self.field.key(key);
                self.error = None;
            }
        }
        ValueEditorEvent::Nothing
    }

    pub(super) fn replace(&mut self, text: &str) {
        self.field = TextField::long(text.trim_end());
        self.error = None;
    }

    fn done(&mut self) -> ValueEditorEvent {
        match serde_json::from_str::<Value>(&self.field.text()) {
            Ok(value) if value.is_object() => return ValueEditorEvent::Value(value),
            Ok(_) => self.error = Some("the text is not a JSON object; begin with { and end with }".into()),
            Err(error) => {
                self.field.move_cursor(error.line(), error.column());
                self.error = Some(format!("the text is not valid JSON: {error}"));
            }
        }
        ValueEditorEvent::Nothing
    }
}

/// Returns a result with secrets and these words masked.
pub(super) fn mask_output(output: &Output, words: &str) -> Result<Value, String> {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let redacted = redact_output(output, &words);
    if let Some(missing) = redacted.missing_words.first() {
        return Err(format!("`{missing}` is not in the result; the question was not answered"));
    }
    if redacted.masked_count == 0 {
        return Err(
            "no secret was detected in the result; enter the words to mask, or edit the result".into()
        );
    }
    serde_json::to_value(&redacted.output).map_err(|error| error.to_string())
}
