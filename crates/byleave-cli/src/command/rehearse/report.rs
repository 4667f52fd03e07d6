//! Shows a rehearsal: its output, its changes and its warnings.

use std::path::Path;
use std::time::Duration;

use byleave_gate::core::file_change::{FileChange, FileChangeKind, FileChanges, FileNodeKind, GitStatus};
use byleave_gate::core::rehearsal::Rehearsal;
use byleave_gate::core::render::summarize_changes;

use crate::call_display::relative;
use crate::console::{ChangeColor, Console, Tone, many_lines, one_line};

/// The number of path lines above which directories are counted instead.
const LINES_MAX: usize = 60;
/// The number of output lines that are shown.
const PRINTED_MAX: usize = 40;

/// Shows everything, on one screen if possible.
pub(super) fn show(screen: &mut Console, rehearsal: &Rehearsal, cwd: &Path, took: Duration, with_diff: bool) {
    printed(screen, rehearsal);
    screen.line("");
    let verb = if rehearsal.changes.is_empty() { "It " } else { "It would change files: " };
    let took = format!("  ({:.1} s on a copy)", took.as_secs_f64());
    screen.title(&format!("{verb}{}{took}", summarize_changes(&rehearsal.changes)));
    list(screen, &rehearsal.changes, cwd);
    if rehearsal.scratch_files > 0 {
        screen.line(&format!("  and {} scratch files, such as those in `target`", rehearsal.scratch_files));
    }
    if with_diff {
        differences(screen, &rehearsal.changes, cwd);
    }
    for want in &rehearsal.blocked_hosts {
        let host = want.host.as_deref().map_or_else(|| "an address".to_owned(), one_line);
        let port = if want.port == 0 { String::new() } else { format!(":{}", want.port) };
        screen.message_with_tone(
            Tone::Careful,
            "careful:",
            &format!("the command tried to use the network, and had none: {host}{port}"),
        );
    }
    for lent in &rehearsal.git_transports {
        screen.message_with_tone(Tone::Careful, "careful:", &one_line(&lent.describe()));
    }
    if rehearsal.leftover_processes > 0 {
        screen.message_with_tone(
            Tone::Careful,
            "careful:",
            "the command left something running in the background, which was stopped",
        );
    }
    for limit in rehearsal.changes.caveats.iter().chain(&rehearsal.missing_guarantees) {
        screen.message_with_tone(Tone::Careful, "careful:", &one_line(limit));
    }
    if let Some(error) = &rehearsal.output.error {
        screen.message_with_tone(Tone::Bad, "failed:", &one_line(error));
    }
}

fn printed(screen: &mut Console, rehearsal: &Rehearsal) {
    let lines = many_lines(&rehearsal.output.text);
    let hidden = lines.len().saturating_sub(PRINTED_MAX);
    if hidden > 0 {
        screen.line(&format!("  … {hidden} more lines, printed before these"));
    }
    for line in lines.iter().skip(hidden) {
        screen.line(&format!("  │ {line}"));
    }
}

fn list(screen: &mut Console, changes: &FileChanges, cwd: &Path) {
    let mut rest = changes.list.as_slice();
    let mut shown = 0;
    while let Some((change, after)) = rest.split_first() {
        if shown >= LINES_MAX {
            screen.line(&format!("  … {} more; `byleave diff` shows all of them", rest.len()));
            return;
        }
        shown += 1;
        let inner = after.iter().take_while(|inner| Path::new(&inner.path).starts_with(&change.path)).count();
        let whole = is_directory(change)
            && matches!(change.kind(), FileChangeKind::Created | FileChangeKind::Deleted);
        rest = if whole { after.get(inner..).unwrap_or_default() } else { after };
        if whole && inner > 0 {
            let path = format!("{}/", relative(&change.path, cwd));
            line(screen, change, &path, &format!("with {inner} in it"));
            continue;
        }
        let from = changes.renames.iter().find(|one| one.to == change.path);
        if let Some(rename) = from {
            let path = format!("{} → {}", relative(&rename.from, cwd), relative(&rename.to, cwd));
            screen.coloured(ChangeColor::Moved, "  R  ", &path);
            continue;
        }
        if changes.renames.iter().any(|one| one.from == change.path) {
            shown -= 1;
            continue;
        }
        line(screen, change, &relative(&change.path, cwd), &told(change));
    }
}

fn line(screen: &mut Console, change: &FileChange, path: &str, told: &str) {
    let (colour, sign) = match change.kind() {
        FileChangeKind::Created => (ChangeColor::Made, "  A  "),
        FileChangeKind::Modified => (ChangeColor::Changed, "  M  "),
        FileChangeKind::MetadataChanged => (ChangeColor::Changed, "  m  "),
        FileChangeKind::Deleted => (ChangeColor::Gone, "  D  "),
    };
    screen.coloured(colour, sign, format!("{path:<40}  {told}").trim_end());
}

fn is_directory(change: &FileChange) -> bool {
    let node = change.after.as_ref().or(change.before.as_ref());
    node.is_some_and(|node| node.kind == FileNodeKind::Directory)
}

/// Describes the size of a change, and whether no repository has the old content.
fn told(change: &FileChange) -> String {
    let mut words = Vec::new();
    if let Some(diff) = &change.diff {
        let count = |sign: char| diff.lines().filter(|line| line.starts_with(sign)).count();
        words.push(format!("+{} −{}", count('+'), count('-')));
    } else if let (Some(before), Some(after)) = (&change.before, &change.after)
        && before.mode != after.mode
    {
        words.push(format!("mode {:o} → {:o}", before.mode, after.mode));
    }
    if change.before.is_some() && change.kind() != FileChangeKind::MetadataChanged {
        match change.git_status {
            GitStatus::Untracked => words.push("not in a repository".to_owned()),
            GitStatus::Ignored => words.push("ignored".to_owned()),
            GitStatus::Tracked | GitStatus::Repository => {}
        }
    }
    words.join(", ")
}

/// Prints the diff of every text.
pub(crate) fn differences(screen: &mut Console, changes: &FileChanges, cwd: &Path) {
    for change in &changes.list {
        let path = relative(&change.path, cwd);
        let Some(diff) = &change.diff else { continue };
        screen.title(&format!("{} {path}", change.kind()));
        screen.diff(diff);
    }
}
