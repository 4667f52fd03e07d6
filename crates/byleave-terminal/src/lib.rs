//! Shows: questions to a person at a terminal, and takes the answer.
//!
//! [`Prompt`] asks one question in place, where a program runs; [`inbox`] is the full screen with all of them; [`chat`] is a
//! conversation with a model, which asks in its midst. All ask by the same [`dialogue::Dialogue`], which is pure: keys and times go in,
//! a drawing and an answer come out.
//!
//! It decides nothing: what is shown is made by the one renderer of `byleave-core`, and an answer goes to the gate. It must never take
//! for an answer what was not typed for it.

mod backing;
pub mod chat;
pub mod colour;
pub mod dialogue;
pub mod editor;
pub mod field;
pub mod floor;
pub mod guard;
pub mod inbox;
pub mod keys;
mod manner;
mod paint;
mod prompt;
mod syntax;
pub mod tty;
pub mod view;
pub mod words;

pub use backing::{Alone, Backing};
pub use manner::Manner;
pub use prompt::Prompt;
