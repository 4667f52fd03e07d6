//! Edits of files that agents make with their own tools: judged by the content that they should leave, with the before-image kept first.
//!
//! Without a copy of ours in between, such an edit is undoable work only if everything about it is certain: the agent reports after the
//! use of its tool, the content can be computed, and the path is a plain file of the workspace.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use byleave_files::LinkPolicy;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::file_change::FileChanges;
use byleave_gate::core::outcome::{ExecutionStatus, Output};
use byleave_gate::core::rehearsal::Rehearsal;
use byleave_gate::tool::{RehearseError, RunContext};
use byleave_hook::{AgentKind, ExpectedContent, ToolEffect, expected_content, parse_patch, tool_effects};
use byleave_tools::ExecutionEnv;
use byleave_tools::external_edit::{self, ExternalEdit};
use serde_json::Value;

/// The bits with which a program runs with the rights of its owner or group, and the sticky bit.
const SPECIAL_BITS: u32 = 0o7000;

/// Judges the edits of one tool of an agent in one workspace.
#[derive(Clone, Debug)]
pub(super) struct AgentEditJudge {
    pub(super) agent: AgentKind,
    pub(super) tool: String,
    pub(super) workplace: ExecutionEnv,
}

/// What is known about an edit before the agent makes it.
pub(super) enum JudgedEdit {
    /// The edits of files, which can be undone.
    Edits(Vec<ExternalEdit>),
    /// The tool would fail, for this reason.
    Failure(String),
}

impl AgentEditJudge {
    /// Computes the edit, or says why it is not undoable work. `directory` is the one in which the agent calls its tool, and the input is
    /// as the agent knows it.
    pub(super) fn judge(&self, input: &Value, directory: &Path, plan: &Plan) -> Result<JudgedEdit, String> {
        if !self.agent.reports_file_changes() {
            return Err("the agent does not report what its tools did".into());
        }
        let about = tool_effects(&self.tool, input);
        match about.effects.as_slice() {
            [ToolEffect::Write(named) | ToolEffect::Edit(named)] => {
                self.judge_file(input, &directory.join(named), plan)
            }
            // Other agents apply patches in ways of their own.
            [ToolEffect::Patch(patch)] if self.agent == AgentKind::Codex => {
                self.judge_patch(patch, directory, plan)
            }
            _ => Err("the call does more than change one file".into()),
        }
    }

    fn judge_file(&self, input: &Value, named: &Path, plan: &Plan) -> Result<JudgedEdit, String> {
        let mut written = plan.effects.iter().filter_map(|effect| match effect {
            Effect::Write { path } => Some(path.as_str()),
            _ => None,
        });
        let (Some(path), None) = (written.next(), written.next()) else {
            return Err("the call does not write exactly one file".into());
        };
        self.check_place(named, Path::new(path))?;
        let before = self.current_content(Path::new(path))?;
        match expected_content(self.agent, &self.tool, input, before.as_deref()) {
            ExpectedContent::Unknown(why) => Err(format!("what the tool leaves cannot be computed: {why}")),
            ExpectedContent::Failure(why) => {
                Ok(JudgedEdit::Failure(format!("the edit would fail, so nothing was changed: {why}")))
            }
            ExpectedContent::OneOf(accepted) => {
                let edit = ExternalEdit { path: path.to_owned(), before, accepted };
                self.check_size(&edit)?;
                Ok(JudgedEdit::Edits(vec![edit]))
            }
        }
    }

    fn judge_patch(&self, patch: &str, directory: &Path, plan: &Plan) -> Result<JudgedEdit, String> {
        let unknown = |why: &str| format!("what the patch leaves cannot be computed: {why}");
        let mut edits = Vec::new();
        for file in parse_patch(patch).map_err(unknown)? {
            let named = directory.join(&file.name);
            let path = real_parent(&named).ok_or("the path of a file of the patch cannot be resolved")?;
            self.check_place(&named, &path)?;
            let before = self.current_content(&path)?;
            let accepted = file.accepted(before.as_deref()).map_err(unknown)?;
            let path = path.into_os_string().into_string().map_err(|_| "a path of the patch is not text")?;
            let edit = ExternalEdit { path, before, accepted };
            self.check_size(&edit)?;
            edits.push(edit);
        }
        let changes: Vec<&Effect> = plan
            .effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Write { .. } | Effect::Delete { .. }))
            .collect();
        let is_same = changes.len() == edits.len()
            && edits.iter().all(|edit| changes.iter().any(|effect| edit.is_effect(effect)));
        if is_same {
            Ok(JudgedEdit::Edits(edits))
        } else {
            Err("the patch changes other files than those that were evaluated".into())
        }
    }

    /// Judges an edit on a copy.
    pub(super) fn put_on_copy(
        &self,
        input: &Value,
        directory: &Path,
        output: Output,
        run: &RunContext,
    ) -> Result<Rehearsal, RehearseError> {
        match self.judge(input, directory, &run.plan).map_err(RehearseError::Unavailable)? {
            JudgedEdit::Edits(edits) => external_edit::put_on_copy(&self.workplace, &edits, output, run),
            JudgedEdit::Failure(why) => {
                Ok(Rehearsal::new(FileChanges::default(), ExecutionStatus::Failed, Output::failure(why)))
            }
        }
    }

    /// Checks that the named path is that file of the workspace, and no link to it.
    fn check_place(&self, named: &Path, path: &Path) -> Result<(), String> {
        let workspace = &self.workplace.workspace;
        if path == workspace || !path.starts_with(workspace) {
            return Err("the file is outside the workspace".into());
        }
        if self.workplace.store_dir.starts_with(workspace) {
            return Err("the workspace contains the store of before-images".into());
        }
        if named.components().any(|step| matches!(step, Component::ParentDir))
            || real_parent(named).as_deref() != Some(path)
        {
            return Err("the path leads through a link".into());
        }
        Ok(())
    }

    /// Reads the file that the edit changes, or `None` if nothing is there.
    fn current_content(&self, path: &Path) -> Result<Option<Vec<u8>>, String> {
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| format!("cannot inspect the file: {error}"))?,
        };
        let ours = rustix::process::geteuid();
        if !found.is_file() || found.nlink() != 1 || found.mode() & SPECIAL_BITS != 0 {
            return Err("the path is not a plain file with one name".into());
        }
        if !ours.is_root() && found.uid() != ours.as_raw() {
            return Err("the file belongs to another user".into());
        }
        let read = byleave_files::read(path, LinkPolicy::Never, self.workplace.max_file_bytes);
        read.map(Some).map_err(|error| error.to_string())
    }

    /// Checks the size. Whether the store has room for the before-image is judged with the edit.
    fn check_size(&self, edit: &ExternalEdit) -> Result<(), String> {
        let before = edit.before.as_ref().map_or(0, Vec::len);
        let after = edit.accepted.iter().map(Vec::len).max().unwrap_or(0);
        let is_small = u64::try_from(before.saturating_add(after))
            .is_ok_and(|bytes| bytes <= self.workplace.max_file_bytes);
        if is_small { Ok(()) } else { Err("the file is too large".into()) }
    }
}

/// Returns a path with the links before its last component followed, as far as the path exists.
fn real_parent(named: &Path) -> Option<PathBuf> {
    let above = named.ancestors().skip(1).find_map(|above| Some((above, above.canonicalize().ok()?)));
    let (above, real) = above?;
    Some(real.join(named.strip_prefix(above).ok()?))
}
