//! Recognises working trees that `git worktree add` made. Three files of each lead from one to the other: `.git` in the working tree, and
//! `gitdir` and `commondir` in the directory of the repository. Rules guard such files, because they lead git to other settings. If they lead
//! back to the repository that they belong to, nothing else can be meant.

use std::collections::BTreeMap;

use byleave_copy::Error;
use byleave_gate::core::file_change::{FileChange, FileChanges, FileNodeKind};
use byleave_gate::core::rehearsal::NewWorktree;

/// The text of `commondir` that leads to the repository above `worktrees/NAME`.
const COMMON: &str = "../..\n";

/// Returns the working trees that did not exist before, and that lead to their own repository. `text` returns the new content of a file.
pub(crate) fn new_worktrees(
    changes: &FileChanges,
    text: impl Fn(&FileChange) -> Result<Option<String>, Error>,
) -> Result<Vec<NewWorktree>, Error> {
    let by_path: BTreeMap<&str, &FileChange> =
        changes.list.iter().map(|change| (change.path.as_str(), change)).collect();
    let new_text = |path: &str| -> Result<Option<String>, Error> {
        match by_path.get(path) {
            Some(change) if is_new_file(change) => text(change),
            _ => Ok(None),
        }
    };
    let mut found = Vec::new();
    for made in changes.list.iter().filter(|change| change.is_new_directory()) {
        let Some((repository, name)) = made.path.rsplit_once("/worktrees/") else { continue };
        let is_repository = repository.ends_with("/.git") || repository.contains("/.git/modules/");
        if !is_repository || name.contains('/') {
            continue;
        }
        let (common, back) = (format!("{}/commondir", made.path), format!("{}/gitdir", made.path));
        if new_text(&common)?.as_deref() != Some(COMMON) {
            continue;
        }
        let Some(link) = new_text(&back)?.and_then(|text| Some(text.strip_suffix('\n')?.to_owned())) else {
            continue;
        };
        let leads_back = new_text(&link)?.is_some_and(|text| text == format!("gitdir: {}\n", made.path));
        if link.ends_with("/.git") && leads_back {
            found.push(NewWorktree { repository: repository.to_owned(), files: vec![common, back, link] });
        }
    }
    Ok(found)
}

fn is_new_file(change: &FileChange) -> bool {
    let is_file = |kind: &FileNodeKind| matches!(kind, FileNodeKind::File { .. });
    change.before.is_none() && change.after.as_ref().is_some_and(|node| is_file(&node.kind))
}
