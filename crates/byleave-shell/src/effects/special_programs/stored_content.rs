//! The reader for what Git prints of its object store. It looks at the words as they are written, and not at the options of the manual:
//! an abbreviated or unknown option counts too, and too much is said rather than too little.

use byleave_core::effect::Effect;

use super::super::command_analyzer::CommandAnalyzer;
use crate::commands::WorkingDir;
use crate::repository::{STASHED_CONTENT, STORED_CONTENT};
use crate::word::Word;

/// The commands that print or pack contents in any case.
const PRINTERS: [&str; 6] = ["format-patch", "archive", "fast-export", "bundle", "unpack-file", "range-diff"];
/// The options with which these commands print contents. A long option may be abbreviated.
const PATCH_LETTERS: [&str; 4] = ["-p", "-c", "-W", "-L"];
const PATCH_OPTIONS: [&str; 13] = [
    "--patch",
    "--patch-with-raw",
    "--patch-with-stat",
    "--unified",
    "--cc",
    "--word-diff",
    "--word-diff-regex",
    "--color-words",
    "--function-context",
    "--remerge-diff",
    "--binary",
    "--diff-merges",
    "--dd",
];
/// The options with which these commands print no contents, if none of the others is given.
const SUMMARY_OPTIONS: [&str; 13] = [
    "-s",
    "-q",
    "--quiet",
    "--no-patch",
    "--stat",
    "--numstat",
    "--shortstat",
    "--dirstat",
    "--summary",
    "--name-only",
    "--name-status",
    "--raw",
    "--check",
];

/// Adds a read of what the repository stores, if the command prints contents whose names its words do not tell: of a commit, of an object
/// by its hash, of everything. The sandbox hides files, and not what was committed of them.
pub(crate) fn add_stored_content(teller: &mut CommandAnalyzer<'_>) {
    let Some(top) = stored_in(teller) else { return };
    let mut subcommands: Vec<&str> = teller.facts.subcommands.iter().map(String::as_str).collect();
    let words: Vec<&str> = teller.command.words.iter().filter_map(Word::as_text).collect();
    if subcommands.is_empty() {
        // Those without a manual.
        subcommands.extend(words.iter().find(|word| PRINTERS.contains(word)));
    }
    let Some(from) = subcommands.first().and_then(|name| words.iter().position(|word| word == name)) else {
        return;
    };
    let words = words.get(from.saturating_add(subcommands.len())..).unwrap_or_default();
    let is_known =
        words.len() == teller.command.words.len().saturating_sub(from.saturating_add(subcommands.len()));
    if !prints_stored_content(&subcommands, words) || is_known && names_its_files(teller, words) {
        return;
    }
    let kind = if may_print_stashed(&subcommands, words) { STASHED_CONTENT } else { STORED_CONTENT };
    teller.add(Effect::Read { path: format!("{top}{kind}") });
}

/// Returns the top of the working tree. Its `.git` may be a file.
fn stored_in(teller: &CommandAnalyzer<'_>) -> Option<String> {
    let WorkingDir::At(start) = &teller.working_dir else { return None };
    let mut directory = start.as_str();
    loop {
        let names = teller.env.list_directory(directory).unwrap_or_default();
        if names.iter().any(|name| name == ".git") || teller.env.is_directory(&format!("{directory}/.git")) {
            return Some(directory.to_owned());
        }
        directory = directory.rsplit_once('/').map(|(above, _)| above).filter(|above| !above.is_empty())?;
    }
}

fn prints_stored_content(subcommands: &[&str], words: &[&str]) -> bool {
    let options = || words.iter().take_while(|word| **word != "--").filter(|word| word.starts_with('-'));
    let is_any = |own: &[&str], word: &str| {
        let name = word.split('=').next().unwrap_or(word);
        own.iter().any(|own| *own == name || own.starts_with(name) && name.len() > 4 && name != "--color")
    };
    let has_patch = || {
        options().any(|word| {
            is_any(&PATCH_OPTIONS, word)
                || PATCH_LETTERS.iter().any(|letter| word == letter)
                || (word.starts_with("-U") || word.starts_with("-L"))
        })
    };
    let is_summary = || options().any(|word| is_any(&SUMMARY_OPTIONS, word));
    match subcommands {
        ["show" | "diff", ..] => has_patch() || !is_summary(),
        ["log" | "whatchanged" | "reflog" | "diff-tree" | "diff-index" | "diff-files", ..] => {
            has_patch() || options().any(|word| *word == "-u")
        }
        ["stash", "show" | "list", ..] => has_patch() || prints_untracked(words),
        [name, ..] if PRINTERS.contains(name) => true,
        ["cat-file", ..] => !options().any(|word| ["-t", "-s", "-e"].contains(word)),
        ["grep", ..] => {
            let operands = words.iter().filter(|word| !word.starts_with('-')).count();
            operands > 1 || options().any(|word| *word == "--cached")
        }
        _ => false,
    }
}

fn prints_untracked(words: &[&str]) -> bool {
    let is_long = |word: &str| {
        word.len() > 5 && ["--include-untracked", "--only-untracked"].iter().any(|own| own.starts_with(word))
    };
    words.iter().any(|word| *word == "-u" || is_long(word))
}

/// Checks whether it may print files that were stashed and never tracked: the third parent of a stash, or any object.
fn may_print_stashed(subcommands: &[&str], words: &[&str]) -> bool {
    let names_any = |word: &&str| {
        word.contains("^3")
            || ["--all", "--reflog", "-g", "--walk-reflogs", "--batch-all-objects", "--glob"]
                .iter()
                .any(|own| word.starts_with(own))
    };
    match subcommands {
        ["stash", ..] => prints_untracked(words),
        ["cat-file", ..] => true,
        ["show" | "diff", ..] => words.iter().any(|word| names_any(word) || is_hash(word)),
        _ => words.iter().any(names_any),
    }
}

fn is_hash(word: &str) -> bool {
    word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Checks whether the words name each file that it prints: as `HEAD:a.rs`, or as files that are there.
fn names_its_files(teller: &CommandAnalyzer<'_>, words: &[&str]) -> bool {
    let WorkingDir::At(directory) = &teller.working_dir else { return false };
    let mut paths = 0_usize;
    let mut revisions = 0_usize;
    let mut is_path = false;
    for word in words {
        if *word == "--" {
            is_path = true;
            continue;
        }
        if !is_path && word.starts_with('-') {
            continue;
        }
        if !is_path
            && !word.starts_with(':')
            && word.split_once(':').is_some_and(|(_, path)| !path.is_empty())
        {
            paths = paths.saturating_add(1);
            continue;
        }
        let (above, name) = word.rsplit_once('/').unwrap_or((".", word));
        let listed = teller.env.resolve(directory, above).and_then(|above| teller.env.list_directory(&above));
        let is_there = listed.is_some_and(|names| names.iter().any(|own| own == name));
        let is_directory =
            teller.env.resolve(directory, word).is_none_or(|path| teller.env.is_directory(&path));
        match is_there {
            true if is_directory => return false,
            true => paths = paths.saturating_add(1),
            // A pattern, or a directory that only a commit has.
            false if is_path => return false,
            false => revisions = revisions.saturating_add(1),
        }
    }
    // `HEAD:a.rs HEAD` prints the whole commit, too.
    let has_blobs = words.iter().any(|word| !word.starts_with([':', '-']) && word.contains(':'));
    paths > 0 && (revisions == 0 || !has_blobs)
}
