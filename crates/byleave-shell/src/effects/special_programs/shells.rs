//! Readers for shells and similar programs: `-c`, scripts, `env`, variables.

use super::super::command_analyzer::{CommandAnalyzer, why_of};
use crate::embedded_languages;
use crate::manual::{Manual, WordRole};
use crate::word::Word;

/// Reads `sh`, `bash` and the like: `-c TEXT NAME ARGUMENT…`, a script, or the input.
pub(super) fn shell(teller: &mut CommandAnalyzer<'_>, words: &[Word]) {
    let mut at = 0;
    let mut text_follows = false;
    let mut prints = false;
    while let Some(word) = words.get(at) {
        let Some(text) = word.text() else { break };
        let Some(rest) = text.strip_prefix(['-', '+']).filter(|rest| !rest.is_empty()) else { break };
        at = at.saturating_add(1);
        if rest == "-" {
            break;
        }
        if let Some(long) = rest.strip_prefix('-') {
            match long {
                "norc" | "noprofile" | "posix" | "login" | "restricted" | "verbose" | "noediting"
                | "debugger" => {}
                "version" | "help" => prints = true,
                "rcfile" | "init-file" => {
                    let file = words.get(at).cloned();
                    at = at.saturating_add(1);
                    if let Some(file) = file {
                        source(teller, &[file]);
                    }
                }
                _ => teller.unknown(format!("option `--{long}` of a shell is not in the manual")),
            }
            continue;
        }
        for letter in rest.chars() {
            match letter {
                'c' if text.starts_with('-') => text_follows = true,
                'o' | 'O' => at = at.saturating_add(1),
                'a' | 'b' | 'e' | 'f' | 'h' | 'i' | 'k' | 'l' | 'm' | 'n' | 'p' | 'r' | 's' | 't' | 'u'
                | 'v' | 'x' | 'B' | 'C' | 'E' | 'H' | 'P' | 'T' | 'D' => {}
                other => teller.unknown(format!("option `-{other}` of a shell is not in the manual")),
            }
        }
    }
    let rest = words.get(at..).unwrap_or_default();
    match rest.split_first() {
        Some((text, arguments)) if text_follows => {
            match text.text() {
                Some(text) => teller.inner_text(text.to_owned()),
                None => {
                    teller.unknown(format!("a shell is given {}", why_of(text)));
                    teller.possible_words(arguments);
                }
            };
            // The analysis of the text determines how it uses its arguments. A deny sees them in any case.
            if text
                .text()
                .is_some_and(|text| text.contains("$@") || text.contains("$*") || text.contains("$0"))
            {
                teller.inner_words(arguments.to_vec());
                teller.inner_words(arguments.get(1..).unwrap_or_default().to_vec());
            }
        }
        Some(_) if !rest.is_empty() => source(teller, rest),
        _ if prints => {}
        _ => match teller.command.input.clone() {
            Some(Word::Literal(text)) => teller.inner_text(text),
            _ => teller.unknown("a shell reads commands from its input"),
        },
    }
}

/// Reads `source FILE`, which searches `PATH` first if the name has no slash.
pub(super) fn source_by_path(teller: &mut CommandAnalyzer<'_>, words: &[Word]) {
    if let Some(name) = words.first().and_then(Word::text).filter(|name| !name.contains('/')) {
        teller.unknown(format!("`{name}` is looked for along the path first"));
    }
    source(teller, words);
}

/// Adds a script: the first of the words. The others are its arguments.
fn source(teller: &mut CommandAnalyzer<'_>, words: &[Word]) {
    let Some(file) = words.first() else { return };
    let Some(name) = file.text() else {
        return teller.unknown(format!("the script is {}", why_of(file)));
    };
    teller.path(WordRole::Read, name);
    let path = teller.facts.targets.last().cloned().unwrap_or_default();
    teller.account.rests_on.push(path.clone());
    match teller.scene.text(&path) {
        Some(text) => teller.inner_text(text),
        None => teller.unknown(format!("what the script `{name}` does is not known")),
    }
}

/// Reads `env [OPTION…] [NAME=VALUE…] [COMMAND…]`, and also sudo and doas.
pub(super) fn env(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let parsed = manual.take_apart(words, false);
    teller.options(&parsed.given, &parsed.strange);
    let mut operands: Vec<Word> = Vec::new();
    for value in parsed.word_values(&["--split-string"]) {
        match value.and_then(Word::text).and_then(embedded_languages::split) {
            Some(words) => {
                // The text may contain more options.
                operands.push(Word::literal("env"));
                operands.extend(words.into_iter().map(Word::literal));
            }
            None => teller.unknown("`env -S` with a text that cannot be taken apart"),
        }
    }
    let mut rest = parsed.operands.iter().map(|operand| &operand.word).peekable();
    while let Some(word) = rest.peek().filter(|_| operands.is_empty()) {
        match word.text().and_then(|text| text.split_once('=')) {
            Some((name, value)) => teller.assignment(name, &Word::literal(value), true),
            None if word.text().is_none() => {
                teller.unknown(format!("{} could be a variable or a program", why_of(word)));
            }
            None => break,
        }
        rest.next();
    }
    operands.extend(rest.cloned());
    if !parsed.strange.is_empty() {
        teller.possible_words(words);
    }
    teller.inner_words(operands);
}

/// Reads `export`, `declare`, `readonly`, `local`: `NAME=value` or a name.
pub(super) fn assign(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let parsed = manual.take_apart(words, false);
    teller.options(&parsed.given, &parsed.strange);
    for operand in &parsed.operands {
        match operand.word.text() {
            Some(_) => teller.role(WordRole::Assign, &operand.word),
            None => teller.unknown(format!("a variable is set: {}", why_of(&operand.word))),
        }
    }
}

/// Reads a wrapper whose own words are unknown: each possible command in it is reported as one.
pub(super) fn possible(teller: &mut CommandAnalyzer<'_>, words: &[Word]) {
    teller.possible_words(words);
    let mut begun = 0;
    for (at, text) in words.iter().enumerate().filter_map(|(at, word)| Some((at, word.text()?))) {
        if text.contains(char::is_whitespace) {
            teller.inner_text(text.to_owned());
        } else if begun < 4 && !text.starts_with('-') && !text.is_empty() {
            begun += 1;
            teller.inner_words(words.get(at..).unwrap_or_default().to_vec());
        }
    }
}
