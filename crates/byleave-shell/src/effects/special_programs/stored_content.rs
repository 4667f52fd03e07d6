//! The reader for what Git prints of its object store. It looks at the words as they are written, and not at the options of the manual:
//! an abbreviated or unknown option counts too, and too much is said rather than too little.

use byleave_core::effect::Effect;

use super::super::command_analyzer::CommandAnalyzer;
use crate::commands::WorkingDir;
use crate::repository::{STASHED_CONTENT, STORED_CONTENT};
use crate::word::Word;

/// The sub-commands that print no contents of stored files. Every other one does, also one that has no manual.
const SILENT: [&str; 67] = [
    "apply",
    "bisect",
    "bugreport",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "cherry",
    "cherry-pick",
    "clean",
    "column",
    "commit-graph",
    "commit-tree",
    "count-objects",
    "describe",
    "fetch",
    "gc",
    "hash-object",
    "help",
    "index-pack",
    "init",
    "interpret-trailers",
    "lfs",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "maintenance",
    "merge",
    "merge-base",
    "mktag",
    "mktree",
    "multi-pack-index",
    "mv",
    "name-rev",
    "pack-refs",
    "patch-id",
    "prune",
    "prune-packed",
    "pull",
    "push",
    "read-tree",
    "remote",
    "repack",
    "replace",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "shortlog",
    "show-branch",
    "show-index",
    "show-ref",
    "sparse-checkout",
    "stripspace",
    "submodule",
    "switch",
    "symbolic-ref",
    "update-index",
    "update-ref",
    "update-server-info",
    "var",
    "verify-commit",
    "verify-pack",
    "verify-tag",
    "version",
    "worktree",
    "write-tree",
];
/// The options with which commands of history print contents. A long option may be abbreviated.
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
/// The letters of the same options. Letters of one word may be options each, as in `-wp`.
const PATCH_LETTERS: [char; 6] = ['p', 'u', 'c', 'W', 'U', 'L'];
/// The letters of these commands behind which the rest of a word is a value.
const VALUE_LETTERS: [char; 6] = ['n', 'l', 'S', 'G', 'O', 'X'];
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
/// The options with which commands that stage or restore files show each change before they ask about it.
const INTERACTIVE_OPTIONS: [&str; 3] = ["--patch", "--interactive", "--edit"];

/// Adds a read of what the repository stores, if the command prints contents whose names its words do not tell: of a commit, of an object
/// by its hash, of everything. The sandbox hides files, and not what was committed of them.
pub(crate) fn add_stored_content(teller: &mut CommandAnalyzer<'_>) {
    let Some(top) = stored_in(teller) else { return };
    let mut subcommands: Vec<&str> = teller.facts.subcommands.iter().map(String::as_str).collect();
    let words: Vec<&str> = teller.command.words.iter().filter_map(Word::as_text).collect();
    if subcommands.is_empty() {
        // One without a manual.
        subcommands.extend(teller.canonical_path.get(1).map(String::as_str));
    }
    let Some(name) = subcommands.first() else { return };
    // An alias of a sub-command is another word. Then all words count.
    let from = words.iter().position(|word| word == name).unwrap_or_default();
    let words = words.get(from.saturating_add(subcommands.len())..).unwrap_or_default();
    let is_known =
        words.len() == teller.command.words.len().saturating_sub(from.saturating_add(subcommands.len()));
    if !prints_stored_content(&subcommands, words, is_known) || is_known && names_its_files(teller, words) {
        return;
    }
    let is_any = !is_known || may_print_any_object(teller, &subcommands, words);
    let kind = if is_any { STASHED_CONTENT } else { STORED_CONTENT };
    teller.add(Effect::Read { path: format!("{top}{kind}") });
}

/// Returns the top of the working tree. Its `.git` may be a file.
fn stored_in(teller: &CommandAnalyzer<'_>) -> Option<String> {
    let mut directory = match &teller.working_dir {
        WorkingDir::At(start) => start.as_str(),
        // It may be any directory, so also the one that the session works in.
        WorkingDir::Unknown(_) => teller.env.cwd(),
    };
    loop {
        let names = teller.env.list_directory(directory).unwrap_or_default();
        if names.iter().any(|name| name == ".git") || teller.env.is_directory(&format!("{directory}/.git")) {
            return Some(directory.to_owned());
        }
        directory = directory.rsplit_once('/').map(|(above, _)| above).filter(|above| !above.is_empty())?;
    }
}

/// Checks whether a sub-command prints stored contents. A word that is not known may be an option.
fn prints_stored_content(subcommands: &[&str], words: &[&str], is_known: bool) -> bool {
    let has_patch = || !is_known || has_option(words, &PATCH_OPTIONS, &PATCH_LETTERS, &VALUE_LETTERS);
    let is_summary = || options(words).any(|word| is_long(&SUMMARY_OPTIONS, word));
    let asks_with = |letters, values| has_option(words, &INTERACTIVE_OPTIONS, letters, values);
    let is_verbose = |values| !is_known || has_option(words, &["--verbose"], &['v'], values);
    match subcommands {
        ["show" | "diff", ..] => has_patch() || !is_summary(),
        ["log" | "whatchanged" | "reflog" | "diff-tree" | "diff-index" | "diff-files", ..] => has_patch(),
        ["stash", "show" | "list", ..] => has_patch() || prints_untracked(words),
        ["add" | "stage" | "reset", ..] => asks_with(&['p', 'i', 'e'], &[]),
        ["stash" | "checkout" | "restore", ..] => asks_with(&['p'], &['m', 'b', 'B', 's']),
        // Verbose, they print what is staged.
        ["status", ..] => is_verbose(&['u']),
        ["commit", ..] => {
            let values = &['m', 'C', 'c', 'F', 't', 'S', 'u'];
            is_verbose(values) || asks_with(&['p'], values)
        }
        ["am" | "rebase", ..] => options(words).any(|word| word.starts_with("--sh")),
        ["cat-file", ..] => !is_known || !options(words).any(|word| ["-t", "-s", "-e"].contains(&word)),
        ["grep", ..] => {
            let operands = words.iter().filter(|word| !word.starts_with('-')).count();
            let names_pattern = options(words).any(|word| word.starts_with("-e") || word.starts_with("-f"));
            !is_known
                || operands > usize::from(!names_pattern)
                || options(words).any(|word| word == "--cached")
        }
        // Names may lead to contents, which these print with such a format.
        ["for-each-ref" | "branch" | "tag", ..] => words.iter().any(|word| word.contains("raw")),
        // The content of an object becomes a note, which `git log` prints.
        ["notes", ..] => {
            has_option(words, &["--reuse-message", "--reedit-message"], &['C', 'c'], &['m', 'F'])
        }
        ["rerere", ..] => words.contains(&"diff"),
        // It writes what no name leads to any more into files.
        ["fsck", ..] => options(words).any(|word| word.starts_with("--lo")),
        ["config", ..] => options(words).any(|word| word.starts_with("--bl")),
        // Afterwards the files are there under names that nobody knows yet.
        ["worktree", "add", ..] => true,
        ["clone", ..] => {
            words.iter().any(|word| *word == "." || word.starts_with(['/', '.']) || word.starts_with("file:"))
        }
        [name, ..] => !SILENT.contains(name),
        [] => false,
    }
}

fn options<'a>(words: &'a [&str]) -> impl Iterator<Item = &'a str> {
    words.iter().copied().take_while(|word| *word != "--").filter(|word| word.starts_with('-'))
}

/// Checks whether a word is one of these long options, or may be an abbreviation.
fn is_long(own: &[&str], word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    own.iter().any(|own| *own == name || own.starts_with(name) && name.len() > 3 && name != "--color")
}

/// Checks whether the words have an option with one of these names or letters.
fn has_option(words: &[&str], names: &[&str], letters: &[char], values: &[char]) -> bool {
    options(words).any(|word| {
        let own = word.strip_prefix('-').filter(|own| !own.starts_with('-')).unwrap_or_default();
        let mut own = own.chars().take_while(|letter| !values.contains(letter));
        is_long(names, word) || own.any(|letter| letters.contains(&letter))
    })
}

fn prints_untracked(words: &[&str]) -> bool {
    has_option(words, &["--include-untracked", "--only-untracked"], &['u'], &[])
}

/// Checks whether it may print any object, and not only what is reached from `HEAD`: another name may lead to what was stashed and never
/// tracked.
fn may_print_any_object(teller: &CommandAnalyzer<'_>, subcommands: &[&str], words: &[&str]) -> bool {
    let reaches_all = |word: &str| {
        [
            "--all",
            "--reflog",
            "-g",
            "--walk-reflogs",
            "--batch",
            "--glob",
            "--branches",
            "--tags",
            "--remotes",
            "--stdin",
        ]
        .iter()
        .any(|own| word.starts_with(own))
    };
    let is_pattern_first = subcommands.first() == Some(&"grep")
        && !words.iter().any(|word| word.starts_with("-e") || word.starts_with("-f"));
    let operands = words.iter().take_while(|word| **word != "--").filter(|word| !word.starts_with('-'));
    let mut revisions = operands.skip(usize::from(is_pattern_first)).filter(|word| !is_there(teller, word));
    match subcommands {
        ["stash", ..] => prints_untracked(words),
        ["cat-file", ..] => true,
        _ => options(words).any(reaches_all) || revisions.any(|word| !is_of_head(word)),
    }
}

/// Checks whether a revision or a range is named by `HEAD` alone.
fn is_of_head(word: &str) -> bool {
    word.split("..").all(|end| {
        let end = end.trim_start_matches(['.', '^']);
        let rest = end.strip_prefix("HEAD").or_else(|| end.strip_prefix('@'));
        rest.map_or(end.is_empty(), |rest| rest.chars().next().is_none_or(|next| "~^@{:".contains(next)))
    })
}

/// Checks whether a word is the path of something that exists.
fn is_there(teller: &CommandAnalyzer<'_>, word: &str) -> bool {
    let WorkingDir::At(directory) = &teller.working_dir else { return false };
    let (above, name) = word.rsplit_once('/').unwrap_or((".", word));
    let listed = teller.env.resolve(directory, above).and_then(|above| teller.env.list_directory(&above));
    listed.is_some_and(|names| names.iter().any(|own| own == name))
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
