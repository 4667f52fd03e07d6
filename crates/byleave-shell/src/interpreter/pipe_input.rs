//! Determines the output of a command in a pipeline, if it is certain from the words alone.

use crate::commands::SimpleCommand;
use crate::word::Word;

/// Returns the output of `echo` or `printf` with known words, or `None` if it cannot be determined.
///
/// A wrong answer would hide input from the analysis of the next command. So every unusual case returns `None`.
pub(super) fn piped_output(command: &SimpleCommand) -> Option<Word> {
    if command.is_function || !command.assignments.is_empty() || !command.redirections.is_empty() {
        return None;
    }
    let words: Vec<&str> = command.words.iter().map(Word::as_text).collect::<Option<_>>()?;
    let (name, rest) = words.split_first()?;
    match (*name, rest) {
        ("echo", ["-n", rest @ ..]) if is_plain(rest) => Some(Word::literal(rest.join(" "))),
        ("echo", rest) if is_plain(rest) => Some(Word::literal(rest.join(" ") + "\n")),
        ("printf", ["%s\\n", rest @ ..]) => {
            Some(Word::literal(rest.iter().map(|word| format!("{word}\n")).collect::<String>()))
        }
        ("printf", ["%s", rest @ ..]) => Some(Word::literal(rest.concat())),
        ("printf", [text]) if !text.starts_with('-') && !text.contains(['%', '\\']) => {
            Some(Word::literal(*text))
        }
        _ => None,
    }
}

/// Checks whether `echo` treats none of the words as an option, and no character specially in any shell.
fn is_plain(words: &[&str]) -> bool {
    words.first().is_none_or(|first| !first.starts_with('-')) && !words.iter().any(|word| word.contains('\\'))
}
