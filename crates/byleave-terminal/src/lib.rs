//! Terminal screens that show questions to a person and read the answers.
//!
//! The crate decides nothing. The renderer of `byleave-core` makes the text of a question, and an answer goes to the gate. It
//! must never take keys for an answer that were not typed for it.
//!
//! - `prompt` ([`Prompt`]): one question, drawn in place.
//! - [`inbox`]: all open questions on a full screen.
//! - [`chat`]: the screen of a conversation. It knows nothing of models.
//! - [`question_dialog`]: one question, or several with one answer. All screens use it. Pure: keys and times in, a drawing and an
//!   answer out.
//! - [`key_guard`]: decides which keys answer, from times alone.
//! - `question_backend`: the trait for what a screen cannot know itself: past calls and undo.
//! - `prompt_settings`: how questions are shown to this person.
//! - [`scroll_view`]: lays out, scrolls and folds lines. It never leaves one out.
//! - `ansi_output`, [`palette`], `syntax_highlight`, [`text`]: cells to terminal output; colours; code in diffs; short texts.
//! - [`tty`], [`keys`], [`text_input`], [`editor`]: the terminal; its keys; an input field; the person's own editor.
//! - [`stderr_hold`]: holds back other output of this program while a question is shown.

mod ansi_output;
pub mod chat;
pub mod editor;
pub mod inbox;
pub mod key_guard;
pub mod keys;
pub mod palette;
mod prompt;
mod prompt_settings;
mod question_backend;
pub mod question_dialog;
pub mod scroll_view;
pub mod stderr_hold;
mod syntax_highlight;
pub mod text;
pub mod text_input;
pub mod tty;

pub use prompt::Prompt;
pub use prompt_settings::PromptSettings;
pub use question_backend::{NoBackend, QuestionBackend};
