//! Edits of files that an agent makes with its own tools. The expected content is put on a copy, so that the same rules judge it and a
//! person sees the same difference as for a tool of ours. Then the before-images are kept, and the agent makes the edit.

use std::path::Path;

use byleave_copy::{CopyMethod, CopySettings, CopyState, CopyStore, Error, ExpectedContent, WorkspaceCopy};
use byleave_gate::core::effect::Effect;
use byleave_gate::core::file_change::FileChanges;
use byleave_gate::core::outcome::{ExecutionStatus, Output};
use byleave_gate::core::rehearsal::{BeforeImageRoom, Rehearsal};
use byleave_gate::tool::{RehearseError, RunContext};

use crate::change_findings::ChangeFindings;
use crate::copy_commit::{discard_copy, undo_data};
use crate::execution_env::ExecutionEnv;
use crate::rehearsal_result::rehearsal_of_edit;

pub use crate::copy_commit::{drop_copy, has_copy};

/// An edit of one file that an agent makes itself. One call may make several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalEdit {
    /// The evaluated path.
    pub path: String,
    /// The content that the edit was computed from. `None` if there is no file.
    pub before: Option<Vec<u8>>,
    /// The contents that the agent may leave. The first one is shown. Without any, it deletes the file.
    pub accepted: Vec<Vec<u8>>,
}

impl ExternalEdit {
    /// Checks whether the edit deletes the file.
    pub fn is_deletion(&self) -> bool {
        self.accepted.is_empty()
    }

    /// Checks whether this effect is the one of the edit.
    pub fn is_effect(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Write { path } => !self.is_deletion() && *path == self.path,
            Effect::Delete { path } => self.is_deletion() && *path == self.path,
            _ => false,
        }
    }
}

/// Puts the expected contents on a copy. The output is that of the call.
pub fn put_on_copy(
    workplace: &ExecutionEnv,
    edits: &[ExternalEdit],
    output: Output,
    run: &RunContext,
) -> Result<Rehearsal, RehearseError> {
    let is_granted = |edit: &&ExternalEdit| run.plan.effects.iter().any(|effect| edit.is_effect(effect));
    if let Some(edit) = edits.iter().find(|edit| !is_granted(edit)) {
        return Err(unable(&format!("`{}` was not granted", edit.path.escape_debug())));
    }
    let (_, workspace) = workplace.resolve_directories(run).map_err(|why| unable(&why))?;
    let copy = open_store(workplace)
        .and_then(|store| store.create_copy(run.call.uuid(), &[workspace], CopyMethod::Overlay))
        .map_err(failed)?;
    match fill(&copy, edits, run) {
        Ok((changed, findings)) => {
            Ok(rehearsal_of_edit(ExecutionStatus::Succeeded, output, changed, findings))
        }
        Err(fault) => {
            discard_copy(copy);
            Err(failed(fault))
        }
    }
}

/// The changes of an edit, whether their before-images fit, and what their paths do not say.
type FilledCopy = ((FileChanges, BeforeImageRoom), ChangeFindings);

fn fill(copy: &WorkspaceCopy, edits: &[ExternalEdit], run: &RunContext) -> Result<FilledCopy, Error> {
    for edit in edits {
        match edit.accepted.first() {
            Some(content) => copy.write_file(Path::new(&edit.path), content, None)?,
            None => copy.remove_file(Path::new(&edit.path))?,
        }
    }
    let mut changes = copy.changes()?;
    let findings = ChangeFindings::find(copy, &changes, &run.context)?;
    let room = copy.before_image_room(&changes)?;
    copy.fill_diffs(&mut changes)?;
    let expected: Vec<ExpectedContent<'_>> = edits
        .iter()
        .map(|edit| ExpectedContent {
            path: &edit.path,
            before: edit.before.as_deref(),
            accepted: &edit.accepted,
        })
        .collect();
    copy.expect_external_edit(&expected)?;
    Ok(((changes, room), findings))
}

/// Keeps the before-images, so that the agent may make the edit.
pub fn hand_over(
    workplace: &ExecutionEnv,
    seen: Rehearsal,
    only: Option<&[String]>,
    run: &RunContext,
) -> Result<Output, String> {
    // The edit would fail, so there is nothing to keep.
    if seen.status != ExecutionStatus::Succeeded {
        return Ok(seen.output);
    }
    if only.is_some_and(|paths| seen.changes.only_paths(paths) != seen.changes) {
        return Err("the agent makes the whole edit itself, so no part of it can be chosen".into());
    }
    let words = |fault: Error| match fault {
        Error::Conflicts(conflicts) => conflicts.iter().fold(
            "the call did not run, because the file changed after it was judged:".to_owned(),
            |text, conflict| format!("{text}\n  `{}`: {}", conflict.path.escape_debug(), conflict.reason),
        ),
        other => format!("the call did not run, because its before-image cannot be kept: {other}"),
    };
    let (store, id) = (open_store(workplace).map_err(words)?, run.call.uuid());
    match store.state(id).map_err(words)? {
        CopyState::Open => {
            if store.changes(id).map_err(words)?.digest() != seen.changes.digest() {
                return Err("the call did not run: its copy was modified after it was judged".into());
            }
            store.reopen(id).and_then(|copy| copy.keep_before_images()).map_err(words)?;
        }
        // An earlier attempt did this and did not report it.
        CopyState::ExternalEdit => {}
        _ => return Err("the call did not run: its copy no longer exists".into()),
    }
    Ok(Output { undo: undo_data(run, &seen.changes), ..seen.output })
}

/// Opens the store without scratch directories, because a file that is written by name is intended.
fn open_store(workplace: &ExecutionEnv) -> Result<CopyStore, Error> {
    CopyStore::open(
        &workplace.store_dir,
        CopySettings { scratch: Vec::new(), ..workplace.store_settings.clone() },
    )
}

fn failed(fault: Error) -> RehearseError {
    match fault {
        Error::Busy(_) => RehearseError::RunningElsewhere,
        other => unable(&other.to_string()),
    }
}

fn unable(why: &str) -> RehearseError {
    RehearseError::Unavailable(format!("the edit cannot be judged: {why}"))
}
