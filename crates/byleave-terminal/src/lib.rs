//! Shows: questions to a person at a terminal, and takes the answer.
//!
//! [`Prompt`] asks one question in place, where a program runs; [`inbox`] is the full screen with all of them; [`chat`] is a
//! conversation with a model, which asks in its midst. All ask by the same [`question_dialog::QuestionDialog`], which is pure: keys and times go in,
//! a drawing and an answer come out.
//!
//! It decides nothing: what is shown is made by the one renderer of `byleave-core`, and an answer goes to the gate. It must never take
//! for an answer what was not typed for it.

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
