//! Finds changes that Git would run later and that no rule knows by name. These are commands in lists that Git executes, and directories
//! that their content makes repositories.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use byleave_copy::{Error, WorkspaceCopy};
use byleave_gate::core::file_change::{FileChange, FileChanges};
use byleave_sandbox::repository::{RepositoryDetector, SETTINGS, is_command, is_list};

/// Returns the paths of such changes, and of all changes beneath them.
pub(crate) fn run_by_git(copy: &WorkspaceCopy, changes: &FileChanges) -> Result<Vec<String>, Error> {
    let by_path: BTreeMap<&str, &FileChange> =
        changes.list.iter().map(|change| (change.path.as_str(), change)).collect();
    let mut found: Vec<&str> = Vec::new();
    for change in changes.list.iter().filter(|change| change.after.is_some()) {
        if makes_repository(&change.path, &by_path) || adds_command(copy, change)? {
            found.push(&change.path);
        }
    }
    let is_found = |path: &str| found.iter().any(|above| Path::new(path).starts_with(above));
    Ok(changes.list.iter().map(|change| &change.path).filter(|path| is_found(path)).cloned().collect())
}

/// Checks whether a change adds a command to a list. A change that cannot be compared is treated as if it did.
fn adds_command(copy: &WorkspaceCopy, change: &FileChange) -> Result<bool, Error> {
    let [before, after] = [&change.before, &change.after].map(|node| node.as_ref().map(|node| &node.kind));
    if !is_list(&change.path) || before == after {
        return Ok(false);
    }
    let Some(difference) = copy.diff(change)? else { return Ok(true) };
    Ok(difference.lines().filter_map(|line| line.strip_prefix('+')).any(is_command))
}

/// Checks whether a change makes a directory a repository, or changes settings that Git obeys in one. Within `.git`, the rules decide.
fn makes_repository(path: &str, changes: &BTreeMap<&str, &FileChange>) -> bool {
    path.match_indices('/').any(|(at, _)| {
        let (directory, beneath) =
            (path.get(..at).unwrap_or_default(), path.get(at + 1..).unwrap_or_default());
        let name = beneath.split('/').next().unwrap_or_default();
        let is_setting = SETTINGS.contains(&name);
        let is_part = RepositoryDetector::NAMES.contains(&name) && name == beneath;
        if !is_setting && !is_part || directory.split('/').any(|name| name == ".git") {
            return false;
        }
        let shape = |is_there: &dyn Fn(&str) -> bool| {
            let mut shape = RepositoryDetector::default();
            let names =
                RepositoryDetector::NAMES.into_iter().filter(|name| is_there(&format!("{directory}/{name}")));
            names.for_each(|name| shape.note_name(name.as_ref()));
            shape.is_repository()
        };
        let on_disk = |path: &str| fs::symlink_metadata(path).is_ok();
        let before = |path: &str| changes.get(path).map_or_else(|| on_disk(path), |it| it.before.is_some());
        let after = |path: &str| changes.get(path).map_or_else(|| on_disk(path), |it| it.after.is_some());
        shape(&after) && (is_setting || !shape(&before))
    })
}
