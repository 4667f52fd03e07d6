//! Programs in offers: exactly as they were called, or with the same first words and whatever others.
//!
//! A run says little of what a program does: `git checkout -b x` makes a branch, `git checkout -- '*'` throws work away, and both
//! are runs of `git checkout`. So the first words alone are offered for a short list of commands only. Everything else is
//! offered word for word.

use crate::escape::{EscapeLevel, visible};
use crate::pattern::{MatchCertainty, Pattern, last_step, run_fits};

/// Commands that no other word makes worse: they build and test the project, or print what is on the forge. Words that make one
/// of these write elsewhere, reach a host or run another program are effects of their own, or not understood, and are asked
/// about as such. A script of the project is not in it (`npm run clean`): it gets the words, and does with them what it likes.
const ANY_WORDS_AFTER: &[(&str, &[&str])] = &[
    ("cargo", &["bench", "build", "check", "test"]),
    ("go", &["build", "test", "vet"]),
    (
        "gh",
        &["issue list", "issue view", "pr checks", "pr diff", "pr list", "pr view", "run list", "run view"],
    ),
];

/// This very command: the program that was found, under the name that it was called by, and its words.
pub(super) fn exactly(program: &str, argv: &[String]) -> (Pattern, String) {
    (Pattern::Exactly(called(program, argv)), format!("{} and nothing more", spelled_out(program, argv)))
}

/// The program and its words, as a person reads them.
pub(super) fn spelled_out(program: &str, argv: &[String]) -> String {
    let spelled: Vec<String> = called(program, argv).iter().map(|word| spelled(word)).collect();
    format!("`{}`", visible(&spelled.join(" "), EscapeLevel::Name))
}

/// The words, with the program that was found in the place of the first.
fn called(program: &str, argv: &[String]) -> Vec<String> {
    let called = argv.first().map_or("", String::as_str);
    // What a shell has within itself has no path, and one file may be several programs: those go by their names.
    let by_name = program.starts_with("shell:") || last_step(called) != last_step(program);
    let first = if by_name { last_step(called) } else { program };
    std::iter::once(first.to_owned()).chain(argv.iter().skip(1).cloned()).collect()
}

/// The first words of a command that may stand for it with whatever words after them, without the program.
fn any_words_after(argv: &[String]) -> Option<Vec<&str>> {
    let (called, given) = argv.split_first()?;
    let name = last_step(called);
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let (_, listed) = ANY_WORDS_AFTER.iter().find(|(program, _)| *program == name)?;
    listed.iter().map(|words| words.split(' ').collect::<Vec<&str>>()).find(|words| given.starts_with(words))
}

/// The same program with the same first words, where no other words make it worse.
pub(super) fn widened(program: &str, argv: &[String]) -> Option<(Pattern, String)> {
    let words = any_words_after(argv)?;
    let name = last_step(argv.first()?);
    let called_by = |by: &str| -> Vec<String> {
        std::iter::once(by).chain(words.iter().copied()).map(str::to_owned).collect()
    };
    // By the name that the system has it under; elsewhere by its path, unless the file goes by several names.
    let by_name = called_by(name);
    let is_file = last_step(program) == name && !program.chars().any(|c| c.is_whitespace() || c.is_control());
    let words = match run_fits(MatchCertainty::Surely, &by_name, program, argv) {
        true => by_name,
        false if is_file => called_by(program),
        false => return None,
    };
    let shown = visible(&words.join(" "), EscapeLevel::Name);
    Some((Pattern::Run(words), format!("`{shown} …`, with whatever words after these")))
}

/// A word as a shell would want it, so that it is seen where one ends and the next begins.
fn spelled(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,~^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
