//! Programs in scopes: exactly as they were called, or with the same first arguments and any others.
//!
//! A run says little about the effects of a program. `git checkout -b x` makes a branch, `git checkout -- '*'` discards work, and both are
//! runs of `git checkout`. Scopes with only the first arguments are therefore offered for a short list of commands. All other commands are
//! offered with exactly their arguments.

use crate::escape::{EscapeLevel, make_visible};
use crate::pattern::{MatchCertainty, Pattern, file_name, run_matches};

/// Commands that no further argument makes more harmful: they build and test the project, or print data from the forge. Arguments that make
/// one of them write elsewhere, reach a host or run another program are effects of their own or not understood. They are asked about as
/// such. A script of the project (`npm run clean`) is not in the list, because it can do anything with its arguments.
const ANY_WORDS_AFTER: &[(&str, &[&str])] = &[
    ("cargo", &["bench", "build", "check", "test"]),
    ("go", &["build", "test", "vet"]),
    (
        "gh",
        &["issue list", "issue view", "pr checks", "pr diff", "pr list", "pr view", "run list", "run view"],
    ),
];

/// Returns the pattern of exactly this command: the resolved program, under the name by which it was called, and its arguments.
pub(super) fn exact_pattern(program: &str, argv: &[String]) -> (Pattern, String) {
    (Pattern::RunExact(command_words(program, argv)), format!("exactly {}", format_command(program, argv)))
}

/// Returns the program and its arguments in readable form.
pub(super) fn format_command(program: &str, argv: &[String]) -> String {
    let spelled: Vec<String> = command_words(program, argv).iter().map(|word| quote_word(word)).collect();
    format!("`{}`", make_visible(&spelled.join(" "), EscapeLevel::Name))
}

/// Returns the arguments, with the resolved program in the first place.
fn command_words(program: &str, argv: &[String]) -> Vec<String> {
    let called = argv.first().map_or("", String::as_str);
    // A shell builtin has no path, and one file may be several programs. Both are identified by name.
    let by_name = program.starts_with("shell:") || file_name(called) != file_name(program);
    let first = if by_name { file_name(called) } else { program };
    std::iter::once(first.to_owned()).chain(argv.iter().skip(1).cloned()).collect()
}

/// Returns the first arguments of a command that may be followed by any others, without the program.
fn any_words_after(argv: &[String]) -> Option<Vec<&str>> {
    let (called, given) = argv.split_first()?;
    let name = file_name(called);
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let (_, listed) = ANY_WORDS_AFTER.iter().find(|(program, _)| *program == name)?;
    listed.iter().map(|words| words.split(' ').collect::<Vec<&str>>()).find(|words| given.starts_with(words))
}

/// Returns the pattern of the same program with the same first arguments, if no others make it more harmful.
pub(super) fn prefix_pattern(program: &str, argv: &[String]) -> Option<(Pattern, String)> {
    let words = any_words_after(argv)?;
    let name = file_name(argv.first()?);
    let called_by = |by: &str| -> Vec<String> {
        std::iter::once(by).chain(words.iter().copied()).map(str::to_owned).collect()
    };
    // By name if the system has the program under this name. Otherwise by path, unless the file has several names.
    let by_name = called_by(name);
    let is_file = file_name(program) == name && !program.chars().any(|c| c.is_whitespace() || c.is_control());
    let words = match run_matches(MatchCertainty::Certain, &by_name, program, argv) {
        true => by_name,
        false if is_file => called_by(program),
        false => return None,
    };
    let shown = make_visible(&words.join(" "), EscapeLevel::Name);
    Some((Pattern::Run(words), format!("`{shown} …`, with any further arguments")))
}

/// Quotes an argument as a shell needs it, so that the limits between arguments are visible.
fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,~^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
