//! What the paths of changes do not say, and a rule must know: the commands that Git would run from them, the other names of the changed
//! files, and the files that Git would hide from a person from then on.

use std::path::Path;

use byleave_copy::{Error, WorkspaceCopy};
use byleave_gate::core::file_change::FileChanges;
use byleave_gate::core::git_settings::GitSettingsChange;
use byleave_gate::core::rehearsal::{NewWorktree, Rehearsal};
use byleave_gate::plan::other_names;
use byleave_gate::tool::ToolContext;

use crate::gate_lines::push_gate_line;
use crate::git_settings::git_settings;
use crate::git_worktrees::new_worktrees;
use crate::run_by_git::run_by_git;

/// The findings about the changes of one run.
#[derive(Debug, Default)]
pub(crate) struct ChangeFindings {
    run_by_git: Vec<String>,
    linked_names: Vec<String>,
    hidden_from_git: Vec<String>,
    git_settings: Vec<GitSettingsChange>,
    new_worktrees: Vec<NewWorktree>,
}

impl ChangeFindings {
    /// Looks at the changes on a copy.
    pub(crate) fn find(
        copy: &WorkspaceCopy,
        changes: &FileChanges,
        context: &ToolContext,
    ) -> Result<Self, Error> {
        let is_known = |name: &String| changes.list.iter().any(|change| change.path == *name);
        let paths = changes.list.iter().map(|change| change.path.as_str());
        let mut linked_names = other_names(paths.filter(|path| !path.contains("/.git/")), context);
        // A link in the copy is not another name: it is the link in the workspace, which was found as well.
        linked_names.retain(|name| !is_known(name) && !copy.is_in_store(Path::new(name)));
        Ok(Self {
            run_by_git: run_by_git(copy, changes)?,
            linked_names,
            hidden_from_git: copy.hidden_from_git(changes),
            git_settings: git_settings(copy, changes)?,
            new_worktrees: new_worktrees(changes, |change| Ok(copy.texts(change)?.map(|(_, after)| after)))?,
        })
    }

    /// Adds the findings to the result of the run.
    pub(crate) fn add_to(self, seen: &mut Rehearsal) {
        seen.run_by_git = self.run_by_git;
        seen.linked_names = self.linked_names;
        seen.hidden_from_git = self.hidden_from_git;
        for note in self.git_settings.iter().flat_map(|changed| &changed.notes) {
            push_gate_line(&mut seen.output.text, note);
        }
        seen.git_settings = self.git_settings;
        seen.new_worktrees = self.new_worktrees;
    }
}
