//! Pipes: what a command writes for the next one, where that is certain from its words alone.

use crate::commands::SimpleCommand;
use crate::word::Word;

/// What `echo` or `printf` with words that are known writes to the pipe; `None` where it cannot be told.
///
/// A wrong answer here would show the next command less than it reads, so everything unusual is left alone.
pub(super) fn written(command: &SimpleCommand) -> Option<Word> {
    if command.is_function || !command.assignments.is_empty() || !command.redirections.is_empty() {
        return None;
    }
    let words: Vec<&str> = command.words.iter().map(Word::text).collect::<Option<_>>()?;
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

/// Whether `echo` takes none of them for an option, nor any character for more than itself in whatever shell.
fn is_plain(words: &[&str]) -> bool {
    words.first().is_none_or(|first| !first.starts_with('-')) && !words.iter().any(|word| word.contains('\\'))
}
