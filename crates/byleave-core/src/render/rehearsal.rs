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
    match &sheet.rehearsal {
        None => {}
        Some(RehearsalView::Unavailable { reason: why }) => {
            page.push_heading(LineRole::Heading, "Actual effects not known: the call was not run on a copy");
            value::write_text(page, LineRole::Effect, why);
        }
        Some(RehearsalView::Ran { rehearsal, decision: ruling }) => {
            page.push_heading(
                LineRole::Heading,
                if rehearsal.is_done_by_agent() {
                    "Effects that the change should have: the agent makes it itself"
                } else {
                    "Actual effects, from a run on a copy"
                },
            );
            write_run(page, rehearsal, sheet);
            if let Some(ruling) = ruling {
                for reason in ruling.reasons.iter().filter(|reason| !reason.message.is_empty()) {
                    let why = page.quote(&reason.message);
                    let word = reason.verdict.as_str();
                    page.push_line(
                        LineRole::Reason,
                        "  ",
                        &format!("the policy on these effects: {word}, {why}"),
                    );
                }
            }
        }
    }
}

fn write_run(page: &mut RenderingBuilder, rehearsal: &Rehearsal, sheet: &QuestionView) {
    page.push_line(LineRole::Effect, "  ", &summarize_changes(&rehearsal.changes));
    if rehearsal.scratch_files > 0 {
        let files = usize::try_from(rehearsal.scratch_files).unwrap_or(usize::MAX);
        let files = format_count(files, "file", "files");
        page.push_line(LineRole::Effect, "  ", &format!("{files} in the session's scratch directory"));
    }
    for want in &rehearsal.blocked_hosts {
        let host = match &want.host {
            Some(host) => page.quote(host),
            None => "an address".to_owned(),
        };
        let port = if want.port == 0 { String::new() } else { format!(", port {}", want.port) };
        page.push_line(
            LineRole::Warning,
            WARNING_GUTTER,
            &format!("tried to reach the network: {host}{port}; the copy has no network"),
        );
    }
    for lent in &rehearsal.git_transports {
        let line = page.escape(&lent.describe(), EscapeLevel::Text);
        page.push_line(LineRole::Warning, WARNING_GUTTER, &line);
    }
    for note in rehearsal.git_settings.iter().flat_map(|changed| &changed.notes) {
        let note = page.escape(note, EscapeLevel::Text);
        page.push_line(LineRole::Effect, "  ", &note);
    }
    if rehearsal.leftover_processes > 0 {
        page.push_line(
            LineRole::Warning,
            WARNING_GUTTER,
            "left a process running in the background; it was stopped",
        );
    }
    if let Some(warning) = rehearsal.before_image_room.warning() {
        page.push_line(LineRole::Warning, WARNING_GUTTER, warning);
    }
    let limits = rehearsal.changes.caveats.iter().map(|limit| ("differs from a run without a copy", limit));
    let weaker = rehearsal
        .missing_guarantees
        .iter()
        .map(|weaker| ("had a weaker confinement than a rehearsal should have", weaker));
    for (what, why) in limits.chain(weaker) {
        let why = page.quote(why);
        page.push_line(LineRole::Warning, WARNING_GUTTER, &format!("{what}: {why}"));
    }
    write_changes(page, &rehearsal.changes);
    if rehearsal.is_done_by_agent() {
        let after = format!(
            "after a yes the agent makes the change, and its report is compared with this; `byleave undo {}` undoes it",
            sheet.call
        );
        return page.push_line(LineRole::Effect, "  ", &after);
    }
    page.push_line(LineRole::Content, "  ", &format!("output: {}", value::measure(&rehearsal.output.text)));
    value::write_text(page, LineRole::Content, &rehearsal.output.text);
    if let Some(error) = &rehearsal.output.error {
        let error = page.quote(error);
        page.push_line(LineRole::Warning, WARNING_GUTTER, &format!("failed: {error}"));
    }
    let yes = if rehearsal.is_committable() {
        format!(
            "a yes commits exactly these changes and runs nothing again; `byleave undo {}` undoes them",
            sheet.call
        )
    } else {
        "a yes runs the call again on another copy, with access to these hosts only, and commits the changes; network traffic cannot be undone"
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
        lost += usize::from(is_gone && change.git_status == GitStatus::Untracked);
    }
    let mut words: Vec<String> = by_what.iter().map(|(what, count)| format!("{count} {what}")).collect();
    if !changes.renames.is_empty() {
        words.push(format!("{} of them renamed", changes.renames.len()));
    }
    if lost > 0 {
        words.push(format!("{lost} not in any repository"));
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
            &format!("{texts} too long to compare here; `byleave diff` shows them"),
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
    let untracked = inner.iter().filter(|change| change.git_status == GitStatus::Untracked).count();
    let tracked = inner.iter().filter(|change| change.git_status == GitStatus::Tracked).count();
    let things = format_count(inner.len(), "entry", "entries");
    page.push_line(
        LineRole::Effect,
        "  ",
        &format!(
            "{}  {path}  with its contents: {things}, {bytes} bytes, {tracked} tracked, {untracked} not in any repository",
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
        FileNodeKind::Special { kind: what } => what.escape_default().to_string(),
    };
    let mut words = match (&change.before, &change.after) {
        (Some(before), Some(after)) if before.kind == after.kind && before.mode != after.mode => {
            vec![format!("mode {:o} → {:o}", before.mode, after.mode)]
        }
        (Some(before), Some(after)) if before.kind == after.kind => {
            let time = if before.modified_ns == after.modified_ns { "" } else { ", new modification time" };
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
        words.push("executable".to_owned());
    }
    words.push(
        match change.git_status {
            GitStatus::Tracked => "tracked",
            GitStatus::Untracked => "untracked",
            GitStatus::Ignored => "ignored",
            GitStatus::Repository => "part of the repository itself",
        }
        .to_owned(),
    );
    words.join(", ")
}
