//! Recognises repositories that a command made, and in which nothing is set that Git would run: what `git init`, `git clone` and
//! `cargo new` leave. The rules deny every write to the settings of a repository. In one that did not exist there was nothing to protect,
//! so of such a repository only `HEAD` is judged.

use byleave_copy::{Error, WorkspaceCopy};
use byleave_gate::core::file_change::{FileChange, FileChanges, FileNode, FileNodeKind};
use byleave_gate::core::git_settings::is_plain_new;

/// Returns the `.git` directories that a command made, and in which nothing is set that Git would run.
pub(crate) fn new_repositories(copy: &WorkspaceCopy, changes: &FileChanges) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for made in
        changes.list.iter().filter(|change| is_new_directory(change) && change.path.ends_with("/.git"))
    {
        let beneath = format!("{}/", made.path);
        let head = format!("{beneath}HEAD");
        let mut is_plain = changes.list.iter().any(|change| change.path == head);
        for change in &changes.list {
            if let Some(inside) = change.path.strip_prefix(&beneath) {
                is_plain = is_plain && runs_nothing(copy, change, inside)?;
            }
        }
        if is_plain {
            found.push(made.path.clone());
        }
    }
    Ok(found)
}

fn is_new_directory(change: &FileChange) -> bool {
    change.before.is_none() && kind(change.after.as_ref()) == Some(&FileNodeKind::Directory)
}

fn kind(node: Option<&FileNode>) -> Option<&FileNodeKind> {
    node.map(|node| &node.kind)
}

/// Checks whether a new entry of a repository runs nothing.
fn runs_nothing(copy: &WorkspaceCopy, change: &FileChange, inside: &str) -> Result<bool, Error> {
    let is_file = match kind(change.after.as_ref()) {
        Some(FileNodeKind::Directory) => false,
        Some(FileNodeKind::File { .. }) => true,
        Some(FileNodeKind::Link { .. } | FileNodeKind::Special { .. }) | None => return Ok(false),
    };
    if inside == "config" {
        let texts = copy.texts(change)?;
        return Ok(is_file && texts.is_some_and(|(_, text)| is_plain_new(&text)));
    }
    let (first, rest) = inside.split_once('/').map_or((inside, None), |(first, rest)| (first, Some(rest)));
    Ok(match (first, rest) {
        ("config.worktree" | "commondir" | "gitdir" | "modules" | "worktrees", _) => false,
        // Only names without an ending are hooks.
        ("hooks", Some(name)) => is_file && name.ends_with(".sample"),
        ("info", Some(name)) => is_file && ["exclude", "refs"].contains(&name),
        ("objects", Some(name)) => !name.starts_with("info/") || !is_file || !name.contains("alternates"),
        ("remotes" | "branches", Some(_)) => false,
        _ => true,
    })
}
