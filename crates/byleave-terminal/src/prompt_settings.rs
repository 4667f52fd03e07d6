//! The manner: how questions are put to this person, on whichever screen.

use crate::palette::Palette;
use crate::question_dialog::DialogSettings;
use crate::text::now;

/// How questions are put: at the prompt, in the inbox, in the chat.
#[derive(Clone, Debug)]
pub struct PromptSettings {
    /// How things are coloured.
    pub palette: Palette,
    /// How long a question must be looked at, in percent of what is usual; never less.
    pub dwell_percent: u32,
    /// The person's editor and its arguments.
    pub editor: Vec<String>,
}

impl PromptSettings {
    /// What a dialogue of now is told; nothing to take back, and no way to leave the question open.
    pub(crate) fn setting(&self) -> DialogSettings {
        let (palette, dwell_percent) = (self.palette, self.dwell_percent);
        DialogSettings { palette, dwell_percent, can_go_back: false, undo: None, now: now() }
    }
}
