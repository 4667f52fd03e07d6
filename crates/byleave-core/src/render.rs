//! The renderer of questions, as lines for any screen: escaped, complete, and in our words instead of the model's.
//!
//! The facts come first: the question, the real effects on a copy, the predicted effects and their targets. Then come whether they can be
//! undone, why it asks, and the complete arguments. The text of the model comes last and is labelled as its own. Nothing is cut. If
//! something is too large to show, a line says so, and [`Rendering::complete`] is false. The renderer must never show one thing for
//! another. Every text from outside passes through [`crate::escape`], is in quotes or behind a gutter, and cannot begin a line.
//!
//! A screen must show the lines in order, left to right, in one size, and must not interpret markup in them. It wraps them with
//! [`Rendering::wrap`], or with an equivalent that repeats the gutter: a wrapped line must not look like one of our lines.

mod account;
mod card;
mod change;
mod effect;
mod line;
mod rehearsal;
mod sections;
mod value;
mod writer;

pub use account::{AccountSource, AgentReport, CallAccount, ChangesState};
pub use card::{CardChange, CardChanges, CardHeadline, QuestionCard, QuestionClass};
pub use line::{LineRole, RenderLine, Rendering};
pub use rehearsal::summarize_changes;
pub use sections::is_truncated;

use crate::question::QuestionKind;
use crate::question_view::QuestionView;
use writer::RenderingBuilder;

/// Renders a question as lines.
pub fn render(sheet: &QuestionView) -> Rendering {
    let mut page = RenderingBuilder::default();
    sections::write_title(&mut page, sheet);
    page.set_warnings_position();
    rehearsal::write_rehearsal(&mut page, sheet);
    sections::write_effects(&mut page, sheet);
    sections::write_reasons(&mut page, sheet);
    sections::write_arguments(&mut page, sheet);
    sections::write_changes(&mut page, sheet);
    sections::write_challenge(&mut page, sheet);
    sections::write_review_notes(&mut page, sheet);
    if sheet.question.kind == QuestionKind::Release || sheet.output.is_some() {
        sections::write_output(&mut page, sheet);
    }
    sections::write_model_reason(&mut page, sheet);
    page.open_reserve();
    sections::write_details(&mut page, sheet);
    page.finish()
}
