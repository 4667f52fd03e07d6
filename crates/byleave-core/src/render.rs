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
mod page;
mod part;
mod rehearsal;
mod value;

pub use line::{LineRole, RenderLine, Rendering};
pub use part::is_cut;
pub use rehearsal::summary;

use crate::question::QuestionKind;
use crate::sheet::Sheet;
use page::Page;

/// Turns a question into lines.
pub fn render(sheet: &Sheet) -> Rendering {
    let mut page = Page::default();
    part::title(&mut page, sheet);
    page.leave_room_for_warnings();
    rehearsal::write(&mut page, sheet);
    part::effects(&mut page, sheet);
    part::reasons(&mut page, sheet);
    part::arguments(&mut page, sheet);
    part::changes(&mut page, sheet);
    part::challenge(&mut page, sheet);
    part::notes(&mut page, sheet);
    if sheet.question.kind == QuestionKind::Release || sheet.output.is_some() {
        part::output(&mut page, sheet);
    }
    part::model(&mut page, sheet);
    page.open_reserve();
    part::details(&mut page, sheet);
    page.finish()
}
