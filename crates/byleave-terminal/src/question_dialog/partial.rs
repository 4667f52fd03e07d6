//! Selects the changes to apply. No change is marked at first.

use byleave_core::escape::{EscapeLevel, make_visible};
use byleave_core::question_view::{QuestionView, RehearsalView};

use crate::keys::KeyPress;

/// The changes, and which of them are applied.
pub struct ChangeSelection {
    /// The operation, the path, and whether it is applied.
    pub(super) rows: Vec<(String, String, bool)>,
    pub(super) cursor: usize,
}

/// The result of a key.
pub(super) enum ChangeSelectionEvent {
    Nothing,
    Back,
    Chosen(Vec<String>),
}

impl ChangeSelection {
    /// Creates a selection from a rehearsal, if a yes would commit that very run.
    pub fn for_question(sheet: &QuestionView) -> Option<Self> {
        let Some(RehearsalView::Ran { rehearsal, .. }) = &sheet.rehearsal else { return None };
        let changes = rehearsal.changes.list.iter();
        let rows = changes
            .map(|change| {
                let shown =
                    format!("{}  {}", change.kind().verb(), make_visible(&change.path, EscapeLevel::Name));
                (shown, change.path.clone(), false)
            })
            .collect();
        Some(Self { rows, cursor: 0 })
    }

    pub(super) fn key(&mut self, key: &KeyPress) -> ChangeSelectionEvent {
        match key {
            KeyPress::Escape => return ChangeSelectionEvent::Back,
            KeyPress::Up => self.cursor = self.cursor.saturating_sub(1),
            KeyPress::Down => self.cursor = (self.cursor + 1).min(self.rows.len().saturating_sub(1)),
            KeyPress::Home => self.cursor = 0,
            KeyPress::End => self.cursor = self.rows.len().saturating_sub(1),
            KeyPress::Char(' ') => {
                if let Some((_, _, applied)) = self.rows.get_mut(self.cursor) {
                    *applied = !*applied;
                }
                self.cursor = (self.cursor + 1).min(self.rows.len().saturating_sub(1));
            }
            KeyPress::Enter => {
                let applied = self.rows.iter().filter(|(_, _, applied)| *applied);
                let paths: Vec<String> = applied.map(|(_, path, _)| path.clone()).collect();
                if !paths.is_empty() {
                    return ChangeSelectionEvent::Chosen(paths);
                }
            }
            _ => {}
        }
        ChangeSelectionEvent::Nothing
    }
}
