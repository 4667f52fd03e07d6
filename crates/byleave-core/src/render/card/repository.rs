//! What a call did to a git repository, from the log that git keeps: `1 commit on main: “wip”`.

use std::path::Path;

use crate::escape::EscapeLevel;
use crate::file_change::{FileChange, GitStatus};
use crate::render::writer::{RenderingBuilder, format_count};

/// The maximum number of entries of git's log on a card.
const ENTRIES_MAX: usize = 3;

/// Checks whether a change is git's own bookkeeping: objects, the index, references and their logs. Everything else in a repository, such as
/// hooks and settings, is never folded.
pub(super) fn is_bookkeeping(change: &FileChange) -> bool {
    if change.git_status != GitStatus::Repository
        || change.unexpected_in_git_dir().is_some()
        || change.special_reason().is_some()
    {
        return false;
    }
    let Some((_, inner)) = change.path.rsplit_once("/.git/") else {
        return change.path.ends_with("/.git");
    };
    const FILES: [&str; 9] = [
        "index",
        "HEAD",
        "ORIG_HEAD",
        "FETCH_HEAD",
        "COMMIT_EDITMSG",
        "packed-refs",
        "MERGE_HEAD",
        "MERGE_MSG",
        "MERGE_MODE",
    ];
    const DIRS: [&str; 3] = ["objects", "refs", "logs"];
    let first = inner.split('/').next().unwrap_or_default();
    // References of the kind `refs/replace` change what every other name means.
    let is_quiet = !inner.starts_with("refs/replace") && !inner.starts_with("objects/info");
    FILES.contains(&inner) || DIRS.contains(&first) && is_quiet
}

/// Says in a line each what the folded changes mean.
pub(super) fn describe(page: &mut RenderingBuilder, folded: &[&FileChange]) -> Vec<String> {
    let log = folded.iter().find(|change| change.path.ends_with("/.git/logs/HEAD"));
    let branch = folded.iter().find_map(|change| {
        let (_, name) = change.path.split_once("/.git/logs/refs/heads/")?;
        change.diff.is_some().then(|| name.to_owned())
    });
    let entries: Vec<String> = log.and_then(|log| log.diff.as_deref()).map(entries).unwrap_or_default();
    if entries.is_empty() {
        let is_index = |change: &&FileChange| Path::new(&change.path).ends_with(".git/index");
        let staged = folded.iter().any(is_index);
        return vec![match staged {
            true => "staged changes".to_owned(),
            false => format!("{} of git's own", format_count(folded.len(), "file", "files")),
        }];
    }
    let on = branch.map(|name| format!(" on {}", page.escape(&name, EscapeLevel::Name))).unwrap_or_default();
    let mut lines: Vec<String> = entries
        .iter()
        .take(ENTRIES_MAX)
        .map(|entry| match entry.split_once(": ") {
            Some(("commit" | "commit (initial)", title)) => format!("1 commit{on}: {}", page.quote(title)),
            Some(("commit (amend)", title)) => format!("amended commit{on}: {}", page.quote(title)),
            _ => {
                let entry = page.quote(entry);
                format!("git{on}: {entry}")
            }
        })
        .collect();
    if entries.len() > ENTRIES_MAX {
        lines.push(format!(
            "… {}",
            format_count(entries.len() - ENTRIES_MAX, "more step of git", "more steps of git")
        ));
    }
    lines
}

/// Returns what the added lines of a log of git say: the text after the tab.
fn entries(diff: &str) -> Vec<String> {
    let added = diff.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++"));
    added.filter_map(|line| line.split_once('\t')).map(|(_, said)| said.to_owned()).collect()
}
