//! The settings with which questions are shown to this person, on every screen.

use crate::palette::Palette;
use crate::question_dialog::DialogSettings;
use crate::text::now;

/// How questions are shown at the prompt, in the inbox and in the chat.
#[derive(Clone, Debug)]
pub struct PromptSettings {
    /// The colours.
    pub palette: Palette,
    /// How long a question must be looked at, in percent of the usual time. Never less than 100.
    pub min_read_time_percent: u32,
    /// The person's editor and its arguments.
    pub editor: Vec<String>,
}

impl PromptSettings {
    /// Returns the settings of a dialog that begins now. It has nothing to undo, and the question cannot be left open.
    pub(crate) fn setting(&self) -> DialogSettings {
        let (palette, min_read_time_percent) = (self.palette, self.min_read_time_percent);
        DialogSettings {
            palette,
            min_read_time_percent,
            can_go_back: false,
            can_answer_later: false,
            has_one_key_answers: false,
            undo: None,
            now: now(),
        }
    }
}
