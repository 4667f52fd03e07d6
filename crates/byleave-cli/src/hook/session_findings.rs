//! What a person should know about the sessions of agents: which of them ask about every call, and which edits were made and never
//! reported.

use anyhow::Result;
use byleave_copy::{CopyState, ExternalEditState};

use super::session_notes::{AskingReason, PassedEdit, SessionNotes};
use crate::call_display::format_count;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::short;
use crate::tool_catalog::workplace;

/// What is known about all sessions.
#[derive(Debug, Default)]
pub(crate) struct SessionFindings {
    pub(crate) asking: Vec<AskingReason>,
    /// The agent changed something, and its report did not come.
    pub(crate) unreported: Vec<PassedEdit>,
}

impl SessionFindings {
    pub(crate) fn read(options: &ResolvedOptions) -> Result<Self> {
        let mut found = Self::default();
        let notes = SessionNotes::new(options).all()?;
        if notes.is_empty() {
            return Ok(found);
        }
        let store = workplace(options, &options.cwd).open_store()?;
        for note in notes {
            found.asking.extend(note.asking_reason()?);
            for edit in note.edits()? {
                let id = edit.call.uuid();
                let is_made = store.state(id)? == CopyState::ExternalEdit
                    && store.compare_external_edit(id).is_ok_and(|state| state != ExternalEditState::NotMade);
                if is_made {
                    found.unreported.push(edit);
                }
            }
        }
        Ok(found)
    }

    /// Describes the findings, each in one line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .asking
            .iter()
            .map(|asks| {
                format!("session `{}` asks about every call except reads: {}", asks.session, asks.reason)
            })
            .collect();
        if let Some(edit) = self.unreported.first() {
            let number = format_count(self.unreported.len() as u64, "edit");
            lines.push(format!(
                "{number} of agents' own tools without a report afterwards, first in session `{}`: `byleave diff {call}` shows it, \
                 `byleave undo {call}` takes it back",
                edit.session,
                call = short(&edit.call)
            ));
        }
        lines
    }
}
