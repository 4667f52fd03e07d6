//! Readers for programs that run others with words that they find or read.

use super::super::command_analyzer::CommandAnalyzer;
use crate::embedded_languages;
use crate::manual::Manual;
use crate::word::{UnknownWord, Word};

/// Reads `fd [PATTERN] [PATH…] [-x|-X COMMAND… [;]]`.
pub(super) fn fd(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let runs = |word: &Word| matches!(word.as_text(), Some("-x" | "-X" | "--exec" | "--exec-batch"));
    let mut plain: Vec<Word> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at = at.saturating_add(1);
        if !runs(word) {
            plain.push(word.clone());
            continue;
        }
        let rest = words.get(at..).unwrap_or_default();
        let end = rest.iter().position(|word| word.as_text() == Some(";")).unwrap_or(rest.len());
        let written = rest.get(..end).unwrap_or_default();
        add_unfilled_command(teller, written, "{}");
        let mut command: Vec<Word> =
            written.iter().map(|word| fill_placeholder(word, "{}", &Word::literal("."))).collect();
        command.push(Word::Unknown(UnknownWord {
            reason: "the results of fd".into(),
            pieces: Vec::new(),
            single_word: true,
        }));
        teller.add_nested_template(command);
        at = at.saturating_add(end).saturating_add(1);
    }
    teller.analyze_words(manual, &plain);
}

/// Reads `xargs [OPTION…] COMMAND…`, to which words from the input are added.
pub(super) fn xargs(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let parsed = manual.parse_args(words, false);
    teller.apply_options(&parsed.options, &parsed.unknown);
    if !parsed.unknown.is_empty() {
        teller.add_possible_commands(words);
    }
    let marks: Vec<Option<&Word>> = parsed.word_values(&["--replace", "-I"]).collect();
    // The words of the input are determined only if no option changes how they are made. Such options set the delimiter, the number
    // of words in one command, or the source of the input.
    let is_plain = !parsed.has(&XARGS_SHAPES) && marks.len() <= 1 && parsed.unknown.is_empty();
    let mark = marks.first().map(|value| value.and_then(Word::as_text).unwrap_or("{}").to_owned());
    let mut inner: Vec<Word> = parsed.operands.iter().map(|operand| operand.word.clone()).collect();
    if inner.is_empty() {
        inner.push(Word::literal("echo"));
    }
    let input = teller.command.input.as_ref().and_then(Word::as_text).map(str::to_owned);
    let from_input = |one| {
        Word::Unknown(UnknownWord {
            reason: "the input of xargs".into(),
            pieces: Vec::new(),
            single_word: one,
        })
    };
    if !is_plain && (input.is_some() || mark.is_some()) {
        teller.add_unknown("`xargs` splits its input in a way that is not analyzed");
    }
    if let Some(text) = input.as_ref().filter(|_| !is_plain) {
        // A deny still sees the possible words.
        let pieces =
            text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ':' | ';' | '\0' | '"' | '\''));
        let pieces: Vec<Word> =
            pieces.filter(|piece| !piece.is_empty()).take(100).map(Word::literal).collect();
        teller.add_nested_command([inner.as_slice(), pieces.as_slice()].concat());
    }
    match (mark, input.filter(|_| is_plain)) {
        (Some(mark), Some(input)) => {
            for line in input.lines().take(100) {
                // Quotes are removed here, too.
                let Some(words) = embedded_languages::split_words(line) else {
                    teller.add_unknown("xargs reads a line with an unclosed quote");
                    continue;
                };
                let line = words.join(" ");
                if line != *line.trim() || words.len() > 1 {
                    teller.add_unknown("xargs reads a line that contains spaces");
                }
                let filled = inner.iter().map(|word| match word.as_text() {
                    Some(text) => Word::literal(text.replace(&mark, line.trim())),
                    None => word.clone(),
                });
                teller.add_nested_command(filled.collect());
            }
            if input.lines().count() > 100 {
                teller.add_unknown("xargs reads more lines than are analyzed");
            }
        }
        (Some(mark), None) => {
            inner = inner.iter().map(|word| fill_placeholder(word, &mark, &from_input(true))).collect();
            teller.add_nested_command(inner);
        }
        (None, Some(input)) => {
            match embedded_languages::split_words(&input) {
                Some(words) => inner.extend(words.into_iter().map(Word::literal)),
                None => inner.push(from_input(false)),
            }
            teller.add_nested_command(inner);
        }
        (None, None) => {
            inner.push(from_input(false));
            teller.add_nested_command(inner);
        }
    }
}

/// Options that change how the input of xargs becomes words and commands.
const XARGS_SHAPES: [&str; 14] = [
    "-d",
    "--delimiter",
    "-0",
    "--null",
    "-a",
    "--arg-file",
    "-n",
    "--max-args",
    "-L",
    "--max-lines",
    "-l",
    "-s",
    "-E",
    "-e",
];

/// Reads `parallel COMMAND ::: ARGUMENT…`: text for a shell, with the arguments filled in.
pub(super) fn parallel(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let parsed = manual.parse_args(words, false);
    teller.apply_options(&parsed.options, &parsed.unknown);
    let words: Vec<&Word> = parsed.operands.iter().map(|operand| &operand.word).collect();
    let end = words
        .iter()
        .position(|word| word.as_text().is_some_and(|text| text.starts_with(":::")))
        .unwrap_or(words.len());
    teller.add_unknown("`parallel` runs shell text that it completes at run time");
    let command: Vec<&Word> = words.iter().take(end).copied().collect();
    if command.is_empty() {
        for argument in words.iter().skip(end.saturating_add(1)) {
            teller.add_shell_text(&[argument]);
        }
    } else {
        teller.add_shell_text(&command);
    }
    let arguments: Vec<Word> = words.iter().skip(end).map(|word| (*word).clone()).collect();
    teller.guess_roles(&arguments);
}

/// Adds a command as written if the mark is only a part of a word, such as in a script. Anything denied in it is denied regardless
/// of what is filled in.
pub(super) fn add_unfilled_command(teller: &mut CommandAnalyzer<'_>, words: &[Word], mark: &str) {
    let in_part = |word: &Word| word.as_text().is_some_and(|text| text != mark && text.contains(mark));
    if words.iter().any(in_part) {
        teller.add_nested_command(words.to_vec());
    }
}

/// Replaces `{}` by the start of the search, because every found file is below it.
pub(super) fn fill_placeholder(word: &Word, mark: &str, found: &Word) -> Word {
    match word.as_text() {
        Some(text) if text == mark => found.clone(),
        Some(text) if text.contains(mark) => Word::Unknown(UnknownWord {
            reason: format!("`{mark}` is filled in at run time"),
            pieces: text.split(mark).filter(|piece| !piece.is_empty()).map(str::to_owned).collect(),
            single_word: true,
        }),
        _ => word.clone(),
    }
}
