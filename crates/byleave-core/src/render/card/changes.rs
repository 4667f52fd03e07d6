//! The changes on a card: a line for each file and the lines that differ, folded so that a person can take them in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::effect::is_at_or_beneath;
use crate::escape::EscapeLevel;
use crate::file_change::{FileChange, FileChangeKind, FileChanges, FileNodeKind, GitStatus};
use crate::render::line::LineRole;
use crate::render::value::GUTTER;
use crate::render::writer::{RenderingBuilder, format_count};

use super::repository;

/// The number of changed files up to which each has a line.
const FILES_MAX: usize = 12;
/// The number of files that have a line if there are more.
const FILES_SHOWN: usize = 8;
/// The number of lines of differences on a card.
const DIFF_LINES_MAX: usize = 10;
/// The same if not every file has a line: an example.
const DIFF_LINES_EXAMPLE: usize = 4;
/// The note on a deleted file of which git has no copy.
const NOT_IN_GIT: &str = "not in git";
/// The length of a line of a difference on a card.
const DIFF_CHARS_MAX: usize = 200;

/// What a call changed on the copy, as a card shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardChanges {
    /// The files that have a line.
    pub files: Vec<CardChange>,
    /// What happened in the repository's own directory, in a line each. Escaped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repository: Vec<String>,
    /// The number of files without a line, by kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
    /// The number of all changed files outside of the repository's own directory.
    pub files_total: usize,
    /// The number of added lines in all of them.
    #[serde(default)]
    pub added: usize,
    /// The number of removed lines in all of them.
    #[serde(default)]
    pub removed: usize,
}

/// One changed file on a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardChange {
    /// The kind: `A` added, `M` modified, `D` deleted, `R` renamed, `T` only its mode or time.
    pub mark: char,
    /// The path, relative to the workspace if it lies in it. Escaped.
    pub path: String,
    /// The number of added lines.
    pub added: usize,
    /// The number of removed lines.
    pub removed: usize,
    /// What else matters about it: a new mode, a link, its old name. Escaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The lines that differ, with their sign. Escaped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diff: Vec<String>,
    /// The number of differing lines that are not in `diff`.
    #[serde(default)]
    pub folded_lines: usize,
}

impl CardChanges {
    /// Checks whether there are none.
    pub(in crate::render) const fn is_empty(&self) -> bool {
        self.files_total == 0 && self.repository.is_empty()
    }

    /// Returns the changes in a few words.
    pub(in crate::render) fn one_line(&self) -> String {
        match self.files.as_slice() {
            [] => self.repository.first().cloned().unwrap_or_default(),
            [only] if self.more.is_none() => format!("{} {}{}", only.mark, only.path, only.counts()),
            _ => format!(
                "{}{}",
                format_count(self.files_total, "file", "files"),
                line_counts(self.added, self.removed)
            ),
        }
    }

    /// Writes the changes. `is_named` says that the headline names the only changed file and its numbers.
    pub(in crate::render) fn write(&self, page: &mut RenderingBuilder, is_named: bool) {
        for file in &self.files {
            let note = file.note.as_deref().map(|note| format!("  {note}")).unwrap_or_default();
            if !is_named || file.note.is_some() {
                let line = format!("{} {}{}{note}", file.mark, file.path, file.counts());
                page.push_line(LineRole::Effect, "  ", &line);
            }
            for line in &file.diff {
                page.push_line(LineRole::Change, GUTTER, &format!("┃ {line}"));
            }
            if file.folded_lines > 0 {
                let more = format_count(file.folded_lines, "more line", "more lines");
                page.push_line(LineRole::Content, GUTTER, &format!("… {more}"));
            }
        }
        if let Some(more) = &self.more {
            page.push_line(LineRole::Outcome, "  ", more);
        }
        for line in &self.repository {
            page.push_line(LineRole::Effect, "  ", line);
        }
    }
}

impl CardChange {
    pub(in crate::render) fn counts(&self) -> String {
        line_counts(self.added, self.removed)
    }
}

/// Formats the numbers of added and removed lines, each if there are some.
fn line_counts(added: usize, removed: usize) -> String {
    let added = if added > 0 { format!(" +{added}") } else { String::new() };
    let removed = if removed > 0 { format!(" −{removed}") } else { String::new() };
    added + &removed
}

/// Returns a path for a person: relative to the workspace if it lies in it, and in quotes if it is not a plain word.
pub(in crate::render) fn relative(page: &mut RenderingBuilder, path: &str, cwd: &str) -> String {
    let inner = match path.strip_prefix(cwd.trim_end_matches('/')) {
        Some(rest) if is_at_or_beneath(path, cwd) => rest.trim_start_matches('/'),
        _ => path,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/@+-~=,%".contains(c);
    if !inner.is_empty() && inner.chars().all(is_plain) && !inner.starts_with(['-', '+']) {
        inner.to_owned()
    } else {
        page.quote(inner)
    }
}

/// Folds the changes. `must_list` says which paths always have a line.
pub(in crate::render) fn changes(
    page: &mut RenderingBuilder,
    changes: &FileChanges,
    cwd: &str,
    must_list: &dyn Fn(&str) -> bool,
) -> CardChanges {
    let never_folded = |change: &FileChange| {
        must_list(&change.path)
            || !is_at_or_beneath(&change.path, cwd)
            || change.special_reason().is_some()
            || change.git_status == GitStatus::Repository
            || !change.is_plain(cwd)
    };
    let (git, rest): (Vec<&FileChange>, Vec<&FileChange>) = changes
        .list
        .iter()
        .partition(|change| repository::is_bookkeeping(change) && !must_list(&change.path));
    let renamed_from: BTreeMap<&str, &str> =
        changes.renames.iter().map(|rename| (rename.to.as_str(), rename.from.as_str())).collect();
    let is_old_name = |change: &FileChange| changes.renames.iter().any(|rename| rename.from == change.path);
    // Directories are said by what is in them, times by nothing.
    let is_said = |change: &&&FileChange| {
        !is_old_name(change)
            && (never_folded(change) || !is_only_time(change) && !is_filled_directory(change, &rest))
    };
    let said: Vec<&&FileChange> = rest.iter().filter(is_said).collect();
    let many = said.len() > FILES_MAX;
    let mut left = if many { DIFF_LINES_EXAMPLE } else { DIFF_LINES_MAX };
    let (mut files, mut folded) = (Vec::new(), Vec::new());
    for change in &said {
        if many && files.len() >= FILES_SHOWN && !never_folded(change) {
            folded.push(**change);
            continue;
        }
        let from = renamed_from.get(change.path.as_str()).copied();
        files.push(one(page, change, cwd, from, &mut left));
    }
    let is_lost = |change: &&&&FileChange| {
        change.kind() == FileChangeKind::Deleted && change.git_status == GitStatus::Untracked
    };
    let lost = said.iter().filter(is_lost).count();
    if many && lost > 0 {
        // Said once below instead of for each file.
        files
            .iter_mut()
            .filter(|file| file.note.as_deref() == Some(NOT_IN_GIT))
            .for_each(|file| file.note = None);
    }
    let diffs = || said.iter().filter_map(|change| change.diff.as_deref());
    CardChanges {
        more: (!folded.is_empty()).then(|| count_kinds(&folded, lost)),
        added: diffs().map(|diff| count_lines(diff, '+')).sum(),
        removed: diffs().map(|diff| count_lines(diff, '-')).sum(),
        repository: if git.is_empty() { Vec::new() } else { repository::describe(page, &git) },
        files_total: said.len(),
        files,
    }
}

/// Returns the line of one file, with as many lines of its difference as are left.
fn one(
    page: &mut RenderingBuilder,
    change: &FileChange,
    cwd: &str,
    from: Option<&str>,
    left: &mut usize,
) -> CardChange {
    let mark = match change.kind() {
        FileChangeKind::Created if from.is_some() => 'R',
        FileChangeKind::Created => 'A',
        FileChangeKind::Modified => 'M',
        FileChangeKind::MetadataChanged => 'T',
        FileChangeKind::Deleted => 'D',
    };
    // The content of a renamed file is that of before.
    let diff = if from.is_some() { "" } else { change.diff.as_deref().unwrap_or_default() };
    let (added, removed) = (count_lines(diff, '+'), count_lines(diff, '-'));
    // What is gone is one line. Its text is in the details.
    let (shown, folded_lines) = match change.kind() {
        FileChangeKind::Deleted => (Vec::new(), 0),
        _ => excerpt(page, diff, left),
    };
    let path = relative(page, &change.path, cwd);
    let note = note(page, change, cwd, from);
    CardChange { mark, path, added, removed, note, diff: shown, folded_lines }
}

/// Counts the lines of a difference with this sign.
fn count_lines(diff: &str, sign: char) -> usize {
    let is_counted =
        |line: &&str| line.starts_with(sign) && !line.starts_with("+++ ") && !line.starts_with("--- ");
    diff.lines().filter(is_counted).count()
}

/// Returns the first lines that differ, each with the line before it, and the number of differing lines that are left out.
fn excerpt(page: &mut RenderingBuilder, diff: &str, left: &mut usize) -> (Vec<String>, usize) {
    let (mut lines, mut folded) = (Vec::new(), 0);
    for line in diff.lines().filter(|line| line.starts_with(['+', '-'])) {
        if *left == 0 {
            folded += 1;
            continue;
        }
        *left -= 1;
        let cut: String = line.chars().take(DIFF_CHARS_MAX).collect();
        let more = if cut.len() < line.len() { "…" } else { "" };
        lines.push(format!("{}{more}", page.escape(&cut, EscapeLevel::Text)));
    }
    // Without a line of the difference, the numbers beside the path say enough.
    let folded = if lines.is_empty() { 0 } else { folded };
    (lines, folded)
}

/// Returns what else matters about a change.
fn note(page: &mut RenderingBuilder, change: &FileChange, cwd: &str, from: Option<&str>) -> Option<String> {
    let mut notes = Vec::new();
    if let Some(from) = from {
        notes.push(format!("from {}", relative(page, from, cwd)));
    }
    if let Some(reason) = change.special_reason() {
        notes.push(page.escape(&reason, EscapeLevel::Text));
    }
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    match after.map(|node| &node.kind) {
        Some(FileNodeKind::Link { target }) => notes.push(format!("link to {}", page.quote(target))),
        Some(FileNodeKind::Directory) if change.kind() == FileChangeKind::Created => {
            notes.push("directory".to_owned());
        }
        Some(FileNodeKind::File { size, .. })
            if change.diff.is_none()
                && from.is_none()
                && change.kind() != FileChangeKind::MetadataChanged =>
        {
            // Not text, or too long.
            let size = usize::try_from(*size).unwrap_or(usize::MAX);
            notes.push(format!("{}, not compared as text", format_count(size, "byte", "bytes")));
        }
        _ => {}
    }
    let is_file = after.is_some_and(|node| matches!(node.kind, FileNodeKind::File { .. }));
    match (before, after) {
        (Some(before), Some(after)) if is_file && before.mode != after.mode => {
            notes.push(format!("mode {:o} → {:o}", before.mode, after.mode));
        }
        (None, Some(after)) if is_file && after.mode & 0o111 != 0 => notes.push("executable".to_owned()),
        _ => {}
    }
    if change.git_status == GitStatus::Untracked && matches!(change.kind(), FileChangeKind::Deleted) {
        notes.push(NOT_IN_GIT.to_owned());
    }
    (!notes.is_empty()).then(|| notes.join(", "))
}

/// Checks whether only the time is different.
fn is_only_time(change: &FileChange) -> bool {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => before.kind == after.kind && before.mode == after.mode,
        _ => false,
    }
}

/// Checks whether a change is a directory whose contents are listed, too.
fn is_filled_directory(change: &FileChange, all: &[&FileChange]) -> bool {
    let node = change.after.as_ref().or(change.before.as_ref());
    node.is_some_and(|node| node.kind == FileNodeKind::Directory)
        && all.iter().any(|other| other.path != change.path && is_at_or_beneath(&other.path, &change.path))
}

/// Says how many files have no line, by kind, and how many of all are lost but for the before-images.
fn count_kinds(folded: &[&FileChange], lost: usize) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for change in folded {
        *counts.entry(change.kind().as_str()).or_default() += 1;
    }
    let words: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let kinds = match words.as_slice() {
        [_] if counts.contains_key(FileChangeKind::Modified.as_str()) => String::new(),
        _ => format!(": {}", words.join(", ")),
    };
    let lost = if lost > 0 { format!("; {lost} {NOT_IN_GIT}") } else { String::new() };
    format!("… {}{kinds}{lost}", format_count(folded.len(), "more file", "more files"))
}
