//! The one renderer: a question, as lines for any screen. Escaped, complete, in our words and not the model's.
//!
//! The facts come first: what is asked, what was really done on a copy, what would be done and to what, whether it can be taken back, why it asks, and the
//! arguments whole. The words of the model come last and are labelled as its own. Nothing is cut: what is too large to be
//! shown is said to be so, and [`Rendering::complete`] is false. It must never show one thing for another: every text from
//! outside passes through [`crate::escape`], stands in quotes or behind a gutter, and cannot begin a line.
//!
//! A screen shows the lines in order, left to right, in one size, and takes nothing in them for markup. It wraps them with
//! [`Rendering::wrapped`] or an equal that repeats the gutter: a wrapped line must not look like a line of ours.

mod change;
mod effect;
mod line;
mod rehearsal;
mod sections;
mod value;
mod writer;

pub use line::{LineRole, RenderLine, Rendering};
pub use rehearsal::summary;
pub use sections::is_cut;

use crate::question::QuestionKind;
use crate::question_view::QuestionView;
use writer::RenderingBuilder;

/// Turns a question into lines.
pub fn render(sheet: &QuestionView) -> Rendering {
    let mut page = RenderingBuilder::default();
    sections::title(&mut page, sheet);
    page.leave_room_for_warnings();
    rehearsal::write(&mut page, sheet);
    sections::effects(&mut page, sheet);
    sections::reasons(&mut page, sheet);
    sections::arguments(&mut page, sheet);
    sections::changes(&mut page, sheet);
    sections::challenge(&mut page, sheet);
    sections::notes(&mut page, sheet);
    if sheet.question.kind == QuestionKind::Release || sheet.output.is_some() {
        sections::output(&mut page, sheet);
    }
    sections::model(&mut page, sheet);
    page.open_reserve();
    sections::details(&mut page, sheet);
    page.finish()
}
