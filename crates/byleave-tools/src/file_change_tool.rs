//! Tools that change files. The planned content is put on a copy, shown if a person is asked, and committed as a whole. So every such tool
//! is atomic, can be rehearsed and can be undone, and none of them opens a file for writing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_copy::{CopyMethod, CopySettings, CopyStore, Error, WorkspaceCopy};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::effect::Effect;
use byleave_gate::core::file_change::{FileChange, FileChanges, FileNodeKind};
use byleave_gate::core::id::CallId;
use byleave_gate::core::manifest::Manifest;
use byleave_gate::core::outcome::{ExecutionStatus, Output};
use byleave_gate::core::rehearsal::{BeforeImageRoom, Rehearsal};
use byleave_gate::tool::{Rehearsable, RehearseError, RunContext, Tool};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::blocking::{rehearse_blocking, run_blocking};
use crate::change_findings::ChangeFindings;
use crate::copy_commit::{discard_copy, drop_copy, finish_commit, has_copy};
use crate::execution_env::ExecutionEnv;
use crate::file_edit::{PlannedEdit, PlannedFile, Precondition};
use crate::read_permission::may_read_without_asking;
use crate::rehearsal_result::rehearsal_of_edit;
use crate::workspace_files::Files;

/// A function that computes the planned edit. It must not change anything.
pub(crate) type EditPlanner<T> = fn(&T, &Files, &RunContext) -> Result<PlannedEdit, String>;

/// A tool that changes files.
pub(crate) struct FileChangeTool<T> {
    manifest: Manifest,
    workplace: Arc<ExecutionEnv>,
    reviser: EditPlanner<T>,
}

impl<T> FileChangeTool<T> {
    /// Creates a tool that makes the planned edit.
    pub(crate) fn new(manifest: Manifest, workplace: &ExecutionEnv, reviser: EditPlanner<T>) -> Self {
        Self { manifest, workplace: Arc::new(workplace.clone()), reviser }
    }
}

impl<T: DeserializeOwned + 'static> Tool for FileChangeTool<T> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn as_rehearsable(&self) -> Option<&dyn Rehearsable> {
        Some(self)
    }

    fn execute(&self, _: Value, _: RunContext) -> BoxFuture<'_, Output> {
        // The gate runs such a tool on a copy, and commits the copy.
        Box::pin(async { Output::failure("nothing was changed: the tool works only on a copy") })
    }
}

impl<T: DeserializeOwned + 'static> Rehearsable for FileChangeTool<T> {
    fn rehearse(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Result<Rehearsal, RehearseError>> {
        let (workplace, reviser) = (Arc::clone(&self.workplace), self.reviser);
        let manifest = self.manifest.clone();
        Box::pin(rehearse_blocking(move || rehearsed(&workplace, reviser, arguments, &run, &manifest)))
    }

    fn run_on_copy(
        &self,
        arguments: Value,
        run: RunContext,
    ) -> BoxFuture<'_, Result<Rehearsal, RehearseError>> {
        let (workplace, reviser) = (Arc::clone(&self.workplace), self.reviser);
        Box::pin(rehearse_blocking(move || {
            edit_on_copy(&workplace, reviser, arguments, &run).map(|(output, changed, findings)| {
                rehearsal_of_edit(ExecutionStatus::Succeeded, output, changed, findings)
            })
        }))
    }

    fn has_copy<'a>(&'a self, call: CallId, seen: &'a Rehearsal) -> BoxFuture<'a, bool> {
        // An empty edit has no copy to keep.
        if seen.changes.is_empty() {
            return Box::pin(async { true });
        }
        has_copy(&self.workplace, call, seen)
    }

    fn commit(&self, seen: Rehearsal, only: Option<Vec<String>>, run: RunContext) -> BoxFuture<'_, Output> {
        let workplace = Arc::clone(&self.workplace);
        Box::pin(run_blocking(move || finish_commit(&workplace, seen, only.as_deref(), &run)))
    }

    fn discard(&self, call: CallId) -> BoxFuture<'_, ()> {
        drop_copy(&self.workplace, call)
    }
}

fn revised<T: DeserializeOwned>(
    workplace: &ExecutionEnv,
    reviser: EditPlanner<T>,
    arguments: Value,
    run: &RunContext,
) -> Result<PlannedEdit, String> {
    let arguments =
        serde_json::from_value(arguments).map_err(|error| format!("cannot read the arguments: {error}"))?;
    let files = Files::for_run(workplace, run)?;
    let revision = reviser(&arguments, &files, run)?;
    for put in &revision.files {
        let length = put.content.as_ref().map_or(0, Vec::len) as u64;
        if length > files.bytes_max() {
            let (path, most) = (files.display_path(&put.path), files.bytes_max());
            return Err(format!(
                "`{path}` would have {length} bytes, and the limit is {most}; write it in parts"
            ));
        }
    }
    Ok(revision)
}

fn rehearsed<T: DeserializeOwned>(
    workplace: &ExecutionEnv,
    reviser: EditPlanner<T>,
    arguments: Value,
    run: &RunContext,
    manifest: &Manifest,
) -> Result<Rehearsal, RehearseError> {
    let (status, (output, changed, findings)) = match edit_on_copy(workplace, reviser, arguments, run) {
        Ok(done) => (ExecutionStatus::Succeeded, done),
        Err(RehearseError::RunningElsewhere) => return Err(RehearseError::RunningElsewhere),
        // The error reveals file content, which the agent must not see before a person has answered.
        Err(RehearseError::Unavailable(why)) if !may_all_be_read(manifest, run) => {
            return Err(RehearseError::Unavailable(format!("the call would fail: {why}")));
        }
        // The failure is the result of the rehearsal, so no question is needed.
        Err(RehearseError::Unavailable(why)) => {
            (ExecutionStatus::Failed, (Output::failure(why), UNCHANGED, ChangeFindings::default()))
        }
    };
    Ok(rehearsal_of_edit(status, output, changed, findings))
}

/// The output of an edit on a copy, its changes and whether their before-images fit, and what their paths do not say.
type EditOnCopy = (Output, (FileChanges, BeforeImageRoom), ChangeFindings);

/// An edit that changes nothing.
const UNCHANGED: (FileChanges, BeforeImageRoom) =
    (FileChanges { list: Vec::new(), renames: Vec::new(), caveats: Vec::new() }, BeforeImageRoom::Available);

/// Puts the planned edit on a copy.
fn edit_on_copy<T: DeserializeOwned>(
    workplace: &ExecutionEnv,
    reviser: EditPlanner<T>,
    arguments: Value,
    run: &RunContext,
) -> Result<EditOnCopy, RehearseError> {
    let revision = revised(workplace, reviser, arguments, run).map_err(RehearseError::Unavailable)?;
    if revision.files.is_empty() {
        return Ok((revision.output, UNCHANGED, ChangeFindings::default()));
    }
    let (copy, changes) = on_a_copy(workplace, &revision, run)?;
    let looked = ChangeFindings::find(&copy, &changes, &run.context)
        .and_then(|findings| Ok((findings, copy.before_image_room(&changes)?)));
    match looked {
        Ok((findings, room)) => Ok((revision.output, (shown(&copy, changes), room), findings)),
        Err(fault) => {
            discard_copy(copy);
            Err(RehearseError::Unavailable(format!("nothing was changed: {fault}")))
        }
    }
}

/// Checks whether every path that the plan changes may also be read without a question.
fn may_all_be_read(manifest: &Manifest, run: &RunContext) -> bool {
    run.plan.effects.iter().all(|effect| match effect {
        Effect::Write { path } | Effect::Delete { path } => may_read_without_asking(path, manifest, run),
        // All other effects were evaluated as they are.
        _ => true,
    })
}

/// Adds text diffs. They are for people; without them the changes can still be evaluated completely.
fn shown(copy: &WorkspaceCopy, mut changes: FileChanges) -> FileChanges {
    if let Err(fault) = copy.fill_diffs(&mut changes) {
        tracing::warn!(%fault, "cannot show the diffs of a revision");
    }
    changes
}

/// Puts an edit on a copy, and compares the actual changes with the planned ones.
fn on_a_copy(
    workplace: &ExecutionEnv,
    revision: &PlannedEdit,
    run: &RunContext,
) -> Result<(WorkspaceCopy, FileChanges), RehearseError> {
    let not = |fault: Error| match fault {
        Error::Busy(_) => RehearseError::RunningElsewhere,
        other => RehearseError::Unavailable(format!("nothing was changed: {other}")),
    };
    if let Some(put) = revision.files.iter().find(|put| !is_granted(put, run)) {
        return Err(RehearseError::Unavailable(format!(
            "nothing was changed: `{}` was not granted",
            put.path.escape_debug()
        )));
    }
    let roots = roots(workplace, revision, run).map_err(RehearseError::Unavailable)?;
    let copy = store(workplace)
        .and_then(|store| store.create_copy(run.call.uuid(), &roots, CopyMethod::Overlay))
        .map_err(not)?;
    let put = || -> Result<FileChanges, Error> {
        for put in &revision.files {
            match &put.content {
                Some(content) => copy.write_file(Path::new(&put.path), content, put.mode)?,
                None => copy.remove_file(Path::new(&put.path))?,
            }
        }
        copy.changes()
    };
    let checked = put().map_err(not).and_then(|changes| match unmeant(&changes, revision) {
        None => Ok(changes),
        Some(path) => Err(RehearseError::Unavailable(format!(
            "nothing was changed: `{}` changed during the call; read the file again, then try again",
            path.escape_debug()
        ))),
    });
    match checked {
        Ok(changes) => Ok((copy, changes)),
        Err(why) => {
            discard_copy(copy);
            Err(why)
        }
    }
}

/// Opens a store without scratch directories, because a file that is written by name is intended.
fn store(workplace: &ExecutionEnv) -> Result<CopyStore, Error> {
    CopyStore::open(
        &workplace.store_dir,
        CopySettings { scratch: Vec::new(), ..workplace.store_settings.clone() },
    )
}

fn is_granted(put: &PlannedFile, run: &RunContext) -> bool {
    run.plan.effects.iter().any(|effect| match effect {
        Effect::Write { path } => put.content.is_some() && *path == put.path,
        Effect::Delete { path } => put.content.is_none() && *path == put.path,
        _ => false,
    })
}

/// Returns the directories to copy: the workspace, and for files elsewhere their directories.
fn roots(workplace: &ExecutionEnv, revision: &PlannedEdit, run: &RunContext) -> Result<Vec<PathBuf>, String> {
    let (_, workspace) = workplace.resolve_directories(run)?;
    let mut roots = BTreeSet::new();
    for put in &revision.files {
        let path = Path::new(&put.path);
        if path.starts_with(&workspace) {
            roots.insert(workspace.clone());
            continue;
        }
        let there = path.ancestors().skip(1).find(|above| above.is_dir());
        let there =
            there.ok_or_else(|| format!("nothing was changed: `{}` has no parent directory", put.path))?;
        roots.insert(there.to_path_buf());
    }
    // A directory within another is copied with it.
    let nested = |root: &PathBuf| roots.iter().any(|other| other != root && root.starts_with(other));
    Ok(roots.iter().filter(|root| !nested(root)).cloned().collect())
}

/// Returns a path whose change is not the planned one, because its precondition does not hold any more.
fn unmeant<'a>(changes: &'a FileChanges, revision: &'a PlannedEdit) -> Option<&'a str> {
    let put = |path: &str| revision.files.iter().find(|put| put.path == path);
    let listed = |path: &str| changes.list.iter().find(|change| change.path == path);
    let extra = changes.list.iter().find(|change| put(&change.path).is_none() && !change.is_new_directory());
    if let Some(extra) = extra {
        return Some(&extra.path);
    }
    let missing = revision
        .files
        .iter()
        .find(|put| listed(&put.path).is_none_or(|change| !rests_on(change, put.precondition)));
    missing.map(|put| put.path.as_str())
}

fn rests_on(change: &FileChange, from: Precondition) -> bool {
    match (from, &change.before) {
        (Precondition::Any, _) | (Precondition::Absent, None) => true,
        (Precondition::File { size, modified_ns: modified }, Some(node)) => {
            let is_size = matches!(node.kind, FileNodeKind::File { size: is, .. } if is == size);
            is_size && node.modified_ns == modified
        }
        (Precondition::Absent, Some(_)) | (Precondition::File { .. }, None) => false,
    }
}
