//! Parts: which of the changes are applied. Nothing is marked to begin with.

use byleave_core::escape::{Care, visible};
use byleave_core::sheet::{Seen, Sheet};

use crate::keys::Key;

/// The changes, and which of them are applied.
pub struct Parts {
    /// What is done, the path, and whether it is applied.
    pub(super) rows: Vec<(String, String, bool)>,
    pub(super) at: usize,
}

/// What a key came to.
pub(super) enum Came {
    Nothing,
    Back,
    Chosen(Vec<String>),
}

impl Parts {
    /// The changes of a rehearsal that stands.
    pub fn of(sheet: &Sheet) -> Option<Self> {
        let Some(Seen::Ran { rehearsal, .. }) = &sheet.seen else { return None };
        let changes = rehearsal.changes.list.iter();
        let rows = changes
            .map(|change| {
                let shown = format!("{}  {}", change.what().verb(), visible(&change.path, Care::Name));
                (shown, change.path.clone(), false)
            })
            .collect();
        Some(Self { rows, at: 0 })
    }

    pub(super) fn key(&mut self, key: &Key) -> Came {
        match key {
            Key::Escape => return Came::Back,
            Key::Up => self.at = self.at.saturating_sub(1),
            Key::Down => self.at = (self.at + 1).min(self.rows.len().saturating_sub(1)),
            Key::Home => self.at = 0,
            Key::End => self.at = self.rows.len().saturating_sub(1),
            Key::Char(' ') => {
                if let Some((_, _, applied)) = self.rows.get_mut(self.at) {
                    *applied = !*applied;
                }
                self.at = (self.at + 1).min(self.rows.len().saturating_sub(1));
            }
            Key::Enter => {
                let applied = self.rows.iter().filter(|(_, _, applied)| *applied);
                let paths: Vec<String> = applied.map(|(_, path, _)| path.clone()).collect();
                if !paths.is_empty() {
                    return Came::Chosen(paths);
                }
            }
            _ => {}
        }
        Came::Nothing
    }
}
