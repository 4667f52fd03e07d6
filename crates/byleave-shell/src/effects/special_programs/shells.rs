//! Readers for shells and similar programs: `-c`, scripts, `env`, variables.

use super::super::command_analyzer::{CommandAnalyzer, unknown_reason};
use crate::embedded_languages;
use crate::manual::{Manual, WordRole};
use crate::word::Word;

/// The unknown effect of a shell whose commands come from another program.
const READS_INPUT: &str = "a shell reads commands from its input";
/// The beginning of the unknown effect of a shell whose text is not known.
const IS_GIVEN: &str = "a shell is given";

/// Checks whether an unknown effect is that of a shell that runs a text which is not in the command.
pub(in crate::effects) fn is_unread_script(reason: &str) -> bool {
    reason == READS_INPUT || reason.starts_with(IS_GIVEN)
}

/// Reads `sh`, `bash` and the like: `-c TEXT NAME ARGUMENT…`, a script, or the input.
pub(super) fn shell(teller: &mut CommandAnalyzer<'_>, words: &[Word]) {
    let mut at = 0;
    let mut text_follows = false;
    let mut prints = false;
    while let Some(word) = words.get(at) {
        let Some(text) = word.as_text() else { break };
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
                _ => teller.add_unknown(format!("option `--{long}` of a shell is not in the manual")),
            }
            continue;
        }
        for letter in rest.chars() {
            match letter {
                'c' if text.starts_with('-') => text_follows = true,
                'o' | 'O' => at = at.saturating_add(1),
                'a' | 'b' | 'e' | 'f' | 'h' | 'i' | 'k' | 'l' | 'm' | 'n' | 'p' | 'r' | 's' | 't' | 'u'
                | 'v' | 'x' | 'B' | 'C' | 'E' | 'H' | 'P' | 'T' | 'D' => {}
                other => teller.add_unknown(format!("option `-{other}` of a shell is not in the manual")),
            }
        }
    }
    let rest = words.get(at..).unwrap_or_default();
    match rest.split_first() {
        Some((text, arguments)) if text_follows => {
            match text.as_text() {
                Some(text) => teller.add_nested_text(text.to_owned()),
                None => {
                    teller.add_unknown(format!("{IS_GIVEN} {}", unknown_reason(text)));
                    teller.add_possible_commands(arguments);
                }
            };
            // The analysis of the text determines how it uses its arguments. A deny sees them in any case.
            if text
                .as_text()
                .is_some_and(|text| text.contains("$@") || text.contains("$*") || text.contains("$0"))
            {
                teller.add_nested_command(arguments.to_vec());
                teller.add_nested_command(arguments.get(1..).unwrap_or_default().to_vec());
            }
        }
        Some(_) if !rest.is_empty() => source(teller, rest),
        _ if prints => {}
        _ => match teller.command.input.clone() {
            Some(Word::Literal(text)) => teller.add_nested_text(text),
            _ => teller.add_unknown(READS_INPUT),
        },
    }
}

/// Reads `source FILE`, which searches `PATH` first if the name has no slash.
pub(super) fn source_by_path(teller: &mut CommandAnalyzer<'_>, words: &[Word]) {
    if let Some(name) = words.first().and_then(Word::as_text).filter(|name| !name.contains('/')) {
        teller.add_unknown(format!("`{name}` is searched for in `PATH` first"));
    }
    source(teller, words);
}

/// Adds a script: the first of the words. The others are its arguments.
fn source(teller: &mut CommandAnalyzer<'_>, words: &[Word]) {
    let Some(file) = words.first() else { return };
    let Some(name) = file.as_text() else {
        return teller.add_unknown(format!("the script is {}", unknown_reason(file)));
    };
    teller.add_path(WordRole::Read, name);
    let path = teller.facts.targets.last().cloned().unwrap_or_default();
    teller.result.depends_on.push(path.clone());
    match teller.env.read_script(&path) {
        Some(text) => teller.add_nested_text(text),
        None => teller.add_unknown(format!("the effects of the script `{name}` are not known")),
    }
}

/// Reads `env [OPTION…] [NAME=VALUE…] [COMMAND…]`, and also sudo and doas.
pub(super) fn env(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let parsed = manual.parse_args(words, false);
    teller.apply_options(&parsed.options, &parsed.unknown);
    let mut operands: Vec<Word> = Vec::new();
    for value in parsed.word_values(&["--split-string"]) {
        match value.and_then(Word::as_text).and_then(embedded_languages::split_words) {
            Some(words) => {
                // The text may contain more options.
                operands.push(Word::literal("env"));
                operands.extend(words.into_iter().map(Word::literal));
            }
            None => teller.add_unknown("`env -S` with a text that cannot be split"),
        }
    }
    let mut rest = parsed.operands.iter().map(|operand| &operand.word).peekable();
    while let Some(word) = rest.peek().filter(|_| operands.is_empty()) {
        match word.as_text().and_then(|text| text.split_once('=')) {
            Some((name, value)) => teller.add_assignment(name, &Word::literal(value), true),
            None if word.as_text().is_none() => {
                teller.add_unknown(format!("{} could be a variable or a program", unknown_reason(word)));
            }
            None => break,
        }
        rest.next();
    }
    operands.extend(rest.cloned());
    if !parsed.unknown.is_empty() {
        teller.add_possible_commands(words);
    }
    teller.add_nested_command(operands);
}

/// Reads `export`, `declare`, `readonly`, `local`: `NAME=value` or a name.
pub(super) fn assign(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let parsed = manual.parse_args(words, false);
    teller.apply_options(&parsed.options, &parsed.unknown);
    for operand in &parsed.operands {
        match operand.word.as_text() {
            Some(_) => teller.apply_role(WordRole::Assign, &operand.word),
            None => teller.add_unknown(format!("a variable is set: {}", unknown_reason(&operand.word))),
        }
    }
}

/// Reads a wrapper whose own words are unknown: each possible command in it is reported as one.
pub(super) fn possible(teller: &mut CommandAnalyzer<'_>, words: &[Word]) {
    teller.add_possible_commands(words);
    let mut begun = 0;
    for (at, text) in words.iter().enumerate().filter_map(|(at, word)| Some((at, word.as_text()?))) {
        if text.contains(char::is_whitespace) {
            teller.add_nested_text(text.to_owned());
        } else if begun < 4 && !text.starts_with('-') && !text.is_empty() {
            begun += 1;
            teller.add_nested_command(words.get(at..).unwrap_or_default().to_vec());
        }
    }
}
