//! Compares the edits that agents were allowed to make with what is there now. An edit that left something else is noted, and its
//! session asks about every call from then on.

use std::time::SystemTime;

use anyhow::Result;
use byleave_copy::{CopyState, CopyStore, Error, ExternalEditState};
use byleave_gate::core::file_change::{FileChanges, FileNode, FileNodeKind};
use byleave_gate::core::id::CallId;

use super::session_notes::{AskingReason, PassedEdit, SessionNote};
use crate::short_ids::short;

/// The passed edits of one session.
pub(super) struct PassedEdits {
    pub(super) store: CopyStore,
    pub(super) note: SessionNote,
    /// The session, as the audit log names it.
    pub(super) session: String,
}

/// The result of comparing an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Comparison {
    /// Nothing was changed, or another process compares it now.
    NotMade,
    AsJudged,
    /// These paths are different.
    Different(Vec<String>),
    /// The comparison failed, for this reason.
    Failed(String),
}

impl Comparison {
    /// Returns what is wrong with the edit, if anything is.
    fn problem(&self) -> Option<String> {
        match self {
            Self::NotMade | Self::AsJudged => None,
            Self::Different(paths) => Some(format!("it left something else at {}", listed(paths))),
            Self::Failed(why) => Some(format!("what it left cannot be compared: {why}")),
        }
    }
}

impl PassedEdits {
    /// Notes an edit before the agent may make it.
    pub(super) fn add(&self, call: CallId, use_id: Option<&str>) -> Result<()> {
        if self.store.state(call.uuid())? != CopyState::ExternalEdit {
            return Ok(());
        }
        let paths = self.store.external_edit_paths(call.uuid())?;
        // An agent edits a file once at a time. So an earlier edit of this file that was not made will never be made.
        for earlier in self.note.edits()? {
            if earlier.paths == paths
                && self.store.drop_unmade_edit(earlier.call.uuid()).is_ok_and(|dropped| dropped)
            {
                self.note.remove_edit(earlier.call)?;
            }
        }
        let (use_id, session) = (use_id.map(str::to_owned), self.session.clone());
        self.note.add_edit(&PassedEdit { call, session, use_id, paths })
    }

    /// Compares the edits for which no report came, before the next call of the session. Returns whether one of them has left something
    /// else so far. The agent may still be writing it.
    pub(super) fn has_unsettled(&self) -> Result<bool> {
        let mut is_unsettled = false;
        for edit in self.note.edits()? {
            match self.compare(&edit)? {
                Comparison::NotMade => {}
                Comparison::AsJudged => drop(self.finish(&edit)?),
                Comparison::Different(_) | Comparison::Failed(_) => is_unsettled = true,
            }
        }
        Ok(is_unsettled)
    }

    /// Compares an edit after the agent has reported it. `wrong` is what is wrong with the report itself, and `must_be_made` says that the
    /// report means success. Returns the text for the person and the agent if something is different.
    pub(super) fn settle_reported(
        &self,
        edit: &PassedEdit,
        wrong: Option<String>,
        must_be_made: bool,
    ) -> Result<Option<String>> {
        let different = match self.finish(edit)? {
            found @ (Comparison::Different(_) | Comparison::Failed(_)) => found.problem(),
            Comparison::NotMade if must_be_made => {
                Some(format!("it reported success and changed nothing at {}", listed(&edit.paths)))
            }
            Comparison::NotMade => {
                if self.store.drop_unmade_edit(edit.call.uuid()).unwrap_or(false) {
                    self.note.remove_edit(edit.call)?;
                }
                None
            }
            Comparison::AsJudged => None,
        };
        let reason = match (wrong, different) {
            (None, None) => return Ok(None),
            (Some(reason), None) | (None, Some(reason)) => reason,
            (Some(wrong), Some(different)) => format!("{wrong}, and {different}"),
        };
        self.ask_from_now_on(edit.call, &reason).map(Some)
    }

    /// Compares all edits of the session, because the turn is over. An edit that was not made is dropped. `later` has the committed changes
    /// of other calls, which explain a difference.
    pub(super) fn settle_all(&self, later: &[(CallId, FileChanges)]) -> Result<Vec<String>> {
        let mut texts = Vec::new();
        for edit in self.note.edits()? {
            let id = edit.call.uuid();
            match self.compare(&edit)? {
                Comparison::NotMade => {
                    if self.store.drop_unmade_edit(id).unwrap_or(false) {
                        self.note.remove_edit(edit.call)?;
                    }
                }
                Comparison::Different(_) if self.is_explained(&edit, later)? => {
                    self.store.forget_copy(id, SystemTime::now(), "the agent did not make the edit")?;
                    self.note.remove_edit(edit.call)?;
                }
                Comparison::AsJudged | Comparison::Different(_) | Comparison::Failed(_) => {
                    if let Some(reason) = self.finish(&edit)?.problem() {
                        texts.push(self.ask_from_now_on(edit.call, &reason)?);
                    }
                }
            }
        }
        Ok(texts)
    }

    fn compare(&self, edit: &PassedEdit) -> Result<Comparison> {
        let id = edit.call.uuid();
        if self.store.state(id)? != CopyState::ExternalEdit {
            // It was compared, undone or dropped.
            self.note.remove_edit(edit.call)?;
            return Ok(Comparison::NotMade);
        }
        Ok(self
            .store
            .compare_external_edit(id)
            .map_or_else(|fault| Comparison::Failed(fault.to_string()), comparison))
    }

    /// Makes what the agent has done a commit.
    fn finish(&self, edit: &PassedEdit) -> Result<Comparison> {
        let found = match self.store.finish_external_edit(edit.call.uuid()) {
            Ok(state) => comparison(state),
            // Another process compares it, or has compared it.
            Err(Error::Busy(_)) => return Ok(Comparison::NotMade),
            Err(Error::Exists(_) | Error::Missing(_) | Error::Dropped { .. }) => Comparison::AsJudged,
            Err(fault) => Comparison::Failed(fault.to_string()),
        };
        if found != Comparison::NotMade {
            self.note.remove_edit(edit.call)?;
        }
        Ok(found)
    }

    /// Checks whether other calls left the files as they are now.
    fn is_explained(&self, edit: &PassedEdit, later: &[(CallId, FileChanges)]) -> Result<bool> {
        let now = self.store.changes(edit.call.uuid())?;
        let is_left = |change: &byleave_gate::core::file_change::FileChange| {
            let others = later.iter().filter(|(call, _)| *call > edit.call);
            let mut same =
                others.flat_map(|(_, changes)| &changes.list).filter(|other| other.path == change.path);
            same.any(|other| is_same_node(other.after.as_ref(), change.after.as_ref()))
        };
        Ok(now.list.iter().all(is_left))
    }

    /// Lets the session ask about every call from now on, and returns the text about it.
    pub(super) fn ask_from_now_on(&self, call: CallId, reason: &str) -> Result<String> {
        let reason = format!("call {} of its own tool is not what was judged: {reason}", short(&call));
        let note = AskingReason { call: Some(call), session: self.session.clone(), reason };
        self.note.ask_from_now_on(&note)?;
        Ok(format!(
            "{}. From now on, every call of this session asks, except reads; a new session does not. `byleave diff {id}` shows it, \
             `byleave undo {id}` takes it back",
            note.reason,
            id = short(&call)
        ))
    }
}

fn comparison(state: ExternalEditState) -> Comparison {
    match state {
        ExternalEditState::NotMade => Comparison::NotMade,
        ExternalEditState::AsExpected => Comparison::AsJudged,
        ExternalEditState::Different(paths) => Comparison::Different(paths),
    }
}

/// Checks whether a node is still as a commit left it. Its digest is not always known.
fn is_same_node(left: Option<&FileNode>, now: Option<&FileNode>) -> bool {
    match (left, now) {
        (Some(left), Some(now)) => {
            let sizes = (&left.kind, &now.kind);
            let same = match sizes {
                (FileNodeKind::File { size: one, .. }, FileNodeKind::File { size: other, .. }) => {
                    one == other
                }
                (one, other) => one == other,
            };
            same && left.mode == now.mode && left.modified_ns == now.modified_ns
        }
        (None, None) => true,
        _ => false,
    }
}

fn listed(paths: &[String]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| format!("`{}`", path.escape_debug())).collect();
    shown.join(", ")
}
