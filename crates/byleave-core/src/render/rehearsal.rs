//! Renders the real effects of a call on a copy: every path, and the differences of the texts.
//!
//! A directory that is completely new or removed is one line with a summary of its contents. Beyond a limit the texts are not shown one by
//! one. Then a line says where to find them. No path is ever left out without being counted.

use std::collections::BTreeMap;

use crate::escape::EscapeLevel;
use crate::file_change::{FileChange, FileChangeKind, FileChanges, FileNodeKind, GitStatus};
use crate::question_view::{QuestionView, RehearsalView};
use crate::rehearsal::Rehearsal;

use super::line::LineRole;
use super::value::{self, GUTTER};
use super::writer::{RenderingBuilder, WARNING_GUTTER, format_count};

/// The number of entries above which a completely new or removed directory is one line.
const FOLD_MIN: usize = 12;
/// The maximum number of diff lines in total.
const DIFF_LINES_MAX: usize = 20_000;

/// Writes the result of the rehearsal, or why there is none.
pub(super) fn write_rehearsal(page: &mut RenderingBuilder, sheet: &QuestionView) {
    match &sheet.seen {
        None => {}
        Some(RehearsalView::Not { why }) => {
            page.push_heading(
                LineRole::Heading,
                "What it really does is not known: it was not run on a copy",
            );
            value::write_text(page, LineRole::Effect, why);
        }
        Some(RehearsalView::Ran { rehearsal, ruling }) => {
            page.push_heading(LineRole::Heading, "What it really did, on a copy");
            write_run(page, rehearsal, sheet);
            if let Some(ruling) = ruling {
                for reason in ruling.reasons.iter().filter(|reason| !reason.why.is_empty()) {
                    let why = page.quote(&reason.why);
                    let word = reason.verdict.as_str();
                    page.push_line(
                        LineRole::Reason,
                        "  ",
                        &format!("the rules on what it did: {word}, {why}"),
                    );
                }
            }
        }
    }
}

fn write_run(page: &mut RenderingBuilder, rehearsal: &Rehearsal, sheet: &QuestionView) {
    page.push_line(LineRole::Effect, "  ", &summarize_changes(&rehearsal.changes));
    if rehearsal.scratch > 0 {
        let files = usize::try_from(rehearsal.scratch).unwrap_or(usize::MAX);
        let files = format_count(files, "file", "files");
        page.push_line(LineRole::Effect, "  ", &format!("{files} in scratch, which is the session's own"));
    }
    for want in &rehearsal.wanted {
        let host = match &want.host {
            Some(host) => page.quote(host),
            None => "an address".to_owned(),
        };
        let port = if want.port == 0 { String::new() } else { format!(", port {}", want.port) };
        page.push_line(
            LineRole::Warning,
            WARNING_GUTTER,
            &format!("wanted the network: {host}{port}; it had none"),
        );
    }
    if rehearsal.left_running > 0 {
        page.push_line(
            LineRole::Warning,
            WARNING_GUTTER,
            "left something running in the background, which was ended",
        );
    }
    let limits = rehearsal.changes.limits.iter().map(|limit| ("differs from a run without a copy", limit));
    let weaker =
        rehearsal.weaker.iter().map(|weaker| ("was confined less than a rehearsal should be", weaker));
    for (what, why) in limits.chain(weaker) {
        let why = page.quote(why);
        page.push_line(LineRole::Warning, WARNING_GUTTER, &format!("{what}: {why}"));
    }
    write_changes(page, &rehearsal.changes);
    page.push_line(
        LineRole::Content,
        "  ",
        &format!("it printed {}", value::measure(&rehearsal.output.text)),
    );
    value::write_text(page, LineRole::Content, &rehearsal.output.text);
    if let Some(error) = &rehearsal.output.error {
        let error = page.quote(error);
        page.push_line(LineRole::Warning, WARNING_GUTTER, &format!("it failed: {error}"));
    }
    let yes = if rehearsal.is_committable() {
        format!(
            "a yes makes exactly this final and runs nothing again; `byleave undo {}` takes it back",
            sheet.call
        )
    } else {
        "a yes runs it again, on another copy, with these hosts alone, and makes final what it changes then; what it does \
         over the network cannot be undone"
            .to_owned()
    };
    page.push_line(LineRole::Effect, "  ", &yes);
}

/// Returns the changes in one line: the number of each kind, and how many exist only on the disk.
pub fn summarize_changes(changes: &FileChanges) -> String {
    if changes.is_empty() {
        return "changed nothing".to_owned();
    }
    let mut by_what: BTreeMap<FileChangeKind, usize> = BTreeMap::new();
    let mut lost = 0;
    for change in &changes.list {
        *by_what.entry(change.kind()).or_default() += 1;
        let is_file =
            matches!(change.before.as_ref().map(|node| &node.kind), Some(FileNodeKind::File { .. }));
        let is_gone = matches!(change.kind(), FileChangeKind::Deleted | FileChangeKind::Modified) && is_file;
        lost += usize::from(is_gone && change.standing == GitStatus::Untracked);
    }
    let mut words: Vec<String> = by_what.iter().map(|(what, count)| format!("{count} {what}")).collect();
    if !changes.renames.is_empty() {
        words.push(format!("{} of them renamed", changes.renames.len()));
    }
    if lost > 0 {
        words.push(format!("{lost} that no repository has"));
    }
    words.join(", ")
}

fn write_changes(page: &mut RenderingBuilder, changes: &FileChanges) {
    let from: BTreeMap<&str, &str> =
        changes.renames.iter().map(|rename| (rename.to.as_str(), rename.from.as_str())).collect();
    let gone: BTreeMap<&str, &str> =
        changes.renames.iter().map(|rename| (rename.from.as_str(), rename.to.as_str())).collect();
    let (mut lines, mut unshown) = (0, 0);
    let mut rest = changes.list.as_slice();
    while let Some((change, after)) = rest.split_first() {
        if !page.is_open() {
            return;
        }
        let beneath = after.iter().take_while(|inner| is_beneath(&inner.path, &change.path)).count();
        let whole = is_directory(change)
            && matches!(change.kind(), FileChangeKind::Created | FileChangeKind::Deleted);
        if whole && beneath > FOLD_MIN {
            let inner = after.get(..beneath).unwrap_or_default();
            write_collapsed_dir(page, change, inner);
            rest = after.get(beneath..).unwrap_or_default();
            continue;
        }
        rest = after;
        let path = page.quote(&change.path);
        let what = match (from.get(change.path.as_str()), gone.get(change.path.as_str())) {
            (Some(from), _) => format!("renamed from {}", page.quote(from)),
            (_, Some(to)) => format!("renamed to {}", page.quote(to)),
            _ => change.kind().to_string(),
        };
        page.push_line(LineRole::Effect, "  ", &format!("{what}  {path}  {}", describe_change(change)));
        let Some(diff) = &change.diff else { continue };
        let count = diff.lines().count();
        if lines + count > DIFF_LINES_MAX {
            unshown += 1;
            continue;
        }
        lines += count;
        for line in diff.lines() {
            let shown = page.escape(line, EscapeLevel::Text);
            page.push_line(LineRole::Change, GUTTER, &format!("┃ {shown}"));
        }
    }
    if unshown > 0 {
        let texts = format_count(unshown, "text is", "texts are");
        page.push_line(
            LineRole::Warning,
            WARNING_GUTTER,
            &format!("{texts} too long to be compared here; `byleave diff` shows them"),
        );
    }
}

/// Writes one line for a directory that is new or removed with everything in it.
fn write_collapsed_dir(page: &mut RenderingBuilder, directory: &FileChange, inner: &[FileChange]) {
    let path = page.quote(&directory.path);
    let node =
        |change: &FileChange| change.after.as_ref().or(change.before.as_ref()).map(|node| node.kind.clone());
    let bytes: u64 = inner
        .iter()
        .filter_map(|change| match node(change)? {
            FileNodeKind::File { size, .. } => Some(size),
            _ => None,
        })
        .sum();
    let untracked = inner.iter().filter(|change| change.standing == GitStatus::Untracked).count();
    let tracked = inner.iter().filter(|change| change.standing == GitStatus::Tracked).count();
    let things = format_count(inner.len(), "thing", "things");
    page.push_line(
        LineRole::Effect,
        "  ",
        &format!(
            "{}  {path}  with all in it: {things}, {bytes} bytes, {tracked} tracked, {untracked} that no repository has",
            directory.kind()
        ),
    );
}

fn is_beneath(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

fn is_directory(change: &FileChange) -> bool {
    let node = change.after.as_ref().or(change.before.as_ref());
    node.is_some_and(|node| node.kind == FileNodeKind::Directory)
}

/// Returns the state before and after, and the git status.
fn describe_change(change: &FileChange) -> String {
    let node = |kind: &FileNodeKind| match kind {
        FileNodeKind::File { size, .. } => format!("{size} bytes"),
        FileNodeKind::Directory => "directory".to_owned(),
        FileNodeKind::Link { .. } => "link".to_owned(),
        FileNodeKind::Special { what } => what.escape_default().to_string(),
    };
    let mut words = match (&change.before, &change.after) {
        (Some(before), Some(after)) if before.kind == after.kind && before.mode != after.mode => {
            vec![format!("mode {:o} → {:o}", before.mode, after.mode)]
        }
        (Some(before), Some(after)) if before.kind == after.kind => {
            let time = if before.modified == after.modified { "" } else { ", its time" };
            vec![format!("{}{time}", node(&after.kind))]
        }
        (Some(before), Some(after)) => {
            let mut words = vec![format!("{} → {}", node(&before.kind), node(&after.kind))];
            if before.mode != after.mode {
                words.push(format!("mode {:o} → {:o}", before.mode, after.mode));
            }
            words
        }
        (None, Some(one)) | (Some(one), None) => vec![node(&one.kind)],
        (None, None) => Vec::new(),
    };
    let executable = |node: &Option<crate::file_change::FileNode>| {
        node.as_ref()
            .is_some_and(|node| matches!(node.kind, FileNodeKind::File { .. }) && node.mode & 0o111 != 0)
    };
    if change.before.is_none() && executable(&change.after) {
        words.push("can be run".to_owned());
    }
    words.push(
        match change.standing {
            GitStatus::Tracked => "tracked",
            GitStatus::Untracked => "untracked",
            GitStatus::Ignored => "ignored",
            GitStatus::Repository => "of the repository itself",
        }
        .to_owned(),
    );
    words.join(", ")
}
